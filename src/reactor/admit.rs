//! How connections come about: listeners and connects.

use std::time::{Duration, Instant};

use log::{debug, warn};

use super::Reactor;
use crate::addr::Addr;
use crate::batch::What;
use crate::config::{AcceptPolicy, ConnectOptions, ListenOptions};
use crate::conn::{Card, Stage, Step};
use crate::error::{ConnectFailure, Error};
use crate::filter::AddrFilter;
use crate::frame::FramerId;
use crate::id::{ConnId, ListenerId};
use crate::io::AcceptFailure;
use crate::net::{MioNet, Net};
use crate::slots::put;
use crate::timers::Span;

/// The listeners, and which of them may have clients waiting.
///
/// mio tells once that somebody waits. So a listener stays ready until an accept says that nobody does:
/// through a spent budget, a full house and a shortage of descriptors.
#[derive(Debug)]
pub(super) struct Listeners<L> {
    all: Vec<Option<Listener<L>>>,
    /// Whose turn is first: it moves on with each tick.
    first: usize,
    /// Descriptors or memory are short: no accept before this moment.
    shortage_until: Option<Instant>,
    /// The shortage was logged, and not everybody who waits has been accepted since.
    shortage_told: bool,
}

#[derive(Debug)]
struct Listener<L> {
    socket: L,
    framer: FramerId,
    is_ready: bool,
    is_suspended: bool,
}

impl<L> Default for Listeners<L> {
    fn default() -> Listeners<L> {
        Listeners { all: Vec::new(), first: 0, shortage_until: None, shortage_told: false }
    }
}

impl<L> Listeners<L> {
    fn next_index(&self) -> u32 {
        u32::try_from(self.all.len()).expect("fewer than 2^32 listeners in the life of a reactor")
    }

    fn get(&self, id: ListenerId) -> Option<&Listener<L>> {
        self.all.get(id.index())?.as_ref()
    }

    pub(super) fn set_ready(&mut self, index: u32) {
        if let Some(Some(listener)) = self.all.get_mut(index as usize) {
            listener.is_ready = true;
        }
    }

    /// When accepting should be tried next without being told to.
    pub(super) fn next(&self, now: Instant, has_room: bool) -> Option<Instant> {
        let is_ready = has_room && self.all.iter().flatten().any(Listener::may_have_clients);
        is_ready.then(|| self.shortage_until.unwrap_or(now))
    }

    /// A descriptor was closed, so the next accept may have one.
    pub(super) fn end_shortage(&mut self) {
        self.shortage_until = None;
    }

    fn set_suspended(&mut self, id: ListenerId, is_suspended: bool) -> bool {
        match self.all.get_mut(id.index()) {
            Some(Some(listener)) => {
                listener.is_suspended = is_suspended;
                true
            }
            _ => false,
        }
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = L> {
        self.all.drain(..).flatten().map(|listener| listener.socket)
    }
}

impl<L> Listener<L> {
    fn may_have_clients(&self) -> bool {
        self.is_ready && !self.is_suspended
    }
}

impl<N: Net> Reactor<N> {
    /// Listens for clients; port 0 lets the system choose, and [`local_addr`](Self::local_addr) tells. May be called
    /// several times, also while clients are connected.
    ///
    /// `addr` is whatever turns into an [`Addr`]: a text such as `"127.0.0.1:7777"` or `"[::]:7777"`, or
    /// one of the standard library's types. An IPv6 address takes IPv6 clients only; for both, see
    /// [`ListenOptions::dual_stack`].
    ///
    /// # Errors
    ///
    /// [`Error::Addr`] for a text that is no address, [`Error::Listen`] if the system refuses: the port is
    /// in use, or may not be used, or the address is not of this machine.
    pub fn listen<A: TryInto<Addr>>(&mut self, addr: A) -> Result<ListenerId, Error>
    where
        Error: From<A::Error>,
    {
        self.listen_with(addr, &ListenOptions::new())
    }

    /// As [`listen`](Self::listen), with other settings than the default.
    ///
    /// # Errors
    ///
    /// As [`listen`](Self::listen).
    pub fn listen_with<A: TryInto<Addr>>(
        &mut self,
        addr: A,
        options: &ListenOptions,
    ) -> Result<ListenerId, Error>
    where
        Error: From<A::Error>,
    {
        let addr = addr.try_into()?;
        if self.is_shut {
            return Err(Error::Shutdown);
        }
        let framer = self.limits.framer(options.framing, options.frame_len_max)?;
        match self.net.listen(&addr, options, self.listeners.next_index()) {
            Ok(socket) => Ok(self.add_listener(socket, framer)),
            Err(source) => Err(Error::Listen { addr, source }),
        }
    }

    fn add_listener(&mut self, socket: N::Listener, framer: FramerId) -> ListenerId {
        let id = ListenerId::new(self.listeners.next_index());
        self.listeners.all.push(Some(Listener {
            socket,
            framer,
            is_ready: false,
            is_suspended: false,
        }));
        id
    }

    /// The address that a listener is bound to, with its real port; `None` if it was closed.
    pub fn local_addr(&self, listener: ListenerId) -> Option<Addr> {
        self.net.local_addr(&self.listeners.get(listener)?.socket).ok()
    }

    /// Stops to listen. Connections stay; clients that were not accepted yet are turned away by the system.
    /// `false` if the listener was closed before.
    pub fn close_listener(&mut self, listener: ListenerId) -> bool {
        match self.listeners.all.get_mut(listener.index()).and_then(Option::take) {
            Some(closed) => {
                self.net.unlisten(closed.socket);
                self.listeners.end_shortage();
                true
            }
            None => false,
        }
    }

    /// Accepts nobody from this listener until it is resumed; its clients wait in the backlog. `false` if it was
    /// closed.
    pub fn suspend_listener(&mut self, listener: ListenerId) -> bool {
        self.listeners.set_suspended(listener, true)
    }

    /// Accepts again, beginning with who has waited meanwhile. `false` if the listener was closed.
    pub fn resume_listener(&mut self, listener: ListenerId) -> bool {
        self.listeners.set_suspended(listener, false)
    }

    /// From now on accepts only clients whose address the filter admits; others are accepted and closed, without an event.
    /// Connections that exist stay. Unix domain sockets have no address and are always admitted.
    ///
    /// For anything that a filter cannot say, [`kick`](crate::Outbox::kick) on
    /// [`Connected`](crate::Event::Connected).
    pub fn set_filter(&mut self, filter: AddrFilter) {
        self.filter = filter;
    }

    /// Connects out. Never blocks: the outcome is an event, [`Connected`](crate::Event::Connected) or
    /// [`ConnectFailed`](crate::Event::ConnectFailed), within
    /// [`connect_timeout`](crate::Builder::connect_timeout). Messages may be queued at once;
    /// [`close`](crate::Outbox::close) or [`kick`](crate::Outbox::kick) cancels.
    ///
    /// `addr` is as for [`listen`](Self::listen). Whatever the network has against it comes as the event.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwire::{Event, Reactor, Wait};
    ///
    /// let mut reactor = Reactor::new()?;
    /// let listener = reactor.listen("127.0.0.1:0")?;
    /// let addr = reactor.local_addr(listener).expect("it listens");
    /// let server = reactor.connect(addr)?;
    /// reactor.outbox().send(server, b"hello").expect("queued until it has come about");
    /// loop {
    ///     let mut tick = reactor.tick(Wait::Event(Duration::from_secs(1)))?;
    ///     if tick.events.any(|event| matches!(event, Event::Message { .. })) {
    ///         break; // in this example, the other end is ours as well
    ///     }
    /// }
    /// # Ok::<(), tickwire::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Addr`] for a text that is no address, [`Error::ConnectionsMax`] at the limit,
    /// [`Error::Shutdown`] after [`shutdown`](Self::shutdown).
    pub fn connect<A: TryInto<Addr>>(&mut self, addr: A) -> Result<ConnId, Error>
    where
        Error: From<A::Error>,
    {
        self.connect_with(addr, &ConnectOptions::new())
    }

    /// As [`connect`](Self::connect), with other settings than the default.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_with<A: TryInto<Addr>>(
        &mut self,
        addr: A,
        options: &ConnectOptions,
    ) -> Result<ConnId, Error>
    where
        Error: From<A::Error>,
    {
        let peer = addr.try_into()?;
        if self.is_shut {
            return Err(Error::Shutdown);
        }
        let framer = self.limits.framer(options.framing, options.frame_len_max)?;
        if self.slots.len() >= self.limits.connections_max {
            return Err(Error::ConnectionsMax { limit: self.limits.connections_max });
        }
        self.counts.connects += 1;
        self.set_now(self.net.now()); // the game may have been busy since the last tick
        let connecting = self.net.connect(&peer, options, self.slots.vacant());
        let timeout = options.timeout.map(Span::new).or(self.limits.timeouts.connect);
        let deadline = timeout.map(|span| self.timers.begin().after(span));
        let stage = Stage::Connecting;
        let card = Card {
            peer: peer.into(),
            listener: None,
            framer,
            stage,
            deadline,
            scheduled: None,
            parked: None,
        };
        match connecting {
            Ok(socket) => Ok(self.open(card, Some(socket))),
            Err(error) => {
                let id = self.open(card, None);
                self.step(id.slot(), Step::ConnectFailed(ConnectFailure::from(&error)));
                Ok(id)
            }
        }
    }

    /// Makes a slot and both halves for a new connection.
    fn open(&mut self, card: Card, socket: Option<N::Stream>) -> ConnId {
        let (framer, established) = (card.framer, card.stage == Stage::Open);
        let id = self.slots.insert(card);
        put(&mut self.sockets, id.slot(), socket);
        self.inlet.open(id.slot(), &self.limits, self.timers.begin());
        self.outlet.open(id, framer, established, &self.limits);
        self.arm(id.slot());
        id
    }

    /// Asks how a connect has gone. Returns whether it has come about.
    pub(super) fn finish_connecting(&mut self, slot: u32) -> bool {
        let socket = self.sockets[slot as usize].as_mut().expect("it is connecting");
        match self.net.connected(socket) {
            Ok(true) => {
                self.step(slot, Step::Established);
                self.announcements.push_back((self.slots.id(slot), What::Connected));
                self.note_risen(slot); // by what was sent meanwhile
                true
            }
            Ok(false) => false,
            Err(error) => {
                self.step(slot, Step::ConnectFailed(ConnectFailure::from(&error)));
                false
            }
        }
    }

    /// Accepts waiting clients: all listeners in turn, within the budget, while there is room.
    pub(super) fn accept(&mut self) {
        if self.listeners.shortage_until.is_some_and(|moment| self.now < moment) {
            return;
        }
        let count = self.listeners.all.len();
        for turn in 0..count {
            self.accept_from((self.listeners.first + turn) % count);
        }
        self.listeners.first = (self.listeners.first + 1) % count.max(1);
    }

    fn accept_from(&mut self, index: usize) {
        while self.accept_budget > 0 && self.has_accept_room() {
            let Some(listener) = self.listeners.all[index].as_mut() else {
                return;
            };
            if !listener.may_have_clients() {
                return;
            }
            self.accept_budget -= 1;
            match self.net.accept(&listener.socket) {
                Ok((socket, peer)) => {
                    let framer = listener.framer;
                    self.listeners.shortage_until = None;
                    self.receive_client(socket, peer, ListenerId::new(index as u32), framer);
                }
                Err(error) => match AcceptFailure::of(&error) {
                    AcceptFailure::Drained => {
                        listener.is_ready = false;
                        self.listeners.shortage_told = false;
                    }
                    AcceptFailure::ClientLost => self.counts.accept_failures += 1,
                    AcceptFailure::Retry => {
                        self.counts.accept_failures += 1;
                        if !std::mem::replace(&mut self.listeners.shortage_told, true) {
                            warn!("cannot accept clients for the moment, trying on: {error}");
                        }
                        self.listeners.shortage_until = Some(self.now + ACCEPT_PAUSE);
                        return;
                    }
                },
            }
        }
    }

    /// Whether clients are accepted: to stay, or to be told that they cannot.
    pub(super) fn has_accept_room(&self) -> bool {
        self.slots.len() < self.limits.connections_max
            || self.limits.connections_policy == AcceptPolicy::Close
    }

    fn receive_client(
        &mut self,
        socket: N::Stream,
        peer: Addr,
        listener: ListenerId,
        framer: FramerId,
    ) {
        let is_admitted = peer.ip().is_none_or(|ip| self.filter.admits(ip));
        let most = self.limits.connections_per_address_max;
        let is_crowded = most.is_some_and(|most| self.crowd.count(&peer) >= most);
        let is_full = self.slots.len() >= self.limits.connections_max;
        if !is_admitted || is_crowded || is_full {
            self.counts.turned_away += 1;
            self.net.close(socket);
            return;
        }
        let first_frame = self.limits.timeouts.first_frame;
        let deadline = first_frame.map(|span| self.timers.begin().after(span));
        let (listener, stage) = (Some(listener), Stage::Open);
        self.welcome(
            socket,
            Card {
                peer: peer.into(),
                listener,
                framer,
                stage,
                deadline,
                scheduled: None,
                parked: None,
            },
        );
    }

    fn welcome(&mut self, mut socket: N::Stream, card: Card) {
        match self.net.register(&mut socket, self.slots.vacant()) {
            Ok(()) => {
                self.counts.accepted += 1;
                if self.limits.connections_per_address_max.is_some() {
                    self.crowd.enter(&card.peer.addr());
                }
                let id = self.open(card, Some(socket));
                self.announcements.push_back((id, What::Connected));
            }
            Err(error) => {
                debug!("cannot watch a new client, turning it away: {error}");
                self.counts.accept_failures += 1;
                self.net.close(socket);
            }
        }
    }
}

impl Reactor<MioNet> {
    /// Listens on a socket that was bound elsewhere: socket activation, a restart without a gap, an unusual
    /// option. It becomes non-blocking.
    ///
    /// # Errors
    ///
    /// [`Error::Listen`] if the system refuses to watch it.
    pub fn listen_std(&mut self, listener: std::net::TcpListener) -> Result<ListenerId, Error> {
        if self.is_shut {
            return Err(Error::Shutdown);
        }
        let framer = self.limits.framer(None, None)?;
        let unspecified = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        let addr = Addr::Ip(listener.local_addr().unwrap_or(unspecified));
        match self.net.adopt(listener, self.listeners.next_index()) {
            Ok(socket) => Ok(self.add_listener(socket, framer)),
            Err(source) => Err(Error::Listen { addr, source }),
        }
    }
}

/// How long accepting rests when descriptors or memory are short and we close nothing ourselves.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

//! What the game holds in its hands: the events of a tick, and the outbox to answer them.

use std::borrow::Borrow;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::addr::Addr;
use crate::arena::Arena;
use crate::batch::{Batch, Record, What};
use crate::config::Limits;
use crate::conn::inbound::{Inbound, Inlet};
use crate::conn::outbound::{Outlet, Refusal, Request};
use crate::conn::writer::FrameWriter;
use crate::conn::{Card, Ending, Stage};
use crate::error::{ConnectFailure, DisconnectReason, EncodeError, SendError};
use crate::id::{ConnId, ListenerId};
use crate::report::TickReport;
use crate::slots::Slots;

/// How long a [`tick`](crate::Reactor::tick) waits.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickwire::{Reactor, Wait};
///
/// let mut reactor = Reactor::new()?;
/// reactor.tick(Wait::No)?; // a loop that keeps its own time
/// reactor.tick(Wait::Event(Duration::from_millis(1)))?; // one that only reacts
/// reactor.tick(Wait::Until(Instant::now() + Duration::from_secs(1) / 60))?; // one with a frame rate
/// # Ok::<(), tickwire::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: looks at the sockets once.
    No,
    /// For the first event, at most this long. For a server that has nothing to do between events.
    ///
    /// Since such a loop comes back at once, a tick ends early when it has received 128 KiB and, with default settings, eight
    /// peers have had their turn (as many as the promise of fairness takes: event budget / frame quantum): that still lies in
    /// the processor's cache when it is read and answered. What else is there comes in the next one.
    ///
    /// A duration below the system's resolution (1 ms with epoll) is rounded up, once.
    Event(Duration),
    /// Until this moment, never less: the frame-paced wait, for a game loop that sleeps inside of
    /// `tick`. A moment that has passed is [`Wait::No`].
    ///
    /// The sockets are served on entry, then every [`pace`](crate::Builder::pace), and at the end. Between,
    /// the thread sleeps instead of being woken by each arrival, which costs far less.
    Until(Instant),
}

/// One thing that has happened.
///
/// ```
/// use tickwire::{Event, Outbox};
///
/// fn on_event(event: Event<'_>, outbox: &mut Outbox<'_>) {
///     match event {
///         Event::Connected { conn, peer, .. } => println!("{conn} from {peer} joined"),
///         Event::Message { conn, payload } if payload == b"bye" => drop(outbox.close(conn)),
///         Event::Message { conn, payload } => println!("{conn} says {payload:?}"),
///         Event::Disconnected { conn, reason } => println!("{conn} left: {reason}"),
///         _ => {} // events may be added
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A connection exists: the first event of an incoming connection, or of an outgoing one that
    /// has come about.
    #[non_exhaustive]
    Connected {
        /// The connection.
        conn: ConnId,
        /// Where the peer is: the address that accept gave, so it is known even if the peer has gone.
        peer: Addr,
        /// The listener that it came through; `None` for an outgoing connection.
        listener: Option<ListenerId>,
    },
    /// A whole message.
    Message {
        /// The connection.
        conn: ConnId,
        /// The message, borrowed from the receive buffers until the next tick. May be empty.
        payload: &'a [u8],
    },
    /// The connection's send queue has risen above the high [water mark](crate::Builder::water_marks). Not given
    /// where none is set.
    SendQueueHigh {
        /// The connection.
        conn: ConnId,
    },
    /// The connection's send queue, which had been above the high [water mark](crate::Builder::water_marks), is at
    /// the low one or below.
    SendQueueLow {
        /// The connection.
        conn: ConnId,
    },
    /// A connection is over. The last event of this id.
    Disconnected {
        /// The connection.
        conn: ConnId,
        /// Why.
        reason: DisconnectReason,
    },
    /// An outgoing connection has not come about. The only event of this id.
    ConnectFailed {
        /// The id that [`connect`](crate::Reactor::connect) gave.
        conn: ConnId,
        /// Why.
        reason: ConnectFailure,
    },
}

/// What a tick returns: the events, and the outbox to answer them while iterating.
///
/// Take it apart with `let Tick { events, mut outbox, .. } = reactor.tick(…)?;`.
#[derive(Debug)]
#[must_use = "events that are not fetched come again next tick, and hold back their senders"]
#[non_exhaustive]
pub struct Tick<'a> {
    /// What has happened.
    pub events: Events<'a>,
    /// Sends, closes and kicks.
    pub outbox: Outbox<'a>,
    /// What the tick has cost.
    pub report: TickReport,
}

/// The events of a tick, in order: an iterator.
///
/// **Fetching is acknowledging.** What is not fetched, for whatever reason (`break`, `?`, a panic), comes first next
/// tick, and its bytes keep their place in the receive buffers, so that TCP slows down its sender and,
/// once the [batch memory](crate::Builder::batch_memory) is full, everybody.
#[derive(Debug)]
#[must_use = "events that are not fetched come again next tick, and hold back their senders"]
pub struct Events<'a> {
    records: &'a [Record],
    fetched: &'a mut usize,
    arena: &'a Arena,
    inbound: &'a [Inbound],
    slots: &'a Slots<Card>,
    reap: &'a mut Vec<u32>,
}

impl<'a> Events<'a> {
    pub(crate) fn new(
        inlet: &'a mut Inlet,
        slots: &'a Slots<Card>,
        reap: &'a mut Vec<u32>,
    ) -> Events<'a> {
        let (batch, arena, inbound) = inlet.lend();
        let (records, fetched) = Batch::cursor(batch);
        Events { records, fetched, arena, inbound, slots, reap }
    }

    /// What there is to tell beside messages in the arena, unless the game has no interest in it any more.
    #[cold]
    #[inline(never)]
    fn rarer(&mut self, conn: ConnId, what: What) -> Option<Event<'a>> {
        let slot = conn.slot();
        let is_muted = self.slots.is_muted(slot);
        match what {
            What::InArena { .. } => None, // told by `next`
            What::InRing { start, len } if !is_muted => {
                let payload = self.inbound[slot as usize].lent(start, len);
                Some(Event::Message { conn, payload })
            }
            What::SendQueueHigh if !is_muted => Some(Event::SendQueueHigh { conn }),
            What::SendQueueLow if !is_muted => Some(Event::SendQueueLow { conn }),
            What::InRing { .. } | What::SendQueueHigh | What::SendQueueLow => None,
            What::Connected => {
                let card = self.slots.get(slot);
                let (peer, listener) = (card.peer.addr(), card.listener);
                Some(Event::Connected { conn, peer, listener })
            }
            What::Ended => {
                self.slots.set_gone(slot);
                self.reap.push(slot);
                Some(match self.slots.get(slot).stage {
                    Stage::Ended(Ending::Disconnected(reason)) => {
                        Event::Disconnected { conn, reason }
                    }
                    Stage::Ended(Ending::ConnectFailed(reason)) => {
                        Event::ConnectFailed { conn, reason }
                    }
                    stage => unreachable!("the last event of a connection in {stage:?}"),
                })
            }
        }
    }

    /// How many events are still to be fetched, at most: messages of a connection that is closed
    /// meanwhile are counted, but not handed out.
    pub fn remaining(&self) -> usize {
        self.records.len() - *self.fetched
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    // Inlined into the game's loop: a message then goes from hand to hand in registers.
    #[inline(always)]
    fn next(&mut self) -> Option<Event<'a>> {
        loop {
            let &Record { id: conn, what } = self.records.get(*self.fetched)?;
            *self.fetched += 1;
            if let What::InArena { start, len } = what {
                if !self.slots.is_muted(conn.slot()) {
                    return Some(Event::Message { conn, payload: self.arena.get(start, len) });
                }
            } else if let Some(event) = self.rarer(conn, what) {
                return Some(event);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.remaining()))
    }
}

impl std::iter::FusedIterator for Events<'_> {}

/// Sends messages and ends connections. No call makes a system call or waits; what is queued leaves
/// with the next [`flush`](crate::Reactor::flush) or [`tick`](crate::Reactor::tick).
///
/// An id of a connection whose last event was fetched is *stale*: it answers so, and has no effect on
/// anybody.
pub struct Outbox<'a> {
    outlet: &'a mut Outlet,
    slots: &'a Slots<Card>,
    limits: &'a Limits,
}

impl fmt::Debug for Outbox<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("connections", &self.slots.len()).finish_non_exhaustive()
    }
}

/// What a broadcast came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broadcast<'a> {
    /// How many connections took the message.
    pub sent: usize,
    /// Who did not, and why.
    pub refused: &'a [(ConnId, SendError)],
}

impl<'a> Outbox<'a> {
    pub(crate) fn new(
        outlet: &'a mut Outlet,
        slots: &'a Slots<Card>,
        limits: &'a Limits,
    ) -> Outbox<'a> {
        Outbox { outlet, slots, limits }
    }

    /// Queues a message. The payload is copied, once.
    ///
    /// On a connection that has not come about yet, messages are queued until it has.
    ///
    /// ```
    /// use tickwire::{ConnId, Outbox, SendError};
    ///
    /// fn tell(outbox: &mut Outbox<'_>, to: ConnId, text: &str) {
    ///     match outbox.send(to, text.as_bytes()) {
    ///         Ok(()) => {}
    ///         Err(SendError::Full) => drop(outbox.kick(to)), // it does not keep up
    ///         Err(SendError::Stale | SendError::Closing) => {} // it has left, or is about to
    ///         Err(error) => println!("a message that cannot be sent: {error}"),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// All or nothing: a refused message leaves no trace. [`SendError`] says what each answer means.
    #[inline]
    pub fn send(&mut self, conn: ConnId, payload: &[u8]) -> Result<(), SendError> {
        self.find_or_refuse(conn)?;
        let sent = self.outlet.send(conn, payload, self.limits);
        self.note(conn, sent)
    }

    /// Queues a message that is worth nothing once a newer one of its kind exists, such as a snapshot of the world: an
    /// older one of the same `kind` that has not begun to leave is taken out of the queue, and this one goes to its
    /// end. So the wire order is the order of the calls, the superseded ones missing, and a slow client holds one
    /// message of each kind instead of a queue of them. Use a handful of kinds: looking for the older message takes time
    /// in proportion to their number.
    ///
    /// ```
    /// use tickwire::{ConnId, Outbox};
    ///
    /// const WORLD: u32 = 1;
    ///
    /// /// A player who lags gets the newest world when there is room, and none of those in between.
    /// fn show_world(outbox: &mut Outbox<'_>, players: &[ConnId], world: &[u8]) {
    ///     for &player in players {
    ///         let _ = outbox.send_latest(player, WORLD, world); // who cannot take it will be told to leave elsewhere
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); then the older message stays.
    pub fn send_latest(
        &mut self,
        conn: ConnId,
        kind: u32,
        payload: &[u8],
    ) -> Result<(), SendError> {
        self.find_or_refuse(conn)?;
        let sent = self.outlet.send_latest(conn, kind, payload, self.limits);
        self.note(conn, sent)
    }

    /// Queues a message that `encode` writes in place, without a copy.
    ///
    /// ```
    /// use tickwire::{ConnId, Outbox, SendError};
    ///
    /// fn tell_position(outbox: &mut Outbox<'_>, to: ConnId, x: f32, y: f32) -> Result<(), SendError> {
    ///     outbox.send_with(to, |w| {
    ///         w.put_u8(2);
    ///         w.put_f32(x);
    ///         w.put_f32(y);
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send). A stale id or a closing connection is told without calling `encode`; whether
    /// the message is small enough, afterwards.
    pub fn send_with(
        &mut self,
        conn: ConnId,
        encode: impl FnOnce(&mut FrameWriter<'_>),
    ) -> Result<(), SendError> {
        let encoded = self.try_send_with(conn, |writer| {
            encode(writer);
            Ok::<(), std::convert::Infallible>(())
        });
        encoded.map_err(|error| match error {
            EncodeError::Send(error) => error,
            EncodeError::Encode(never) => match never {},
        })
    }

    /// As [`send_with`](Self::send_with), for an encoder that may fail: then nothing is sent.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Encode`] with the encoder's error, or [`EncodeError::Send`] as [`send`](Self::send).
    pub fn try_send_with<E>(
        &mut self,
        conn: ConnId,
        encode: impl FnOnce(&mut FrameWriter<'_>) -> Result<(), E>,
    ) -> Result<(), EncodeError<E>> {
        self.find_or_refuse(conn)?;
        match self.outlet.send_encoded(conn, self.limits, encode) {
            Ok(()) => Ok(()),
            Err(Ok(error)) => Err(EncodeError::Encode(error)),
            Err(Err(refusal)) => Ok(self.note(conn, Err(refusal))?),
        }
    }

    /// Queues one message for each of `conns`; any iterator of ids will do.
    ///
    /// From [`shared_len_min`](crate::Builder::shared_len_min) on, the payload is copied once and shared by
    /// all; to save that copy too, use [`broadcast_bytes`](Self::broadcast_bytes).
    ///
    /// Who does not take it is listed in the answer and harms nobody else.
    ///
    /// ```
    /// use tickwire::{ConnId, Outbox, SendError};
    ///
    /// fn say_to_all(outbox: &mut Outbox<'_>, players: &[ConnId], text: &str) {
    ///     let told = outbox.broadcast(players, text.as_bytes());
    ///     let slow = told.refused.iter().filter(|(_, why)| *why == SendError::Full).count();
    ///     println!("{} heard it, {slow} do not keep up", told.sent);
    /// }
    /// ```
    pub fn broadcast<I>(&mut self, conns: I, payload: &[u8]) -> Broadcast<'_>
    where
        I: IntoIterator,
        I::Item: Borrow<ConnId>,
    {
        if payload.len() < self.limits.shared_len_min {
            return self
                .send_each(conns, |outlet, conn, limits| outlet.send(conn, payload, limits));
        }
        self.broadcast_bytes(conns, &Bytes::copy_from_slice(payload))
    }

    /// As [`broadcast`](Self::broadcast), for a payload that can be shared as it is: a large one is not copied
    /// at all.
    pub fn broadcast_bytes<I>(&mut self, conns: I, payload: &Bytes) -> Broadcast<'_>
    where
        I: IntoIterator,
        I::Item: Borrow<ConnId>,
    {
        if payload.len() < self.limits.shared_len_min {
            return self
                .send_each(conns, |outlet, conn, limits| outlet.send(conn, payload, limits));
        }
        self.send_each(conns, |outlet, conn, limits| outlet.send_shared(conn, payload, limits))
    }

    /// Ends a connection in order: takes no further messages, sends what is queued, then FIN, and waits for
    /// the peer's, at most [`close_timeout`](crate::Builder::close_timeout). Messages of the connection
    /// that are not fetched yet are dropped, even those of the same batch.
    ///
    /// An outgoing connection that has not come about is cancelled. Either way one last event follows.
    /// `false` if the id is stale.
    ///
    /// ```
    /// use tickwire::{ConnId, Outbox};
    ///
    /// fn ban(outbox: &mut Outbox<'_>, conn: ConnId) {
    ///     let _ = outbox.send(conn, b"you are banned"); // is delivered before the end
    ///     outbox.close(conn);
    /// }
    /// ```
    pub fn close(&mut self, conn: ConnId) -> bool {
        self.end(conn, Request::Close)
    }

    /// Ends a connection at once, with a reset; what is queued is lost. Otherwise as
    /// [`close`](Self::close).
    pub fn kick(&mut self, conn: ConnId) -> bool {
        self.end(conn, Request::End(DisconnectReason::Kicked))
    }

    /// Stops to read from a connection, for back-pressure: nothing more is received or decoded from this
    /// call on, and TCP slows the peer down. Messages that are in the batch already are still handed out.
    /// `false` if the id is stale.
    ///
    /// While paused, the end of the connection is not noticed either, except by a failing send, and then
    /// after [`close_timeout`](crate::Builder::close_timeout) at the latest.
    ///
    /// ```
    /// use tickwire::{ConnId, Outbox};
    ///
    /// /// While a player's data is being loaded, what it sends waits in its socket.
    /// fn load(outbox: &mut Outbox<'_>, conn: ConnId) {
    ///     outbox.pause_read(conn);
    /// }
    ///
    /// fn loaded(outbox: &mut Outbox<'_>, conn: ConnId) {
    ///     outbox.resume_read(conn);
    /// }
    /// ```
    pub fn pause_read(&mut self, conn: ConnId) -> bool {
        self.find(conn).map(|slot| self.slots.set_paused(slot, true)).is_ok()
    }

    /// Goes on reading from a connection where [`pause_read`](Self::pause_read) stopped. `false` if the id is
    /// stale.
    pub fn resume_read(&mut self, conn: ConnId) -> bool {
        let Ok(slot) = self.find(conn) else {
            return false;
        };
        if self.slots.set_paused(slot, false) {
            self.outlet.requests.push((conn, Request::Resume));
        }
        true
    }

    /// Where the peer is; known until the tick after the connection's last event was fetched.
    pub fn peer(&self, conn: ConnId) -> Option<Addr> {
        self.slots.find(conn).map(|slot| self.slots.get(slot).peer.addr())
    }

    /// Whether messages for this connection are taken.
    pub fn is_open(&self, conn: ConnId) -> bool {
        self.find(conn).is_ok_and(|slot| self.outlet.is_open(slot))
    }

    /// Bytes (headers included) that wait to leave; 0 for a stale id. The most is
    /// [`send_queue_max`](crate::Builder::send_queue_max).
    pub fn queued(&self, conn: ConnId) -> usize {
        self.find(conn).map_or(0, |slot| self.outlet.spoken_for(slot))
    }

    #[inline]
    fn find(&self, conn: ConnId) -> Result<u32, SendError> {
        match self.slots.find(conn) {
            Some(slot) if !self.slots.is_gone(slot) => Ok(slot),
            _ => Err(SendError::Stale),
        }
    }

    /// As [`find`](Self::find), for a message, whose refusal is counted.
    #[inline]
    fn find_or_refuse(&mut self, conn: ConnId) -> Result<u32, SendError> {
        self.find(conn).inspect_err(|error| self.outlet.refusals.count(*error))
    }

    #[inline]
    fn note(&mut self, conn: ConnId, sent: Result<(), Refusal>) -> Result<(), SendError> {
        sent.map_err(|refusal| self.refuse(conn, refusal))
    }

    #[cold]
    fn refuse(&mut self, conn: ConnId, refusal: Refusal) -> SendError {
        if self.outlet.refuse(conn, refusal, self.limits) {
            self.slots.mute(conn.slot());
        }
        refusal.into()
    }

    fn send_each<I>(
        &mut self,
        conns: I,
        mut send: impl FnMut(&mut Outlet, ConnId, &Limits) -> Result<(), Refusal>,
    ) -> Broadcast<'_>
    where
        I: IntoIterator,
        I::Item: Borrow<ConnId>,
    {
        self.outlet.refused.clear();
        let mut sent = 0;
        for conn in conns {
            let conn = *conn.borrow();
            let result = self.find_or_refuse(conn).and_then(|_| {
                let sent = send(self.outlet, conn, self.limits);
                self.note(conn, sent)
            });
            match result {
                Ok(()) => sent += 1,
                Err(error) => self.outlet.refused.push((conn, error)),
            }
        }
        Broadcast { sent, refused: &self.outlet.refused }
    }

    fn end(&mut self, conn: ConnId, request: Request) -> bool {
        let Ok(slot) = self.find(conn) else {
            return false;
        };
        self.slots.mute(slot);
        self.outlet.end_by_request(conn, request);
        true
    }
}

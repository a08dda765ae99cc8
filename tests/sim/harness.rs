//! What the scenarios are told with: a server's reactor, raw peers and other reactors around it, and
//! a clock that moves only when a test says so.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use tickwire::sim::{Counts, Faults, RawPeer, SimNet, SimWorld};
use tickwire::{
    Addr, Builder, ConnId, ConnectFailure, DisconnectReason, Event, Outbox, Reactor, Tick, Wait,
};

pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// An event that outlives its batch.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Connected(ConnId),
    Message(ConnId, Vec<u8>),
    SendQueueHigh(ConnId),
    SendQueueLow(ConnId),
    Disconnected(ConnId, DisconnectReason),
    ConnectFailed(ConnId, ConnectFailure),
}

/// Long payloads would bury what a failing test has to say.
impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Connected(conn) => write!(f, "Connected({conn})"),
            Seen::Message(conn, payload) => {
                let begin = String::from_utf8_lossy(&payload[..payload.len().min(12)]);
                write!(f, "Message({conn}, {} bytes: {begin:?})", payload.len())
            }
            Seen::SendQueueHigh(conn) => write!(f, "SendQueueHigh({conn})"),
            Seen::SendQueueLow(conn) => write!(f, "SendQueueLow({conn})"),
            Seen::Disconnected(conn, reason) => write!(f, "Disconnected({conn}, {reason:?})"),
            Seen::ConnectFailed(conn, reason) => write!(f, "ConnectFailed({conn}, {reason:?})"),
        }
    }
}

impl Seen {
    pub(crate) fn of(event: &Event<'_>) -> Seen {
        match *event {
            Event::Connected { conn, .. } => Seen::Connected(conn),
            Event::Message { conn, payload } => Seen::Message(conn, payload.to_vec()),
            Event::SendQueueHigh { conn } => Seen::SendQueueHigh(conn),
            Event::SendQueueLow { conn } => Seen::SendQueueLow(conn),
            Event::Disconnected { conn, reason } => Seen::Disconnected(conn, reason),
            Event::ConnectFailed { conn, reason } => Seen::ConnectFailed(conn, reason),
            ref other => panic!("an event that the tests do not know: {other:?}"),
        }
    }

    pub(crate) fn conn(&self) -> ConnId {
        match *self {
            Seen::Connected(conn)
            | Seen::Message(conn, _)
            | Seen::SendQueueHigh(conn)
            | Seen::SendQueueLow(conn)
            | Seen::Disconnected(conn, _)
            | Seen::ConnectFailed(conn, _) => conn,
        }
    }
}

/// A reactor under observation: whatever a scenario is about, each id must live as promised.
pub(crate) struct Host {
    pub(crate) reactor: Reactor<SimNet>,
    /// Whether an id may have further events; absent: it may only begin.
    lives: HashMap<ConnId, bool>,
    /// So that a test that waits for what never comes fails instead of hanging.
    ticks_left: usize,
}

impl Host {
    pub(crate) fn new(world: &SimWorld, ip: IpAddr, builder: Builder) -> Host {
        let reactor = builder.build_on(world.host(ip)).expect("usable settings");
        Host { reactor, lives: HashMap::new(), ticks_left: 500_000 }
    }

    /// One tick without waiting; everything is fetched.
    pub(crate) fn tick(&mut self) -> Vec<Seen> {
        self.tick_with(Wait::No, |_, _| ())
    }

    /// One tick; everything is fetched, and `react` may answer.
    pub(crate) fn tick_with(
        &mut self,
        wait: Wait,
        mut react: impl FnMut(&Event<'_>, &mut Outbox<'_>),
    ) -> Vec<Seen> {
        self.tick_while(wait, |event, outbox| {
            react(event, outbox);
            true
        })
    }

    /// One tick; fetching ends after the first event for which `react` says `false`.
    pub(crate) fn tick_while(
        &mut self,
        wait: Wait,
        mut react: impl FnMut(&Event<'_>, &mut Outbox<'_>) -> bool,
    ) -> Vec<Seen> {
        self.ticks_left = self.ticks_left.checked_sub(1).expect("this test ends some day");
        let mut seen = Vec::new();
        let Tick { events, mut outbox, .. } =
            self.reactor.tick(wait).expect("a simulated poller works");
        for event in events {
            let goes_on = react(&event, &mut outbox);
            seen.push(Seen::of(&event));
            if !goes_on {
                break;
            }
        }
        for event in &seen {
            self.check_life(event);
        }
        seen
    }

    pub(crate) fn send(&mut self, conn: ConnId, payload: &[u8]) {
        self.reactor.outbox().send(conn, payload).expect("the message is taken");
    }

    pub(crate) fn counts(&self) -> Counts {
        self.reactor.net().counts()
    }

    fn check_life(&mut self, event: &Seen) {
        let conn = event.conn();
        let before = self.lives.get(&conn).copied();
        let (fits, lives_on) = match event {
            Seen::Connected(_) => (before.is_none(), true),
            Seen::Message(..) | Seen::SendQueueHigh(_) | Seen::SendQueueLow(_) => {
                (before == Some(true), true)
            }
            Seen::Disconnected(..) => (before == Some(true), false),
            Seen::ConnectFailed(..) => (before.is_none(), false),
        };
        assert!(fits, "{event:?} does not follow: {before:?}");
        self.lives.insert(conn, lives_on);
    }
}

/// A listening server and the world around it.
pub(crate) struct Arena {
    pub(crate) world: SimWorld,
    pub(crate) server: Host,
    pub(crate) addr: Addr,
    peers: u8,
}

impl Arena {
    /// The default settings on a perfect network.
    pub(crate) fn new() -> Arena {
        Arena::with(Reactor::builder(), Faults::default())
    }

    pub(crate) fn with(builder: Builder, faults: Faults) -> Arena {
        let world = SimWorld::new(1, faults);
        let mut server = Host::new(&world, SERVER, builder);
        let listener = server.reactor.listen((SERVER, 7777)).expect("the port is free");
        let addr = server.reactor.local_addr(listener).expect("it listens");
        Arena { world, server, addr, peers: 0 }
    }

    /// A raw peer that knocks; each has an address of its own.
    pub(crate) fn knock(&mut self) -> RawPeer {
        self.peers = self.peers.wrapping_add(1);
        self.world.raw_connect([10, 0, 1, self.peers].into(), &self.addr)
    }

    /// A raw peer that the server knows.
    pub(crate) fn meet(&mut self) -> (RawPeer, ConnId) {
        let peer = self.knock();
        let seen = self.until(|seen| matches!(seen, Seen::Connected(_)));
        let conn = seen.last().expect("it was waited for").conn();
        (peer, conn)
    }

    /// A millisecond later, a tick of the server.
    pub(crate) fn tick(&mut self) -> Vec<Seen> {
        self.world.advance(MS);
        self.server.tick()
    }

    pub(crate) fn ticks(&mut self, ticks: usize) -> Vec<Seen> {
        (0..ticks).flat_map(|_| self.tick()).collect()
    }

    /// Ticks until something is seen; all that was, up to the end of its batch.
    pub(crate) fn until(&mut self, mut is_it: impl FnMut(&Seen) -> bool) -> Vec<Seen> {
        let mut seen = Vec::new();
        for _ in 0..20_000 {
            let new = self.tick();
            let found = new.iter().any(&mut is_it);
            seen.extend(new);
            if found {
                return seen;
            }
        }
        let tail = &seen[seen.len().saturating_sub(9)..];
        panic!("it never came; the last of {} events: {tail:?}", seen.len());
    }

    /// Ticks until a connection is over.
    pub(crate) fn until_over(&mut self, conn: ConnId) -> (Vec<Seen>, DisconnectReason) {
        let mut why = None;
        let seen = self.until(|seen| match *seen {
            Seen::Disconnected(over, reason) if over == conn => {
                why = Some(reason);
                true
            }
            _ => false,
        });
        (seen, why.expect("it was waited for"))
    }

    pub(crate) fn now(&self) -> Instant {
        self.world.now()
    }
}

/// A server and a client, each with its reactor.
pub(crate) struct Pair {
    pub(crate) world: SimWorld,
    pub(crate) server: Host,
    pub(crate) client: Host,
    pub(crate) addr: Addr,
}

impl Pair {
    pub(crate) fn new() -> Pair {
        Pair::with(Reactor::builder(), Reactor::builder(), Faults::default())
    }

    pub(crate) fn with(server: Builder, client: Builder, faults: Faults) -> Pair {
        let Arena { world, server, addr, .. } = Arena::with(server, faults);
        let client = Host::new(&world, CLIENT, client);
        Pair { world, server, client, addr }
    }

    /// Both ends of a new connection: the client's and the server's.
    pub(crate) fn meet(&mut self) -> (ConnId, ConnId) {
        let there = self.client.reactor.connect(&self.addr).expect("there is room");
        for _ in 0..1_000 {
            let (at_server, _) = self.tick();
            if let Some(Seen::Connected(here)) = at_server.first() {
                return (there, *here);
            }
        }
        panic!("the client never arrived");
    }

    /// A millisecond later, a tick of the server and one of the client; what each has seen.
    pub(crate) fn tick(&mut self) -> (Vec<Seen>, Vec<Seen>) {
        self.world.advance(MS);
        (self.server.tick(), self.client.tick())
    }

    pub(crate) fn ticks(&mut self, ticks: usize) -> (Vec<Seen>, Vec<Seen>) {
        let (mut at_server, mut at_client) = (Vec::new(), Vec::new());
        for _ in 0..ticks {
            let (server, client) = self.tick();
            at_server.extend(server);
            at_client.extend(client);
        }
        (at_server, at_client)
    }
}

/// A payload in the wire's default framing.
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).expect("a short payload").to_be_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// Several payloads, one behind the other.
pub(crate) fn frames<P: AsRef<[u8]>>(payloads: impl IntoIterator<Item = P>) -> Vec<u8> {
    payloads.into_iter().flat_map(|payload| frame(payload.as_ref())).collect()
}

/// The payloads of whole frames; the rest is dropped.
pub(crate) fn unframe(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    while let Some((header, behind)) = bytes.split_first_chunk() {
        let Some((payload, rest)) = behind.split_at_checked(u32::from_be_bytes(*header) as usize)
        else {
            break;
        };
        payloads.push(payload.to_vec());
        bytes = rest;
    }
    payloads
}

/// A payload whose every byte depends on its place and on `seed`.
pub(crate) fn payload(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed.wrapping_mul(31) ^ at ^ at >> 8) as u8).collect()
}

/// The messages of one connection.
pub(crate) fn messages(seen: &[Seen], of: ConnId) -> Vec<Vec<u8>> {
    seen.iter()
        .filter_map(|event| match event {
            Seen::Message(conn, payload) if *conn == of => Some(payload.clone()),
            _ => None,
        })
        .collect()
}

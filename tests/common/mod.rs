//! What the tests on real sockets share: a plain blocking client, and a loop that ticks until
//! something has happened. No sleeps: every wait is for a condition, and bounded.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod process;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tickwire::{
    Builder, ConnId, ConnectFailure, DisconnectReason, Event, Outbox, Reactor, Tick, Wait,
};

/// Longer than anything here takes, so that a hang fails instead of hanging.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A reactor that listens on a free port.
pub fn server(builder: Builder) -> (Reactor, SocketAddr) {
    let mut reactor = builder.build().expect("a usable configuration");
    let listener = reactor.listen("127.0.0.1:0").expect("a free port");
    let addr = reactor.local_addr(listener).and_then(|addr| addr.as_socket_addr());
    (reactor, addr.expect("we listen there"))
}

/// Ticks until `until` says so; it sees each event and may answer.
pub fn pump(reactor: &mut Reactor, mut until: impl FnMut(Event<'_>, &mut Outbox<'_>) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tick = reactor.tick(Wait::Event(Duration::from_millis(20))).expect("a working poller");
        let Tick { events, mut outbox, .. } = tick;
        for event in events {
            if until(event, &mut outbox) {
                return;
            }
        }
        assert!(Instant::now() < deadline, "it has not happened");
    }
}

/// Ticks until `done`, dropping all events.
pub fn tick_until(reactor: &mut Reactor, mut done: impl FnMut(&mut Reactor) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done(reactor) {
        let tick = reactor.tick(Wait::Event(Duration::from_millis(5))).expect("a working poller");
        tick.events.for_each(drop);
        assert!(Instant::now() < deadline, "it has not happened");
    }
}

/// An address that never answers a connect, as long as the value lives: a listener whose backlog is
/// full.
pub fn black_hole() -> (SocketAddr, Vec<Socket>) {
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let listener = socket();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    listener.listen(0).expect("a bound socket");
    let addr = listener.local_addr().expect("it is bound");
    let mut sockets = vec![listener];
    for _ in 0..8 {
        let client = socket();
        client.set_nonblocking(true).expect("a plain option");
        let _ = client.connect(&addr); // the first are accepted by the system, the rest wait
        sockets.push(client);
    }
    (addr.as_socket().expect("an IP address"), sockets)
}

/// Ticks until the next connection.
pub fn accept(reactor: &mut Reactor) -> ConnId {
    let mut accepted = None;
    pump(reactor, |event, _| match event {
        Event::Connected { conn, .. } => {
            accepted = Some(conn);
            true
        }
        _ => false,
    });
    accepted.expect("pump has seen it")
}

/// Ticks until the next end, echoing messages meanwhile.
pub fn echo_until_disconnect(reactor: &mut Reactor) -> (ConnId, DisconnectReason) {
    let mut ended = None;
    pump(reactor, |event, outbox| match event {
        Event::Message { conn, payload } => {
            outbox.send(conn, payload).expect("an echo fits the queue");
            false
        }
        Event::Disconnected { conn, reason } => {
            ended = Some((conn, reason));
            true
        }
        _ => false,
    });
    ended.expect("pump has seen it")
}

/// A client that blocks, as one in another program would.
pub struct Client {
    pub stream: TcpStream,
}

impl Client {
    pub fn connect(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE).expect("a listening server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a plain option");
        stream.set_write_timeout(Some(PATIENCE)).expect("a plain option");
        stream.set_nodelay(true).expect("a plain option");
        Client { stream }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes it");
    }

    pub fn send(&mut self, payload: &[u8]) {
        self.write(&frame(payload));
    }

    pub fn receive(&mut self) -> Vec<u8> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).expect("a header");
        let mut payload = vec![0; u32::from_be_bytes(header) as usize];
        self.stream.read_exact(&mut payload).expect("a payload");
        payload
    }

    pub fn shutdown_write(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a live socket");
    }

    /// Closes with a reset.
    pub fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("an option");
    }

    /// What still comes, and whether it ends in order (or with a reset).
    pub fn read_to_end(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => (bytes, true),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => (bytes, false),
            Err(error) => panic!("neither an end nor a reset: {error}"),
        }
    }
}

pub fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes(), payload].concat()
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// An event that can be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Connected(ConnId),
    Message(ConnId, Vec<u8>),
    Disconnected(ConnId, DisconnectReason),
    ConnectFailed(ConnId, ConnectFailure),
}

impl From<Event<'_>> for Seen {
    fn from(event: Event<'_>) -> Seen {
        match event {
            Event::Connected { conn, .. } => Seen::Connected(conn),
            Event::Message { conn, payload } => Seen::Message(conn, payload.to_vec()),
            Event::Disconnected { conn, reason } => Seen::Disconnected(conn, reason),
            Event::ConnectFailed { conn, reason } => Seen::ConnectFailed(conn, reason),
            other => panic!("a new kind of event: {other:?}"),
        }
    }
}

/// A server and a client, both ours, ticked in turn, and what each has seen.
pub struct Pair {
    pub server: Reactor,
    pub client: Reactor,
    pub addr: SocketAddr,
    pub at_server: Vec<Seen>,
    pub at_client: Vec<Seen>,
}

impl Pair {
    pub fn new(for_server: Builder, for_client: Builder) -> Pair {
        let (server, addr) = server(for_server);
        let client = for_client.build().expect("a usable configuration");
        Pair { server, client, addr, at_server: Vec::new(), at_client: Vec::new() }
    }

    /// One tick of both.
    pub fn tick(&mut self) {
        let tick = self.client.tick(Wait::No).expect("a working poller");
        self.at_client.extend(tick.events.map(Seen::from));
        let tick = self.server.tick(Wait::Event(Duration::from_millis(1))).expect("a poller");
        self.at_server.extend(tick.events.map(Seen::from));
    }

    /// Ticks both until `done`.
    pub fn until(&mut self, mut done: impl FnMut(&mut Pair) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            self.tick();
            assert!(
                Instant::now() < deadline,
                "it has not happened: server {:?}, client {:?}",
                self.at_server,
                self.at_client
            );
        }
    }

    /// Connects, and forgets the two events of it. The connection's ids: the server's, the client's.
    pub fn connect(&mut self) -> (ConnId, ConnId) {
        let ours = self.client.connect(self.addr).expect("room");
        self.until(|pair| !pair.at_server.is_empty() && !pair.at_client.is_empty());
        assert_eq!(self.at_client, [Seen::Connected(ours)]);
        let [Seen::Connected(theirs)] = self.at_server[..] else { panic!("{:?}", self.at_server) };
        self.at_server.clear();
        self.at_client.clear();
        (theirs, ours)
    }
}

/// Ticks, fetching nothing, until this many events wait.
pub fn tick_until_remaining(reactor: &mut Reactor, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while reactor.tick(Wait::Event(Duration::from_millis(20))).expect("a poller").events.remaining()
        < count
    {
        assert!(Instant::now() < deadline, "they have not come");
    }
}

//! The snippets of docs/embedding.md, run. Each module holds one of them as the page shows it, and a test
//! that puts it to work; `tests/docs.rs` sees to it that page and modules stay the same.
#![cfg(unix)]

mod common;

use std::time::{Duration, Instant};

use common::{Client, PATIENCE, accept, server};
use tickwire::{ConnId, Reactor, Tick, Wait};

mod fixed_step {
    use std::time::{Duration, Instant};

    use tickwire::{ConnMap, Error, Event, Outbox, Reactor, Tick, Wait};

    const STEP: Duration = Duration::from_nanos(1_000_000_000 / 60);
    /// Whoever is further behind drops the time: catching up on all of it would make the next frame late too.
    const STEPS_MAX: u32 = 4;

    #[derive(Default)]
    pub struct Game {
        pub players: ConnMap<i32>,
        pub steps: u32,
    }

    impl Game {
        fn hear(&mut self, event: Event<'_>, _outbox: &mut Outbox<'_>) {
            match event {
                Event::Connected { conn, .. } => drop(self.players.insert(conn, 0)),
                Event::Message { conn, payload } => self.players[conn] += payload.len() as i32,
                Event::Disconnected { conn, .. } => drop(self.players.remove(conn)),
                _ => {}
            }
        }

        fn step(&mut self) {
            self.steps += 1;
        }
    }

    pub fn run(
        reactor: &mut Reactor,
        game: &mut Game,
        is_over: impl Fn(&Game) -> bool,
    ) -> Result<(), Error> {
        let mut next_step = Instant::now() + STEP;
        while !is_over(game) {
            let Tick { events, mut outbox, .. } = reactor.tick(Wait::Until(next_step))?;
            for event in events {
                game.hear(event, &mut outbox);
            }
            let behind = Instant::now().saturating_duration_since(next_step);
            let missed = (behind.as_nanos() / STEP.as_nanos()) as u32;
            for _ in 0..=missed.min(STEPS_MAX - 1) {
                game.step();
            }
            next_step += STEP * (missed + 1);

            let snapshot = game.steps.to_be_bytes();
            reactor.outbox().broadcast(game.players.keys(), &snapshot);
            reactor.flush();
        }
        Ok(())
    }
}

#[test]
fn the_fixed_step_hears_steps_and_tells() {
    let (mut reactor, addr) = server(Reactor::builder());
    let mut game = fixed_step::Game::default();
    let mut client = Client::connect(addr);
    client.send(b"abc");
    let begun = Instant::now();
    let heard = |game: &fixed_step::Game| game.steps >= 3 && game.players.values().any(|&n| n == 3);
    fixed_step::run(&mut reactor, &mut game, heard).expect("a poller");
    assert!(begun.elapsed() >= Duration::from_millis(49), "three steps are not over earlier");
    let first = u32::from_be_bytes(client.receive().try_into().expect("a snapshot"));
    assert_eq!(client.receive(), (first + 1).to_be_bytes());
}

#[test]
fn the_fixed_step_does_not_catch_up_without_end() {
    let (mut reactor, _) = server(Reactor::builder());
    let mut game = fixed_step::Game::default();
    let frames = std::cell::Cell::new(0);
    let slow = |_: &fixed_step::Game| {
        std::thread::sleep(Duration::from_millis(100)); // a frame's work that takes as long as six frames
        frames.set(frames.get() + 1);
        frames.get() > 3
    };
    fixed_step::run(&mut reactor, &mut game, slow).expect("a poller");
    assert!(game.steps <= 3 * 4, "{} steps", game.steps);
}

mod variable_step {
    use std::time::{Duration, Instant};

    use tickwire::{Error, Event, Outbox, Reactor, Tick, Wait};

    /// Longer pauses (a debugger, a laptop's sleep) count as this.
    const STEP_MAX: Duration = Duration::from_millis(100);

    /// To be called once a frame by whatever sets the pace. Returns by how much the game has to move on.
    pub fn frame(
        reactor: &mut Reactor,
        before: &mut Instant,
        mut hear: impl FnMut(Event<'_>, &mut Outbox<'_>),
    ) -> Result<Duration, Error> {
        let Tick { events, mut outbox, .. } = reactor.tick(Wait::No)?;
        for event in events {
            hear(event, &mut outbox);
        }
        let now = Instant::now();
        let passed = now - std::mem::replace(before, now);
        Ok(passed.min(STEP_MAX))
    }
}

#[test]
fn the_variable_step_is_bounded() {
    let (mut reactor, addr) = server(Reactor::builder());
    let mut client = Client::connect(addr);
    client.send(b"hello");
    let mut before = Instant::now() - Duration::from_secs(60);
    let mut heard = Vec::new();
    let mut frame = |before: &mut Instant| {
        let passed =
            variable_step::frame(&mut reactor, before, |event, _| heard.push(event.into()));
        (passed.expect("a poller"), heard.len())
    };
    assert_eq!(frame(&mut before).0, Duration::from_millis(100));
    let deadline = Instant::now() + PATIENCE;
    while frame(&mut before).1 < 2 {
        assert!(Instant::now() < deadline, "it has not come");
    }
    assert!(matches!(&heard[1], common::Seen::Message(_, payload) if payload == b"hello"));
}

mod foreign_loop {
    use std::io::ErrorKind;
    use std::os::fd::AsRawFd;

    use mio::{Interest, Poll, Token, unix::SourceFd};
    use tickwire::{Event, Outbox, Reactor, Tick, Wait};

    pub fn run(
        reactor: &mut Reactor,
        mut hear: impl FnMut(Event<'_>, &mut Outbox<'_>) -> bool,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let mut poll = Poll::new()?; // the foreign loop's
        let fd = reactor.as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), Token(0), Interest::READABLE)?;
        let mut ready = mio::Events::with_capacity(64);
        loop {
            let Tick { events, mut outbox, .. } = reactor.tick(Wait::No)?;
            for event in events {
                if !hear(event, &mut outbox) {
                    return Ok(());
                }
            }
            reactor.flush(); // the descriptor does not tell of what is only queued
            let due = reactor.next_deadline();
            let timeout = due.map(|due| due.saturating_duration_since(reactor.now()));
            // mio tells of changes only; registering anew asks how things stand.
            poll.registry().reregister(&mut SourceFd(&fd), Token(0), Interest::READABLE)?;
            match poll.poll(&mut ready, timeout) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {} // a signal
                polled => polled?,
            }
        }
    }
}

#[test]
fn a_foreign_loop_hosts_the_reactor() {
    let (mut reactor, addr) = server(Reactor::builder());
    let client = std::thread::spawn(move || {
        let mut client = Client::connect(addr);
        for text in ["one", "two"] {
            client.send(text.as_bytes());
            assert_eq!(client.receive(), text.as_bytes());
        }
    });
    let echo = |event: tickwire::Event<'_>, outbox: &mut tickwire::Outbox<'_>| match event {
        tickwire::Event::Message { conn, payload } => outbox.send(conn, payload).is_ok(),
        tickwire::Event::Disconnected { .. } => false,
        _ => true,
    };
    foreign_loop::run(&mut reactor, echo).expect("a working loop");
    client.join().expect("both echoes came");
}

mod many_reactors {
    use std::net::SocketAddr;
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    use tickwire::{Error, Event, Handle, ListenOptions, Reactor, Tick, Wait};

    pub struct Server {
        pub addr: SocketAddr,
        pub threads: Vec<(Handle, JoinHandle<Result<(), Error>>)>,
    }

    pub fn start(mut addr: SocketAddr, count: usize) -> Result<Server, Error> {
        let options = ListenOptions::new().reuse_port(true);
        let mut threads = Vec::new();
        for _ in 0..count {
            // Built here, so that whatever is wrong is told here; then moved to its thread.
            let mut reactor = Reactor::new()?;
            let listener = reactor.listen_with(addr, &options)?;
            if let Some(Some(bound)) = reactor.local_addr(listener).map(|a| a.as_socket_addr()) {
                addr = bound; // where the first has got its port from the system
            }
            let handle = reactor.handle()?;
            threads.push((handle, thread::spawn(move || serve(reactor))));
        }
        Ok(Server { addr, threads })
    }

    fn serve(mut reactor: Reactor) -> Result<(), Error> {
        loop {
            let wait = Wait::Event(Duration::from_millis(100));
            let Tick { events, mut outbox, .. } = reactor.tick(wait)?;
            for event in events {
                match event {
                    Event::Message { payload: b"stop", .. } => return Ok(()),
                    Event::Message { conn, payload } => {
                        let _ = outbox.send(conn, payload);
                    }
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn reactors_share_a_port() {
    let any = "127.0.0.1:0".parse().expect("an address");
    let mut server = many_reactors::start(any, 2).expect("a port");
    assert!(server.threads.iter().all(|(handle, _)| handle.is_alive()));
    while !server.threads.is_empty() {
        let mut client = Client::connect(server.addr);
        client.send(b"hello");
        assert_eq!(client.receive(), b"hello");
        // Whoever serves this client ends, and the system sends later ones to the others.
        client.send(b"stop");
        client.read_to_end();
        let deadline = Instant::now() + PATIENCE;
        let ended = loop {
            if let Some(ended) = server.threads.iter().position(|(handle, _)| !handle.is_alive()) {
                break ended;
            }
            assert!(Instant::now() < deadline, "it has not ended");
            std::thread::yield_now();
        };
        server.threads.remove(ended).1.join().expect("no panic").expect("a poller");
    }
}

mod other_threads {
    use std::sync::mpsc::Sender;

    use tickwire::{ConnId, Handle};

    /// What the game wants to know of a database, and hears of it.
    pub struct Loaded {
        pub conn: ConnId,
        pub score: u32,
    }

    pub fn load(conn: ConnId, handle: Handle, loaded: Sender<Loaded>) {
        std::thread::spawn(move || {
            let score = 1_000; // … from the database, which takes its time
            let _ = handle.send(conn, "welcome back"); // goes to the player …
            let _ = loaded.send(Loaded { conn, score }); // … and this to the game,
            handle.wake(); // whose tick may be waiting
        });
    }
}

#[test]
fn other_threads_send_and_wake() {
    let (mut reactor, addr) = server(Reactor::builder());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let (sender, loaded) = std::sync::mpsc::channel();
    other_threads::load(conn, reactor.handle().expect("a waker"), sender);
    let deadline = Instant::now() + PATIENCE;
    let other_threads::Loaded { conn: whose, score } = loop {
        reactor.tick(Wait::Event(PATIENCE)).expect("a poller").events.for_each(drop);
        match loaded.try_recv() {
            Ok(loaded) => break loaded,
            Err(_) => assert!(Instant::now() < deadline, "nothing has woken it"),
        }
    };
    assert_eq!((whose, score), (conn, 1_000));
    reactor.tick(Wait::No).expect("a poller").events.for_each(drop);
    assert_eq!(client.receive(), b"welcome back");
}

mod keep {
    use tickwire::{ConnId, Event, Events, ReadError, ReadPayload};

    pub enum Order {
        Move { dx: i32, dy: i32 },
        Say(String),
    }

    /// Decoding makes something of one's own, which may be kept for as long as one likes.
    pub fn orders(events: Events<'_>, orders: &mut Vec<(ConnId, Order)>) {
        for event in events {
            if let Event::Message { conn, payload } = event {
                match parse(payload) {
                    Ok(order) => orders.push((conn, order)),
                    Err(error) => log::info!("{conn} talks nonsense: {error}"),
                }
            }
        }
    }

    fn parse(payload: &[u8]) -> Result<Order, ReadError> {
        let (kind, mut rest) = payload.split_first().unwrap_or((&0, payload));
        let order = match kind {
            1 => Order::Move { dx: rest.try_get_zigzag_i32()?, dy: rest.try_get_zigzag_i32()? },
            _ => Order::Say(rest.try_get_str_u8()?.to_owned()),
        };
        rest.try_end()?;
        Ok(order)
    }
}

#[test]
fn orders_outlive_their_tick() {
    let (mut reactor, addr) = server(Reactor::builder());
    let mut client = Client::connect(addr);
    client.send(&[1, 2, 3]);
    client.send(b"\x02\xffcut");
    client.send(b"\x02\x02hi");
    let conn = accept(&mut reactor);
    let mut orders = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while orders.len() < 2 {
        keep::orders(reactor.tick(Wait::Event(PATIENCE)).expect("a poller").events, &mut orders);
        assert!(Instant::now() < deadline, "it has not come");
    }
    assert!(matches!(orders[0], (whose, keep::Order::Move { dx: 1, dy: -2 }) if whose == conn));
    assert!(matches!(&orders[1].1, keep::Order::Say(text) if text == "hi"));
}

mod structure {
    use std::time::Duration;

    use tickwire::{ConnId, ConnMap, Error, Event, Outbox, Reactor, Tick, Wait};

    pub struct Server {
        pub reactor: Reactor,
        pub game: Game,
    }

    #[derive(Default)]
    pub struct Game {
        pub players: ConnMap<Player>,
    }

    pub struct Player {
        pub name: String,
        pub team: u8,
    }

    impl Server {
        pub fn frame(&mut self) -> Result<(), Error> {
            let Server { reactor, game } = self; // two borrows instead of one
            let wait = Wait::Event(Duration::from_millis(16));
            let Tick { events, mut outbox, .. } = reactor.tick(wait)?;
            for event in events {
                match event {
                    Event::Message { conn, payload } => game.hear(&mut outbox, conn, payload),
                    Event::Disconnected { conn, .. } => game.leave(&mut outbox, conn),
                    _ => {}
                }
            }
            Ok(())
        }
    }

    impl Game {
        fn hear(&mut self, outbox: &mut Outbox<'_>, conn: ConnId, payload: &[u8]) {
            match self.players.get(conn) {
                Some(player) => self.tell_team(outbox, player.team, payload),
                None => {
                    let name = String::from_utf8_lossy(payload).into_owned();
                    let team = (self.players.len() % 2) as u8;
                    self.players.insert(conn, Player { name, team });
                }
            }
        }

        fn leave(&mut self, outbox: &mut Outbox<'_>, conn: ConnId) {
            if let Some(player) = self.players.remove(conn) {
                self.tell_team(outbox, player.team, format!("{} left", player.name).as_bytes());
            }
        }

        fn tell_team(&self, outbox: &mut Outbox<'_>, team: u8, text: &[u8]) {
            let mates = self.players.iter().filter(|(_, player)| player.team == team);
            outbox.broadcast(mates.map(|(conn, _)| conn), text);
        }
    }
}

#[test]
fn a_server_keeps_its_players_by_connection() {
    let (reactor, addr) = server(Reactor::builder());
    let mut server = structure::Server { reactor, game: structure::Game::default() };
    let mut clients = Vec::new();
    for name in ["Ann", "Bob", "Cem"] {
        let mut client = Client::connect(addr);
        client.send(name.as_bytes());
        clients.push(client);
        let deadline = Instant::now() + PATIENCE;
        while server.game.players.len() < clients.len() {
            server.frame().expect("a poller");
            assert!(Instant::now() < deadline, "{name} has not joined");
        }
    }
    drop(clients.remove(0));
    while server.game.players.len() == 3 {
        server.frame().expect("a poller");
    }
    server.frame().expect("a poller");
    assert_eq!(clients[1].receive(), b"Ann left", "Cem is of Ann's team");
}

mod snapshots {
    use tickwire::{ConnMap, Outbox, SendError};

    const WORLD: u32 = 0; // kinds of messages of which only the newest counts
    const SCORES: u32 = 1;

    pub fn tell(outbox: &mut Outbox<'_>, players: &ConnMap<()>, world: &[u8], scores: &[u8]) {
        for conn in players.keys() {
            for (kind, payload) in [(WORLD, world), (SCORES, scores)] {
                match outbox.send_latest(conn, kind, payload) {
                    Ok(()) | Err(SendError::Full | SendError::Closing) => {} // the next one is newer
                    Err(refusal) => log::warn!("no snapshot for {conn}: {refusal}"),
                }
            }
        }
    }
}

#[test]
fn who_does_not_read_gets_the_newest_snapshot() {
    let (mut reactor, addr) = server(Reactor::builder());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let players = [(conn, ())].into_iter().collect();
    for frame in 0..100u8 {
        snapshots::tell(&mut reactor.outbox(), &players, &[0, frame], &[1, frame]);
    }
    reactor.flush();
    assert_eq!((client.receive(), client.receive()), (vec![0, 99], vec![1, 99]));
    assert_eq!(reactor.stats().messages_superseded, 198);
}

mod full {
    use tickwire::{ConnId, Outbox, SendError};

    /// For what has to arrive: a player who cannot be told has to come again.
    pub fn tell(outbox: &mut Outbox<'_>, conn: ConnId, payload: &[u8]) {
        match outbox.send(conn, payload) {
            Ok(()) => {}
            Err(SendError::Stale | SendError::Closing) => {} // has left, or is about to
            Err(SendError::Full) => {
                log::info!("{conn} does not read, {} bytes wait", outbox.queued(conn));
                outbox.kick(conn);
            }
            Err(error) => log::error!("a bug of ours: {error}"), // too large, empty, malformed
        }
    }
}

#[test]
fn who_is_full_is_let_go() {
    let small = Reactor::builder().frame_len_max(100).send_queue_max(1_000);
    let (mut reactor, addr) = server(small);
    let _client = Client::connect(addr);
    let conn = accept(&mut reactor);
    (0..10).for_each(|_| full::tell(&mut reactor.outbox(), conn, &[7; 100]));
    let (_, reason) = common::echo_until_disconnect(&mut reactor);
    assert_eq!(reason, tickwire::DisconnectReason::Kicked);
    full::tell(&mut reactor.outbox(), conn, b"too late");
    assert_eq!(reactor.stats().refusals.stale, 1);
}

mod limits {
    use std::time::Duration;

    use tickwire::{Builder, Error, Rate, Reactor, SendPolicy};

    /// 500 players who bring 20 inputs a second, of 50 bytes or so, and get 60 snapshots of 2 KB.
    pub fn build() -> Result<Reactor, Error> {
        Builder::new()
            .public_port() // deadlines, and a bound on connections per address
            .connections_max(600)
            .frame_len_max(4 * 1024) // twice the largest message
            .send_queue_max(256 * 1024) // two seconds of snapshots
            .send_queue_soft(128 * 1024, Duration::from_secs(5), SendPolicy::Disconnect)
            .buffered_max(64 * 1024 * 1024) // if half of them stop reading: 250 × 256 KiB
            .message_rate(Rate::per_second(40).burst(80)) // twice what a fair client sends
            .batch_memory(1024 * 1024) // a frame's input, 170 messages, is 10 KB
            .build()
    }
}

#[test]
fn the_limits_go_together() {
    let mut reactor = limits::build().expect("usable settings");
    reactor.listen("127.0.0.1:0").expect("a port");
}

mod budget {
    use std::time::{Duration, Instant};

    use tickwire::{Error, Event, Outbox, Reactor, Tick, Wait};

    /// What the network may take of a frame, with the game's handling of its events.
    const BUDGET: Duration = Duration::from_millis(5);

    pub fn frame(
        reactor: &mut Reactor,
        next_frame: Instant,
        mut hear: impl FnMut(Event<'_>, &mut Outbox<'_>),
    ) -> Result<usize, Error> {
        let Tick { mut events, mut outbox, report, .. } = reactor.tick(Wait::Until(next_frame))?;
        let begun = Instant::now();
        let busy = report.times.map_or(Duration::ZERO, |times| times.busy());
        // A look at the clock after every 64 events; what is not fetched comes first next frame.
        loop {
            events.by_ref().take(64).for_each(|event| hear(event, &mut outbox));
            if events.remaining() == 0 || begun.elapsed() + busy > BUDGET {
                break;
            }
        }
        if report.carried_over > 0 || report.unserved > 0 {
            log::warn!(
                "behind: {} events old, {} peers wait",
                report.carried_over,
                report.unserved
            );
        }
        Ok(events.remaining())
    }
}

#[test]
fn what_does_not_fit_a_frame_comes_first_in_the_next() {
    let (mut reactor, addr) = server(Reactor::builder().phase_times(true));
    let mut client = Client::connect(addr);
    accept(&mut reactor);
    (0..200u8).for_each(|number| client.send(&[number]));
    common::tick_until_remaining(&mut reactor, 200);
    let mut heard = Vec::new();
    let mut frame = || {
        let left = budget::frame(&mut reactor, Instant::now(), |event, _| {
            if heard.len() % 64 == 0 {
                std::thread::sleep(Duration::from_millis(6)); // more than the budget
            }
            heard.push(common::Seen::from(event));
        });
        left.expect("a poller")
    };
    assert_eq!([frame(), frame(), frame(), frame()], [136, 72, 8, 0]);
    let numbers = heard.iter().map(|seen| match seen {
        common::Seen::Message(_, payload) => payload[0],
        other => panic!("{other:?}"),
    });
    assert!(numbers.eq(0..200));
}

mod client {
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use tickwire::{ConnId, Error, Event, Outbox, Reactor, Tick, Wait};

    /// A connection to a server that is taken up again whenever it is lost.
    pub struct Link {
        pub addr: SocketAddr,
        pub conn: Option<ConnId>,
        pub pause: Duration,
        pub retry_at: Instant,
    }

    impl Link {
        pub fn frame(
            &mut self,
            reactor: &mut Reactor,
            next_frame: Instant,
            mut hear: impl FnMut(&[u8], &mut Outbox<'_>),
        ) -> Result<(), Error> {
            if self.conn.is_none() && Instant::now() >= self.retry_at {
                let conn = reactor.connect(self.addr)?;
                let _ = reactor.outbox().send(conn, b"hello"); // waits until there is a connection
                self.conn = Some(conn);
            }
            let Tick { events, mut outbox, .. } = reactor.tick(Wait::Until(next_frame))?;
            for event in events {
                match event {
                    Event::Connected { .. } => self.pause = PAUSE_MIN,
                    Event::Message { payload, .. } => hear(payload, &mut outbox),
                    Event::Disconnected { reason, .. } => self.lost(&reason),
                    Event::ConnectFailed { reason, .. } => self.lost(&reason),
                    _ => {}
                }
            }
            Ok(())
        }

        fn lost(&mut self, reason: &dyn std::error::Error) {
            log::info!("{}: {reason}; next try in {:?}", self.addr, self.pause);
            self.conn = None;
            self.retry_at = Instant::now() + self.pause;
            // Add some chance to it, if thousands of clients may lose one server at a time.
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
    }

    pub const PAUSE_MIN: Duration = Duration::from_millis(250);
    const PAUSE_MAX: Duration = Duration::from_secs(30);
}

#[test]
fn a_client_comes_again() {
    let (mut first, addr) = server(Reactor::builder());
    let mut reactor = Reactor::new().expect("a poller");
    let (conn, pause, retry_at) = (None, client::PAUSE_MIN, Instant::now());
    let mut link = client::Link { addr, conn, pause, retry_at };
    let mut heard = Vec::new();
    let mut meet = |server: &mut Reactor, wanted: &[&[u8]]| {
        let deadline = Instant::now() + PATIENCE;
        while heard != wanted {
            let frame = Instant::now() + Duration::from_millis(5);
            link.frame(&mut reactor, frame, |payload, _| heard.push(payload.to_vec()))
                .expect("a poller");
            let Tick { events, mut outbox, .. } = server.tick(Wait::No).expect("a poller");
            events.for_each(|event| {
                if let tickwire::Event::Message { conn, payload } = event {
                    outbox.send(conn, payload).expect("it fits");
                }
            });
            assert!(Instant::now() < deadline, "{heard:?}");
        }
    };
    meet(&mut first, &[b"hello"]);
    drop(first);
    let mut second = Reactor::new().expect("a poller");
    second.listen(addr).expect("the port is free again");
    meet(&mut second, &[b"hello", b"hello"]);
}

mod end {
    use std::time::{Duration, Instant};

    use tickwire::{ConnMap, Error, Reactor, Wait};

    pub fn end(reactor: &mut Reactor, players: &ConnMap<()>) -> Result<(), Error> {
        reactor.outbox().broadcast(players.keys(), b"the server restarts");
        reactor.shutdown(Instant::now() + Duration::from_secs(2));
        while reactor.connections() > 0 {
            reactor.tick(Wait::Event(Duration::from_millis(100)))?.events.for_each(drop);
        }
        Ok(())
    }
}

#[test]
fn goodbyes_arrive() {
    let (mut reactor, addr) = server(Reactor::builder());
    let mut client = Client::connect(addr);
    let conn: ConnId = accept(&mut reactor);
    let client = std::thread::spawn(move || {
        assert_eq!(client.receive(), b"the server restarts");
        assert_eq!(client.read_to_end(), (Vec::new(), true));
    });
    end::end(&mut reactor, &[(conn, ())].into_iter().collect()).expect("a poller");
    client.join().expect("it was told");
}

//! The life of connections on sockets that do what the input says: every order of what peers, the system, the clock
//! and the game may do to one.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::Duration;

use tickwire::{Builder, ConnId, Error, Event, Framing, Outbox, Reactor, SendPolicy, Tick, Wait};

use super::input::Input;
use super::model::{Life, Rules, Stage};
use super::socket::{ADDR, End, FakeNet, Mood};
use super::twin::Twin;

pub fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    let mut play = Play::new(input);
    while !input.is_empty() && play.lives.len() < LIVES_MAX {
        play.act(input);
    }
    play.calm_down();
    play.end_all(input);
}

/// A reactor, its game, and what has to be true of both.
struct Play {
    reactor: Reactor<FakeNet>,
    rules: Rules,
    lives: Vec<Known>,
    is_shut: bool,
}

struct Known {
    life: Life,
    /// None for a connect that failed on the spot, and then why.
    socket: Result<usize, ErrorKind>,
}

impl Play {
    fn new(input: &mut Input<'_>) -> Play {
        let framing = input.pick(&[Framing::LengthPrefix, Framing::Telepathy]);
        let plain = Twin::Length { width: 4, little: false, offset: 0, strip: 4, adjustment: 0 };
        let timeout = |input: &mut Input<'_>| input.pick(&[None, Some(5 * MS), Some(60 * MS)]);
        let rules = Rules {
            twin: if framing == Framing::Telepathy { Twin::Telepathy } else { plain },
            frame_len_max: 40,
            send_queue_max: input.pick(&[1_000, 44, 100]),
            full_ends: input.bool(),
            connect: input.pick(&[100 * MS, 5 * MS]),
            close: input.pick(&[50 * MS, 5 * MS]),
            first_frame: timeout(input),
            frame: timeout(input),
            idle: timeout(input),
            write_stall: timeout(input),
        };
        let policy = if rules.full_ends { SendPolicy::Disconnect } else { SendPolicy::Error };
        let builder = Builder::new()
            .framing(framing)
            .frame_len_max(rules.frame_len_max)
            .batch_memory(64 << 10)
            .send_queue_max(rules.send_queue_max)
            .send_policy(policy)
            .read_quantum(input.pick(&[4_096, 3, 50]))
            .frame_quantum(input.pick(&[100, 1, 3]))
            .event_budget(input.pick(&[100, 1, 3]))
            .connect_timeout(rules.connect)
            .close_timeout(rules.close)
            .first_frame_timeout(rules.first_frame)
            .frame_timeout(rules.frame)
            .idle_timeout(rules.idle)
            .write_stall_timeout(rules.write_stall);
        let mut net = FakeNet::new(VecDeque::new());
        net.bare_edges = input.bool();
        let mut reactor = builder.build_on(net).expect("usable settings");
        reactor.listen(ADDR).expect("nobody else listens");
        Play { reactor, rules, lives: Vec::new(), is_shut: false }
    }

    /// One thing that happens.
    fn act(&mut self, input: &mut Input<'_>) {
        let what = input.below(20);
        match what {
            0..=3 => return self.tick(Wait::No, Some(input)),
            4 => return self.tick(Wait::Event(input.len() as u32 * MS / 4), Some(input)),
            5 => return self.reactor.flush(),
            6 => {
                self.reactor.net_mut().now += input.len() as u32 * MS / 4;
                return;
            }
            7 if !self.is_shut => return self.knock(),
            8 => return self.connect(input),
            9 => {
                let moods = (0..input.below(8)).map(|_| Mood::draw(input)).collect::<Vec<_>>();
                self.reactor.net_mut().moods.extend(moods);
                return;
            }
            10 if input.below(4) == 3 => return self.shutdown(input),
            _ => {}
        }
        if self.lives.is_empty() {
            return self.knock();
        }
        let whom = input.below(self.lives.len());
        let now = self.reactor.now();
        if what >= 16 {
            return self.act_as_game(whom, what, input);
        }
        let Ok(socket) = self.lives[whom].socket else { return };
        let socket = &mut self.reactor.net_mut().sockets[socket];
        match what {
            11 | 12 => {
                let payload = input.some_bytes();
                let frame = self.rules.twin.encode(&payload, self.rules.frame_len_max);
                let bytes = frame.filter(|_| what == 11).unwrap_or(payload);
                socket.arrive(&bytes[..bytes.len().min(1_000)]);
            }
            13 => {
                let end = input.pick(&[End::Fin, End::Failed(ErrorKind::ConnectionReset)]);
                let end = if input.below(4) == 3 { End::Failed(failure(input)) } else { end };
                socket.end(end);
                self.lives[whom].life.begin_ending(now);
            }
            14 => socket.give_room(input.len()),
            15 if input.below(4) == 3 => {
                socket.fail_sends(failure(input));
                self.lives[whom].life.begin_ending(now);
            }
            15 => socket.mislead(input),
            _ => {
                let outcome = if input.bool() { Ok(()) } else { Err(failure(input)) };
                socket.settle(outcome);
            }
        }
    }

    fn act_as_game(&mut self, whom: usize, what: usize, input: &mut Input<'_>) {
        let Some(conn) = self.lives[whom].life.conn else { return };
        match what {
            16 | 17 => {
                let payload = draw_payload(input);
                self.send(whom, conn, &payload);
            }
            18 => {
                let kick = input.below(4) == 3;
                let (now, mut outbox) = (self.reactor.now(), self.reactor.outbox());
                end(&mut self.lives[whom].life, &mut outbox, conn, now, kick);
            }
            _ => {
                let is_live = self.lives[whom].life.stage != Stage::Over;
                let mut outbox = self.reactor.outbox();
                let answer =
                    if input.bool() { outbox.pause_read(conn) } else { outbox.resume_read(conn) };
                assert_eq!(answer, is_live, "{:?}", self.lives[whom].life);
            }
        }
    }

    fn send(&mut self, whom: usize, conn: ConnId, payload: &[u8]) {
        let mut outbox = self.reactor.outbox();
        let queued = outbox.queued(conn);
        let answer = outbox.send(conn, payload);
        let Known { life, socket } = &mut self.lives[whom];
        let socket = socket.ok().map(|socket| &self.reactor.net().sockets[socket]);
        life.sent(&self.rules, socket, payload, queued, answer);
    }

    fn knock(&mut self) {
        if self.is_shut {
            return;
        }
        let now = self.reactor.now();
        let socket = self.reactor.net_mut().knock();
        self.lives.push(Known { life: Life::new(None, now), socket: Ok(socket) });
    }

    fn connect(&mut self, input: &mut Input<'_>) {
        let kind = (input.below(4) == 3).then(|| failure(input));
        let net = self.reactor.net_mut();
        net.connect_fails = kind;
        match self.reactor.connect("10.0.0.9:9") {
            Ok(conn) => {
                let net = self.reactor.net();
                let socket = kind.map_or_else(|| Ok(net.sockets.len() - 1), Err);
                self.lives.push(Known { life: Life::new(Some(conn), net.now), socket });
            }
            Err(Error::Shutdown) => {
                assert!(self.is_shut);
                self.reactor.net_mut().connect_fails = None;
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn shutdown(&mut self, input: &mut Input<'_>) {
        let now = self.reactor.now();
        let deadline = now + input.below(200) as u32 * MS;
        self.reactor.shutdown(deadline);
        self.is_shut = true;
        for known in &mut self.lives {
            known.life.shut(now, deadline);
        }
    }

    /// A tick, of which the game fetches all, or breaks off where the input says so, and to which it answers.
    fn tick(&mut self, wait: Wait, input: Option<&mut Input<'_>>) {
        let mut nothing = Input::new(&[]);
        let input = input.unwrap_or(&mut nothing);
        let Play { reactor, rules, lives, .. } = self;
        // The events borrow the reactor, and the model looks at its sockets; so what was heard is told afterwards.
        let mut heard = Vec::new();
        let mut answers = Vec::new();
        let Tick { events, mut outbox, .. } = reactor.tick(wait).expect("it works");
        for event in events {
            let conn = match event {
                Event::Connected { conn, .. }
                | Event::Message { conn, .. }
                | Event::Disconnected { conn, .. }
                | Event::ConnectFailed { conn, .. } => conn,
                other => panic!("{other:?}"),
            };
            heard.push(Heard::of(&event));
            match input.byte() % 16 {
                12 => {
                    let payload = draw_payload(input);
                    let queued = outbox.queued(conn);
                    let answer = outbox.send(conn, &payload);
                    answers.push((heard.len(), Answer::Sent { conn, payload, queued, answer }));
                }
                13 | 14 => {
                    // A neighbour, perhaps, of whom there is more in this batch.
                    let whom = input.pick(&[None, Some(0), Some(1)]);
                    let known = whom.and_then(|whom| lives.get(whom)?.life.conn);
                    let (conn, kick) = (known.unwrap_or(conn), input.bool());
                    let answer = if kick { outbox.kick(conn) } else { outbox.close(conn) };
                    answers.push((heard.len(), Answer::Ended { conn, kick, answer }));
                }
                15 => break,
                _ => {}
            }
        }
        let (net, now) = (reactor.net(), reactor.now());
        let mut answers = answers.into_iter().peekable();
        for (nth, heard) in heard.into_iter().enumerate() {
            heard.tell(rules, lives, net);
            while let Some((_, answer)) = answers.next_if(|(after, _)| *after == nth + 1) {
                answer.tell(rules, lives, net, now);
            }
        }
    }

    /// All that is owed comes about, if nothing stands in its way any more.
    fn calm_down(&mut self) {
        self.reactor.net_mut().moods.clear();
        for known in &self.lives {
            if let Some(conn) = known.life.conn {
                self.reactor.outbox().resume_read(conn);
            }
            if let Ok(socket) = known.socket {
                let socket = &mut self.reactor.net_mut().sockets[socket];
                socket.settle(Ok(()));
                socket.give_room(usize::MAX);
            }
        }
        self.run_until(|play| {
            let sockets = &play.reactor.net().sockets;
            play.lives.iter().all(|known| match known.socket {
                Ok(socket) => known.life.is_quiet(&play.rules, &sockets[socket]),
                Err(_) => known.life.stage == Stage::Over,
            })
        });
    }

    /// The game closes what is left. Some peers answer, the others are late.
    fn end_all(&mut self, input: &mut Input<'_>) {
        let now = self.reactor.now();
        for known in &mut self.lives {
            let Some(conn) = known.life.conn else { continue };
            let mut outbox = self.reactor.outbox();
            end(&mut known.life, &mut outbox, conn, now, false);
            if let (Ok(socket), 0) = (known.socket, input.byte()) {
                self.reactor.net_mut().sockets[socket].end(End::Fin);
            }
        }
        self.run_until(|play| play.reactor.connections() == 0);
        for known in &self.lives {
            let is_over = matches!(known.life.stage, Stage::Over | Stage::Unborn);
            assert!(is_over, "left: {:?}", known.life);
        }
        let sockets = &self.reactor.net().sockets;
        assert!(sockets.iter().all(|socket| socket.gone.is_some()), "sockets leak");
        let stats = self.reactor.stats();
        assert_eq!((stats.bytes_queued, stats.bytes_unfinished), (0, 0), "bytes of nobody");
    }

    fn run_until(&mut self, is_done: impl Fn(&Play) -> bool) {
        let unread: usize = self.reactor.net().sockets.iter().map(|socket| socket.unread()).sum();
        for _ in 0..2 * unread + 500 {
            if is_done(self) {
                return;
            }
            self.reactor.net_mut().now += MS;
            self.tick(Wait::No, None);
        }
        let lives: Vec<_> = self.lives.iter().map(|known| &known.life).collect();
        panic!("it never comes about: {lives:?}");
    }
}

/// An event that outlives its batch.
enum Heard {
    Connected { conn: ConnId, client: Option<usize> },
    Message { conn: ConnId, payload: Vec<u8> },
    Disconnected { conn: ConnId, reason: tickwire::DisconnectReason },
    ConnectFailed { conn: ConnId, reason: tickwire::ConnectFailure },
}

impl Heard {
    fn of(event: &Event<'_>) -> Heard {
        match *event {
            Event::Connected { conn, ref peer, listener, .. } => {
                let client = listener.map(|_| FakeNet::client(peer));
                Heard::Connected { conn, client }
            }
            Event::Message { conn, payload } => Heard::Message { conn, payload: payload.to_vec() },
            Event::Disconnected { conn, reason } => Heard::Disconnected { conn, reason },
            Event::ConnectFailed { conn, reason } => Heard::ConnectFailed { conn, reason },
            ref other => panic!("{other:?}"),
        }
    }

    fn tell(self, rules: &Rules, lives: &mut [Known], net: &FakeNet) {
        match self {
            Heard::Connected { conn, client: Some(client) } => {
                let known = lives.iter_mut().find(|known| known.socket == Ok(client));
                let Known { life, .. } = known.expect("it has knocked");
                assert_eq!(life.conn.replace(conn), None, "connected twice");
                life.connected(&net.sockets[client]);
            }
            Heard::Connected { conn, client: None } => {
                let Known { life, socket } = find(lives, conn);
                life.connected(&net.sockets[socket.expect("it has not failed")]);
            }
            Heard::Message { conn, payload } => {
                let Known { life, socket } = find(lives, conn);
                life.message(rules, &net.sockets[socket.expect("it has not failed")], &payload);
            }
            Heard::Disconnected { conn, reason } => {
                let Known { life, socket } = find(lives, conn);
                let socket = &net.sockets[socket.expect("it has not failed")];
                life.disconnected(rules, net.now, socket, reason);
            }
            Heard::ConnectFailed { conn, reason } => {
                let Known { life, socket } = find(lives, conn);
                let on_the_spot = socket.err();
                let socket = socket.ok().map(|socket| &net.sockets[socket]);
                let outcome = socket.and_then(|socket| socket.outcome()?.err()).or(on_the_spot);
                life.connect_failed(rules, net.now, outcome, socket, reason);
            }
        }
    }
}

/// What the game did in the middle of a batch.
enum Answer {
    Sent { conn: ConnId, payload: Vec<u8>, queued: usize, answer: Result<(), tickwire::SendError> },
    Ended { conn: ConnId, kick: bool, answer: bool },
}

impl Answer {
    fn tell(self, rules: &Rules, lives: &mut [Known], net: &FakeNet, now: std::time::Instant) {
        match self {
            Answer::Sent { conn, payload, queued, answer } => {
                let Known { life, socket } = find(lives, conn);
                let socket = socket.ok().map(|socket| &net.sockets[socket]);
                life.sent(rules, socket, &payload, queued, answer);
            }
            Answer::Ended { conn, kick, answer } => {
                find(lives, conn).life.close(now, kick, answer);
            }
        }
    }
}

fn find(lives: &mut [Known], conn: ConnId) -> &mut Known {
    let known = lives.iter_mut().find(|known| known.life.conn == Some(conn));
    known.expect("an id that nobody was given")
}

fn end(
    life: &mut Life,
    outbox: &mut Outbox<'_>,
    conn: ConnId,
    now: std::time::Instant,
    kick: bool,
) {
    let answer = if kick { outbox.kick(conn) } else { outbox.close(conn) };
    life.close(now, kick, answer);
}

fn draw_payload(input: &mut Input<'_>) -> Vec<u8> {
    vec![input.byte(); input.below(42)]
}

fn failure(input: &mut Input<'_>) -> ErrorKind {
    input.pick(&[
        ErrorKind::ConnectionReset,
        ErrorKind::BrokenPipe,
        ErrorKind::TimedOut,
        ErrorKind::ConnectionRefused,
        ErrorKind::HostUnreachable,
        ErrorKind::NetworkUnreachable,
        ErrorKind::AddrNotAvailable,
        ErrorKind::ConnectionAborted,
        ErrorKind::NotConnected,
    ])
}

const LIVES_MAX: usize = 12;
const MS: Duration = Duration::from_millis(1);

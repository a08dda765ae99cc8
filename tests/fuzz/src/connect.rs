//! Connecting out: to whom it may concern, to nobody, and to those who listen and never answer. Each attempt has one
//! outcome, in time and for a reason, and what was sent meanwhile arrives or is given up with it.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tickwire::sim::{Faults, SimWorld};
use tickwire::{
    Addr, Builder, ConnId, ConnectFailure, ConnectOptions, DisconnectReason, Error, ListenOptions,
    ListenerId, SendError, SendPolicy, Wait,
};

use super::harness::{CLIENT, Host, MS, SERVER, Seen, payload};
use super::input::Input;

pub fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    let mut play = Play::new(input);
    while !input.is_empty() && play.attempts.len() < ATTEMPTS_MAX {
        play.act(input);
    }
    play.end_all();
}

struct Play {
    world: SimWorld,
    client: Host,
    server: Host,
    listener: Option<ListenerId>,
    attempts: Vec<Attempt>,
    timeout: Duration,
    /// Whether a full queue ends its connection.
    full_ends: bool,
    faults: Faults,
    /// A listener was closed, with whoever waited there.
    was_deaf: bool,
    is_shut: bool,
    /// Bytes that may still be said.
    left: usize,
}

/// An attempt, and the connection that came of it.
#[derive(Debug)]
struct Attempt {
    target: Target,
    deadline: Instant,
    local: Option<Addr>,
    client: Side,
    /// As the server knows it, once it does.
    server: Option<Side>,
    reason: Option<DisconnectReason>,
}

#[derive(Debug)]
struct Side {
    conn: ConnId,
    stage: Stage,
    said: Vec<Vec<u8>>,
    heard: usize,
    /// It was closed or kicked, or sent more than its queue holds.
    was_ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// There is a listener, from time to time.
    Listener,
    /// The host is there, and nobody listens.
    Nobody,
    /// No such host.
    Nowhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Open,
    Over,
}

impl Side {
    fn new(conn: ConnId, stage: Stage) -> Side {
        Side { conn, stage, said: Vec::new(), heard: 0, was_ended: false }
    }
}

impl Play {
    fn new(input: &mut Input<'_>) -> Play {
        let full_ends = input.bool();
        let timeout = input.pick(&[100 * MS, 5 * MS, 2_000 * MS]);
        let common = || {
            Builder::new()
                .batch_memory(64 << 10)
                .frame_len_max(FRAME_LEN_MAX)
                .close_timeout(50 * MS)
        };
        let builder = common()
            .send_queue_max(input.pick(&[10_000, 204, 500]))
            .send_policy(if full_ends { SendPolicy::Disconnect } else { SendPolicy::Error })
            .connections_max(input.pick(&[100, 1, 3]))
            .event_budget(input.pick(&[1_000, 1, 3]))
            .connect_timeout(timeout);
        let faults = draw_faults(input);
        let world = SimWorld::new(input.u16().into(), Faults::default());
        world.set_faults_of(CLIENT, faults);
        let calm = Faults { descriptors_max: usize::MAX, ..faults };
        world.set_faults_of(SERVER, calm);
        let mut play = Play {
            client: Host::new(&world, CLIENT, builder),
            server: Host::new(&world, SERVER, common()),
            world,
            listener: None,
            attempts: Vec::new(),
            timeout,
            full_ends,
            faults,
            was_deaf: false,
            is_shut: false,
            left: 20_000,
        };
        play.listen(input);
        play
    }

    fn listen(&mut self, input: &mut Input<'_>) {
        let options = ListenOptions::new().backlog(input.below(4) as u32);
        let listener = self.server.reactor.listen_with((SERVER, 7777), &options);
        self.listener = Some(listener.expect("the port is free"));
    }

    // What happens.

    fn act(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0..=2 => {
                self.world.advance(input.len() as u32 * MS / 8);
                self.tick_client(Wait::No, usize::MAX);
                self.tick_server();
            }
            3 => {
                let fetched = 1 + input.below(3);
                self.tick_client(Wait::Event(input.below(20) as u32 * MS), fetched);
            }
            4..=6 => self.connect(input),
            7 | 8 => self.say(input),
            9 => self.end(input),
            10 => self.tick_server(),
            11 => match self.listener.take() {
                Some(listener) => {
                    assert!(self.server.reactor.close_listener(listener));
                    self.was_deaf = true;
                }
                None => self.listen(input),
            },
            12 => {
                // Clients wait in the backlog, and beyond it in vain.
                let Some(listener) = self.listener else { return };
                assert!(match input.bool() {
                    true => self.server.reactor.suspend_listener(listener),
                    false => self.server.reactor.resume_listener(listener),
                });
            }
            13 => match input.bool() {
                true => self.world.partition(SERVER, CLIENT),
                false => self.world.heal(SERVER, CLIENT),
            },
            14 if input.below(8) == 7 => {
                self.client.reactor.shutdown(self.world.now() + input.below(100) as u32 * MS);
                self.is_shut = true;
            }
            _ => self.client.reactor.flush(),
        }
    }

    fn connect(&mut self, input: &mut Input<'_>) {
        let (target, addr) = input.pick(&[
            (Target::Listener, (SERVER, 7777)),
            (Target::Listener, (SERVER, 7777)),
            (Target::Nobody, (SERVER, 7778)),
            (Target::Nowhere, (NOWHERE, 7777)),
        ]);
        let own = input.bool().then(|| input.len() as u32 * MS);
        let options = ConnectOptions::new();
        let options = own.map_or(options.clone(), |time| options.timeout(time));
        match self.client.reactor.connect_with(addr, &options) {
            Ok(conn) => self.attempts.push(Attempt {
                target,
                deadline: self.world.now() + own.unwrap_or(self.timeout),
                local: self.client.reactor.net().local_addr_of(conn),
                client: Side::new(conn, Stage::Connecting),
                server: None,
                reason: None,
            }),
            Err(Error::Shutdown) => assert!(self.is_shut),
            Err(Error::ConnectionsMax { limit }) => {
                assert_eq!(self.client.reactor.connections(), limit);
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// One side of some attempt, and its reactor.
    fn some_side(&mut self, input: &mut Input<'_>) -> Option<(&mut Host, &mut Side)> {
        let (nth, at_server) = (usize::from(input.byte()), input.bool());
        let nth = nth % self.attempts.len().max(1);
        let Attempt { client, server, .. } = self.attempts.get_mut(nth)?;
        match server {
            Some(server) if at_server => Some((&mut self.server, server)),
            _ => Some((&mut self.client, client)),
        }
    }

    fn say(&mut self, input: &mut Input<'_>) {
        let len = input.len().min(FRAME_LEN_MAX);
        let Some(left) = self.left.checked_sub(4 + len) else { return };
        self.left = left;
        let (is_shut, full_ends) = (self.is_shut, self.full_ends);
        let Some((host, side)) = self.some_side(input) else { return };
        let message = payload(left, len);
        match host.reactor.outbox().send(side.conn, &message) {
            Ok(()) => {
                assert!(side.stage != Stage::Over && !side.was_ended, "taken by {side:?}");
                side.said.push(message);
            }
            Err(SendError::Stale) => assert_eq!(side.stage, Stage::Over, "stale: {side:?}"),
            Err(SendError::Full) => side.was_ended |= full_ends,
            Err(SendError::Closing) => {
                // Of what has happened to an open connection, or to an attempt, the game may hear later.
                assert_ne!(side.stage, Stage::Over, "closing: {side:?}, {is_shut}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn end(&mut self, input: &mut Input<'_>) {
        let kick = input.bool();
        let Some((host, side)) = self.some_side(input) else { return };
        let mut outbox = host.reactor.outbox();
        let answer = if kick { outbox.kick(side.conn) } else { outbox.close(side.conn) };
        assert_eq!(answer, side.stage != Stage::Over, "the answer to an end: {side:?}");
        side.was_ended |= answer;
    }

    // What is heard.

    fn tick_client(&mut self, wait: Wait, fetched: usize) {
        let mut left = fetched;
        let seen = self.client.tick_while(wait, |_, _| {
            left -= 1;
            left > 0
        });
        for event in seen {
            let nth = self.attempts.iter().position(|attempt| attempt.client.conn == event.conn());
            self.client_saw(nth.expect("an id that nobody was given"), event);
        }
    }

    fn client_saw(&mut self, nth: usize, event: Seen) {
        let attempt = &mut self.attempts[nth];
        match event {
            Seen::Connected(_) => {
                assert_eq!(attempt.target, Target::Listener, "connected to nobody");
                attempt.client.stage = Stage::Open;
            }
            Seen::Message(_, heard) => {
                let Some(server) = &attempt.server else { panic!("nobody said this") };
                hear(&mut attempt.client, server, &heard);
            }
            Seen::Disconnected(_, reason) => {
                attempt.client.stage = Stage::Over;
                attempt.reason = Some(reason);
                let has_cause = match reason {
                    DisconnectReason::ClosedByUs | DisconnectReason::Kicked => {
                        attempt.client.was_ended
                    }
                    DisconnectReason::SendQueueFull => attempt.client.was_ended && self.full_ends,
                    DisconnectReason::Shutdown => self.is_shut,
                    DisconnectReason::Truncated
                    | DisconnectReason::BadFrame(_)
                    | DisconnectReason::FrameTooLarge { .. } => false,
                    _ => true, // what became of a connection that came about is another target's
                };
                assert!(has_cause, "{reason:?}: {attempt:?}");
            }
            Seen::ConnectFailed(_, reason) => {
                attempt.client.stage = Stage::Over;
                self.check_failure(nth, reason);
            }
            other => panic!("{other:?}"),
        }
    }

    fn check_failure(&self, nth: usize, reason: ConnectFailure) {
        let attempt = &self.attempts[nth];
        let Faults { connect_refused, connect_unavailable, descriptors_max, .. } = self.faults;
        let was_turned_away = self.was_deaf || attempt.server.is_some();
        let has_cause = match reason {
            ConnectFailure::Refused => {
                attempt.target == Target::Nobody
                    || attempt.target == Target::Listener && (connect_refused > 0 || self.was_deaf)
            }
            ConnectFailure::TimedOut => self.world.now() >= attempt.deadline,
            ConnectFailure::Unreachable => attempt.target == Target::Nowhere,
            ConnectFailure::AddrNotAvailable => connect_unavailable > 0,
            ConnectFailure::Cancelled => attempt.client.was_ended,
            ConnectFailure::Shutdown => self.is_shut,
            ConnectFailure::Io(ErrorKind::ConnectionReset) => was_turned_away,
            ConnectFailure::Io(_) => descriptors_max < usize::MAX,
            other => panic!("a reason that the target does not know: {other:?}"),
        };
        assert!(has_cause, "{reason:?} without a cause: {attempt:?}");
    }

    fn tick_server(&mut self) {
        for event in self.server.tick() {
            let conn = event.conn();
            if let Seen::Connected(_) = event {
                let peer = self.server.reactor.peer(conn);
                let nth = self.attempts.iter().position(|attempt| attempt.local == peer);
                let attempt = &mut self.attempts[nth.expect("nobody else connects")];
                assert_eq!(attempt.target, Target::Listener);
                let before = attempt.server.replace(Side::new(conn, Stage::Open));
                assert!(before.is_none(), "one attempt, and two connections");
                continue;
            }
            let is_it = |attempt: &&mut Attempt| {
                attempt.server.as_ref().is_some_and(|side| side.conn == conn)
            };
            let attempt = self.attempts.iter_mut().find(is_it).expect("it has connected");
            let Attempt { client, server: Some(server), .. } = attempt else { return };
            match event {
                Seen::Message(_, heard) => hear(server, client, &heard),
                Seen::Disconnected(..) => server.stage = Stage::Over,
                other => panic!("{other:?}"),
            }
        }
    }

    // The end.

    /// Every attempt has its outcome within its time, whatever the network does; then everybody leaves.
    fn end_all(&mut self) {
        let deadlines = self.attempts.iter().map(|attempt| attempt.deadline);
        let last = deadlines.max().unwrap_or(self.world.now());
        let is_pending = |attempt: &Attempt| attempt.client.stage == Stage::Connecting;
        while self.world.now() <= last && self.attempts.iter().any(is_pending) {
            self.world.advance(MS.max((last - self.world.now()) / 4));
            self.tick_client(Wait::No, usize::MAX);
        }
        // What was decided in time may have to wait for its place in a batch; and a moment is rounded up.
        for _ in 0..4 * self.attempts.len() + 4 {
            self.world.advance(MS);
            self.tick_client(Wait::No, usize::MAX);
        }
        for attempt in &self.attempts {
            assert!(!is_pending(attempt), "no outcome: {attempt:?}");
        }
        self.world.heal(SERVER, CLIENT);
        if let Some(listener) = self.listener {
            assert!(self.server.reactor.resume_listener(listener));
        }
        for _ in 0..ROUNDS {
            self.quiet_step();
        }
        for attempt in &mut self.attempts {
            if attempt.client.stage == Stage::Open {
                attempt.client.was_ended = true;
                assert!(self.client.reactor.outbox().close(attempt.client.conn));
            }
        }
        let is_over = |play: &Play| {
            let [client, server] = [&play.client, &play.server].map(|host| &host.reactor);
            client.connections() + server.connections() + play.world.backlog(SERVER) == 0
        };
        for _ in 0..100 * ROUNDS {
            if is_over(self) {
                break;
            }
            self.quiet_step();
        }
        assert!(is_over(self), "it never ends: {:?}", self.attempts);
        self.check_words();
        assert_eq!(self.world.open_sockets(CLIENT), 0, "sockets leak");
        let stats = self.client.reactor.stats();
        assert_eq!((stats.bytes_queued, stats.bytes_unfinished), (0, 0), "bytes of nobody");
    }

    fn quiet_step(&mut self) {
        self.world.advance(10 * MS);
        self.tick_client(Wait::No, usize::MAX);
        self.tick_server();
    }

    /// An end in order is one behind the last word, in both directions.
    fn check_words(&self) {
        for attempt in &self.attempts {
            let Attempt { client, server: Some(server), reason, .. } = attempt else { continue };
            if *reason == Some(DisconnectReason::ClosedByUs) && !server.was_ended {
                assert_eq!(server.heard, client.said.len(), "lost words: {attempt:?}");
            }
        }
    }
}

fn hear(listener: &mut Side, speaker: &Side, heard: &[u8]) {
    assert!(!listener.was_ended, "a message after the end was asked for: {listener:?}");
    let said = speaker.said.get(listener.heard);
    assert!(said.is_some_and(|said| said == heard), "{heard:?} was not said: {speaker:?}");
    listener.heard += 1;
}

/// What happens to connects, and some disorder beside it.
fn draw_faults(input: &mut Input<'_>) -> Faults {
    let mut faults = Faults { window: input.pick(&[256 << 10, 10]), ..Faults::default() };
    for _ in 0..input.below(6) {
        let rate = 3 * u32::from(input.byte());
        match input.below(10) {
            0 => faults.connect_refused = rate,
            1 => faults.connect_hangs = rate,
            2 => faults.connect_unavailable = rate,
            3 => faults.delay_max = rate / 25 * MS,
            4 => (faults.spurious, faults.partial) = (rate, rate / 2),
            5 => (faults.early, faults.shuffled) = (rate, rate),
            6 => (faults.send_blocked, faults.recv_blocked) = (rate / 2, rate / 2),
            7 => (faults.bare_edges, faults.recv_segments) = (true, true),
            8 => faults.late_max = rate / 100 * MS,
            _ => faults.descriptors_max = rate as usize % 5,
        }
    }
    faults
}

const NOWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 9, 9));
const FRAME_LEN_MAX: usize = 200;
const ATTEMPTS_MAX: usize = 24;
/// Steps after which all that is said has arrived: a few bytes each, at worst.
const ROUNDS: usize = 100;

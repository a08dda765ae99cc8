//! Whole reactors: the input is the game of a server and of a client, the raw peers beside them, and the network. What
//! must hold is the checker's to know, which the swarm of `tests/sim` has too.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use tickwire::sim::{Faults, RawPeer, SimNet, SimWorld};
use tickwire::{
    Addr, Builder, ConnId, EncodeError, Event, Framing, Handle, Outbox, Reactor, SendError,
    SendPolicy, Tick, Wait,
};

use super::checker::{Checker, HostIndex, WireIndex};
use super::harness::{CLIENT, MS, SERVER, frame, payload};
use super::input::Input;

pub fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    let mut story = Story::new(input);
    for _ in 0..ACTS_MAX {
        if input.is_empty() {
            break;
        }
        story.act(input);
    }
    story.calm_down();
    story.end_all(input);
    story.finish();
}

struct Story {
    world: SimWorld,
    addr: Addr,
    checker: Checker,
    settings: Settings,
    /// The server and the client.
    hosts: Vec<Player>,
    peers: Vec<RawPlayer>,
    talk: Talk,
    is_ending: bool,
}

/// A reactor and what its game knows.
struct Player {
    ip: IpAddr,
    reactor: Reactor<SimNet>,
    conns: Vec<ConnId>,
    past: Vec<ConnId>,
    handle: Option<Handle>,
    is_shut: bool,
}

/// A raw peer, and what it has yet to write.
struct RawPlayer {
    wire: WireIndex,
    peer: Option<RawPeer>,
    pending: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Settings {
    framing: Framing,
    frame_len_max: usize,
    send_queue_max: usize,
    event_budget: usize,
    frame_quantum: usize,
    read_quantum: usize,
    accept_budget: usize,
    connections_max: usize,
}

impl Settings {
    fn draw(input: &mut Input<'_>) -> Settings {
        let frame_len_max = input.pick(&[100, 1, 2_000, 20_000, 60_000]);
        let frame_len = 4 + frame_len_max;
        Settings {
            framing: input.pick(&[Framing::LengthPrefix, Framing::Telepathy]),
            frame_len_max,
            send_queue_max: input.pick(&[1 << 20, frame_len, 2 * frame_len + 5]),
            event_budget: input.pick(&[16_384, 1, 2, 50]),
            frame_quantum: input.pick(&[2_048, 1, 2, 100]),
            read_quantum: input.pick(&[128 << 10, 1, 7, 100, 4_096]),
            accept_budget: input.pick(&[256, 1, 2]),
            connections_max: input.pick(&[100, 1, 3]),
        }
    }

    /// The builder, and whether time-outs may end a connection at any moment.
    fn builder(&self, input: &mut Input<'_>) -> (Builder, bool) {
        let policy = input.pick(&[SendPolicy::Error, SendPolicy::Error, SendPolicy::Disconnect]);
        let mut builder = Builder::new()
            .framing(self.framing)
            .frame_len_max(self.frame_len_max)
            .batch_memory(64 << 10)
            .send_queue_max(self.send_queue_max)
            .event_budget(self.event_budget)
            .frame_quantum(self.frame_quantum)
            .read_quantum(self.read_quantum)
            .accept_budget(self.accept_budget)
            .connections_max(self.connections_max)
            .send_policy(policy)
            .shared_len_min(input.pick(&[8_192, 0, 50]))
            .connect_timeout(input.pick(&[500 * MS, 50 * MS, 2_000 * MS]))
            .close_timeout(input.pick(&[200 * MS, 20 * MS, 2_000 * MS]));
        if input.bool() {
            let high = input.len().min(self.send_queue_max);
            builder = builder.water_marks(high / 2, high);
        }
        let timeouts = input.byte();
        let timeout =
            |bit: u8, time: Duration| (timeouts & 3 == 3 && timeouts & bit > 0).then_some(time);
        let is_abrupt = timeouts & 3 == 3 && timeouts & 0x3c > 0;
        if is_abrupt {
            builder = builder
                .idle_timeout(timeout(4, 200 * MS))
                .first_frame_timeout(timeout(8, 50 * MS))
                .frame_timeout(timeout(16, 50 * MS))
                .write_stall_timeout(timeout(32, 100 * MS));
        }
        (builder, is_abrupt)
    }
}

impl Story {
    fn new(input: &mut Input<'_>) -> Story {
        let settings = Settings::draw(input);
        let world = SimWorld::new(input.u16().into(), Faults::default());
        let mut checker = Checker::default();
        let mut hosts = Vec::new();
        for ip in [SERVER, CLIENT] {
            let faults = draw_faults(input);
            world.set_faults_of(ip, faults);
            let (builder, is_abrupt) = settings.builder(input);
            let reactor = builder.build_on(world.host(ip)).expect("usable settings");
            checker.is_abrupt |= is_abrupt;
            let disorder = faults.resets + faults.accept_errors + faults.register_errors;
            checker.is_stormy |= is_abrupt || disorder > 0;
            let (conns, past, handle, is_shut) = (Vec::new(), Vec::new(), None, false);
            hosts.push(Player { ip, reactor, conns, past, handle, is_shut });
        }
        let listener = hosts[0].reactor.listen((SERVER, 7777)).expect("the port is free");
        let addr = hosts[0].reactor.local_addr(listener).expect("it listens");
        let talk = Talk {
            frame_len_max: settings.frame_len_max,
            messages_left: settings.event_budget.min(settings.frame_quantum).saturating_mul(200),
            bytes_left: settings.read_quantum.saturating_mul(200).min(200_000),
            said: 0,
        };
        let peers = Vec::new();
        Story { world, addr, checker, settings, hosts, peers, talk, is_ending: false }
    }

    // What happens.

    fn act(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0..=2 => {
                self.world.advance(input.below(20) as u32 * MS);
                for host in 0..self.hosts.len() {
                    self.tick(host, Wait::No, input);
                }
            }
            3 => {
                let (host, time) = (input.below(2), input.below(20) as u32 * MS);
                let until = Wait::Until(self.world.now() + time);
                let wait = input.pick(&[Wait::No, Wait::Event(time), until]);
                self.tick(host, wait, input);
            }
            4 if self.hosts[1].conns.len() + self.hosts[1].past.len() < 20 => self.connect(),
            5..=7 => self.say(input),
            8 => {
                let host = input.below(2);
                let kick = input.below(4) == 3;
                if let Some(conn) = self.some_conn(host, input) {
                    let mut outbox = self.hosts[host].reactor.outbox();
                    end(&mut self.checker, host, &mut outbox, conn, kick);
                }
            }
            9 => {
                let host = input.below(2);
                let pause = input.bool();
                if let Some(conn) = self.some_conn(host, input) {
                    let mut outbox = self.hosts[host].reactor.outbox();
                    assert!(if pause { outbox.pause_read(conn) } else { outbox.resume_read(conn) });
                }
            }
            10 => self.hosts[input.below(2)].reactor.flush(),
            11 => self.hand_in(input),
            12 if self.peers.len() < 8 => self.raw_connect(input),
            13 | 14 if !self.peers.is_empty() => {
                let nth = input.below(self.peers.len());
                self.act_as_raw(nth, input);
            }
            15 => match input.below(4) {
                0 => self.world.partition(SERVER, CLIENT),
                _ => self.world.heal(SERVER, CLIENT),
            },
            _ => {}
        }
    }

    fn some_conn(&self, host: HostIndex, input: &mut Input<'_>) -> Option<ConnId> {
        let conns = &self.hosts[host].conns;
        let nth = usize::from(input.byte()) % conns.len().max(1);
        conns.get(nth).copied()
    }

    fn connect(&mut self) {
        let player = &mut self.hosts[1];
        // It may be refused: the house is full.
        if let Ok(conn) = player.reactor.connect(&self.addr) {
            let local = player.reactor.net().local_addr_of(conn);
            self.checker.connecting(1, conn, local);
            player.conns.push(conn);
        }
    }

    fn say(&mut self, input: &mut Input<'_>) {
        let host = input.below(2);
        let way = input.below(8);
        let Some(conn) = self.some_conn(host, input) else { return };
        let Some(said) = self.talk.think(input) else { return };
        let Story { checker, hosts, settings, .. } = self;
        let Player { reactor, conns, past, .. } = &mut hosts[host];
        if way == 5 {
            return say_latest(checker, host, reactor, conn, input.below(3) as u32, &said);
        }
        let mut outbox = reactor.outbox();
        let answer = match way {
            0 => {
                broadcast(checker, host, &mut outbox, conns, &said, input.bool());
                return;
            }
            1 => outbox.send_with(conn, |writer| {
                let (one, other) = said.split_at(said.len() / 2);
                writer.put_slice(one);
                writer.put_slice(other);
            }),
            2 => {
                let given_up = outbox.try_send_with(conn, |writer| {
                    writer.put_slice(&said);
                    Err("changed my mind")
                });
                assert!(matches!(
                    given_up,
                    Err(EncodeError::Encode(_) | EncodeError::Send(SendError::Closing))
                ));
                outbox.send(conn, &said)
            }
            _ => outbox.send(conn, &said),
        };
        checker.sent(host, conn, &said, answer);
        assert!(outbox.queued(conn) <= settings.send_queue_max);
        for &past in past.iter() {
            assert_eq!(outbox.send(past, b"x"), Err(SendError::Stale), "{past} is over");
        }
    }

    /// Another thread's message, so to speak, and the tick that carries it out.
    fn hand_in(&mut self, input: &mut Input<'_>) {
        let host = input.below(2);
        let Some(conn) = self.some_conn(host, input) else { return };
        let Some(said) = self.talk.think(input) else { return };
        let player = &mut self.hosts[host];
        let reactor = &mut player.reactor;
        let handle =
            player.handle.get_or_insert_with(|| reactor.handle().expect("a simulated waker"));
        match handle.send(conn, said.clone()) {
            Ok(()) => {
                let before = reactor.stats().messages_refused;
                drop(reactor.tick(Wait::No).expect("a simulated poller works"));
                match reactor.stats().messages_refused - before {
                    0 => self.checker.handed_in(host, conn, said),
                    1 => {}
                    more => panic!("{more} messages refused, one handed in"),
                }
            }
            Err(SendError::Full | SendError::TooLarge) => {}
            Err(SendError::Stale) => {
                self.checker.sent(host, conn, &said, Err(SendError::Closing));
            }
            Err(other) => panic!("{other:?} from a handle"),
        }
    }

    fn tick(&mut self, host: HostIndex, wait: Wait, input: &mut Input<'_>) {
        let begin = self.world.now();
        let Story { checker, hosts, settings, talk, .. } = self;
        let player = &mut hosts[host];
        let accepted = player.reactor.stats().accepted;
        let tick = player.reactor.tick(wait).expect("a simulated poller works");
        let Tick { events, mut outbox, .. } = tick;
        let now = self.world.now();
        match wait {
            Wait::Until(moment) => assert!(now >= moment, "woke up early"),
            Wait::Event(time) if events.remaining() == 0 && player.handle.is_none() => {
                assert!(now >= begin + time, "gave up early");
            }
            _ => {}
        }
        assert!(events.remaining() <= settings.event_budget, "{}", events.remaining());
        for event in events {
            checker.saw(host, &event);
            match event {
                Event::Connected { conn, listener, .. } => {
                    if listener.is_some() {
                        player.conns.push(conn);
                    }
                    if self.is_ending {
                        end(checker, host, &mut outbox, conn, false);
                    }
                }
                Event::Disconnected { conn, .. } | Event::ConnectFailed { conn, .. } => {
                    player.conns.retain(|known| *known != conn);
                    player.past.push(conn);
                    assert_eq!(outbox.send(conn, b"x"), Err(SendError::Stale));
                }
                _ => {}
            }
            match input.byte() % 32 {
                28 => {
                    let nth = usize::from(input.byte()) % player.conns.len().max(1);
                    if let (Some(&conn), Some(said)) = (player.conns.get(nth), talk.think(input)) {
                        let answer = outbox.send(conn, &said);
                        checker.sent(host, conn, &said, answer);
                    }
                }
                29 | 30 => {
                    let nth = usize::from(input.byte()) % player.conns.len().max(1);
                    if let Some(&conn) = player.conns.get(nth) {
                        end(checker, host, &mut outbox, conn, input.bool());
                    }
                }
                31 => break,
                _ => {}
            }
        }
        let after = player.reactor.stats();
        assert!((after.accepted - accepted) as usize <= settings.accept_budget, "{wait:?}");
        assert!(after.connections <= settings.connections_max);
    }

    // Raw peers.

    fn raw_connect(&mut self, input: &mut Input<'_>) {
        let nth = 100 + self.peers.len() as u8;
        let peer = self.world.raw_connect([10, 0, 0, nth].into(), &self.addr);
        let wire = self.checker.raw_connecting(peer.local_addr());
        self.checker.raw(wire).deaf = input.below(4) == 3;
        self.peers.push(RawPlayer { wire, peer: Some(peer), pending: Vec::new() });
    }

    fn act_as_raw(&mut self, nth: usize, input: &mut Input<'_>) {
        let RawPlayer { wire, peer, pending } = &mut self.peers[nth];
        let raw = self.checker.raw(*wire);
        let Some(open) = peer else { return };
        let may_speak = !(raw.finished || raw.truncated || raw.lied);
        match input.below(12) {
            0..=3 if may_speak => {
                let Some(said) = self.talk.think(input) else { return };
                let is_fine = said.len() <= self.settings.frame_len_max
                    && !(said.is_empty() && self.settings.framing == Framing::Telepathy);
                if is_fine {
                    pending.extend(frame(&said));
                    self.checker.raw_said(*wire, &said);
                }
            }
            4 | 5 => {
                let len = input.len().min(pending.len());
                open.write(&pending[..len]);
                pending.drain(..len);
            }
            6 if !raw.deaf => {
                raw.heard.extend(open.read_at_most(input.len()));
                (raw.at_eof, raw.was_reset) = (open.is_eof(), open.is_reset());
            }
            7 if may_speak => {
                raw.finished = true;
                open.write(&std::mem::take(pending));
                open.shutdown_write();
            }
            8 if may_speak => {
                raw.truncated = true;
                pending.extend(&frame(b"?")[..4]);
                open.write(&std::mem::take(pending));
                open.shutdown_write();
            }
            9 if may_speak => {
                raw.lied = true;
                let is_empty = self.settings.framing == Framing::Telepathy && input.bool();
                let declared = self.settings.frame_len_max as u32 + 1;
                pending.extend(if is_empty { [0; 4] } else { declared.to_be_bytes() });
                pending.extend(input.some_bytes());
                open.write(&std::mem::take(pending));
            }
            10 => {
                raw.reset = true;
                peer.take().expect("it is open").reset();
            }
            11 if may_speak => {
                (raw.finished, raw.dropped) = (true, true);
                open.write(&std::mem::take(pending));
                *peer = None;
            }
            _ => {}
        }
    }

    // The end.

    /// Nothing new is begun; what is under way has to come to its end by itself.
    fn calm_down(&mut self) {
        for player in &mut self.hosts {
            for &conn in &player.conns {
                assert!(player.reactor.outbox().resume_read(conn));
            }
        }
        self.world.heal(SERVER, CLIENT);
        self.run_until(|story| story.checker.is_quiet(), "never gets quiet");
    }

    /// Everybody leaves.
    fn end_all(&mut self, input: &mut Input<'_>) {
        self.is_ending = true;
        self.world.advance(50 * MS); // whoever is still on the way arrives first
        for (host, player) in self.hosts.iter_mut().enumerate() {
            if input.below(4) == 3 {
                player.reactor.shutdown(self.world.now() + input.len() as u32 * MS / 4);
                player.is_shut = true;
                self.checker.shut(host);
                continue;
            }
            for &conn in &player.conns {
                let mut outbox = player.reactor.outbox();
                end(&mut self.checker, host, &mut outbox, conn, input.below(4) == 3);
            }
        }
        let is_over = |story: &Story| {
            let is_empty = |player: &Player| player.reactor.connections() == 0;
            story.hosts.iter().all(is_empty) && story.world.backlog(SERVER) == 0
        };
        self.run_until(is_over, "never ends");
        self.world.advance(1_000 * MS); // and the last words arrive
        self.quiet_step();
    }

    fn run_until(&mut self, is_done: impl Fn(&Story) -> bool, problem: &str) {
        for _ in 0..10_000 {
            if is_done(self) {
                return;
            }
            self.quiet_step();
        }
        let known: Vec<_> = self.hosts.iter().map(|host| host.reactor.connections()).collect();
        panic!("{problem}, connections {known:?}: {:?}", self.checker.restless());
    }

    fn quiet_step(&mut self) {
        for RawPlayer { wire, peer, pending } in &mut self.peers {
            let Some(open) = peer else { continue };
            open.write(&std::mem::take(pending));
            let raw = self.checker.raw(*wire);
            if !raw.deaf {
                raw.heard.extend(open.read());
                (raw.at_eof, raw.was_reset) = (open.is_eof(), open.is_reset());
            }
            // A raw peer leaves once the server has.
            if self.is_ending && (open.is_eof() || open.is_reset()) {
                *peer = None;
            }
        }
        self.world.advance(10 * MS);
        for host in 0..self.hosts.len() {
            self.tick(host, Wait::No, &mut Input::new(&[]));
        }
    }

    fn finish(self) {
        self.checker.check_all_over();
        for (host, player) in self.hosts.iter().enumerate() {
            let listeners = usize::from(host == 0 && !player.is_shut);
            assert_eq!(self.world.open_sockets(player.ip), listeners, "sockets leak");
            let stats = player.reactor.stats();
            assert_eq!((stats.bytes_queued, stats.bytes_unfinished), (0, 0), "bytes of nobody");
        }
        drop(self.hosts);
        assert_eq!(self.world.open_sockets(SERVER), 0);
    }
}

/// What is said, while there is anything left to be said.
struct Talk {
    frame_len_max: usize,
    messages_left: usize,
    bytes_left: usize,
    said: usize,
}

impl Talk {
    fn think(&mut self, input: &mut Input<'_>) -> Option<Vec<u8>> {
        let len = match input.len() {
            31 => self.frame_len_max,
            32 => self.frame_len_max + 1,
            len => len.min(self.frame_len_max),
        };
        self.bytes_left = self.bytes_left.checked_sub(4 + len)?;
        self.messages_left = self.messages_left.checked_sub(1)?;
        self.said += 1;
        Some(payload(self.said, len))
    }
}

fn say_latest(
    checker: &mut Checker,
    host: HostIndex,
    reactor: &mut Reactor<SimNet>,
    conn: ConnId,
    kind: u32,
    said: &[u8],
) {
    let before = reactor.stats().messages_superseded;
    let answer = reactor.outbox().send_latest(conn, kind, said);
    match reactor.stats().messages_superseded - before {
        0 => {}
        1 => checker.superseded(host, conn, kind),
        more => panic!("{more} superseded by one"),
    }
    checker.sent(host, conn, said, answer);
    if answer.is_ok() {
        checker.is_latest(host, conn, kind);
    }
}

fn broadcast(
    checker: &mut Checker,
    host: HostIndex,
    outbox: &mut Outbox<'_>,
    conns: &[ConnId],
    said: &[u8],
    shared: bool,
) {
    let broadcast = match shared {
        true => outbox.broadcast_bytes(conns, &Bytes::copy_from_slice(said)),
        false => outbox.broadcast(conns, said),
    };
    assert_eq!(broadcast.sent + broadcast.refused.len(), conns.len());
    for &conn in conns {
        let refused = broadcast.refused.iter().find(|(refused, _)| *refused == conn);
        let answer = refused.map_or(Ok(()), |(_, error)| Err(*error));
        checker.sent(host, conn, said, answer);
    }
}

fn end(checker: &mut Checker, host: HostIndex, outbox: &mut Outbox<'_>, conn: ConnId, kick: bool) {
    let answer = if kick { outbox.kick(conn) } else { outbox.close(conn) };
    checker.closed(host, conn, kick, answer);
}

/// Which faults a host has, and how bad they are: bad enough to be met, and not so bad that nothing gets through.
fn draw_faults(input: &mut Input<'_>) -> Faults {
    let mut faults = Faults {
        window: input.pick(&[256 << 10, 10, 100, 4_096]),
        bare_edges: input.bool(),
        ..Faults::default()
    };
    for _ in 0..input.below(8) {
        let rate = 2 * u32::from(input.byte());
        let fault = match input.below(26) {
            0 => &mut faults.recv_short,
            1 => &mut faults.recv_one_byte,
            2 => &mut faults.recv_interrupted,
            3 => &mut faults.recv_blocked,
            4 => &mut faults.drained_unknown,
            5 => &mut faults.send_short,
            6 => &mut faults.send_one_byte,
            7 => &mut faults.send_interrupted,
            8 => &mut faults.send_blocked,
            9 => &mut faults.send_shortage,
            10 => &mut faults.accept_interrupted,
            11 => &mut faults.accept_blocked,
            12 => &mut faults.accept_errors,
            13 => &mut faults.accept_shortage,
            14 => &mut faults.register_errors,
            15 => &mut faults.connect_refused,
            16 => &mut faults.connect_hangs,
            17 => &mut faults.connect_unavailable,
            18 => &mut faults.spurious,
            19 => &mut faults.partial,
            20 => &mut faults.shuffled,
            21 => &mut faults.early,
            22 => &mut faults.reset_overtakes,
            23 => {
                faults.resets = rate / 16;
                continue;
            }
            24 => {
                faults.delay_max = rate / 25 * MS;
                continue;
            }
            _ => {
                faults.recv_segments = true;
                faults.call_time_max = Duration::from_micros(rate.into());
                continue;
            }
        };
        *fault = rate;
    }
    if input.below(8) == 7 {
        faults.descriptors_max = 2 + input.below(3); // the listener needs one
    }
    faults
}

const ACTS_MAX: usize = 1_000;

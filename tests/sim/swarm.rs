//! Random reactors with random settings, doing random things on a random network: each seed is one
//! story, and the same story every time.
//!
//! `TICKWIRE_SEEDS=N cargo test --release --test sim swarm` tells N of them,
//! `TICKWIRE_SEED=S cargo test --test sim swarm` that one again, with `RUST_LOG=trace` in detail.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tickwire::sim::{RawPeer, Rng, SimNet, SimWorld};
use tickwire::{
    Addr, ConnId, EncodeError, Event, Framing, Handle, Outbox, Reactor, SendError, Tick, Wait,
};

use crate::checker::{Checker, HostIndex, WireIndex};
use crate::harness::{MS, SERVER, frame};
use crate::plan::{Plan, Settings};

/// Seeds that once found a bug. They are told first, for ever; a change to what a seed draws makes
/// other stories of them, so each bug has a scenario of its own, too.
///
/// 756, 812: a half-closed connection that ended before its last message was fetched.
const REGRESSIONS: &[u64] = &[756, 812];

const SEEDS: u64 = 1_000;

#[test]
fn swarm() {
    if let Some(seed) = number("TICKWIRE_SEED") {
        let _ = env_logger::try_init();
        println!("seed {seed}: {:#?}", Plan::of(seed));
        println!("{:#?}", tell(seed).1);
        return;
    }
    let seeds = number("TICKWIRE_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let tally = Mutex::new(Tally::new());
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let known = REGRESSIONS.get(nth as usize).copied();
                    let seed = known.unwrap_or(nth - REGRESSIONS.len().min(nth as usize) as u64);
                    if nth >= REGRESSIONS.len() as u64 + seeds {
                        return;
                    }
                    let (_, told) = tell_or_name(seed);
                    let mut tally = tally.lock().expect("no thread fails while it counts");
                    for (kind, count) in told {
                        *tally.entry(kind).or_default() += count;
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().expect("no thread fails while it counts");
    println!("{tally:#?}");
    for kind in [
        "Connected",
        "Message",
        "Disconnected ClosedByPeer",
        "Disconnected Reset",
        "Disconnected TimedOut",
        "Disconnected ClosedByUs",
        "Disconnected CloseDeadline",
        "Disconnected Kicked",
        "Disconnected FrameTooLarge",
        "Disconnected BadFrame",
        "Disconnected Truncated",
        "Disconnected SendQueueFull",
        "ConnectFailed Refused",
        "ConnectFailed TimedOut",
        "ConnectFailed AddrNotAvailable",
        "ConnectFailed Cancelled",
        "Disconnected Shutdown",
        "Disconnected Idle",
        "Disconnected FirstFrame",
        "Disconnected FrameDeadline",
        "Disconnected WriteStall",
        "Disconnected MemoryLimit",
        "SendQueueHigh",
        "SendQueueLow",
    ] {
        let told = tally.get(kind).copied().unwrap_or(0);
        assert!(told > 0 || seeds < SEEDS, "the stories are too dull: no {kind}");
    }
}

#[test]
fn a_story_can_be_told_again_bit_by_bit() {
    for seed in 0..40 {
        assert_eq!(tell_or_name(seed), tell_or_name(seed), "seed {seed}");
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

fn tell_or_name(seed: u64) -> (u64, Tally) {
    catch_unwind(AssertUnwindSafe(|| tell(seed))).unwrap_or_else(|panic| {
        eprintln!("seed {seed} fails; again: TICKWIRE_SEED={seed} cargo test --test sim swarm");
        resume_unwind(panic)
    })
}

/// How many events of each kind there were.
type Tally = BTreeMap<String, usize>;

/// One story from its beginning to its end. Answers with the hash of all that happened.
fn tell(seed: u64) -> (u64, Tally) {
    let mut story = Story::new(seed);
    for _ in 0..story.plan.steps {
        story.act();
        story.step();
    }
    story.calm_down();
    story.end_all();
    story.finish()
}

struct Story {
    plan: Plan,
    rng: Rng,
    world: SimWorld,
    addr: Addr,
    checker: Checker,
    /// The server, and then the clients.
    hosts: Vec<Player>,
    peers: Vec<RawPlayer>,
    messages_left: usize,
    bytes_left: usize,
    /// Whether new things are begun.
    is_lively: bool,
    /// Whether whoever connects is turned away again.
    is_ending: bool,
}

/// A reactor and what its game knows.
struct Player {
    ip: IpAddr,
    reactor: Reactor<SimNet>,
    settings: Settings,
    conns: Vec<ConnId>,
    past: Vec<ConnId>,
    /// Paused, with nothing of theirs in the batch.
    paused: Vec<ConnId>,
    was_all_fetched: bool,
    /// Asked for when it is first used, in the middle of the story.
    handle: Option<Handle>,
    /// What was handed in from outside and not carried out yet: one message at most.
    handed_in: Option<(ConnId, Vec<u8>)>,
    is_shut: bool,
}

/// A raw peer, and what it has yet to write.
struct RawPlayer {
    wire: WireIndex,
    peer: Option<RawPeer>,
    pending: Vec<u8>,
}

impl Story {
    fn new(seed: u64) -> Story {
        let plan = Plan::of(seed);
        let world = SimWorld::new(seed, plan.client_faults);
        world.set_faults_of(SERVER, plan.server_faults);
        let player = |ip: IpAddr, settings: &Settings| {
            let builder = settings.builder();
            Player {
                ip,
                handle: None,
                reactor: builder.build_on(world.host(ip)).expect("usable settings"),
                settings: settings.clone(),
                conns: Vec::new(),
                past: Vec::new(),
                paused: Vec::new(),
                was_all_fetched: true,
                handed_in: None,
                is_shut: false,
            }
        };
        let mut hosts = vec![player(SERVER, &plan.server)];
        hosts.extend((1..=plan.clients).map(|nth| player(client_ip(nth), &plan.client)));
        let listener = hosts[0].reactor.listen((SERVER, 7777)).expect("the port is free");
        let addr = hosts[0].reactor.local_addr(listener).expect("it listens");
        let mut checker = Checker::default();
        for faults in [&plan.server_faults, &plan.client_faults] {
            let disorder = faults.resets + faults.accept_errors + faults.register_errors;
            checker.is_stormy |= disorder > 0;
        }
        checker.is_abrupt = plan.server.enders.are_any() || plan.client.enders.are_any();
        checker.is_stormy |= checker.is_abrupt;
        Story {
            rng: Rng::new(seed),
            world,
            addr,
            checker,
            hosts,
            peers: Vec::new(),
            messages_left: plan.messages,
            bytes_left: plan.bytes,
            is_lively: true,
            is_ending: false,
            plan,
        }
    }

    // --- what the games and peers do ------------------------------------------------------------

    fn act(&mut self) {
        for host in 0..self.hosts.len() {
            if self.rng.chance(self.plan.talk) {
                self.act_as_game(host);
            }
        }
        if self.peers.len() < self.plan.raw_peers && self.rng.chance(200) {
            self.raw_connect();
        }
        for peer in 0..self.peers.len() {
            if self.rng.chance(self.plan.talk) {
                self.act_as_raw(peer);
            }
        }
        if self.rng.chance(self.plan.partition) {
            let client = client_ip(self.rng.between(1, self.plan.clients));
            match self.rng.chance(300) {
                true => self.world.partition(SERVER, client),
                false => self.world.heal(SERVER, client),
            }
        }
    }

    fn act_as_game(&mut self, host: HostIndex) {
        let player = &mut self.hosts[host];
        let may_connect = host > 0 && player.conns.len() + player.past.len() < 40;
        if may_connect && self.rng.chance(if player.conns.is_empty() { 800 } else { 100 }) {
            // It may be refused: the house is full.
            if let Ok(conn) = player.reactor.connect(&self.addr) {
                let local = player.reactor.net().local_addr_of(conn);
                self.checker.connecting(host, conn, local);
                player.conns.push(conn);
            }
        }
        for _ in 0..self.rng.between(0, 6) {
            let player = &mut self.hosts[host];
            if player.conns.is_empty() {
                break;
            }
            let conn = *self.rng.pick(&player.conns);
            let by_handle = player.handed_in.is_none() && self.rng.chance(self.plan.by_handle);
            if by_handle && player.handle.is_none() {
                player.handle = Some(player.reactor.handle().expect("a simulated waker"));
            }
            let mut outbox = player.reactor.outbox();
            let talk = &mut Talk {
                rng: &mut self.rng,
                checker: &mut self.checker,
                host,
                frame_len_max: player.settings.frame_len_max,
                messages_left: &mut self.messages_left,
                bytes_left: &mut self.bytes_left,
            };
            let handle = player.handle.as_ref().filter(|_| by_handle);
            match talk.rng.below(10) {
                _ if handle.is_some() => player.handed_in = talk.hand_in(handle, conn),
                _ if talk.rng.chance(self.plan.latest) => {
                    talk.say_latest(&mut player.reactor, conn);
                    outbox = player.reactor.outbox();
                }
                0 => talk.broadcast(&mut outbox, &player.conns),
                _ => talk.say(&mut outbox, conn),
            }
            assert!(outbox.queued(conn) <= player.settings.send_queue_max);
            for (often, kick) in [(self.plan.close, false), (self.plan.kick, true)] {
                if talk.rng.chance(often) {
                    talk.end(&mut outbox, conn, kick);
                }
            }
        }
        self.pause_or_resume(host);
        let player = &mut self.hosts[host];
        if let Some(&conn) = player.past.last() {
            let mut outbox = player.reactor.outbox();
            let answer = outbox.send(conn, b"x");
            assert_eq!(answer, Err(SendError::Stale), "{conn} is over");
        }
        if self.rng.chance(200) {
            player.reactor.flush();
        }
    }

    fn pause_or_resume(&mut self, host: HostIndex) {
        let player = &mut self.hosts[host];
        if player.conns.is_empty() || !self.rng.chance(self.plan.pause) {
            return;
        }
        let conn = *self.rng.pick(&player.conns);
        let mut outbox = player.reactor.outbox();
        if self.rng.chance(500) {
            assert!(outbox.pause_read(conn));
            if player.was_all_fetched {
                player.paused.push(conn);
            }
        } else {
            assert!(outbox.resume_read(conn));
            player.paused.retain(|paused| *paused != conn);
        }
    }

    fn raw_connect(&mut self) {
        let nth = 100 + self.peers.len() as u8;
        let peer = self.world.raw_connect([10, 0, 0, nth].into(), &self.addr);
        let wire = self.checker.raw_connecting(peer.local_addr());
        self.checker.raw(wire).deaf = self.rng.chance(200);
        self.peers.push(RawPlayer { wire, peer: Some(peer), pending: Vec::new() });
    }

    fn act_as_raw(&mut self, nth: usize) {
        self.write_some(nth);
        self.read_some(nth);
        let player = &mut self.peers[nth];
        let raw = self.checker.raw(player.wire);
        if player.peer.is_none() || raw.finished || raw.truncated || raw.lied {
            return;
        }
        match self.rng.below(self.plan.raw_patience) {
            0 => {
                raw.finished = true;
                self.write_all(nth);
                self.peer(nth).shutdown_write();
            }
            1 => {
                raw.truncated = true;
                player.pending.extend(&frame(b"?")[..4]);
                self.write_all(nth);
                self.peer(nth).shutdown_write();
            }
            2 => {
                raw.lied = true;
                let declared = self.plan.server.frame_len_max as u32 + 1;
                let is_empty = self.plan.server.framing == Framing::Telepathy && nth % 2 == 0;
                let header = if is_empty { [0; 4] } else { declared.to_be_bytes() };
                player.pending.extend(header);
                self.write_all(nth);
            }
            3 => {
                raw.reset = true;
                if let Some(peer) = player.peer.take() {
                    peer.reset();
                }
            }
            4 => {
                raw.finished = true;
                raw.dropped = true;
                self.write_all(nth);
                self.peers[nth].peer = None;
            }
            _ => {
                let talk = &mut Talk {
                    rng: &mut self.rng,
                    checker: &mut self.checker,
                    host: 0,
                    frame_len_max: self.plan.server.frame_len_max,
                    messages_left: &mut self.messages_left,
                    bytes_left: &mut self.bytes_left,
                };
                for _ in 0..talk.rng.between(0, 3) {
                    let Some(payload) = talk.think() else { continue };
                    let is_fine = payload.len() <= self.plan.server.frame_len_max
                        && !(payload.is_empty() && self.plan.server.framing == Framing::Telepathy);
                    if is_fine {
                        talk.checker.raw_said(player.wire, &payload);
                        player.pending.extend(frame(&payload));
                    }
                }
            }
        }
    }

    fn peer(&mut self, nth: usize) -> &mut RawPeer {
        self.peers[nth].peer.as_mut().expect("it has not ended")
    }

    fn write_some(&mut self, nth: usize) {
        let RawPlayer { peer: Some(peer), pending, .. } = &mut self.peers[nth] else { return };
        for _ in 0..self.rng.between(0, 3) {
            let len = self.rng.between(0, pending.len());
            peer.write(&pending[..len]);
            pending.drain(..len);
        }
    }

    fn write_all(&mut self, nth: usize) {
        let RawPlayer { peer: Some(peer), pending, .. } = &mut self.peers[nth] else { return };
        peer.write(pending);
        pending.clear();
    }

    fn read_some(&mut self, nth: usize) {
        let RawPlayer { peer: Some(peer), wire, .. } = &mut self.peers[nth] else { return };
        let raw = self.checker.raw(*wire);
        if raw.deaf {
            return;
        }
        let bytes = match self.is_lively {
            true => peer.read_at_most(self.rng.between(0, 5_000)),
            false => peer.read(),
        };
        raw.heard.extend(bytes);
        raw.at_eof = peer.is_eof();
        raw.was_reset = peer.is_reset();
    }

    // --- time goes on ---------------------------------------------------------------------------

    fn step(&mut self) {
        // When nothing new is said, time may run: a byte at a time takes its time.
        let most = if self.is_lively { self.plan.step_max } else { 20 * MS };
        let time = self.rng.duration(Duration::ZERO, most);
        self.world.advance(time);
        let mut order: Vec<HostIndex> = (0..self.hosts.len()).collect();
        self.rng.shuffle(&mut order);
        for host in order {
            // Some games have a slow frame now and then.
            if !self.rng.chance(50) {
                self.tick(host);
            }
        }
    }

    /// A tick of which nothing is fetched, to learn whether what was handed in was taken.
    fn carry_out(&mut self, host: HostIndex) {
        let player = &mut self.hosts[host];
        let Some((conn, payload)) = player.handed_in.take() else { return };
        let before = player.reactor.stats();
        drop(player.reactor.tick(Wait::No).expect("a simulated poller works"));
        let after = player.reactor.stats();
        player.was_all_fetched = false;
        match after.messages_refused - before.messages_refused {
            0 => self.checker.handed_in(host, conn, payload),
            1 => {}
            more => panic!("{more} messages refused, one handed in"),
        }
    }

    fn tick(&mut self, host: HostIndex) {
        let begin = self.world.now();
        let time = self.rng.duration(Duration::ZERO, 20 * MS);
        let wait = match self.rng.below(20) {
            0 => Wait::Until(begin + time),
            1 => Wait::Event(time),
            _ => Wait::No,
        };
        self.carry_out(host);
        let player = &mut self.hosts[host];
        let before = player.reactor.stats();
        let Tick { events, mut outbox, .. } =
            player.reactor.tick(wait).expect("a simulated poller works");
        let now = self.world.now();
        match wait {
            Wait::Until(moment) => assert!(now >= moment, "woke up early"),
            Wait::Event(time) if events.remaining() == 0 => {
                assert!(now >= begin + time, "gave up early");
            }
            _ => {}
        }
        assert!(events.remaining() <= player.settings.event_budget, "{}", events.remaining());
        let talk = &mut Talk {
            rng: &mut self.rng,
            checker: &mut self.checker,
            host,
            frame_len_max: player.settings.frame_len_max,
            messages_left: &mut self.messages_left,
            bytes_left: &mut self.bytes_left,
        };
        let mut messages: Vec<ConnId> = Vec::new();
        let mut is_broken_off = false;
        for event in events {
            talk.checker.saw(host, &event);
            match event {
                Event::Connected { conn, listener, .. } => {
                    if listener.is_some() {
                        player.conns.push(conn);
                    }
                    if self.is_ending {
                        let kick = talk.rng.chance(300);
                        talk.end(&mut outbox, conn, kick);
                    }
                }
                Event::Message { conn, payload } => {
                    messages.push(conn);
                    assert!(!player.paused.contains(&conn), "{conn} is paused");
                    if self.is_lively && talk.rng.chance(self.plan.echo) {
                        talk.echo(&mut outbox, conn, payload);
                    }
                    for (often, kick) in [(self.plan.close, false), (self.plan.kick, true)] {
                        if self.is_lively && talk.rng.chance(often) {
                            let whom = *talk.rng.pick(&player.conns);
                            talk.end(&mut outbox, whom, kick);
                        }
                    }
                }
                Event::Disconnected { conn, .. } | Event::ConnectFailed { conn, .. } => {
                    player.conns.retain(|known| *known != conn);
                    player.past.push(conn);
                    assert_eq!(outbox.send(conn, b"x"), Err(SendError::Stale));
                }
                _ => {}
            }
            if talk.rng.chance(self.plan.break_off) {
                is_broken_off = true;
                break;
            }
        }
        let after = player.reactor.stats();
        let accepted = (after.accepted - before.accepted) as usize;
        assert!(accepted <= player.settings.accept_budget, "{accepted} accepted, {wait:?}");
        assert!(player.reactor.connections() <= player.settings.connections_max);
        let queue_max = player.settings.send_queue_max;
        assert!(
            after.bytes_queued <= queue_max * (after.connections + 1),
            "{}",
            after.bytes_queued
        );
        if player.was_all_fetched {
            messages.sort_unstable();
            let most = messages.chunk_by(|one, other| one == other).map(<[_]>::len).max();
            assert!(most.unwrap_or(0) <= player.settings.frame_quantum, "{most:?} of one peer");
        }
        player.was_all_fetched = !is_broken_off;
    }

    // --- the end --------------------------------------------------------------------------------

    /// Nothing new is begun; what is under way has to come to its end by itself.
    fn calm_down(&mut self) {
        self.is_lively = false;
        for player in &mut self.hosts {
            player.paused.clear();
            for &conn in &player.conns {
                assert!(player.reactor.outbox().resume_read(conn));
            }
        }
        for nth in 1..=self.plan.clients {
            self.world.heal(SERVER, client_ip(nth));
        }
        self.run_until(|story| story.checker.is_quiet(), "never gets quiet");
    }

    /// Everybody leaves.
    fn end_all(&mut self) {
        self.is_ending = true;
        // Whoever is still on the way arrives first.
        self.world.advance(50 * MS);
        for (host, player) in self.hosts.iter_mut().enumerate() {
            if self.rng.chance(self.plan.shutdown) {
                let time = self.rng.duration(Duration::ZERO, 3_000 * MS);
                player.reactor.shutdown(self.world.now() + time);
                player.is_shut = true;
                self.checker.shut(host);
                continue;
            }
            for &conn in &player.conns {
                let mut outbox = player.reactor.outbox();
                let kick = self.rng.chance(300);
                let answer = if kick { outbox.kick(conn) } else { outbox.close(conn) };
                self.checker.closed(host, conn, kick, answer);
            }
        }
        // Whoever still waits to be accepted comes and goes, too.
        self.run_until(
            |story| {
                let is_empty = |player: &Player| player.reactor.connections() == 0;
                story.hosts.iter().all(is_empty) && story.world.backlog(SERVER) == 0
            },
            "never ends",
        );
        // And the last words arrive.
        self.world.advance(1_000 * MS);
        self.quiet_step();
    }

    fn run_until(&mut self, is_done: impl Fn(&Story) -> bool, problem: &str) {
        for _ in 0..10_000 {
            if is_done(self) {
                return;
            }
            self.quiet_step();
        }
        let known: Vec<usize> = self.hosts.iter().map(|host| host.reactor.connections()).collect();
        panic!("{problem}, connections {known:?}: {:?}", self.checker.restless());
    }

    fn quiet_step(&mut self) {
        for nth in 0..self.peers.len() {
            self.write_all(nth);
            self.read_some(nth);
            // A raw peer leaves once the server has.
            let player = &mut self.peers[nth];
            let is_done = player.peer.as_ref().is_some_and(|peer| peer.is_eof() || peer.is_reset());
            if is_done && self.is_ending {
                player.peer = None;
            }
        }
        self.step();
    }

    fn finish(self) -> (u64, Tally) {
        self.checker.check_all_over();
        for (host, player) in self.hosts.iter().enumerate() {
            let listeners = usize::from(host == 0 && !player.is_shut);
            assert_eq!(self.world.open_sockets(player.ip), listeners, "sockets leak");
            let stats = player.reactor.stats();
            assert_eq!((stats.bytes_queued, stats.bytes_unfinished), (0, 0), "bytes of nobody");
            for &conn in &player.past {
                assert!(self.checker.is_over(host, conn));
            }
        }
        drop(self.hosts);
        assert_eq!(self.world.open_sockets(SERVER), 0);
        (self.world.trace_hash(), self.checker.tally)
    }
}

/// What a game needs for saying something.
struct Talk<'a> {
    rng: &'a mut Rng,
    checker: &'a mut Checker,
    host: HostIndex,
    frame_len_max: usize,
    messages_left: &'a mut usize,
    bytes_left: &'a mut usize,
}

impl Talk<'_> {
    /// Something to say, while there is anything left to be said.
    fn think(&mut self) -> Option<Vec<u8>> {
        let most = self.frame_len_max.min(*self.bytes_left);
        let len = match self.rng.below(10) {
            0 => 0,
            1 => 1,
            2 if self.rng.chance(100) => most,
            3 if self.rng.chance(300) => self.frame_len_max + 1,
            4 => self.rng.between(0, most.min(2_000)),
            _ => self.rng.between(0, most.min(50)),
        };
        if len > self.frame_len_max {
            return Some(vec![0; len]); // never leaves
        }
        *self.bytes_left = self.bytes_left.checked_sub(4 + len)?;
        *self.messages_left = self.messages_left.checked_sub(1)?;
        let mut payload = vec![0; len];
        self.rng.fill(&mut payload);
        Some(payload)
    }

    fn say(&mut self, outbox: &mut Outbox<'_>, conn: ConnId) {
        let Some(payload) = self.think() else { return };
        let answer = match self.rng.below(4) {
            0 => outbox.send_with(conn, |writer| {
                let (one, other) = payload.split_at(payload.len() / 2);
                writer.put_slice(one);
                writer.put_slice(other);
            }),
            1 => {
                let given_up = outbox.try_send_with(conn, |writer| {
                    writer.put_slice(&payload);
                    Err("changed my mind")
                });
                assert!(matches!(
                    given_up,
                    Err(EncodeError::Encode(_)
                        | EncodeError::Send(SendError::Stale | SendError::Closing))
                ));
                outbox.send(conn, &payload)
            }
            _ => outbox.send(conn, &payload),
        };
        self.checker.sent(self.host, conn, &payload, answer);
    }

    fn say_latest(&mut self, reactor: &mut Reactor<SimNet>, conn: ConnId) {
        let Some(payload) = self.think() else { return };
        let kind = self.rng.below(3) as u32;
        let before = reactor.stats().messages_superseded;
        let answer = reactor.outbox().send_latest(conn, kind, &payload);
        match reactor.stats().messages_superseded - before {
            0 => {}
            1 => self.checker.superseded(self.host, conn, kind),
            more => panic!("{more} superseded by one"),
        }
        self.checker.sent(self.host, conn, &payload, answer);
        if answer.is_ok() {
            self.checker.is_latest(self.host, conn, kind);
        }
    }

    /// Gives a message to another thread to send, so to speak.
    fn hand_in(&mut self, handle: Option<&Handle>, conn: ConnId) -> Option<(ConnId, Vec<u8>)> {
        let handle = handle?;
        let payload = self.think()?;
        match handle.send(conn, payload.clone()) {
            Ok(()) => Some((conn, payload)),
            Err(SendError::Full | SendError::TooLarge) => None,
            Err(SendError::Stale) => {
                self.checker.sent(self.host, conn, &payload, Err(SendError::Closing));
                None
            }
            Err(other) => panic!("{other:?} from a handle"),
        }
    }

    fn echo(&mut self, outbox: &mut Outbox<'_>, conn: ConnId, payload: &[u8]) {
        // Only what was itself said within the budget comes back, and no echo is echoed.
        if self.host == 0 {
            let answer = outbox.send(conn, payload);
            self.checker.sent(self.host, conn, payload, answer);
        }
    }

    fn broadcast(&mut self, outbox: &mut Outbox<'_>, conns: &[ConnId]) {
        let Some(payload) = self.think() else { return };
        let shared = self.rng.chance(500);
        let broadcast = match shared {
            true => outbox.broadcast_bytes(conns, &Bytes::from(payload.clone())),
            false => outbox.broadcast(conns, &payload),
        };
        assert_eq!(broadcast.sent + broadcast.refused.len(), conns.len());
        for &conn in conns {
            let refused = broadcast.refused.iter().find(|(refused, _)| *refused == conn);
            let answer = refused.map_or(Ok(()), |(_, error)| Err(*error));
            self.checker.sent(self.host, conn, &payload, answer);
        }
    }

    fn end(&mut self, outbox: &mut Outbox<'_>, conn: ConnId, kick: bool) {
        let answer = if kick { outbox.kick(conn) } else { outbox.close(conn) };
        self.checker.closed(self.host, conn, kick, answer);
    }
}

fn client_ip(nth: usize) -> IpAddr {
    [10, 0, 0, 1 + nth as u8].into()
}

//! One story: servers, clients and raw peers do what the plan of a seed says, while the checker watches.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tickwire::sim::{Faults, Rng, SimNet, SimWorld};
use tickwire::{Addr, ConnId, Event, Handle, ListenerId, Reactor, SendError, Stats, Tick, Wait};

use crate::checker::{Checker, HostIndex};
use crate::harness::{MS, SECOND, SERVER};
use crate::peers::Peers;
use crate::plan::{Plan, Settings};
use crate::talk::{Errand, Speaker, Talk, fail, survives};

/// How many events of each kind there were.
pub(crate) type Tally = BTreeMap<String, usize>;

pub(crate) struct Story {
    plan: Plan,
    world: SimWorld,
    talk: Talk,
    /// Where the servers listen.
    addrs: Vec<Addr>,
    /// The servers, and then the clients.
    hosts: Vec<Player>,
    peers: Peers,
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
    faults: Faults,
    listener: Option<ListenerId>,
    is_suspended: bool,
    conns: Vec<ConnId>,
    /// Those that it began itself.
    outgoing: Vec<ConnId>,
    past: Vec<ConnId>,
    /// Paused.
    paused: Vec<ConnId>,
    /// Paused with nothing of theirs in the batch.
    silenced: Vec<ConnId>,
    was_all_fetched: bool,
    /// For how many ticks a connection has had a message in its socket.
    waits: HashMap<ConnId, usize>,
    /// Since when a connection takes no messages, and how many ticks ago that should have been its end.
    shut_since: HashMap<ConnId, (Option<Instant>, usize)>,
    /// Asked for when it is first used, in the middle of the story.
    handle: Option<Handle>,
    /// What was handed in from outside and not carried out yet: one thing at most.
    handed_in: Option<Errand>,
    is_woken: bool,
    /// Its process stands still until then.
    frozen_until: Instant,
    is_shut: bool,
}

impl Story {
    pub(crate) fn new(seed: u64) -> Story {
        let plan = Plan::of(seed);
        let world = SimWorld::new(seed, plan.client_faults);
        for nth in 0..plan.servers.len() {
            world.set_faults_of(server_ip(nth), plan.server_faults);
        }
        let player = |ip: IpAddr, settings: &Settings, faults: Faults| Player {
            ip,
            reactor: settings.builder().build_on(world.host(ip)).expect("usable settings"),
            settings: settings.clone(),
            faults,
            listener: None,
            is_suspended: false,
            conns: Vec::new(),
            outgoing: Vec::new(),
            past: Vec::new(),
            paused: Vec::new(),
            silenced: Vec::new(),
            was_all_fetched: true,
            waits: HashMap::new(),
            shut_since: HashMap::new(),
            handle: None,
            handed_in: None,
            is_woken: false,
            frozen_until: world.now(),
            is_shut: false,
        };
        let mut hosts: Vec<Player> = Vec::new();
        let mut addrs = Vec::new();
        for (nth, settings) in plan.servers.iter().enumerate() {
            let mut server = player(server_ip(nth), settings, plan.server_faults);
            let listener = server.reactor.listen((server.ip, PORT)).expect("the port is free");
            addrs.push(server.reactor.local_addr(listener).expect("it listens"));
            server.listener = Some(listener);
            hosts.push(server);
        }
        hosts.extend(
            (0..plan.clients).map(|nth| player(client_ip(nth), &plan.client, plan.client_faults)),
        );
        let mut checker = Checker::default();
        for faults in [&plan.server_faults, &plan.client_faults] {
            let disorder = faults.resets + faults.accept_errors + faults.register_errors;
            checker.is_stormy |= disorder > 0;
        }
        let settings = || plan.servers.iter().chain([&plan.client]);
        checker.is_abrupt = settings().any(|settings| settings.enders.are_any());
        checker.is_stormy |= checker.is_abrupt || plan.relisten > 0;
        let (messages_left, bytes_left) = (plan.messages, plan.bytes);
        Story {
            world,
            talk: Talk { rng: Rng::new(seed), checker, messages_left, bytes_left },
            addrs,
            hosts,
            peers: Peers::default(),
            is_lively: true,
            is_ending: false,
            plan,
        }
    }

    /// From the beginning to the end. What it comes to: a hash over all that happened, and the events by kind.
    pub(crate) fn tell(mut self) -> (u64, Tally) {
        for _ in 0..self.plan.steps {
            self.act();
            self.step();
        }
        self.calm_down();
        if self.talk.rng.chance(self.plan.silence) {
            self.keep_silence();
        }
        self.look_idle();
        self.end_all();
        self.finish()
    }

    // --- what the games and peers do ------------------------------------------------------------

    fn act(&mut self) {
        for host in 0..self.hosts.len() {
            let is_awake = self.hosts[host].frozen_until <= self.world.now();
            if is_awake && self.talk.rng.chance(self.plan.talk) {
                self.act_as_game(host);
            }
        }
        if self.peers.len() < self.plan.raw_peers && self.talk.rng.chance(200) {
            let to = self.talk.rng.pick(&self.addrs);
            self.peers.connect(&mut self.talk, &self.world, to);
        }
        for peer in 0..self.peers.len() {
            if self.talk.rng.chance(self.plan.talk) {
                self.peers.act(peer, &mut self.talk, &self.plan);
            }
        }
        if self.talk.rng.chance(self.plan.partition) {
            let server = server_ip(self.talk.rng.below(self.plan.servers.len()));
            let client = client_ip(self.talk.rng.below(self.plan.clients));
            match self.talk.rng.chance(300) {
                true => self.world.partition(server, client),
                false => self.world.heal(server, client),
            }
        }
        if self.talk.rng.chance(self.plan.relisten) {
            let server = self.talk.rng.below(self.plan.servers.len());
            self.relisten(server);
        }
        if self.talk.rng.chance(self.plan.freeze) {
            let time = self.talk.rng.duration(Duration::ZERO, self.plan.freeze_max);
            match self.talk.rng.chance(700) {
                true => {
                    let host = self.talk.rng.below(self.hosts.len());
                    self.hosts[host].frozen_until = self.world.now() + time.min(SECOND);
                }
                false => self.world.advance(time),
            }
        }
    }

    fn relisten(&mut self, server: HostIndex) {
        let player = &mut self.hosts[server];
        match player.listener {
            Some(listener) if self.talk.rng.chance(500) => {
                assert!(player.reactor.close_listener(listener));
                assert!(!player.reactor.close_listener(listener), "it was closed");
                player.listener = None;
            }
            Some(listener) => {
                player.is_suspended = !player.is_suspended;
                assert!(match player.is_suspended {
                    true => player.reactor.suspend_listener(listener),
                    false => player.reactor.resume_listener(listener),
                });
            }
            None => player.listen_again(),
        }
    }

    fn act_as_game(&mut self, host: HostIndex) {
        self.connect_somewhere(host);
        let talk = &mut self.talk;
        for _ in 0..talk.rng.between(0, 6) {
            let player = &mut self.hosts[host];
            if player.conns.is_empty() {
                break;
            }
            let by = Speaker { host, settings: &player.settings };
            let conn = *talk.rng.pick(&player.conns);
            if talk.rng.chance(self.plan.by_handle) {
                if player.handle.is_none() {
                    player.handle = Some(player.reactor.handle().expect("a simulated waker"));
                }
                let handle = player.handle.as_ref().expect("it was made");
                if talk.rng.chance(300) {
                    assert!(handle.wake());
                    player.is_woken = true;
                } else if player.handed_in.is_none() {
                    player.handed_in = talk.hand_in(by, handle, conn, self.plan.close);
                }
            } else if talk.rng.chance(self.plan.latest) {
                talk.say_latest(by, &mut player.reactor, conn);
            } else {
                let mut outbox = player.reactor.outbox();
                match talk.rng.below(10) {
                    0 => talk.broadcast(by, &mut outbox, &player.conns),
                    1 if talk.rng.chance(self.plan.panic) => talk.stammer(&mut outbox, conn),
                    _ => talk.say(by, &mut outbox, conn),
                }
            }
            let mut outbox = player.reactor.outbox();
            assert!(outbox.queued(conn) <= player.settings.send_queue_max);
            for (often, kick) in [(self.plan.close, false), (self.plan.kick, true)] {
                if talk.rng.chance(often) {
                    talk.end(host, &mut outbox, conn, kick);
                }
            }
        }
        self.pause_or_resume(host);
        let player = &mut self.hosts[host];
        if !player.past.is_empty() {
            let conn = *self.talk.rng.pick(&player.past);
            let mut outbox = player.reactor.outbox();
            assert_eq!(outbox.send(conn, b"x"), Err(SendError::Stale), "{conn} is over");
            assert!(!outbox.close(conn) && !outbox.kick(conn) && !outbox.pause_read(conn));
        }
        if self.talk.rng.chance(200) {
            player.reactor.flush();
        }
    }

    /// Clients connect to servers, and servers to each other, now and then.
    fn connect_somewhere(&mut self, host: HostIndex) {
        let player = &mut self.hosts[host];
        let is_server = host < self.addrs.len();
        if player.conns.len() + player.past.len() >= 40 || is_server && self.addrs.len() == 1 {
            return;
        }
        let often = match player.conns.is_empty() {
            _ if is_server => 20,
            true => 800,
            false => 100,
        };
        let to = self.talk.rng.below(self.addrs.len());
        if to == host || !self.talk.rng.chance(often) {
            return;
        }
        // It may be refused: the house is full.
        if let Ok(conn) = player.reactor.connect(&self.addrs[to]) {
            let local = player.reactor.net().local_addr_of(conn);
            self.talk.checker.connecting(host, conn, local);
            player.conns.push(conn);
            player.outgoing.push(conn);
        }
    }

    fn pause_or_resume(&mut self, host: HostIndex) {
        let player = &mut self.hosts[host];
        if player.conns.is_empty() || !self.talk.rng.chance(self.plan.pause) {
            return;
        }
        let conn = *self.talk.rng.pick(&player.conns);
        let mut outbox = player.reactor.outbox();
        if self.talk.rng.chance(500) {
            assert!(outbox.pause_read(conn));
            player.paused.push(conn);
            if player.was_all_fetched {
                player.silenced.push(conn);
            }
        } else {
            assert!(outbox.resume_read(conn));
            player.paused.retain(|paused| *paused != conn);
            player.silenced.retain(|paused| *paused != conn);
        }
        player.waits.clear();
    }

    // --- time goes on ---------------------------------------------------------------------------

    fn step(&mut self) {
        // When nothing new is said, time may run: a byte at a time takes its time.
        let most = if self.is_lively { self.plan.step_max } else { 20 * MS };
        let time = self.talk.rng.duration(Duration::ZERO, most);
        self.world.advance(time);
        let mut order: Vec<HostIndex> = (0..self.hosts.len()).collect();
        self.talk.rng.shuffle(&mut order);
        for host in order {
            // Some games have a slow frame now and then.
            if self.hosts[host].frozen_until <= self.world.now() && !self.talk.rng.chance(50) {
                self.tick(host);
            }
        }
    }

    /// A tick of which nothing is fetched, to learn whether what was handed in was taken.
    fn carry_out(&mut self, host: HostIndex) {
        let player = &mut self.hosts[host];
        let Some(errand) = player.handed_in.take() else { return };
        let before = player.reactor.stats();
        self.talk.checker.next_turn(host);
        drop(player.reactor.tick(Wait::No).expect("a simulated poller works"));
        let after = player.reactor.stats();
        (player.was_all_fetched, player.is_woken) = (false, false);
        let checker = &mut self.talk.checker;
        match (errand, after.messages_refused - before.messages_refused) {
            (Errand::Send(conn, payload), 0) => checker.handed_in(host, conn, payload),
            (Errand::Send(..), 1) => {}
            (Errand::Close(conn), 0) => checker.closed_from_outside(host, conn, false),
            (Errand::Kick(conn), 0) => checker.closed_from_outside(host, conn, true),
            (_, refused) => panic!("{refused} messages refused"),
        }
    }

    fn tick(&mut self, host: HostIndex) {
        let begin = self.world.now();
        let time = self.talk.rng.duration(Duration::ZERO, 20 * MS);
        let wait = match self.talk.rng.below(20) {
            0 => Wait::Until(begin + time),
            1 => Wait::Event(time),
            _ => Wait::No,
        };
        self.carry_out(host);
        let wait = if self.hosts[host].is_woken { Wait::Event(60 * SECOND) } else { wait };
        self.tick_with(host, wait);
    }

    fn tick_with(&mut self, host: HostIndex, wait: Wait) {
        let begin = self.world.now();
        let Story { plan, world, talk, addrs, hosts, peers, is_lively, is_ending } = self;
        let player = &mut hosts[host];
        let due = player.due(&talk.checker, host);
        let before = player.reactor.stats();
        talk.checker.next_turn(host);
        let Tick { events, mut outbox, .. } =
            player.reactor.tick(wait).expect("a simulated poller works");
        let now = world.now();
        let was_woken = std::mem::take(&mut player.is_woken);
        match wait {
            Wait::Until(moment) => assert!(now >= moment, "woke up early"),
            Wait::Event(_) if was_woken => assert!(now < begin + SECOND, "slept on"),
            Wait::Event(time) if events.remaining() == 0 => {
                assert!(now >= begin + time, "gave up early");
            }
            Wait::Event(_) => {}
            Wait::No => {
                let is_exact = (player.faults.late_max + player.faults.call_time_max).is_zero();
                assert!(!is_exact || now == begin, "waited although it should not");
            }
        }
        assert!(events.remaining() <= player.settings.event_budget, "{}", events.remaining());
        let by = Speaker { host, settings: &player.settings };
        let is_server = host < addrs.len();
        let mut messages: Vec<ConnId> = Vec::new();
        let mut is_broken_off = false;
        let survived = survives(|| {
            for event in events {
                talk.checker.saw(host, &event);
                match event {
                    Event::Connected { conn, listener, .. } => {
                        if listener.is_some() {
                            player.conns.push(conn);
                        }
                        if *is_ending {
                            let kick = talk.rng.chance(300);
                            talk.end(host, &mut outbox, conn, kick);
                        }
                    }
                    Event::Message { conn, payload } => {
                        messages.push(conn);
                        assert!(!player.silenced.contains(&conn), "{conn} is paused");
                        // Only what was itself said within the budget comes back, and no echo is echoed.
                        let is_asked = is_server && !player.outgoing.contains(&conn);
                        if is_asked && *is_lively && talk.rng.chance(plan.echo) {
                            talk.echo(by, &mut outbox, conn, payload);
                        }
                    }
                    Event::Disconnected { conn, .. } | Event::ConnectFailed { conn, .. } => {
                        player.conns.retain(|known| *known != conn);
                        player.past.push(conn);
                        assert_eq!(outbox.send(conn, b"x"), Err(SendError::Stale));
                    }
                    _ => {}
                }
                for (often, kick) in [(plan.close, false), (plan.kick, true)] {
                    if *is_lively && !player.conns.is_empty() && talk.rng.chance(often) {
                        let whom = *talk.rng.pick(&player.conns);
                        talk.end(host, &mut outbox, whom, kick);
                    }
                }
                if *is_lively && talk.rng.chance(plan.meddle) {
                    meddle(world, talk, peers, plan, addrs);
                }
                if *is_lively && talk.rng.chance(plan.panic) {
                    fail();
                }
                if talk.rng.chance(plan.break_off) {
                    is_broken_off = true;
                    break;
                }
            }
        });
        is_broken_off |= !survived;
        let after = player.reactor.stats();
        player.check_bounds(wait, &before, &after);
        messages.sort_unstable();
        if player.was_all_fetched {
            let most = messages.chunk_by(|one, other| one == other).map(<[_]>::len).max();
            assert!(most.unwrap_or(0) <= player.settings.frame_quantum, "{most:?} of one peer");
        }
        player.check_fairness(&due, &messages);
        player.was_all_fetched = !is_broken_off;
        // Where last events do not have to queue for long.
        let is_prompt = plan.break_off + plan.panic == 0 && player.settings.event_budget >= 50;
        if is_prompt && !player.is_shut {
            player.check_ends(now);
        }
        for &conn in &messages {
            if talk.checker.is_over(host, conn) {
                player.waits.remove(&conn);
            }
        }
    }

    // --- the end --------------------------------------------------------------------------------

    /// Nothing new is begun; what is under way has to come to its end by itself.
    fn calm_down(&mut self) {
        self.is_lively = false;
        for (host, player) in self.hosts.iter_mut().enumerate() {
            player.frozen_until = self.world.now();
            player.paused.clear();
            player.silenced.clear();
            player.waits.clear();
            for &conn in &player.conns {
                assert!(player.reactor.outbox().resume_read(conn));
            }
            if let Some(listener) = player.listener {
                player.is_suspended = false;
                assert!(player.reactor.resume_listener(listener));
            } else if host < self.addrs.len() {
                player.listen_again();
            }
        }
        for server in 0..self.plan.servers.len() {
            for client in 0..self.plan.clients {
                self.world.heal(server_ip(server), client_ip(client));
            }
        }
        let is_calm = |story: &mut Story| story.talk.checker.is_quiet() && story.are_marks_told();
        self.run_until(is_calm, "never gets quiet");
    }

    /// Whether every game knows whose queue is short again.
    fn are_marks_told(&mut self) -> bool {
        self.hosts.iter_mut().enumerate().all(|(host, player)| {
            let Some((low, _)) = player.settings.water_marks else { return true };
            player.conns.iter().all(|&conn| {
                !self.talk.checker.is_high(host, conn) || player.reactor.outbox().queued(conn) > low
            })
        })
    }

    /// Nobody says anything, until every deadline has passed: who had one must be gone.
    fn keep_silence(&mut self) {
        let mut doomed = Vec::new();
        for (host, player) in self.hosts.iter_mut().enumerate() {
            let enders = player.settings.enders;
            for &conn in &player.conns {
                let checker = &self.talk.checker;
                let is_client = player.outgoing.contains(&conn);
                let is_stuck = checker.is_stuck(host, conn);
                // The last half of a frame may drip in for long, and is no silence.
                let idle = enders.idle.filter(|_| !is_stuck);
                let is_mute = !is_client && !checker.has_heard(host, conn);
                let mute = enders.first_frame.filter(|_| is_mute);
                let late = enders.frame.filter(|_| is_stuck);
                let queued = player.reactor.outbox().queued(conn);
                let stalled = enders.write_stall.filter(|_| queued > 0);
                // Nobody is blamed for what the server itself reads a few bytes at a time.
                let is_behind = is_stuck && player.settings.read_quantum < 4_096;
                let read = [idle, mute, late].into_iter().flatten().min();
                match read.filter(|_| !is_behind) {
                    Some(time) => doomed.push((host, conn, time, None)),
                    None => doomed.extend(stalled.map(|time| (host, conn, time, Some(queued)))),
                }
            }
        }
        // A socket that is looked at in vain when its time is up is given more.
        for player in &self.hosts {
            self.world.set_faults_of(player.ip, player.quiet_faults());
        }
        doomed.sort_by_key(|(_, _, time, _)| *time);
        let begin = self.world.now();
        let known: Vec<_> = self.hosts.iter().map(|host| host.reactor.connections()).collect();
        for (host, conn, time, before) in doomed {
            // A few ticks later this is noticed, and as many as there are events to be told it is heard of.
            let told = SECOND * known[host] as u32;
            while self.world.now() < begin + time + 4 * SECOND + told {
                self.world.advance(500 * MS);
                self.quiet_step();
            }
            let player = &mut self.hosts[host];
            let queued = player.reactor.outbox().queued(conn);
            // A server may read its first bytes only now that it has room for this client.
            let moves = before.is_some_and(|before| queued < before);
            let is_over = self.talk.checker.is_over(host, conn) || moves;
            let enders = player.settings.enders;
            assert!(
                is_over,
                "{conn} of host {host} outlives its deadline, {queued} queued: {enders:?}"
            );
        }
        for player in &self.hosts {
            self.world.set_faults_of(player.ip, player.faults);
        }
        self.run_until(|story| story.talk.checker.is_quiet(), "never gets quiet again");
    }

    /// While nothing happens, nobody wakes up but for a timer, or to see whether descriptors are still short.
    fn look_idle(&mut self) {
        for host in 0..self.hosts.len() {
            self.carry_out(host);
            let player = &mut self.hosts[host];
            self.world.set_faults_of(player.ip, player.quiet_faults());
            let known = player.conns.len() + player.past.len();
            let before = player.reactor.net().counts();
            self.tick_with(host, Wait::Event(2 * SECOND));
            let after = self.hosts[host].reactor.net().counts();
            let waits = after.waits - before.waits;
            // Somebody's last half of a frame may still drip in.
            let brought = after.bytes_received - before.bytes_received;
            let most = (2_000 / 50 + 10 + 5 * known) as u64 + 2 * brought;
            assert!(waits <= most, "{waits} wakes of {most}, {known} known");
            let faults = self.hosts[host].faults;
            self.world.set_faults_of(self.hosts[host].ip, faults);
        }
    }

    /// Everybody leaves.
    fn end_all(&mut self) {
        self.is_ending = true;
        // Whoever is still on the way arrives first.
        self.world.advance(50 * MS);
        for (host, player) in self.hosts.iter_mut().enumerate() {
            if self.talk.rng.chance(self.plan.shutdown) {
                let time = self.talk.rng.duration(Duration::ZERO, 3_000 * MS);
                player.reactor.shutdown(self.world.now() + time);
                player.is_shut = true;
                self.talk.checker.shut(host);
                continue;
            }
            for &conn in &player.conns {
                let kick = self.talk.rng.chance(300);
                self.talk.end(host, &mut player.reactor.outbox(), conn, kick);
            }
        }
        // Whoever still waits to be accepted comes and goes, too.
        self.run_until(
            |story| {
                let is_empty = |player: &Player| player.reactor.connections() == 0;
                story.hosts.iter().all(is_empty)
                    && story.hosts.iter().all(|player| story.world.backlog(player.ip) == 0)
            },
            "never ends",
        );
        // And the last words arrive.
        self.world.advance(SECOND);
        self.quiet_step();
    }

    fn run_until(&mut self, is_done: impl Fn(&mut Story) -> bool, problem: &str) {
        for _ in 0..10_000 {
            if is_done(self) {
                return;
            }
            self.quiet_step();
        }
        let known: Vec<usize> = self.hosts.iter().map(|host| host.reactor.connections()).collect();
        panic!("{problem}, connections {known:?}: {:?}", self.talk.checker.restless());
    }

    fn quiet_step(&mut self) {
        self.peers.calm(&mut self.talk, self.is_ending);
        self.step();
    }

    fn finish(mut self) -> (u64, Tally) {
        for player in &mut self.hosts {
            drop(player.reactor.tick(Wait::No).expect("a simulated poller works"));
        }
        let checker = &self.talk.checker;
        checker.check_all_over();
        for (host, player) in self.hosts.iter().enumerate() {
            let listeners = usize::from(player.listener.is_some() && !player.is_shut);
            assert_eq!(self.world.open_sockets(player.ip), listeners, "sockets leak");
            let stats = player.reactor.stats();
            assert_eq!((stats.bytes_queued, stats.bytes_unfinished), (0, 0), "bytes of nobody");
            assert_eq!((stats.buffers_held, stats.bytes_in_batch), (0, 0), "buffers of nobody");
            let (begun, ended) = (stats.accepted + stats.connects, stats.ended);
            assert_eq!(begun, ended, "connections that began and ended");
            for &conn in &player.past {
                assert!(checker.is_over(host, conn));
            }
        }
        let ips: Vec<IpAddr> = self.hosts.iter().map(|player| player.ip).collect();
        drop(self.hosts);
        for ip in ips {
            assert_eq!(self.world.open_sockets(ip), 0);
        }
        (self.world.trace_hash(), self.talk.checker.tally)
    }
}

impl Player {
    /// The port may be taken for a moment: by nobody here, but descriptors may be short.
    fn listen_again(&mut self) {
        if let Ok(listener) = self.reactor.listen((self.ip, PORT)) {
            (self.listener, self.is_suspended) = (Some(listener), false);
        }
    }

    /// Those that make nobody look at a socket without cause, or look in vain.
    fn quiet_faults(&self) -> Faults {
        Faults {
            descriptors_max: self.faults.descriptors_max,
            drained_unknown: self.faults.drained_unknown,
            bare_edges: self.faults.bare_edges,
            ..Faults::default()
        }
    }

    /// Whose next message lies whole in its socket.
    fn due(&self, checker: &Checker, host: HostIndex) -> Vec<ConnId> {
        let net = self.reactor.net();
        let is_due = |conn: &ConnId| {
            let arrived = net.arrived_on(*conn).unwrap_or(0);
            checker.is_known(host, *conn) && checker.is_due(host, *conn, arrived)
        };
        self.conns.iter().copied().filter(is_due).collect()
    }

    /// Counts for how long messages wait in their sockets.
    fn check_fairness(&mut self, due: &[ConnId], heard: &[ConnId]) {
        let patience = self.settings.patience(&self.faults, self.reactor.connections());
        let Some(patience) = patience.filter(|_| self.was_all_fetched) else {
            return self.waits.clear();
        };
        self.waits.retain(|conn, _| due.contains(conn));
        for conn in due {
            if heard.binary_search(conn).is_ok() || self.reactor.net().arrived_on(*conn).is_none() {
                self.waits.remove(conn);
                continue;
            }
            let waited = self.waits.entry(*conn).or_insert(0);
            *waited += 1;
            let is_paused = self.paused.contains(conn);
            assert!(is_paused || *waited <= patience, "{conn} waits {waited} ticks of {patience}");
        }
    }

    /// Whatever takes no messages any more, because somebody has closed it or a send has failed, is over when the close
    /// timeout is, even if it is paused. A shutdown has a deadline of its own.
    fn check_ends(&mut self, now: Instant) {
        let (patience, known) = (2 * self.settings.close_timeout, self.conns.len());
        self.shut_since.retain(|conn, _| self.conns.contains(conn));
        for &conn in &self.conns {
            if self.reactor.outbox().is_open(conn) {
                continue;
            }
            // What is asked for is begun by the next tick, before which any time may pass.
            let Some((since, late)) = self.shut_since.get_mut(&conn) else {
                self.shut_since.insert(conn, (None, 0));
                continue;
            };
            let since = *since.get_or_insert(now);
            *late += usize::from(now > since + patience);
            assert!(*late <= 20 + 4 * known, "{conn} ends {late} ticks too late");
        }
    }

    fn check_bounds(&self, wait: Wait, before: &Stats, after: &Stats) {
        let settings = &self.settings;
        let accepted = (after.accepted - before.accepted) as usize;
        assert!(accepted <= settings.accept_budget, "{accepted} accepted, {wait:?}");
        assert!(accepted == 0 || !self.is_suspended, "accepted although nobody should be");
        assert!(after.connections <= settings.connections_max);
        assert!(
            after.bytes_queued <= settings.send_queue_max * (after.connections + 1),
            "{}",
            after.bytes_queued
        );
        assert!(after.bytes_in_batch <= settings.batch_memory);
        let served = after.connections.max(before.connections);
        let received = (after.bytes_received - before.bytes_received) as usize;
        let is_one_turn = !matches!(wait, Wait::Event(_)); // which gives anew what brought no event
        assert!(
            !is_one_turn || received <= settings.read_quantum * served,
            "{received} received from {served}"
        );
        let frame_len = 4 + settings.frame_len_max;
        let unfinished_max = 2 * frame_len + settings.read_quantum + (20 << 10);
        assert!(after.bytes_unfinished <= unfinished_max * after.connections);
        if let Some(most) = settings.enders.buffered_max {
            assert!(after.bytes_queued <= most, "{} queued, {most} allowed", after.bytes_queued);
            let held = after.bytes_queued + after.bytes_unfinished;
            assert!(held <= most + settings.read_quantum, "{held} held, {most} allowed");
        }
    }
}

/// While a game holds a batch, time passes and peers come, write and go.
fn meddle(world: &SimWorld, talk: &mut Talk, peers: &mut Peers, plan: &Plan, addrs: &[Addr]) {
    world.advance(talk.rng.duration(Duration::ZERO, MS));
    if peers.len() < plan.raw_peers && talk.rng.chance(500) {
        let to = talk.rng.pick(addrs);
        peers.connect(talk, world, to);
    } else if peers.len() > 0 {
        peers.act(talk.rng.below(peers.len()), talk, plan);
    }
}

fn server_ip(nth: usize) -> IpAddr {
    match nth {
        0 => SERVER,
        _ => [10, 0, 0, 200 + nth as u8].into(),
    }
}

fn client_ip(nth: usize) -> IpAddr {
    [10, 0, 0, 2 + nth as u8].into()
}

const PORT: u16 = 7777;

//! The story in which each call of the seam is made, in many a place: a server that listens, connects out, echoes, sends
//! more than a window, closes, kicks and shuts down, among peers that end in every way.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use tickwire::sim::{Faults, RawListener, RawPeer, SimWorld};
use tickwire::{Addr, ConnId, Event, Handle, ListenerId, Outbox, Reactor, Tick, Wait};

use super::net::{Call, FailingNet, Plan};
use crate::harness::{MS, SECOND, SERVER, frame, payload, unframe};

/// Who takes part: the last byte of its address, or [`OUT`] and the port that the server connects to.
pub(crate) type Name = u16;

const ECHO: Name = 1;
const LARGE: Name = 2;
const CLOSED: Name = 3;
const KICKED: Name = 4;
const RESETS: Name = 5;
const TRUNCATED: Name = 6;
const TOO_LARGE: Name = 7;
const SILENT: Name = 8;
const HANDLE: Name = 9;
const LATE: Name = 10;
const GONE: Name = 11;
const SAYS_ALL: Name = 12;
const OUT: Name = 1_000;
const OUT_TALKS: Name = OUT + 1;
const OUT_REFUSED: Name = OUT + 2;

/// The host that the server connects to.
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));

/// What one participant's connection came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// What the game was told, payloads included.
    pub(crate) told: Vec<String>,
    /// What the peer has received.
    pub(crate) heard: Vec<u8>,
}

/// What a telling came to.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) lives: BTreeMap<Name, Life>,
    /// Ticks, listens and the like that answered with an error.
    pub(crate) errors: usize,
    /// How often the fault came, and whose connection it hit.
    pub(crate) failed: usize,
    pub(crate) hit: Option<Name>,
    counts: Vec<usize>,
}

impl Told {
    pub(crate) fn count(&self, call: Call) -> usize {
        self.counts[call as usize]
    }
}

/// Tells the story. All that was taken has been given back at its end, or this panics.
pub(crate) fn tell(faults: Faults, plan: Option<Plan>) -> Told {
    let faults = Faults { window: 8_000, ..faults };
    let mut story = Story::begin(SimWorld::new(1, faults), plan);
    // The longest deadline is a fifth of a second; a shortage may last half of one.
    for round in 0..400 {
        story.play_peers();
        story.tick(round);
        if story.peers.iter().all(|peer| peer.name == SILENT || peer.is_done())
            && story.is_said(OUT_TALKS)
            && story.is_said(OUT_REFUSED)
            && round > 20
        {
            break;
        }
    }
    story.end()
}

struct Story {
    world: SimWorld,
    server: Reactor<FailingNet>,
    handle: Handle,
    /// The listener that is closed on the way.
    second: ListenerId,
    peers: Vec<Peer>,
    elsewhere: RawListener,
    names: BTreeMap<ConnId, Name>,
    lives: BTreeMap<Name, Life>,
    errors: usize,
    shared: Bytes,
}

struct Peer {
    name: Name,
    /// `None` once it has let go.
    raw: Option<RawPeer>,
    heard: Vec<u8>,
    /// How far its script is.
    stage: usize,
}

impl Story {
    fn begin(world: SimWorld, plan: Option<Plan>) -> Story {
        let net = FailingNet::new(world.host(SERVER), plan.into_iter().collect());
        let builder = Reactor::builder()
            .frame_len_max(60_000)
            .send_queue_max(120_000)
            .connect_timeout(200 * MS)
            .close_timeout(200 * MS)
            .pace(2 * MS);
        let mut server = builder.build_on(net).expect("usable settings");
        let mut errors = 0;
        // Whoever asks again after an error gets an answer: a fault comes once.
        let first = again(&mut errors, || server.listen((SERVER, 7777)).ok());
        let second = again(&mut errors, || server.listen((SERVER, 7778)).ok());
        let addrs = [first, second].map(|id| again(&mut errors, || server.local_addr(id)));
        let handle = again(&mut errors, || server.handle().ok());
        let elsewhere = world.raw_listen(&Addr::from((ELSEWHERE, 1)), 8).expect("a free port");
        let knock = |name: Name| {
            let to = &addrs[usize::from(name == LATE)];
            let raw = Some(world.raw_connect([10, 0, 1, name as u8].into(), to));
            Peer { name, raw, heard: Vec::new(), stage: 0 }
        };
        let peers = (ECHO..=SAYS_ALL).map(knock).collect();
        let mut story = Story {
            world: world.clone(),
            server,
            handle,
            second,
            peers,
            elsewhere,
            names: BTreeMap::new(),
            lives: BTreeMap::new(),
            errors,
            shared: payload(9, 20_000).into(),
        };
        for port in [1, 2] {
            let conn = story.server.connect((ELSEWHERE, port)).expect("there is room");
            story.names.insert(conn, OUT + port);
            let _ = story.server.outbox().send(conn, b"sent before it has come about");
        }
        story
    }

    // --- the server ------------------------------------------------------------------------------

    fn tick(&mut self, round: usize) {
        self.world.advance(MS);
        let wait = match round % 3 {
            0 => Wait::No,
            1 => Wait::Event(2 * MS),
            _ => Wait::Until(self.world.now() + 3 * MS),
        };
        let Story { server, names, lives, handle, shared, .. } = self;
        let Ok(Tick { events, mut outbox, .. }) = server.tick(wait) else {
            self.errors += 1;
            return;
        };
        let mut is_late_there = false;
        for event in events {
            let (conn, what) = match event {
                Event::Connected { conn, ref peer, listener, .. } => {
                    names.entry(conn).or_insert_with(|| name_of(peer));
                    is_late_there |= names[&conn] == LATE;
                    (conn, format!("connected through a listener: {}", listener.is_some()))
                }
                Event::Message { conn, payload } => {
                    react(conn, payload, names[&conn], &mut outbox, handle, shared);
                    (conn, format!("{} bytes: {}", payload.len(), String::from_utf8_lossy(payload)))
                }
                Event::Disconnected { conn, reason } => (conn, format!("over: {reason:?}")),
                Event::ConnectFailed { conn, reason } => (conn, format!("over: {reason:?}")),
                other => panic!("{other:?}"),
            };
            lives.entry(names[&conn]).or_default().told.push(what);
        }
        if is_late_there {
            assert!(self.server.close_listener(self.second));
        }
        if round % 2 == 0 {
            self.server.flush();
        }
    }

    fn is_said(&self, name: Name) -> bool {
        let last = self.lives.get(&name).and_then(|life| life.told.last());
        last.is_some_and(|last| last.starts_with("over"))
    }

    /// Shuts down, and looks for what was not given back.
    fn end(mut self) -> Told {
        let deadline = self.world.now() + 100 * MS;
        self.server.shutdown(deadline);
        for round in 0..100 {
            self.play_peers();
            self.tick(round);
        }
        assert_eq!(self.server.connections(), 0, "a slot is not given back");
        for peer in &mut self.peers {
            peer.raw = None;
        }
        // Pools shrink with time, and the last of the obsolete timers come up after 30 s.
        for round in 0..40 {
            self.world.advance(SECOND);
            self.tick(round);
        }
        let stats = self.server.stats();
        let held = (stats.bytes_queued, stats.bytes_unfinished, stats.bytes_pooled);
        assert_eq!(held, (0, 0, 0), "bytes queued, unfinished and pooled at the end");
        assert_eq!(self.world.open_sockets(SERVER), 0, "descriptors at the end");
        let counts = self.world.counts(SERVER);
        assert_eq!(counts.opened, counts.closed);
        assert_eq!(self.server.next_deadline(), None, "nothing is due any more");

        let mut lives = self.lives;
        for peer in self.peers {
            lives.entry(peer.name).or_default().heard = peer.heard;
        }
        let net = self.server.net();
        Told {
            lives,
            errors: self.errors,
            failed: net.failed(),
            hit: net.hit().map(|addr| name_of(&addr)),
            counts: ALL.map(|call| net.count(call)).to_vec(),
        }
    }

    // --- the peers -------------------------------------------------------------------------------

    fn play_peers(&mut self) {
        while let Some(raw) = self.elsewhere.accept() {
            let heard = Vec::new();
            self.peers.push(Peer { name: OUT_TALKS, raw: Some(raw), heard, stage: 0 });
        }
        self.peers.iter_mut().for_each(Peer::play);
    }
}

/// Asks until there is an answer, and counts the failures.
fn again<T>(errors: &mut usize, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..2 {
        match ask() {
            Some(answer) => return answer,
            None => *errors += 1,
        }
    }
    panic!("a fault that comes once has come twice");
}

/// What the game does with a message. A connection that the fault has hit may refuse the answer.
fn react(
    conn: ConnId,
    payload: &[u8],
    name: Name,
    outbox: &mut Outbox<'_>,
    handle: &Handle,
    shared: &Bytes,
) {
    match name {
        LARGE => {
            let _ = outbox.send(conn, b"it follows");
            outbox.broadcast_bytes([conn], shared);
            let _ = outbox.send_latest(conn, 1, b"that was it");
        }
        CLOSED => {
            let _ = outbox.send(conn, b"bye");
            outbox.close(conn);
        }
        KICKED => drop(outbox.kick(conn)),
        HANDLE => drop(handle.send(conn, payload)),
        OUT_TALKS => drop(outbox.close(conn)),
        _ => drop(outbox.send(conn, payload)),
    }
}

impl Peer {
    /// Whether it will do nothing more.
    fn is_done(&self) -> bool {
        self.raw.is_none()
    }

    /// Reads, and does what its script says next. Whoever is cut off lets go.
    fn play(&mut self) {
        let Some(raw) = &mut self.raw else { return };
        let most = if self.name == LARGE { 2_500 } else { usize::MAX };
        self.heard.extend(raw.read_at_most(most));
        let (heard, stage) = (unframe(&self.heard).len(), self.stage);
        let is_over = raw.is_eof() || raw.is_reset();
        self.stage += 1;
        match (self.name, stage) {
            (GONE, 0) => return self.raw.take().expect("it is there").reset(),
            _ if is_over => {
                self.raw = None;
                return;
            }
            (SILENT, _) => {}
            // Three times, and each time waits for the echo.
            (ECHO | HANDLE | LATE, 0..=2) if heard == stage => {
                return raw.write(&frame(format!("number {stage}").as_bytes()));
            }
            (ECHO | HANDLE | LATE, 3) if heard == 3 => return raw.shutdown_write(),
            (LARGE, 0) => return raw.write(&frame(&payload(4, 30_000))),
            (LARGE, 1) if heard == 3 => return raw.shutdown_write(),
            (CLOSED, 0) => return raw.write(&frame(b"close me")),
            (CLOSED, 1..=3) => return raw.write(&frame(b"what nobody reads any more")),
            (KICKED, 0) => return raw.write(&frame(b"kick me")),
            (RESETS | TRUNCATED | TOO_LARGE, 0) => return raw.write(&frame(b"whole")),
            (RESETS, 1) if heard == 1 => return self.raw.take().expect("it is there").reset(),
            (TRUNCATED, 1) if heard == 1 => {
                raw.write(&frame(b"half")[..6]);
                return raw.shutdown_write();
            }
            (TOO_LARGE, 1) if heard == 1 => return raw.write(&[0x7f; 4]),
            (SAYS_ALL, 0) => {
                (0..5).for_each(|number| raw.write(&frame(&payload(number, 50))));
                return raw.shutdown_write();
            }
            (OUT_TALKS, 0) if heard == 1 => return raw.write(&frame(b"welcome")),
            _ => {}
        }
        self.stage = stage; // it waits
    }
}

fn name_of(addr: &Addr) -> Name {
    match (addr.ip(), addr.port()) {
        (Some(ELSEWHERE), Some(port)) => OUT + port,
        (Some(IpAddr::V4(ip)), _) => ip.octets()[3].into(),
        other => panic!("nobody is at {other:?}"),
    }
}

pub(crate) const ALL: [Call; 11] = [
    Call::Wait,
    Call::Waker,
    Call::Listen,
    Call::LocalAddr,
    Call::Accept,
    Call::Register,
    Call::Connect,
    Call::Connected,
    Call::Recv,
    Call::Send,
    Call::Shutdown,
];

/// That the story is told within its time, whatever fails.
pub(crate) const LASTS: Duration = Duration::from_millis(100);

//! The shared world: hosts, connections between them, and an agenda of what will happen when.
//!
//! Here stands what the network does by itself as time passes; what a host does with its sockets
//! stands in `calls`, how it learns of their readiness in `poller`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use log::trace;

use super::Counts;
use super::faults::Faults;
use super::pipe::{Pipe, Segment};
use super::rng::{Rng, mix};

pub(super) type HostId = usize;
pub(super) type ListenerKey = usize;

/// One end of a connection. Numbers of connections are never used again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) conn: usize,
    pub(super) side: usize,
}

/// `7c` and `7s` are the client's and the server's end of connection 7.
impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.conn, if self.side == 0 { 'c' } else { 's' })
    }
}

impl End {
    pub(super) fn peer(self) -> End {
        End { conn: self.conn, side: 1 - self.side }
    }
}

#[derive(Debug)]
pub(super) struct World {
    base: Instant,
    pub(super) now: Duration,
    pub(super) rng: Rng,
    pub(super) trace: Trace,
    /// For hosts that nobody has spoken of yet.
    faults: Faults,
    /// In the order of time, and of planning where times are equal.
    agenda: BTreeMap<(Duration, u64), Happening>,
    planned: u64,
    /// Pairs of hosts that cannot reach each other, and what waits for that to end.
    partitions: Vec<(HostId, HostId)>,
    held: Vec<Happening>,
    pub(super) hosts: Vec<Host>,
    pub(super) listeners: Vec<Option<Listener>>,
    pub(super) conns: Vec<Option<Conn>>,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) ip: IpAddr,
    /// Whether a `SimNet` stands for it.
    pub(super) attached: bool,
    pub(super) faults: Faults,
    /// Descriptors held through a `SimNet`.
    pub(super) open: usize,
    /// Its waker was called, and no wait has returned since.
    pub(super) is_woken: bool,
    /// When its poller was last asked, and how often at that moment.
    pub(super) asked: (Duration, u32),
    pub(super) counts: Counts,
    /// What its poller will report.
    pub(super) ready: VecDeque<Watched>,
    /// What its poller watches, by the number that it was given.
    pub(super) streams: BTreeMap<u32, End>,
    pub(super) acceptors: BTreeMap<u32, ListenerKey>,
    port_last: u16,
}

/// Whom a poller's report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    Stream(End),
    Listener(ListenerKey),
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) host: HostId,
    pub(super) addr: SocketAddr,
    /// `None`: a raw one, which no poller watches.
    pub(super) index: Option<u32>,
    pub(super) backlog: usize,
    pub(super) queue: VecDeque<End>,
    pub(super) is_queued: bool,
}

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) ends: [Side; 2],
    /// `pipes[side]` leads *to* that side.
    pub(super) pipes: [Pipe; 2],
}

#[derive(Debug)]
pub(super) struct Side {
    pub(super) host: HostId,
    pub(super) addr: SocketAddr,
    pub(super) owner: Owner,
    pub(super) state: State,
    /// As SO_ERROR: told once, to whichever call comes first.
    pub(super) error: Option<io::ErrorKind>,
    pub(super) fin_sent: bool,
    /// A send found too little room, so an edge is owed.
    pub(super) wants_room: bool,
    pub(super) slot: Option<u32>,
    pub(super) edge: Edge,
    pub(super) is_queued: bool,
    /// What a raw peer has written beyond the window.
    pub(super) unsent: VecDeque<Segment>,
}

/// Who holds an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    Backlog,
    App,
    Raw,
}

/// How far an end has come.
///
/// ```text
/// client:  Connecting → Established → Dead        server:  Absent → Established → Dead
///              └──────── refused ──────↑
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Connecting,
    Established,
    /// Reset, refused or given up: nothing comes in or goes out any more.
    Dead,
}

/// What a poller has not reported yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) insist: bool,
}

impl Edge {
    pub(super) const READABLE: Edge = Edge { readable: true, writable: false, insist: false };
    pub(super) const WRITABLE: Edge = Edge { readable: false, writable: true, insist: false };
    pub(super) const FIN: Edge = Edge { readable: true, writable: false, insist: true };
    pub(super) const ALL: Edge = Edge { readable: true, writable: true, insist: true };

    pub(super) fn and(self, other: Edge) -> Edge {
        Edge {
            readable: self.readable || other.readable,
            writable: self.writable || other.writable,
            insist: self.insist || other.insist,
        }
    }
}

/// Something that the agenda holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    /// A client's request reaches the host it was sent to.
    Syn {
        client: End,
        attempt: u32,
    },
    /// The answer reaches the client. `None`: it is connected.
    Answer {
        client: End,
        failure: Option<io::ErrorKind>,
    },
    /// The next segment reaches this end.
    Arrival {
        to: End,
    },
    /// A reset that discards what was sent before it reaches this end.
    Reset {
        to: End,
        kind: io::ErrorKind,
    },
    /// This end learns what its peer has read.
    Ack {
        to: End,
    },
    /// An edge that a fault put off.
    StreamEdge {
        end: End,
        edge: Edge,
    },
    ListenerEdge {
        listener: ListenerKey,
    },
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults) -> World {
        World {
            base: Instant::now(),
            now: Duration::ZERO,
            rng: Rng::new(seed),
            trace: Trace(mix(seed)),
            faults,
            agenda: BTreeMap::new(),
            planned: 0,
            partitions: Vec::new(),
            held: Vec::new(),
            hosts: Vec::new(),
            listeners: Vec::new(),
            conns: Vec::new(),
        }
    }

    pub(super) fn instant(&self) -> Instant {
        self.base + self.now
    }

    /// How long after the beginning of the world `instant` is.
    pub(super) fn since_base(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.base)
    }

    // --- hosts ---------------------------------------------------------------------------------

    pub(super) fn host_of(&mut self, ip: IpAddr) -> HostId {
        if let Some(host) = self.hosts.iter().position(|host| host.ip == ip) {
            return host;
        }
        self.hosts.push(Host {
            ip,
            attached: false,
            faults: self.faults,
            open: 0,
            is_woken: false,
            asked: (Duration::ZERO, 0),
            counts: Counts::default(),
            ready: VecDeque::new(),
            streams: BTreeMap::new(),
            acceptors: BTreeMap::new(),
            port_last: PORT_EPHEMERAL_MIN - 1,
        });
        self.hosts.len() - 1
    }

    pub(super) fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
        for host in &mut self.hosts {
            host.faults = faults;
        }
    }

    pub(super) fn ephemeral_port(&mut self, host: HostId) -> u16 {
        let last = &mut self.hosts[host].port_last;
        *last = last.checked_add(1).unwrap_or(PORT_EPHEMERAL_MIN);
        *last
    }

    pub(super) fn set_partition(&mut self, one: HostId, other: HostId, cut: bool) {
        let pair = (one.min(other), one.max(other));
        self.partitions.retain(|&known| known != pair);
        if cut {
            self.partitions.push(pair);
            return;
        }
        // What TCP had to repeat all the time comes through now, in its old order; what another
        // partition still stops is held again.
        for happening in std::mem::take(&mut self.held) {
            self.plan(self.now, happening);
        }
    }

    // --- the agenda ----------------------------------------------------------------------------

    pub(super) fn plan(&mut self, at: Duration, happening: Happening) {
        self.agenda.insert((at, self.planned), happening);
        self.planned += 1;
    }

    /// When something leaving `host` now would arrive.
    pub(super) fn arrival_from(&mut self, host: HostId) -> Duration {
        let Faults { delay_min, delay_max, .. } = self.hosts[host].faults;
        self.now + self.rng.duration(delay_min, delay_max)
    }

    /// When an edge that a fault puts off will be there: late enough to be missed by a reactor that
    /// looks again at once.
    pub(super) fn a_little_later(&mut self) -> Duration {
        self.now + self.rng.duration(Duration::from_micros(1), Duration::from_millis(3))
    }

    pub(super) fn next_at(&self) -> Option<Duration> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }

    /// Lets everything happen up to `target`, and makes it now.
    pub(super) fn run_until(&mut self, target: Duration) {
        while self.next_at().is_some_and(|at| at <= target) {
            let Some(((at, _), happening)) = self.agenda.pop_first() else { break };
            self.now = self.now.max(at);
            self.happen(happening);
        }
        self.now = self.now.max(target);
    }

    /// Lets everything happen that is due.
    pub(super) fn settle(&mut self) {
        self.run_until(self.now);
    }

    fn happen(&mut self, happening: Happening) {
        trace!("{:?}: {happening:?}", self.now);
        if self.is_held(&happening) {
            self.held.push(happening);
            return;
        }
        match happening {
            Happening::Syn { client, attempt } => self.syn_arrives(client, attempt),
            Happening::Answer { client, failure } => self.answer_arrives(client, failure),
            Happening::Arrival { to } => self.segment_arrives(to),
            Happening::Reset { to, kind } => self.reset_arrives(to, kind),
            Happening::Ack { to } => self.ack_arrives(to),
            Happening::StreamEdge { end, edge } => self.late_edge(end, edge),
            Happening::ListenerEdge { listener } => self.raise_listener(listener),
        }
    }

    fn is_held(&self, happening: &Happening) -> bool {
        let end = match *happening {
            Happening::Syn { client, .. } | Happening::Answer { client, .. } => client,
            Happening::Arrival { to } | Happening::Reset { to, .. } | Happening::Ack { to } => to,
            Happening::StreamEdge { .. } | Happening::ListenerEdge { .. } => return false,
        };
        let Some(Some(conn)) = self.conns.get(end.conn) else { return false };
        let (one, other) = (conn.ends[0].host, conn.ends[1].host);
        self.partitions.contains(&(one.min(other), one.max(other)))
    }

    // --- what arrives --------------------------------------------------------------------------

    fn syn_arrives(&mut self, client: End, attempt: u32) {
        let Some(conn) = &self.conns[client.conn] else { return };
        let server = conn.ends[client.peer().side].host;
        let target = conn.ends[client.peer().side].addr;
        self.trace.note(1, client.conn as u64, u64::from(attempt));
        let refuses = self.hosts[server].faults.connect_refused;
        let found = match self.rng.chance(refuses) {
            true => None,
            false => self.listener_at(server, target),
        };
        let Some(key) = found else {
            let at = self.arrival_from(server);
            let failure = Some(io::ErrorKind::ConnectionRefused);
            self.plan(at, Happening::Answer { client, failure });
            return;
        };
        let listener = self.listeners[key].as_mut().expect("it was found");
        // As on Linux: one more than the backlog says, and then silence, so that the client tries
        // again, ever more slowly, until it gives up.
        if listener.queue.len() > listener.backlog {
            let again = self.now + SYN_RETRY * 2_u32.pow(attempt);
            self.plan(
                again,
                match attempt < SYN_RETRIES {
                    true => Happening::Syn { client, attempt: attempt + 1 },
                    false => Happening::Answer { client, failure: Some(io::ErrorKind::TimedOut) },
                },
            );
            return;
        }
        listener.queue.push_back(client.peer());
        let side = self.side_mut(client.peer()).expect("the connection is there");
        side.owner = Owner::Backlog;
        side.state = State::Established;
        self.raise_listener(key);
        let at = self.arrival_from(server);
        self.pipe_to(client).hold_until(at);
        self.plan(at, Happening::Answer { client, failure: None });
    }

    fn answer_arrives(&mut self, client: End, failure: Option<io::ErrorKind>) {
        self.trace.note(2, client.conn as u64, u64::from(failure.is_some()));
        let Some(side) = self.side_mut(client) else { return };
        if side.state != State::Connecting {
            return;
        }
        if failure.is_none() {
            side.state = State::Established;
            self.raise(client, Edge::WRITABLE);
            self.pump(client);
        } else {
            side.state = State::Dead;
            side.error = failure;
            side.unsent.clear();
            self.raise(client, Edge::ALL);
        }
    }

    fn segment_arrives(&mut self, to: End) {
        let Some(conn) = &mut self.conns[to.conn] else { return };
        let Some(segment) = conn.pipes[to.side].take() else { return };
        let side = &conn.ends[to.side];
        self.trace.note(3, (to.conn * 2 + to.side) as u64, segment_digest(&segment));
        if side.state == State::Dead {
            return;
        }
        if side.owner == Owner::Nobody && matches!(segment, Segment::Data(_)) {
            // Nobody will ever read it, which the sender has to learn.
            self.send_reset(to, io::ErrorKind::ConnectionReset);
            self.die(to, None);
            return;
        }
        match segment {
            Segment::Data(bytes) => {
                let resets = self.hosts[self.host_at(to.peer())].faults.resets;
                if self.rng.chance(resets) {
                    self.interfere(to);
                    return;
                }
                self.pipe_to(to).arrive(bytes);
                self.raise(to, Edge::READABLE);
            }
            Segment::Fin => {
                self.pipe_to(to).arrive_fin();
                self.raise(to, Edge::FIN);
                self.forget_if_over(to.conn);
            }
            Segment::Reset(kind) => self.reset_arrives(to, kind),
        }
    }

    /// Something in between resets the connection, for both ends.
    fn interfere(&mut self, to: End) {
        let kind = match self.rng.chance(800) {
            true => io::ErrorKind::ConnectionReset,
            false => io::ErrorKind::TimedOut,
        };
        self.reset_arrives(to, kind);
        let at = self.arrival_from(self.host_at(to));
        self.plan(at, Happening::Reset { to: to.peer(), kind });
    }

    fn reset_arrives(&mut self, to: End, kind: io::ErrorKind) {
        self.trace.note(4, (to.conn * 2 + to.side) as u64, kind as u64);
        let Some(conn) = &self.conns[to.conn] else { return };
        if matches!(conn.ends[to.side].state, State::Dead | State::Absent) {
            return;
        }
        // After a FIN, Linux calls it EPIPE (tcp_reset).
        let kind = match conn.pipes[to.side].has_fin() {
            true => io::ErrorKind::BrokenPipe,
            false => kind,
        };
        self.die(to, Some(kind));
        self.raise(to, Edge::ALL);
    }

    fn ack_arrives(&mut self, to: End) {
        let Some(conn) = &mut self.conns[to.conn] else { return };
        let pipe = &mut conn.pipes[to.peer().side];
        pipe.ack_arrives();
        let side = &mut conn.ends[to.side];
        self.trace.note(5, (to.conn * 2 + to.side) as u64, pipe.room() as u64);
        if !side.unsent.is_empty() {
            self.pump(to);
        } else if side.wants_room && side.state == State::Established {
            side.wants_room = false;
            self.raise(to, Edge::WRITABLE);
        }
    }

    // --- what leaves ---------------------------------------------------------------------------

    /// Sends `segment` from `from` to its peer, in order behind what was sent before.
    pub(super) fn send_segment(&mut self, from: End, segment: Segment) {
        let host = self.host_at(from);
        let (now, bandwidth) = (self.now, self.hosts[host].faults.bandwidth);
        let to = from.peer();
        let has_left = self.pipe_to(to).depart(&segment, now, bandwidth);
        let at = self.arrival_from(host) + (has_left - now);
        let at = self.pipe_to(to).put(segment, at);
        self.plan(at, Happening::Arrival { to });
    }

    pub(super) fn send_reset(&mut self, from: End, kind: io::ErrorKind) {
        let host = self.host_at(from);
        let overtakes = self.hosts[host].faults.reset_overtakes;
        if self.rng.chance(overtakes) {
            let at = self.arrival_from(host);
            self.plan(at, Happening::Reset { to: from.peer(), kind });
        } else {
            self.send_segment(from, Segment::Reset(kind));
        }
    }

    pub(super) fn acknowledge(&mut self, reader: End) {
        if self.pipe_to(reader).ack_departs() {
            let at = self.arrival_from(self.host_at(reader));
            self.plan(at, Happening::Ack { to: reader.peer() });
        }
    }

    /// Sends what a raw peer has written, as far as the window allows.
    pub(super) fn pump(&mut self, from: End) {
        loop {
            let Some(conn) = &mut self.conns[from.conn] else { return };
            let room = conn.pipes[from.peer().side].room();
            let side = &mut conn.ends[from.side];
            if side.state != State::Established {
                return;
            }
            let Some(first) = side.unsent.front_mut() else { return };
            let segment = match first {
                Segment::Data(_) if room == 0 => return,
                Segment::Data(bytes) if bytes.len() > room => {
                    let rest = bytes.split_off(room);
                    Segment::Data(std::mem::replace(bytes, rest))
                }
                _ => side.unsent.pop_front().expect("there is a first"),
            };
            if matches!(segment, Segment::Fin) {
                side.fin_sent = true;
            }
            self.send_segment(from, segment);
        }
    }

    // --- ends ----------------------------------------------------------------------------------

    /// Nothing comes in or goes out here any more. What has arrived stays readable.
    pub(super) fn die(&mut self, end: End, error: Option<io::ErrorKind>) {
        let Some(conn) = &mut self.conns[end.conn] else { return };
        let side = &mut conn.ends[end.side];
        side.state = State::Dead;
        side.error = error;
        side.unsent.clear();
        conn.pipes[end.side].cut();
        self.forget_if_over(end.conn);
    }

    /// Frees a connection that nobody can notice any more.
    pub(super) fn forget_if_over(&mut self, conn: usize) {
        let Some(known) = &self.conns[conn] else { return };
        let nobody = |side: &Side| side.owner == Owner::Nobody;
        let over = |side: usize| {
            let end = &known.ends[side];
            let silent = end.state == State::Dead || end.fin_sent && end.unsent.is_empty();
            nobody(end) && silent || end.state == State::Absent
        };
        if over(0) && over(1) {
            self.conns[conn] = None;
        }
    }

    pub(super) fn side_mut(&mut self, end: End) -> Option<&mut Side> {
        Some(&mut self.conns.get_mut(end.conn)?.as_mut()?.ends[end.side])
    }

    /// The connection of a socket that somebody holds, which keeps it alive.
    pub(super) fn conn_mut(&mut self, end: End) -> &mut Conn {
        self.conns[end.conn].as_mut().expect("a held socket keeps its connection")
    }

    pub(super) fn pipe_to(&mut self, end: End) -> &mut Pipe {
        &mut self.conn_mut(end).pipes[end.side]
    }

    pub(super) fn host_at(&self, end: End) -> HostId {
        self.conns[end.conn].as_ref().expect("the connection is there").ends[end.side].host
    }

    pub(super) fn listener_at(&self, host: HostId, addr: SocketAddr) -> Option<ListenerKey> {
        self.listeners.iter().position(|listener| {
            listener.as_ref().is_some_and(|listener| {
                let ip = listener.addr.ip();
                listener.host == host
                    && listener.addr.port() == addr.port()
                    && (ip.is_unspecified() || ip == addr.ip())
            })
        })
    }
}

impl Conn {
    /// A connection that `client` begins, to an address that may have nobody behind it.
    pub(super) fn new(client: Side, server: Side, window_up: usize, window_down: usize) -> Conn {
        Conn { ends: [client, server], pipes: [Pipe::new(window_down), Pipe::new(window_up)] }
    }
}

impl Side {
    pub(super) fn new(host: HostId, addr: SocketAddr, owner: Owner, state: State) -> Side {
        Side {
            host,
            addr,
            owner,
            state,
            error: None,
            fin_sent: false,
            wants_room: false,
            slot: None,
            edge: Edge::default(),
            is_queued: false,
            unsent: VecDeque::new(),
        }
    }
}

/// A hash over everything that happened, for comparing two runs.
#[derive(Debug)]
pub(super) struct Trace(pub(super) u64);

impl Trace {
    pub(super) fn note(&mut self, what: u64, whom: u64, detail: u64) {
        self.0 = mix(mix(self.0 ^ what << 56 ^ whom) ^ detail);
    }
}

pub(super) fn digest(bytes: &[u8]) -> u64 {
    let mut sum = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    sum
}

fn segment_digest(segment: &Segment) -> u64 {
    match segment {
        Segment::Data(bytes) => digest(bytes),
        Segment::Fin => 1,
        Segment::Reset(kind) => 2 + *kind as u64,
    }
}

/// No game asks its poller as often without letting any time pass.
pub(super) const ASKED_MAX: u32 = 1_000_000;
const PORT_EPHEMERAL_MIN: u16 = 49_152;
/// Linux' first retry; each further one waits twice as long.
const SYN_RETRY: Duration = Duration::from_secs(1);
/// As `net.ipv4.tcp_syn_retries`.
const SYN_RETRIES: u32 = 6;

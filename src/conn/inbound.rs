//! The receiving half: bytes in, ranges out. No socket, no clock.

use std::collections::VecDeque;
use std::io;

use super::bucket::Throttle;
use crate::arena::Arena;
use crate::batch::{Batch, What};
use crate::config::{Limits, RatePolicy, Timeouts};
use crate::error::DisconnectReason;
use crate::frame::{Decoded, Framer, Stop};
use crate::id::ConnId;
use crate::io::{Received, is_shortage};
use crate::pool::Pool;
use crate::ring::Ring;
use crate::slots::put;
use crate::timers::{Moment, earliest};

/// What one connection has received and not yet handed out.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    /// Bytes of the frame that is not complete yet, or, while `backlog`, whole frames that its turn
    /// left over. Filled in place, so it never wraps.
    ring: Ring,
    /// Bytes at the ring's front that frames of the batch lie in: they stay until fetched.
    lent: u32,
    /// How far the unfinished frame has been looked at, for framings that search for its end.
    scanned: u32,
    /// The ring may begin with a whole frame.
    backlog: bool,
    /// It stands in the ready queue.
    queued: bool,
    /// Its first event is in a batch. Before, it is not read.
    is_known: bool,
    /// It has brought a whole message.
    has_spoken: bool,
    intake: Intake,
    /// The number behind its last message in the batch.
    last: u64,
    /// When it last brought anything.
    heard: Moment,
    /// When the first byte of its unfinished frame came.
    frame_begun: Moment,
}

/// What is known of a connection's input.
#[derive(Debug, Default)]
struct Intake {
    /// The socket may hold more: no receive has drained it since the last edge.
    readable: bool,
    /// A short receive does not prove it drained (see `Readiness::insist`).
    insist: bool,
    /// The last receive failed for want of memory.
    is_short: bool,
    /// How the input ended, once it has; told after the backlog is handed out.
    end: Option<ReadEnd>,
    /// What this tick's turns have used up of the quanta.
    turn: Turn,
}

#[derive(Clone, Copy, Debug)]
enum ReadEnd {
    Fin,
    Failed(io::ErrorKind),
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    tick: u32,
    frames: u32,
    bytes: u32,
}

/// The receiving halves of all connections: what the events of a batch borrow.
#[derive(Debug)]
pub(crate) struct Inlet {
    pub(crate) arena: Arena,
    pub(crate) batch: Batch,
    pub(crate) pool: Pool,
    conns: Vec<Inbound>,
    /// The rates of all connections; empty where none is set.
    throttles: Vec<Throttle>,
    /// What each connection has brought; empty where nobody wants to know.
    stats: Vec<InStats>,
    /// Who may have something to read, in turn.
    ready: VecDeque<u32>,
    /// Whose ring lies in the batch.
    lending: Vec<u32>,
    tick: u32,
    /// Bytes that lie in rings.
    held: usize,
    /// Bytes moved beside the one copy out of the kernel.
    pub(crate) bytes_moved: u64,
    pub(crate) bytes_received: u64,
    pub(crate) messages_received: u64,
    pub(crate) receives: u64,
}

/// What a turn of a connection needs to know.
pub(crate) struct Visit<'a> {
    pub(crate) id: ConnId,
    pub(crate) framer: &'a Framer,
    pub(crate) limits: &'a Limits,
    pub(crate) now: Moment,
    /// The most bytes that all rings together may hold.
    pub(crate) held_max: usize,
}

/// What a connection has brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InStats {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// How much a turn may bring.
#[derive(Clone, Copy, Debug)]
struct Quota {
    frames: usize,
    bytes: usize,
}

/// How a connection's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turned {
    /// Nothing more until an edge.
    Idle,
    /// There may be more; it has had its turn.
    Again,
    /// There may be more, but it has used up its rate until this moment.
    Throttled(Moment),
    /// There may be more, but the system is short of memory: nothing will tell when to go on.
    Shortage,
    /// There may be more, but the arena is full: nobody else's turn can bring anything either.
    ArenaFull,
    /// The peer's FIN; all before it is in the batch.
    Fin { truncated: bool },
    /// Receiving failed; all before is in the batch.
    Failed(io::ErrorKind),
    /// The bytes are no frame; all before is in the batch.
    Bad(DisconnectReason),
}

impl Inlet {
    pub(crate) fn new(batch_memory: usize) -> Inlet {
        Inlet {
            arena: Arena::new(batch_memory),
            batch: Batch::default(),
            pool: Pool::default(),
            conns: Vec::new(),
            throttles: Vec::new(),
            stats: Vec::new(),
            ready: VecDeque::new(),
            lending: Vec::new(),
            tick: 0,
            held: 0,
            bytes_moved: 0,
            bytes_received: 0,
            messages_received: 0,
            receives: 0,
        }
    }

    /// Makes the half of a new connection. Nothing is known to be readable.
    pub(crate) fn open(&mut self, slot: u32, limits: &Limits, now: Moment) {
        let conn = Inbound { last: self.batch.next_number(), heard: now, ..Inbound::default() };
        if let Some(throttle) = Throttle::new(limits, now) {
            put(&mut self.throttles, slot, throttle);
        }
        if limits.connection_stats {
            put(&mut self.stats, slot, InStats::default());
        }
        put(&mut self.conns, slot, conn);
    }

    /// What the events of a batch borrow.
    pub(crate) fn lend(&mut self) -> (&mut Batch, &Arena, &[Inbound]) {
        (&mut self.batch, &self.arena, &self.conns)
    }

    /// Puts a connection's first event into the batch; from then on it may be read. It counts as a message that the game
    /// may want to answer.
    pub(crate) fn introduce(&mut self, id: ConnId) {
        let conn = &mut self.conns[id.slot() as usize];
        conn.last = 1 + self.batch.push(id, What::Connected);
        conn.is_known = true;
        self.resume(id.slot());
    }

    /// Whether the game has been told, or is about to be, that the connection exists.
    pub(crate) fn is_known(&self, slot: u32) -> bool {
        self.conns[slot as usize].is_known
    }

    // Between batches.

    /// Gives everybody a new turn.
    pub(crate) fn renew_turns(&mut self) {
        self.tick = self.tick.wrapping_add(1);
    }

    /// Takes back what the game has fetched.
    pub(crate) fn release(&mut self) {
        let Inlet { batch, conns, pool, lending, bytes_moved, held, .. } = self;
        lending.retain(|&slot| {
            let conn = &mut conns[slot as usize];
            let fetched = batch.fetched_up_to(conn.last);
            if fetched {
                *held -= conn.lent as usize;
                *bytes_moved += conn.take_back(pool);
            }
            !fetched
        });
        self.batch.release();
        match self.batch.arena_start() {
            Some(start) => self.bytes_moved += self.arena.slide(start) as u64,
            None => self.arena.clear(),
        }
    }

    /// Whether the game has fetched every message of this connection.
    pub(crate) fn is_fetched(&self, slot: u32) -> bool {
        self.batch.fetched_up_to(self.conns[slot as usize].last)
    }

    /// Forgets what a connection has received and not handed out. What lies in the batch stays.
    pub(crate) fn forget(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        conn.backlog = false;
        if conn.lent == 0 {
            self.held -= conn.ring.len();
            self.pool.put(conn.ring.release());
        }
    }

    /// Gives a connection no further turn.
    pub(crate) fn end(&mut self, slot: u32) {
        self.forget(slot);
        self.conns[slot as usize].queued = false; // its place in the queue is skipped
    }

    /// Clears a slot whose last event was fetched.
    pub(crate) fn reap(&mut self, slot: u32) {
        let conn = std::mem::take(&mut self.conns[slot as usize]);
        let mut ring = conn.ring;
        self.held -= ring.len();
        self.pool.put(ring.release());
        if conn.lent > 0 {
            self.lending.retain(|&lending| lending != slot);
        }
    }

    // Deadlines.

    /// Whether a connection has a deadline that it did not have when it was accepted.
    pub(crate) fn has_deadline(&self, slot: u32) -> bool {
        let conn = &self.conns[slot as usize];
        conn.has_partial()
    }

    /// When the peer should have brought what, and else ends for which reason: the earliest.
    pub(crate) fn deadline(
        &self,
        slot: u32,
        timeouts: &Timeouts,
    ) -> Option<(Moment, DisconnectReason)> {
        let conn = &self.conns[slot as usize];
        let is_open = conn.intake.end.is_none();
        let idle = timeouts.idle.filter(|_| is_open);
        let idle = idle.map(|span| (conn.heard.after(span), DisconnectReason::Idle));
        let frame = timeouts.frame.filter(|_| is_open && conn.has_partial());
        let frame =
            frame.map(|span| (conn.frame_begun.after(span), DisconnectReason::FrameDeadline));
        earliest([frame, idle])
    }

    /// Whether it is ours that nothing has come: there may be something, and we have not read it.
    pub(crate) fn is_behind(&self, slot: u32) -> bool {
        let conn = &self.conns[slot as usize];
        conn.queued || conn.intake.readable || conn.backlog || conn.lent > 0
    }

    /// Begins the peer's deadlines anew, since it could not have kept them.
    pub(crate) fn excuse(&mut self, slot: u32, now: Moment) {
        let conn = &mut self.conns[slot as usize];
        (conn.heard, conn.frame_begun) = (now, now);
    }

    /// Whether a connection has brought a whole message.
    pub(crate) fn has_spoken(&self, slot: u32) -> bool {
        self.conns[slot as usize].has_spoken
    }

    /// What a connection has brought, if that is counted.
    pub(crate) fn stats_of(&self, slot: u32) -> Option<InStats> {
        self.stats.get(slot as usize).copied()
    }

    /// Bytes that lie in rings.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    // The ready queue.

    /// Notes that a connection may have something to read.
    pub(crate) fn set_readable(&mut self, slot: u32, insist: bool) {
        let intake = &mut self.conns[slot as usize].intake;
        intake.readable = true;
        intake.insist |= insist;
        self.requeue(slot);
    }

    /// Gives a connection a turn again that had none while it was paused.
    pub(crate) fn resume(&mut self, slot: u32) {
        let conn = &self.conns[slot as usize];
        if conn.intake.readable || conn.intake.end.is_some() || conn.backlog {
            self.requeue(slot);
        }
    }

    /// How many turns are due.
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Whose turn is next.
    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        let slot = self.ready.pop_front()?;
        std::mem::take(&mut self.conns[slot as usize].queued).then_some(slot)
    }

    /// Puts a connection behind all others.
    pub(crate) fn requeue(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.conns[slot as usize].queued, true) {
            self.ready.push_back(slot);
        }
    }

    /// Puts a connection back before all others: its turn has not begun.
    pub(crate) fn unread(&mut self, slot: u32) {
        self.conns[slot as usize].queued = true;
        self.ready.push_front(slot);
    }

    // A connection's turn.

    /// Receives once from a connection and puts whole frames into the batch, within its quanta and rates.
    pub(crate) fn serve(
        &mut self,
        visit: &Visit<'_>,
        recv: impl FnMut(&mut [u8]) -> io::Result<Received>,
    ) -> Turned {
        let conn = &mut self.conns[visit.id.slot() as usize];
        let limits = visit.limits;
        conn.intake.turn.renew(self.tick);
        let mut quota = conn.intake.turn.quota(limits);
        quota.frames = quota.frames.min(limits.event_budget.saturating_sub(self.batch.remaining()));
        // Frames of an earlier turn still lie at the ring's front: it must not be touched before the
        // game has fetched them.
        if quota.frames == 0 || conn.lent > 0 {
            return Turned::Again;
        }
        if let Some(until) = self.keep_pace(&mut quota, visit) {
            return Turned::Throttled(until);
        }
        let conn = &self.conns[visit.id.slot() as usize];
        let before = conn.intake.turn;
        let turned = if conn.backlog || conn.ring.len() > TAIL_LEN_MAX {
            self.serve_in_ring(visit, quota, recv)
        } else {
            self.serve_in_arena(visit, quota, recv)
        };
        self.account(visit, before, turned)
    }

    /// Cuts the quota to what the connection's rates allow now. If that is nothing, until when.
    fn keep_pace(&mut self, quota: &mut Quota, visit: &Visit<'_>) -> Option<Moment> {
        let slot = visit.id.slot() as usize;
        let throttle = self.throttles.get_mut(slot)?;
        if visit.limits.rate_policy != RatePolicy::Pause {
            return None;
        }
        let (frames, bytes) = throttle.allowance(visit.limits, visit.now);
        quota.frames = quota.frames.min(frames);
        quota.bytes = quota.bytes.min(bytes);
        // What has been received already is paid for.
        let is_enough = frames > 0 && (bytes > 0 || self.conns[slot].backlog);
        if is_enough { None } else { throttle.rest(visit.limits) }
    }

    /// Notes what a turn has brought, and whether that was within the connection's rates.
    fn account(&mut self, visit: &Visit<'_>, before: Turn, turned: Turned) -> Turned {
        let conn = &mut self.conns[visit.id.slot() as usize];
        let frames = (conn.intake.turn.frames - before.frames) as usize;
        let bytes = (conn.intake.turn.bytes - before.bytes) as usize;
        self.messages_received += frames as u64;
        self.bytes_received += bytes as u64;
        conn.has_spoken |= frames > 0;
        if let Some(stats) = self.stats.get_mut(visit.id.slot() as usize) {
            stats.messages += frames as u64;
            stats.bytes += bytes as u64;
        }
        if bytes > 0 {
            conn.heard = visit.now;
        }
        let Some(throttle) = self.throttles.get_mut(visit.id.slot() as usize) else {
            return turned;
        };
        throttle.allowance(visit.limits, visit.now); // what has come since, whatever the policy
        let is_within = throttle.take(visit.limits, frames, bytes);
        let ends = !is_within && visit.limits.rate_policy == RatePolicy::Disconnect;
        if ends && !matches!(turned, Turned::Bad(_)) {
            return Turned::Bad(DisconnectReason::RateLimit);
        }
        turned
    }

    /// The usual way: what is new is received into the arena, behind the short rest of last time, and
    /// handed out of it.
    fn serve_in_arena(
        &mut self,
        visit: &Visit<'_>,
        quota: Quota,
        mut recv: impl FnMut(&mut [u8]) -> io::Result<Received>,
    ) -> Turned {
        let conn = &mut self.conns[visit.id.slot() as usize];
        let start = self.arena.position();
        let spare = self.arena.spare();
        let tail = conn.ring.len();
        if spare.len() < tail + RECEIVE_LEN_MIN {
            return Turned::ArenaFull;
        }
        let offered = quota.bytes.min(spare.len() - tail);
        if !conn.intake.is_open() || offered == 0 {
            return conn.rest();
        }
        self.receives += 1;
        let len = conn.intake.receive(&mut spare[tail..tail + offered], &mut recv);
        if len == 0 {
            return conn.rest();
        }
        if tail > 0 {
            spare[..tail].copy_from_slice(conn.ring.contiguous());
            self.pool.put(conn.ring.release());
            self.held -= tail;
            self.bytes_moved += tail as u64;
        }
        let filled = &spare[..tail + len];
        let decoded =
            visit.framer.decode(filled, quota.frames, &mut conn.scanned, |offset, len| {
                let start = start.wrapping_add(offset as u32);
                conn.last = 1 + self.batch.push(visit.id, What::InArena { start, len: len as u32 });
            });
        let rest = &filled[decoded.consumed..];
        if !rest.is_empty() && !matches!(decoded.stop, Stop::Bad(_)) {
            if self.held + rest.len() > visit.held_max {
                self.arena.commit(decoded.consumed);
                return conn.turned(&decoded.but_bad(DisconnectReason::MemoryLimit));
            }
            conn.ring.rehome(self.pool.take(rest.len()));
            conn.ring.push(rest);
            self.held += rest.len();
            self.bytes_moved += rest.len() as u64;
        }
        if decoded.consumed > 0 || tail == 0 {
            conn.frame_begun = visit.now;
        }
        self.arena.commit(decoded.consumed);
        conn.turned(&decoded)
    }

    /// The way of a large frame, and of frames that a turn left over: they are handed out of the
    /// connection's own ring, so that their bytes are not moved again and again.
    fn serve_in_ring(
        &mut self,
        visit: &Visit<'_>,
        quota: Quota,
        mut recv: impl FnMut(&mut [u8]) -> io::Result<Received>,
    ) -> Turned {
        let conn = &mut self.conns[visit.id.slot() as usize];
        let full_len = visit.framer.frame_len_max().max(conn.ring.capacity());
        let mut quantum = quota.bytes;
        while !conn.backlog && conn.intake.is_open() && quantum > 0 && conn.ring.len() < full_len {
            if self.held >= visit.held_max {
                return Turned::Bad(DisconnectReason::MemoryLimit);
            }
            self.bytes_moved += conn.make_room(&mut self.pool);
            self.receives += 1;
            let len = conn.intake.receive(conn.ring.spare(quantum), &mut recv);
            if len == 0 {
                break;
            }
            conn.ring.commit(len);
            self.held += len;
            quantum -= len;
        }
        let bytes = conn.ring.contiguous();
        let decoded = visit.framer.decode(bytes, quota.frames, &mut conn.scanned, |offset, len| {
            let what = What::InRing { start: offset as u32, len: len as u32 };
            conn.last = 1 + self.batch.push(visit.id, what);
        });
        if decoded.consumed > 0 {
            conn.lent = decoded.consumed as u32;
            conn.frame_begun = visit.now;
            self.lending.push(visit.id.slot());
        }
        conn.turned(&decoded)
    }

    /// Receives and throws away, within the connection's quantum, on the way to its end.
    pub(crate) fn discard(
        &mut self,
        slot: u32,
        limits: &Limits,
        mut recv: impl FnMut(&mut [u8]) -> io::Result<Received>,
    ) -> Turned {
        let conn = &mut self.conns[slot as usize];
        conn.intake.turn.renew(self.tick);
        let spare = self.arena.spare();
        if spare.is_empty() {
            return Turned::ArenaFull;
        }
        let offered = conn.intake.turn.quota(limits).bytes.min(spare.len());
        if conn.intake.is_open() && offered > 0 {
            self.receives += 1;
            conn.intake.receive(&mut spare[..offered], &mut recv);
        }
        conn.rest()
    }
}

impl Inbound {
    /// Whether a frame has begun to come and is not complete.
    fn has_partial(&self) -> bool {
        self.ring.len() > self.lent as usize && !self.backlog
    }

    /// The bytes of a frame in the ring, counted from the ring's front.
    pub(crate) fn lent(&self, start: u32, len: u32) -> &[u8] {
        &self.ring.contiguous()[start as usize..][..len as usize]
    }

    /// Room behind the bytes of a ring that is read on. Grows with what was received, never with what
    /// was announced.
    fn make_room(&mut self, pool: &mut Pool) -> u64 {
        let behind = self.ring.capacity() - self.ring.contiguous_end();
        if behind > 0 {
            return 0;
        }
        if self.ring.free() >= self.ring.len() {
            return self.ring.slide() as u64;
        }
        let larger = pool.take(2 * self.ring.capacity());
        pool.put(self.ring.rehome(larger));
        self.ring.len() as u64
    }

    /// What a turn comes to that brought no bytes.
    fn rest(&self) -> Turned {
        match self.intake.end {
            Some(ReadEnd::Fin) => Turned::Fin { truncated: self.ring.len() > self.lent as usize },
            Some(ReadEnd::Failed(kind)) => Turned::Failed(kind),
            None if self.intake.is_short => Turned::Shortage,
            None if self.intake.readable => Turned::Again,
            None => Turned::Idle,
        }
    }

    /// What a turn comes to that brought bytes.
    fn turned(&mut self, decoded: &Decoded) -> Turned {
        self.intake.turn.frames += decoded.frames as u32;
        self.backlog = decoded.stop == Stop::Quantum;
        match decoded.stop {
            Stop::Bad(reason) => Turned::Bad(reason),
            Stop::Quantum => Turned::Again,
            Stop::Incomplete => self.rest(),
        }
    }

    /// Takes back the front of the ring after the game has fetched it. Returns the bytes moved.
    fn take_back(&mut self, pool: &mut Pool) -> u64 {
        self.ring.consume(self.lent as usize);
        self.lent = 0;
        if self.ring.is_empty() {
            pool.put(self.ring.release());
        } else if self.ring.len() <= self.ring.capacity() / 4 && !self.backlog {
            // What is left of a large ring waits in a small one.
            let smaller = pool.take(self.ring.len());
            pool.put(self.ring.rehome(smaller));
            return self.ring.len() as u64;
        }
        0
    }
}

impl Intake {
    /// Whether a receive may bring something.
    fn is_open(&self) -> bool {
        self.readable && self.end.is_none()
    }

    /// Receives once and notes what that says about the socket. Returns how many bytes came.
    fn receive(
        &mut self,
        into: &mut [u8],
        recv: &mut impl FnMut(&mut [u8]) -> io::Result<Received>,
    ) -> usize {
        debug_assert!(!into.is_empty(), "receiving into nothing would look like a FIN");
        self.is_short = false;
        match recv(into) {
            Ok(Received { len: 0, .. }) => self.end = Some(ReadEnd::Fin),
            Ok(Received { len, drained }) => {
                self.turn.bytes += len as u32;
                self.readable = !drained || self.insist;
                return len;
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => (self.readable, self.insist) = (false, false),
                // The socket is as it was, so it is read again next turn.
                io::ErrorKind::Interrupted => {}
                _ if is_shortage(&error) => self.is_short = true,
                kind => self.end = Some(ReadEnd::Failed(kind)),
            },
        }
        0
    }
}

impl Turn {
    fn renew(&mut self, tick: u32) {
        if self.tick != tick {
            *self = Turn { tick, frames: 0, bytes: 0 };
        }
    }

    /// What is left of it.
    fn quota(&self, limits: &Limits) -> Quota {
        Quota {
            frames: limits.frame_quantum - self.frames as usize,
            bytes: limits.read_quantum - self.bytes as usize,
        }
    }
}

/// A rest up to this length goes back into the arena in front of the next receive; a longer one is
/// read on in the connection's ring. Holds a whole frame of the default maximum.
const TAIL_LEN_MAX: usize = 20 * 1024;

/// With less room than this the arena counts as full: tiny receives would cost more than they bring.
const RECEIVE_LEN_MIN: usize = 4 * 1024;

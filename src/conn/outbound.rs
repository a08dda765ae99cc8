//! The sending half: messages in, contiguous bytes out. No socket, no clock.

mod books;
mod marks;

use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::Bytes;

use self::books::Books;
pub(crate) use self::marks::SendDue;
use self::marks::{Level, SoftLimit};
use super::queue::{Queue, SLICES_MAX, Spares};
use super::writer::FrameWriter;
use crate::config::{Limits, SendPolicy};
use crate::error::{DisconnectReason, SendError};
use crate::frame::{FramerId, HEADER_LEN};
use crate::id::ConnId;
use crate::io::is_shortage;
use crate::ledger::{Ledger, Overdrawn};
use crate::pool::Pool;
use crate::slots::put;
use crate::stats::Refusals;
use crate::timers::Moment;

/// What one connection has to send. One line of the processor's cache, since a broadcast goes through all.
#[derive(Debug)]
pub(crate) struct Outbound {
    queue: Queue,
    framer: FramerId,
    gate: Gate,
    /// It stands in the dirty list.
    dirty: bool,
    usual: Usual,
    room: Room,
    level: Level,
    soft: SoftLimit,
    /// Something waits, and the socket has taken nothing since `moved`.
    is_stalled: bool,
    soft_since: Moment,
    moved: Moment,
}

/// How much a flush finds queued, by and large: what the next buffer should hold, so that it need not grow from the
/// smallest each time.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    /// The size is 2^bits.
    bits: u8,
    /// Flushes in a row that found less.
    smaller: u8,
}

impl Usual {
    fn len(self) -> usize {
        1 << self.bits
    }

    /// Follows a rise at once, and a fall when it has lasted for a good while.
    fn note(&mut self, len: usize) {
        let bits = len.checked_ilog2().map_or(0, |bits| bits as u8 + 1);
        if bits >= self.bits {
            *self = Usual { bits, smaller: 0 };
        } else if self.smaller == u8::MAX {
            *self = Usual { bits: self.bits - 1, smaller: 0 };
        } else {
            self.smaller += 1;
        }
    }
}

/// Whether the socket takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// As far as is known.
    Some,
    /// The last send was short; the next flush tries once more before it waits for writable.
    Short,
    /// Nothing is sent before the socket says writable.
    None,
}

/// Whether messages are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// A send has failed. The receiving half decides when that is the end; this is why.
    Failed(io::ErrorKind),
    /// The connection is ending.
    Shut,
}

/// What the game asks for between two ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Close,
    End(DisconnectReason),
    /// To go on reading after a pause.
    Resume,
    /// A send queue has risen above a mark or a limit: to be seen to.
    Risen,
    /// A send queue has been shortened.
    Fallen,
}

/// What a connection has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutStats {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) refused: u64,
    pub(crate) queue_peak: usize,
}

/// Why a message is not taken. The game hears of it as a [`SendError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The connection's own limit.
    QueueFull,
    /// The limit of all together.
    MemoryFull,
    /// The soft limit, for too long.
    Choked,
    Other(SendError),
}

impl From<Refusal> for SendError {
    fn from(refusal: Refusal) -> SendError {
        match refusal {
            Refusal::QueueFull | Refusal::MemoryFull | Refusal::Choked => SendError::Full,
            Refusal::Other(error) => error,
        }
    }
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Refusal {
        Refusal::Other(error)
    }
}

impl From<Overdrawn> for Refusal {
    fn from(overdrawn: Overdrawn) -> Refusal {
        match overdrawn {
            Overdrawn::Closed => Refusal::Other(SendError::Closing),
            Overdrawn::Queue => Refusal::QueueFull,
            Overdrawn::InAll => Refusal::MemoryFull,
        }
    }
}

/// The sending halves of all connections: what an outbox borrows.
#[derive(Debug, Default)]
pub(crate) struct Outlet {
    pub(crate) pool: Pool,
    pub(crate) requests: Vec<(ConnId, Request)>,
    pub(crate) refused: Vec<(ConnId, SendError)>,
    conns: Vec<Outbound>,
    /// Who has something to send and may try.
    dirty: Vec<u32>,
    /// Empty; the list of the next flush, so that neither is allocated again and again.
    undirty: Vec<u32>,
    spares: Spares,
    books: Books,
    /// What each connection has sent; empty where nobody wants to know.
    stats: Vec<OutStats>,
    /// Bytes of the header of the last encoded message.
    header_len: usize,
    pub(crate) messages_sent: u64,
    pub(crate) refusals: Refusals,
    pub(crate) messages_superseded: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) sends: u64,
}

/// What a flush of one connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing is queued any more.
    All,
    /// Something stays: the next flush or a writable socket goes on.
    Some,
    /// The system is short of memory: nothing will tell when to go on.
    Shortage,
    /// Nothing can leave any more; what was queued is gone.
    Failed,
}

impl Outlet {
    pub(crate) fn new(limits: &Limits) -> Outlet {
        let mut outlet = Outlet::default();
        outlet.set_held(0, limits);
        outlet
    }

    /// Makes the half of a new connection. One that is not yet established is blocked until it is.
    pub(crate) fn open(
        &mut self,
        id: ConnId,
        framer: FramerId,
        established: bool,
        limits: &Limits,
    ) {
        let conn = Outbound {
            queue: Queue::default(),
            framer,
            gate: Gate::Open,
            dirty: false,
            usual: Usual::default(),
            room: if established { Room::Some } else { Room::None },
            level: Level::Low,
            soft: SoftLimit::Within,
            is_stalled: false,
            soft_since: Moment::default(),
            moved: Moment::default(),
        };
        put(&mut self.conns, id.slot(), conn);
        if limits.connection_stats {
            put(&mut self.stats, id.slot(), OutStats::default());
        }
        if let Some(ledger) = &self.books.ledger {
            ledger.open(id, 0);
        }
    }

    /// Bytes that wait to leave.
    pub(crate) fn queued(&self, slot: u32) -> usize {
        self.conns[slot as usize].queue.len()
    }

    /// The same and what other threads have handed in.
    pub(crate) fn spoken_for(&self, slot: u32) -> usize {
        let ledger = self.books.ledger.as_ref();
        ledger.map_or_else(|| self.queued(slot), |ledger| ledger.queued(slot))
    }

    pub(crate) fn is_open(&self, slot: u32) -> bool {
        self.conns[slot as usize].gate == Gate::Open
    }

    /// Takes no further messages.
    pub(crate) fn shut(&mut self, slot: u32) {
        let gate = &mut self.conns[slot as usize].gate;
        if *gate == Gate::Open {
            *gate = Gate::Shut; // a failure stays: it is the reason
        }
        if let Some(ledger) = &self.books.ledger {
            ledger.close(slot);
        }
    }

    /// Takes no further messages; the request ends the connection.
    pub(crate) fn end_by_request(&mut self, id: ConnId, request: Request) {
        self.shut(id.slot());
        self.requests.push((id, request));
    }

    /// Why sending failed, if it has.
    pub(crate) fn failure(&self, slot: u32) -> Option<io::ErrorKind> {
        match self.conns[slot as usize].gate {
            Gate::Failed(kind) => Some(kind),
            Gate::Open | Gate::Shut => None,
        }
    }

    /// Takes no further messages and drops what is queued.
    pub(crate) fn end(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        conn.gate = Gate::Shut;
        self.books.close(slot, conn.queue.len());
        conn.queue.clear(&mut self.pool, &mut self.spares);
    }

    /// What a connection has sent, if that is counted.
    pub(crate) fn stats_of(&self, slot: u32) -> Option<OutStats> {
        self.stats.get(slot as usize).copied()
    }

    /// Bytes that wait on all connections together.
    pub(crate) fn queued_in_all(&self) -> usize {
        self.books.in_all()
    }

    /// Notes how much unfinished input there is.
    pub(crate) fn set_held(&mut self, held: usize, limits: &Limits) {
        self.books.set_held(held, limits);
    }

    /// From now on other threads may add to the queues, as far as the ledger allows.
    pub(crate) fn keep_ledger(&mut self, ledger: Arc<Ledger>, live: impl Iterator<Item = ConnId>) {
        for id in live {
            let conn = &self.conns[id.slot() as usize];
            ledger.open(id, conn.queue.len());
            if conn.gate != Gate::Open {
                ledger.close(id.slot()); // what is queued counts until it has left
            }
        }
        self.books.ledger = Some(ledger);
    }

    /// Queues a message that another thread has reserved the bytes for.
    pub(crate) fn send_reserved(&mut self, id: ConnId, payload: &[u8], limits: &Limits) {
        let conn = &mut self.conns[id.slot() as usize];
        let framer = limits.framers.get(conn.framer);
        let envelope = conn.admit().and_then(|()| Ok(framer.encode(payload)?));
        let envelope = envelope.and_then(|envelope| {
            // Other threads count with the default header.
            self.books.correct(id, HEADER_LEN, envelope.len())?;
            Ok(envelope)
        });
        let envelope = match envelope {
            Ok(envelope) => envelope,
            Err(refusal) => return self.drop_reserved(id, payload.len(), refusal.into()),
        };
        let frame_len = envelope.len() + payload.len();
        conn.queue.reserve(frame_len, conn.usual.len(), &mut self.pool);
        conn.queue.ring.push(envelope.header());
        conn.queue.ring.push(payload);
        conn.queue.ring.push(envelope.trailer());
        self.books.queued += frame_len;
        self.sent(id, limits);
    }

    /// Drops a message that another thread has reserved the bytes for.
    pub(crate) fn drop_reserved(&mut self, id: ConnId, payload_len: usize, error: SendError) {
        self.refusals.count(error);
        if let Some(ledger) = &self.books.ledger {
            ledger.release(id.slot(), HEADER_LEN + payload_len);
        }
    }

    // Queueing: no system call, all or nothing.

    /// Queues one message. Always inlined: in a broadcast, calls would cost more than all else.
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        id: ConnId,
        payload: &[u8],
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let conn = &mut self.conns[id.slot() as usize];
        conn.admit()?;
        let Some(header) = limits.framers.get(conn.framer).prefix(payload.len()) else {
            return self.send_framed(id, payload, limits);
        };
        let header = header?;
        self.books.reserve(id, &conn.queue, HEADER_LEN + payload.len(), 0, limits)?;
        conn.queue.reserve(HEADER_LEN + payload.len(), conn.usual.len(), &mut self.pool);
        conn.queue.ring.push_both(&header, payload);
        self.sent(id, limits);
        Ok(())
    }

    /// The same in any framing.
    #[inline(never)]
    fn send_framed(&mut self, id: ConnId, payload: &[u8], limits: &Limits) -> Result<(), Refusal> {
        let conn = &mut self.conns[id.slot() as usize];
        let envelope = limits.framers.get(conn.framer).encode(payload)?;
        let frame_len = envelope.len() + payload.len();
        self.books.reserve(id, &conn.queue, frame_len, 0, limits)?;
        conn.queue.reserve(frame_len, conn.usual.len(), &mut self.pool);
        conn.queue.ring.push(envelope.header());
        conn.queue.ring.push(payload);
        conn.queue.ring.push(envelope.trailer());
        self.sent(id, limits);
        Ok(())
    }

    /// Queues one message whose payload other connections share.
    pub(crate) fn send_shared(
        &mut self,
        id: ConnId,
        payload: &Bytes,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let conn = &mut self.conns[id.slot() as usize];
        conn.admit()?;
        let envelope = limits.framers.get(conn.framer).encode(payload)?;
        let frame_len = envelope.len() + payload.len();
        self.books.reserve(id, &conn.queue, frame_len, 0, limits)?;
        conn.queue.reserve(envelope.len(), conn.usual.len(), &mut self.pool);
        conn.queue.ring.push(envelope.header());
        conn.queue.push_shared(payload.clone(), &mut self.spares);
        conn.queue.ring.push(envelope.trailer());
        self.sent(id, limits);
        Ok(())
    }

    /// Queues one message in place of an older one of the same kind that has not begun to leave.
    pub(crate) fn send_latest(
        &mut self,
        id: ConnId,
        kind: u32,
        payload: &[u8],
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let conn = &mut self.conns[id.slot() as usize];
        let superseded = conn.queue.latest_len(kind);
        let freed = superseded.unwrap_or(0);
        conn.admit()?;
        let envelope = limits.framers.get(conn.framer).encode(payload)?;
        let frame_len = envelope.len() + payload.len();
        self.books.reserve(id, &conn.queue, frame_len, freed, limits)?;
        if superseded.is_some() {
            conn.queue.remove_latest(kind, &mut self.pool);
            self.messages_superseded += 1;
            self.books.release(id.slot(), freed);
        }
        let mut frame = self.pool.take(frame_len);
        frame.clear();
        frame.extend_from_slice(envelope.header());
        frame.extend_from_slice(payload);
        frame.extend_from_slice(envelope.trailer());
        conn.queue.push_latest(kind, frame, &mut self.spares);
        self.sent(id, limits);
        let conn = &self.conns[id.slot() as usize];
        if superseded.is_some() && (conn.level != Level::Low || conn.soft != SoftLimit::Within) {
            self.requests.push((id, Request::Fallen));
        }
        Ok(())
    }

    /// Queues one message that `encode` writes straight into the connection's ring.
    pub(crate) fn send_encoded<E>(
        &mut self,
        id: ConnId,
        limits: &Limits,
        encode: impl FnOnce(&mut FrameWriter<'_>) -> Result<(), E>,
    ) -> Result<(), Result<E, Refusal>> {
        let conn = &mut self.conns[id.slot() as usize];
        conn.admit_any().map_err(Err)?;
        let framer = limits.framers.get(conn.framer);
        let header_len = framer.header_len(self.header_len);
        conn.queue.reserve_appendable(
            header_len + ENCODED_LEN_MIN,
            conn.usual.len(),
            &mut self.pool,
        );
        let buffer = conn.queue.ring.appendable();
        let start = buffer.len();
        match header_len {
            HEADER_LEN => buffer.extend_from_slice(&[0; HEADER_LEN]), // the usual, at a known length
            _ => buffer.resize(start + header_len, 0),
        }
        let mut writer = FrameWriter::new(buffer);
        // Nothing that is written counts before it is accepted below: an error, or a panic of the
        // encoder, leaves the queue as it was.
        let encoded = encode(&mut writer).map_err(Ok);
        let payload_len = writer.len();
        let completed = encoded.and_then(|()| {
            self.accept_encoded(id, start, header_len, payload_len, limits).map_err(Err)
        });
        match completed {
            Ok(()) => {
                self.sent(id, limits);
                Ok(())
            }
            Err(error) => {
                let queue = &mut self.conns[id.slot() as usize].queue;
                if queue.is_empty() {
                    queue.clear(&mut self.pool, &mut self.spares);
                }
                Err(error)
            }
        }
    }

    /// Makes a message of the payload that was appended behind `reserved` bytes, from `start` on.
    #[inline]
    fn accept_encoded(
        &mut self,
        id: ConnId,
        start: usize,
        reserved: usize,
        payload_len: usize,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let conn = &mut self.conns[id.slot() as usize];
        conn.admit()?;
        let Some(header) = limits.framers.get(conn.framer).prefix(payload_len) else {
            return self.accept_framed(id, start, reserved, limits);
        };
        let header = header?;
        self.books.reserve(id, &conn.queue, HEADER_LEN + payload_len, 0, limits)?;
        conn.queue.ring.accept_appended(start, HEADER_LEN, &header, &[]);
        Ok(())
    }

    /// The same in any framing.
    #[inline(never)]
    fn accept_framed(
        &mut self,
        id: ConnId,
        start: usize,
        reserved: usize,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let conn = &mut self.conns[id.slot() as usize];
        let payload = &conn.queue.ring.appended(start)[reserved..];
        let envelope = limits.framers.get(conn.framer).encode(payload)?;
        let frame_len = envelope.len() + payload.len();
        self.books.reserve(id, &conn.queue, frame_len, 0, limits)?;
        let header = envelope.header();
        conn.queue.ring.accept_appended(start, reserved, header, envelope.trailer());
        self.header_len = header.len();
        Ok(())
    }

    /// Counts a refused message. Returns whether it is the end of its connection.
    pub(crate) fn refuse(&mut self, id: ConnId, refusal: Refusal, limits: &Limits) -> bool {
        self.refusals.count(refusal.into());
        if let Some(stats) = self.stats.get_mut(id.slot() as usize) {
            stats.refused += 1;
        }
        let reason = match refusal {
            Refusal::QueueFull => DisconnectReason::SendQueueFull,
            Refusal::MemoryFull => DisconnectReason::MemoryLimit,
            Refusal::Choked | Refusal::Other(_) => return false,
        };
        let ends = limits.send_policy == SendPolicy::Disconnect;
        if ends {
            self.end_by_request(id, Request::End(reason));
        }
        ends
    }

    /// Notes that a frame has been queued.
    #[inline(always)]
    fn sent(&mut self, id: ConnId, limits: &Limits) {
        self.messages_sent += 1;
        self.mark_dirty(id.slot());
        let queued = self.conns[id.slot() as usize].queue.len();
        if queued > limits.send_watch {
            self.watch(id, limits);
        }
        if !self.stats.is_empty() {
            self.note_sent(id.slot(), queued);
        }
    }

    #[inline(never)]
    fn note_sent(&mut self, slot: u32, queued: usize) {
        let stats = &mut self.stats[slot as usize];
        stats.messages += 1;
        stats.queue_peak = stats.queue_peak.max(queued);
    }

    // Flushing.

    /// Whom the flush has to serve; to be given back empty with [`done_flushing`](Self::done_flushing).
    pub(crate) fn begin_flush(&mut self) -> Vec<u32> {
        let empty = std::mem::take(&mut self.undirty);
        std::mem::replace(&mut self.dirty, empty)
    }

    /// Gives the list back. Who became dirty meanwhile stays so.
    pub(crate) fn done_flushing(&mut self, mut list: Vec<u32>) {
        list.clear();
        self.undirty = list;
    }

    /// Whether a connection of the list is still dirty, which it is no longer afterwards.
    pub(crate) fn take_dirty(&mut self, slot: u32) -> bool {
        std::mem::take(&mut self.conns[slot as usize].dirty)
    }

    /// A socket that says it is writable is tried by the next flush.
    pub(crate) fn set_writable(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        if conn.room == Room::None {
            conn.room = Room::Some;
            self.retry(slot);
        }
    }

    /// Tries again what failed for want of memory.
    pub(crate) fn retry(&mut self, slot: u32) {
        if !self.conns[slot as usize].queue.is_empty() {
            self.mark_dirty(slot);
        }
    }

    /// Sends what is queued: one call, unless there are more pieces than one call takes.
    pub(crate) fn flush(
        &mut self,
        slot: u32,
        now: Moment,
        mut send: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> Flushed {
        let conn = &mut self.conns[slot as usize];
        conn.usual.note(conn.queue.ring.len());
        while !conn.queue.is_empty() {
            self.sends += 1;
            let (offered, result) = match conn.queue.in_one_piece() {
                Some(bytes) => (bytes.len(), send(&[IoSlice::new(bytes)])),
                None => {
                    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                    let (count, offered) = conn.queue.gather(&mut slices);
                    (offered, send(&slices[..count]))
                }
            };
            match result {
                Ok(sent) => {
                    self.bytes_sent += sent as u64;
                    if let Some(stats) = self.stats.get_mut(slot as usize) {
                        stats.bytes += sent as u64;
                    }
                    self.books.release(slot, sent);
                    conn.queue.consume(sent, &mut self.pool, &mut self.spares);
                    conn.note_progress(sent, now);
                    if sent < offered {
                        // One more try costs little and saves a wake-up where the room was only just
                        // freed; after that the socket has to say so.
                        conn.room = match conn.room {
                            Room::Some => Room::Short,
                            Room::Short | Room::None => Room::None,
                        };
                        self.mark_dirty(slot);
                        return Flushed::Some;
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => {
                        conn.room = Room::None;
                        conn.note_progress(0, now);
                        return Flushed::Some;
                    }
                    _ if is_shortage(&error) => return Flushed::Shortage,
                    kind => {
                        conn.gate = Gate::Failed(kind);
                        self.books.close(slot, conn.queue.len());
                        conn.queue.clear(&mut self.pool, &mut self.spares);
                        return Flushed::Failed;
                    }
                },
            }
        }
        (conn.room, conn.is_stalled) = (Room::Some, false);
        self.pool.put(conn.queue.ring.release());
        Flushed::All
    }

    /// To be called now and then: lets memory follow the load down.
    pub(crate) fn trim(&mut self) {
        self.pool.trim();
        self.spares.trim().for_each(drop);
    }

    #[inline]
    fn mark_dirty(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        if conn.room != Room::None && !std::mem::replace(&mut conn.dirty, true) {
            self.dirty.push(slot);
        }
    }
}

impl Outbound {
    /// Whether any message is taken.
    #[inline]
    fn admit_any(&self) -> Result<(), Refusal> {
        if self.gate == Gate::Open { Ok(()) } else { Err(Refusal::Other(SendError::Closing)) }
    }

    /// Whether a message is taken, as far as its framing and the limits do not mind.
    #[inline]
    fn admit(&self) -> Result<(), Refusal> {
        self.admit_any()?;
        if self.soft == SoftLimit::Choked {
            return Err(Refusal::Choked);
        }
        Ok(())
    }

    /// Notes that the socket has taken so much, and has no room for what is left.
    fn note_progress(&mut self, sent: usize, now: Moment) {
        if sent > 0 || !self.is_stalled {
            (self.is_stalled, self.moved) = (true, now);
        }
    }
}

/// What an encoder finds room for at least; the buffer grows as it writes.
const ENCODED_LEN_MIN: usize = 100;

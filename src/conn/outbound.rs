//! The sending half: messages in, contiguous bytes out. No socket, no clock.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::{Deref, DerefMut};

use bytes::{Buf, BufMut, Bytes};

use crate::config::{Limits, SendPolicy};
use crate::error::{DisconnectReason, EncodeError, SendError};
use crate::frame::{Framing, HEADER_LEN};
use crate::id::ConnId;
use crate::io::is_shortage;
use crate::pool::{BUFFER_LEN_MIN, Pool};
use crate::ring::Ring;

/// What one connection has to send.
#[derive(Debug)]
pub(crate) struct Outbound {
    /// Frames that wait to leave, and the headers of shared payloads.
    ring: Ring,
    /// Large payloads that several connections share, between bytes of the ring. `None` nearly always.
    shared: Option<Box<VecDeque<Shared>>>,
    /// Bytes of the shared payloads that wait to leave.
    shared_len: u32,
    framing: Framing,
    gate: Gate,
    /// It stands in the dirty list.
    dirty: bool,
    /// The socket has no room: nothing is sent before it says writable.
    blocked: bool,
    /// The last send was short; the next flush tries once more before it waits for writable.
    short: bool,
}

#[derive(Debug)]
struct Shared {
    /// Bytes of the ring that leave first, counted from the shared payload before.
    after: usize,
    payload: Bytes,
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
    encode_len: LenHint,
    pub(crate) messages_sent: u64,
    pub(crate) messages_refused: u64,
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
    Failed(io::ErrorKind),
}

impl Outlet {
    /// Makes the half of a new connection. One that is not yet established is blocked until it is.
    pub(crate) fn open(&mut self, slot: u32, framing: Framing, established: bool) {
        let conn = Outbound {
            ring: Ring::default(),
            shared: None,
            shared_len: 0,
            framing,
            gate: Gate::Open,
            dirty: false,
            blocked: !established,
            short: false,
        };
        match slot as usize {
            fresh if fresh == self.conns.len() => self.conns.push(conn),
            reused => self.conns[reused] = conn,
        }
    }

    /// Bytes that wait to leave.
    pub(crate) fn queued(&self, slot: u32) -> usize {
        self.conns[slot as usize].queued()
    }

    pub(crate) fn is_open(&self, slot: u32) -> bool {
        self.conns[slot as usize].gate == Gate::Open
    }

    /// Takes no further messages.
    pub(crate) fn shut(&mut self, slot: u32) {
        self.conns[slot as usize].gate = Gate::Shut;
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
        conn.drop_queue(&mut self.pool);
    }

    // Queueing: no system call, all or nothing.

    /// Queues one message.
    #[inline]
    pub(crate) fn send(
        &mut self,
        slot: u32,
        payload: &[u8],
        limits: &Limits,
    ) -> Result<(), SendError> {
        let conn = &mut self.conns[slot as usize];
        let header = conn.admit(payload.len(), limits)?;
        conn.reserve(HEADER_LEN + payload.len(), &mut self.pool);
        conn.ring.push(&header);
        conn.ring.push(payload);
        self.messages_sent += 1;
        self.mark_dirty(slot);
        Ok(())
    }

    /// Queues one message whose payload other connections share.
    pub(crate) fn send_shared(
        &mut self,
        slot: u32,
        payload: &Bytes,
        limits: &Limits,
    ) -> Result<(), SendError> {
        let conn = &mut self.conns[slot as usize];
        let header = conn.admit(payload.len(), limits)?;
        conn.reserve(HEADER_LEN, &mut self.pool);
        conn.ring.push(&header);
        let shared = conn.shared.get_or_insert_default();
        let before: usize = shared.iter().map(|shared| shared.after).sum();
        shared.push_back(Shared { after: conn.ring.len() - before, payload: payload.clone() });
        conn.shared_len += payload.len() as u32;
        self.messages_sent += 1;
        self.mark_dirty(slot);
        Ok(())
    }

    /// Queues one message that `encode` writes straight into the connection's ring.
    pub(crate) fn send_encoded<E>(
        &mut self,
        slot: u32,
        limits: &Limits,
        encode: impl FnOnce(&mut FrameWriter<'_>) -> Result<(), E>,
    ) -> Result<(), EncodeError<E>> {
        let conn = &mut self.conns[slot as usize];
        conn.admit_any()?;
        conn.reserve_appendable(HEADER_LEN + self.encode_len.get(), &mut self.pool);
        let buffer = conn.ring.appendable();
        let start = buffer.len();
        buffer.extend_from_slice(&[0; HEADER_LEN]);
        let mut writer = FrameWriter { buffer, start: start + HEADER_LEN };
        // Nothing that is written counts before it is accepted below: an error, or a panic of the
        // encoder, leaves the queue as it was.
        let encoded = encode(&mut writer).map_err(EncodeError::Encode);
        let payload_len = writer.len();
        self.encode_len.note(payload_len);
        let header = encoded.and_then(|()| Ok(conn.admit(payload_len, limits)?));
        match header {
            Ok(header) => {
                conn.ring.appended(start)[..HEADER_LEN].copy_from_slice(&header);
                conn.ring.accept_appended();
                self.messages_sent += 1;
                self.mark_dirty(slot);
                Ok(())
            }
            Err(error) => {
                if conn.ring.is_empty() {
                    self.pool.put(conn.ring.release());
                }
                Err(error)
            }
        }
    }

    /// Counts a refused message. Returns whether it is the end of its connection.
    pub(crate) fn refuse(&mut self, id: ConnId, error: SendError, limits: &Limits) -> bool {
        self.messages_refused += 1;
        let ends = error == SendError::Full && limits.send_policy == SendPolicy::Disconnect;
        if ends {
            self.shut(id.slot());
            self.requests.push((id, Request::End(DisconnectReason::SendQueueFull)));
        }
        ends
    }

    // Flushing.

    /// Whom the flush has to serve; to be given back empty with [`done_flushing`](Self::done_flushing).
    pub(crate) fn begin_flush(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dirty)
    }

    /// Gives the list back, so that it need not be allocated again. Who became dirty meanwhile stays.
    pub(crate) fn done_flushing(&mut self, mut list: Vec<u32>) {
        list.clear();
        list.append(&mut self.dirty);
        self.dirty = list;
    }

    /// Whether a connection of the list is still dirty, which it is no longer afterwards.
    pub(crate) fn take_dirty(&mut self, slot: u32) -> bool {
        std::mem::take(&mut self.conns[slot as usize].dirty)
    }

    /// A socket that says it is writable is tried by the next flush.
    pub(crate) fn set_writable(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        if std::mem::take(&mut conn.blocked) && conn.queued() > 0 {
            self.mark_dirty(slot);
        }
    }

    /// Tries again what failed for want of memory.
    pub(crate) fn retry(&mut self, slot: u32) {
        if self.conns[slot as usize].queued() > 0 {
            self.mark_dirty(slot);
        }
    }

    /// Sends what is queued: one call, unless there are more pieces than one call takes.
    pub(crate) fn flush(
        &mut self,
        slot: u32,
        mut send: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> Flushed {
        let conn = &mut self.conns[slot as usize];
        while conn.queued() > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let (count, offered) = conn.gather(&mut slices);
            self.sends += 1;
            match send(&slices[..count]) {
                Ok(sent) => {
                    self.bytes_sent += sent as u64;
                    conn.consume(sent);
                    if sent < offered {
                        // One more try costs little and saves a wake-up where the room was only just
                        // freed; after that the socket has to say so.
                        conn.blocked = std::mem::replace(&mut conn.short, true);
                        if conn.blocked {
                            conn.short = false;
                        } else {
                            self.mark_dirty(slot);
                        }
                        return Flushed::Some;
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => {
                        (conn.blocked, conn.short) = (true, false);
                        return Flushed::Some;
                    }
                    _ if is_shortage(&error) => return Flushed::Shortage,
                    kind => {
                        conn.gate = Gate::Failed(kind);
                        conn.drop_queue(&mut self.pool);
                        return Flushed::Failed(kind);
                    }
                },
            }
        }
        conn.short = false;
        self.pool.put(conn.ring.release());
        Flushed::All
    }

    /// To be called now and then: lets memory follow the load down.
    pub(crate) fn trim(&mut self) {
        self.pool.trim();
        self.encode_len.age();
    }

    fn mark_dirty(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        if !conn.blocked && !std::mem::replace(&mut conn.dirty, true) {
            self.dirty.push(slot);
        }
    }
}

impl Outbound {
    fn queued(&self) -> usize {
        self.ring.len() + self.shared_len as usize
    }

    /// Whether any message is taken.
    fn admit_any(&self) -> Result<(), SendError> {
        if self.gate == Gate::Open { Ok(()) } else { Err(SendError::Closing) }
    }

    /// The header of a message that may be queued.
    #[inline]
    fn admit(&self, payload_len: usize, limits: &Limits) -> Result<[u8; HEADER_LEN], SendError> {
        self.admit_any()?;
        let header = self.framing.header(payload_len, limits.frame_len_max)?;
        if self.queued() + HEADER_LEN + payload_len > limits.send_queue_max {
            return Err(SendError::Full);
        }
        Ok(header)
    }

    /// Room for `len` further bytes in the ring.
    #[inline]
    fn reserve(&mut self, len: usize, pool: &mut Pool) {
        if self.ring.free() < len {
            let larger = pool.take(self.ring.len() + len);
            pool.put(self.ring.rehome(larger));
        }
    }

    /// Room for `len` further bytes behind the live ones, in one piece.
    fn reserve_appendable(&mut self, len: usize, pool: &mut Pool) {
        if self.ring.wraps() || self.ring.capacity() - self.ring.contiguous_end() < len {
            let larger = pool.take(self.ring.len() + len);
            pool.put(self.ring.rehome(larger));
        }
    }

    /// What leaves next, in order, in as many pieces as there is room for. Returns the number of
    /// pieces and of bytes.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> (usize, usize) {
        let mut pieces = Pieces { slices, count: 0, bytes: 0 };
        let (first, wrapped) = self.ring.slices();
        let mut from = 0;
        for shared in self.shared.iter().flat_map(|shared| shared.iter()) {
            pieces.push_range(first, wrapped, from, from + shared.after);
            pieces.push(&shared.payload);
            from += shared.after;
        }
        pieces.push_range(first, wrapped, from, self.ring.len());
        (pieces.count, pieces.bytes)
    }

    /// Drops what has left.
    fn consume(&mut self, mut len: usize) {
        while let Some(next) = self.shared.as_mut().and_then(|shared| shared.front_mut()) {
            let from_ring = next.after.min(len);
            self.ring.consume(from_ring);
            next.after -= from_ring;
            len -= from_ring;
            let from_payload = next.payload.len().min(len);
            next.payload.advance(from_payload);
            self.shared_len -= from_payload as u32;
            len -= from_payload;
            if next.after > 0 || !next.payload.is_empty() {
                return;
            }
            let shared = self.shared.as_mut().expect("the payload came from there");
            shared.pop_front();
            if shared.is_empty() {
                self.shared = None;
            }
        }
        self.ring.consume(len);
    }

    fn drop_queue(&mut self, pool: &mut Pool) {
        pool.put(self.ring.release());
        self.shared = None;
        self.shared_len = 0;
    }
}

/// Slices being gathered; what no longer fits is left for the next send.
struct Pieces<'s, 'a> {
    slices: &'s mut [IoSlice<'a>; SLICES_MAX],
    count: usize,
    bytes: usize,
}

impl<'a> Pieces<'_, 'a> {
    fn push(&mut self, piece: &'a [u8]) {
        if self.count < SLICES_MAX && !piece.is_empty() {
            self.slices[self.count] = IoSlice::new(piece);
            self.count += 1;
            self.bytes += piece.len();
        }
    }

    /// Bytes `from..to` of a ring's two slices taken together.
    fn push_range(&mut self, first: &'a [u8], wrapped: &'a [u8], from: usize, to: usize) {
        let split = first.len();
        self.push(&first[from.min(split)..to.min(split)]);
        self.push(&wrapped[from.max(split) - split..to.max(split) - split]);
    }
}

/// Encodes one message in place: what is written is appended to the payload.
///
/// Everything of [`bytes::BufMut`] works on it by itself (`w.put_u32(7)`, `w.put_slice(b"…")`) and
/// [`std::io::Write`] too; where a function wants a `BufMut`, pass `&mut **w`. It grows as needed and cannot
/// touch what was written before; whether the message is small enough is judged when it is done.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    buffer: &'a mut Vec<u8>,
    /// Where the payload begins.
    start: usize,
}

impl FrameWriter<'_> {
    /// Bytes of payload written so far.
    #[allow(clippy::len_without_is_empty)] // it begins empty; nobody has asked for more
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }
}

// `BufMut` is an unsafe trait, and this crate writes no `unsafe`: so the writer lends the one that the
// `bytes` crate implements for `Vec<u8>`, behind `dyn`, so that only appending is possible.
impl<'a> Deref for FrameWriter<'a> {
    type Target = dyn BufMut + 'a;

    fn deref(&self) -> &(dyn BufMut + 'a) {
        &*self.buffer
    }
}

impl<'a> DerefMut for FrameWriter<'a> {
    fn deref_mut(&mut self) -> &mut (dyn BufMut + 'a) {
        &mut *self.buffer
    }
}

impl io::Write for FrameWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How long encoded messages get lately, so that a warm encoder finds its room at once. The largest
/// of this period and the last.
#[derive(Debug, Default)]
struct LenHint {
    now: usize,
    before: usize,
}

impl LenHint {
    fn get(&self) -> usize {
        self.now.max(self.before).max(BUFFER_LEN_MIN - HEADER_LEN)
    }

    fn note(&mut self, len: usize) {
        self.now = self.now.max(len);
    }

    fn age(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }
}

/// Pieces that one send takes. A connection has one or two, but for shared payloads.
const SLICES_MAX: usize = 8;

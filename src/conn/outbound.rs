//! The sending half: messages in, contiguous bytes out. No socket, no clock.

use std::io::{self, IoSlice};

use bytes::Bytes;

use super::queue::{Queue, SLICES_MAX, Spares};
use super::writer::{FrameWriter, LenHint};
use crate::config::{Limits, SendPolicy};
use crate::error::{DisconnectReason, EncodeError, SendError};
use crate::frame::{Framer, HEADER_LEN};
use crate::id::ConnId;
use crate::io::is_shortage;
use crate::pool::Pool;

/// What one connection has to send.
#[derive(Debug)]
pub(crate) struct Outbound {
    queue: Queue,
    framer: Framer,
    gate: Gate,
    /// It stands in the dirty list.
    dirty: bool,
    /// The socket has no room: nothing is sent before it says writable.
    blocked: bool,
    /// The last send was short; the next flush tries once more before it waits for writable.
    short: bool,
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
    spares: Spares,
    encode_len: LenHint,
    /// Bytes of the header of the last encoded message.
    header_len: usize,
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
    pub(crate) fn open(&mut self, slot: u32, framer: Framer, established: bool) {
        let conn = Outbound {
            queue: Queue::default(),
            framer,
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
        self.conns[slot as usize].queue.len()
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
        conn.queue.clear(&mut self.pool, &mut self.spares);
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
        conn.admit_any()?;
        let Some(header) = conn.framer.prefix(payload.len()) else {
            return self.send_framed(slot, payload, limits);
        };
        let header = header?;
        conn.admit(HEADER_LEN + payload.len(), limits)?;
        conn.queue.reserve(HEADER_LEN + payload.len(), &mut self.pool);
        conn.queue.ring.push(&header);
        conn.queue.ring.push(payload);
        self.messages_sent += 1;
        self.mark_dirty(slot);
        Ok(())
    }

    /// The same in any framing.
    #[inline(never)]
    fn send_framed(&mut self, slot: u32, payload: &[u8], limits: &Limits) -> Result<(), SendError> {
        let conn = &mut self.conns[slot as usize];
        let envelope = conn.framer.encode(payload)?;
        let frame_len = envelope.len() + payload.len();
        conn.admit(frame_len, limits)?;
        conn.queue.reserve(frame_len, &mut self.pool);
        conn.queue.ring.push(envelope.header());
        conn.queue.ring.push(payload);
        conn.queue.ring.push(envelope.trailer());
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
        conn.admit_any()?;
        let envelope = conn.framer.encode(payload)?;
        conn.admit(envelope.len() + payload.len(), limits)?;
        conn.queue.reserve(envelope.len(), &mut self.pool);
        conn.queue.ring.push(envelope.header());
        conn.queue.push_shared(payload.clone(), &mut self.spares);
        conn.queue.ring.push(envelope.trailer());
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
        let header_len = conn.framer.header_len(self.header_len);
        conn.queue.reserve_appendable(header_len + self.encode_len.get(), &mut self.pool);
        let buffer = conn.queue.ring.appendable();
        let start = buffer.len();
        match header_len {
            HEADER_LEN => buffer.extend_from_slice(&[0; HEADER_LEN]), // the usual, at a known length
            _ => buffer.resize(start + header_len, 0),
        }
        let mut writer = FrameWriter::new(buffer);
        // Nothing that is written counts before it is accepted below: an error, or a panic of the
        // encoder, leaves the queue as it was.
        let encoded = encode(&mut writer).map_err(EncodeError::Encode);
        let payload_len = writer.len();
        self.encode_len.note(payload_len);
        let completed =
            encoded.and_then(|()| Ok(conn.complete(start, header_len, payload_len, limits)?));
        match completed {
            Ok(header_len) => {
                self.header_len = header_len;
                self.messages_sent += 1;
                self.mark_dirty(slot);
                Ok(())
            }
            Err(error) => {
                if conn.queue.is_empty() {
                    conn.queue.clear(&mut self.pool, &mut self.spares);
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
        if std::mem::take(&mut conn.blocked) && !conn.queue.is_empty() {
            self.mark_dirty(slot);
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
        mut send: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> Flushed {
        let conn = &mut self.conns[slot as usize];
        while !conn.queue.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let (count, offered) = conn.queue.gather(&mut slices);
            self.sends += 1;
            match send(&slices[..count]) {
                Ok(sent) => {
                    self.bytes_sent += sent as u64;
                    conn.queue.consume(sent, &mut self.spares);
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
                        conn.queue.clear(&mut self.pool, &mut self.spares);
                        return Flushed::Failed(kind);
                    }
                },
            }
        }
        conn.short = false;
        self.pool.put(conn.queue.ring.release());
        Flushed::All
    }

    /// To be called now and then: lets memory follow the load down.
    pub(crate) fn trim(&mut self) {
        self.pool.trim();
        self.spares.trim().for_each(drop);
        self.encode_len.age();
    }

    #[inline]
    fn mark_dirty(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        if !conn.blocked && !std::mem::replace(&mut conn.dirty, true) {
            self.dirty.push(slot);
        }
    }
}

impl Outbound {
    /// Whether any message is taken.
    fn admit_any(&self) -> Result<(), SendError> {
        if self.gate == Gate::Open { Ok(()) } else { Err(SendError::Closing) }
    }

    /// Makes a message of the payload that was appended behind `reserved` bytes, from `start` on. Returns the length of
    /// its header.
    #[inline]
    fn complete(
        &mut self,
        start: usize,
        reserved: usize,
        payload_len: usize,
        limits: &Limits,
    ) -> Result<usize, SendError> {
        self.admit_any()?;
        let Some(header) = self.framer.prefix(payload_len) else {
            return self.complete_framed(start, reserved, limits);
        };
        let header = header?;
        self.admit(HEADER_LEN + payload_len, limits)?;
        self.queue.ring.accept_appended(start, HEADER_LEN, &header, &[]);
        Ok(HEADER_LEN)
    }

    /// The same in any framing.
    #[inline(never)]
    fn complete_framed(
        &mut self,
        start: usize,
        reserved: usize,
        limits: &Limits,
    ) -> Result<usize, SendError> {
        let payload = &self.queue.ring.appended(start)[reserved..];
        let envelope = self.framer.encode(payload)?;
        self.admit(envelope.len() + payload.len(), limits)?;
        let header = envelope.header();
        self.queue.ring.accept_appended(start, reserved, header, envelope.trailer());
        Ok(header.len())
    }

    /// Whether a frame of this length is taken.
    #[inline]
    fn admit(&self, frame_len: usize, limits: &Limits) -> Result<(), SendError> {
        if self.queue.len() + frame_len > limits.send_queue_max {
            return Err(SendError::Full);
        }
        Ok(())
    }
}

//! Peers without a reactor, for tests that care about each byte.

use std::net::SocketAddr;

use super::pipe::Segment;
use super::world::{End, ListenerKey, Owner, State};
use super::{Shared, lock};
use crate::addr::Addr;

/// One end of a connection in a test's own hands. Dropping it closes it.
///
/// No call fault hits it and it counts no descriptors; the links' faults do apply. What it writes
/// before the connection has come about, or beyond the window, waits and follows by itself.
#[derive(Debug)]
pub struct RawPeer {
    world: Shared,
    end: End,
    is_open: bool,
}

impl RawPeer {
    pub(super) fn new(world: Shared, end: End) -> RawPeer {
        RawPeer { world, end, is_open: true }
    }

    /// The address that the other side sees.
    pub fn local_addr(&self) -> Addr {
        let mut world = lock(&self.world);
        Addr::Ip(world.conn_mut(self.end).ends[self.end.side].addr)
    }

    /// Writes all of `bytes`, as one segment where the window allows.
    pub fn write(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.put(Segment::Data(bytes.to_vec()));
        }
    }

    /// Writes `bytes` in pieces that end at each of the `cuts` (ascending positions in `bytes`).
    ///
    /// Pieces that arrive together are read together, unless the receiver's host has
    /// [`recv_segments`](super::Faults::recv_segments).
    pub fn write_cut(&mut self, bytes: &[u8], cuts: &[usize]) {
        let mut from = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            self.write(&bytes[from..cut]);
            from = cut;
        }
    }

    /// Takes all that has arrived by now.
    pub fn read(&mut self) -> Vec<u8> {
        self.read_at_most(usize::MAX)
    }

    /// Takes at most `len` of the bytes that have arrived by now: a slow reader.
    pub fn read_at_most(&mut self, len: usize) -> Vec<u8> {
        let mut world = lock(&self.world);
        world.settle();
        let pipe = world.pipe_to(self.end);
        let mut bytes = vec![0; pipe.readable(false).min(len)];
        pipe.read(&mut bytes);
        world.acknowledge(self.end);
        bytes
    }

    /// Sends FIN behind all that was written; reading goes on.
    pub fn shutdown_write(&mut self) {
        self.put(Segment::Fin);
    }

    /// Resets the connection. What was written but does not fit the window is lost.
    pub fn reset(mut self) {
        self.is_open = false;
        lock(&self.world).abort(self.end);
    }

    /// Closes in order: what was written is still sent, unless input is left unread.
    pub fn close(self) {}

    /// Whether the connection has come about and was not reset.
    pub fn is_connected(&self) -> bool {
        self.state() == State::Established
    }

    /// Whether the connection was reset, refused, or given up.
    pub fn is_reset(&self) -> bool {
        self.state() == State::Dead
    }

    /// Whether the other side has sent FIN and all before it was read.
    pub fn is_eof(&self) -> bool {
        let mut world = lock(&self.world);
        world.settle();
        world.pipe_to(self.end).at_end()
    }

    /// How many of the written bytes wait for room in the window.
    pub fn unsent(&self) -> usize {
        let mut world = lock(&self.world);
        world.settle();
        let side = &world.conn_mut(self.end).ends[self.end.side];
        side.unsent
            .iter()
            .map(|segment| match segment {
                Segment::Data(bytes) => bytes.len(),
                Segment::Fin | Segment::Reset(_) => 0,
            })
            .sum()
    }

    fn state(&self) -> State {
        let mut world = lock(&self.world);
        world.settle();
        world.conn_mut(self.end).ends[self.end.side].state
    }

    fn put(&mut self, segment: Segment) {
        let mut world = lock(&self.world);
        let side = &mut world.conn_mut(self.end).ends[self.end.side];
        if side.state != State::Dead {
            side.unsent.push_back(segment);
        }
        world.pump(self.end);
    }
}

impl Drop for RawPeer {
    fn drop(&mut self) {
        if self.is_open {
            lock(&self.world).close_raw(self.end);
        }
    }
}

/// A listener in a test's own hands. Dropping it closes it.
#[derive(Debug)]
pub struct RawListener {
    world: Shared,
    key: ListenerKey,
    addr: SocketAddr,
}

impl RawListener {
    pub(super) fn new(world: Shared, key: ListenerKey, addr: SocketAddr) -> RawListener {
        RawListener { world, key, addr }
    }

    /// Where it listens.
    pub fn local_addr(&self) -> Addr {
        Addr::Ip(self.addr)
    }

    /// The next client that has arrived by now.
    pub fn accept(&mut self) -> Option<RawPeer> {
        let mut world = lock(&self.world);
        world.settle();
        let end = world.accept_raw(self.key, Owner::Raw)?;
        drop(world);
        Some(RawPeer::new(self.world.clone(), end))
    }
}

impl Drop for RawListener {
    fn drop(&mut self) {
        lock(&self.world).unlisten(self.key);
    }
}

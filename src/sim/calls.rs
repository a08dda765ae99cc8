//! What a host does with its sockets: the system calls, with their faults.

use std::io::ErrorKind::HostUnreachable;
use std::io::{self, IoSlice};
use std::net::SocketAddr;

use super::faults::errno::{EMFILE, ENFILE, EPROTO};
use super::pipe::Segment;
use super::world::{
    Conn, Edge, End, Happening, HostId, Listener, ListenerKey, Owner, Side, State, Watched, World,
    digest,
};
use crate::io::{ENOBUFS, Received};

impl World {
    // --- listeners -----------------------------------------------------------------------------

    /// `index` is `None` for a raw listener, which no poller watches.
    pub(super) fn listen(
        &mut self,
        host: HostId,
        mut addr: SocketAddr,
        backlog: usize,
        index: Option<u32>,
    ) -> io::Result<ListenerKey> {
        let ip = addr.ip();
        if ip != self.hosts[host].ip && !ip.is_unspecified() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if index.is_some() && self.descriptors_are_used_up(host) {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        if addr.port() == 0 {
            addr.set_port(self.ephemeral_port(host));
            while self.is_bound(host, addr) {
                addr.set_port(self.ephemeral_port(host));
            }
        } else if self.is_bound(host, addr) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let key = self.listeners.len();
        let queue = Default::default();
        let listener = Listener { host, addr, index, backlog, queue, is_queued: false };
        self.listeners.push(Some(listener));
        if let Some(index) = index {
            self.hosts[host].acceptors.insert(index, key);
            self.hosts[host].open += 1;
        }
        self.trace.note(16, key as u64, addr.port().into());
        Ok(key)
    }

    fn is_bound(&self, host: HostId, addr: SocketAddr) -> bool {
        self.listeners.iter().flatten().any(|known| {
            let (known_ip, ip) = (known.addr.ip(), addr.ip());
            known.host == host
                && known.addr.port() == addr.port()
                && (known_ip == ip || known_ip.is_unspecified() || ip.is_unspecified())
        })
    }

    pub(super) fn unlisten(&mut self, key: ListenerKey) {
        let Some(listener) = self.listeners[key].take() else { return };
        self.trace.note(17, key as u64, listener.queue.len() as u64);
        if let Some(index) = listener.index {
            let host = &mut self.hosts[listener.host];
            host.acceptors.remove(&index);
            host.open -= 1;
        }
        for end in listener.queue {
            self.abort(end);
        }
    }

    pub(super) fn accept(
        &mut self,
        host: HostId,
        key: ListenerKey,
    ) -> io::Result<(End, SocketAddr)> {
        self.hosts[host].counts.accepts += 1;
        self.spend_time(host);
        let faults = self.hosts[host].faults;
        if self.rng.chance(faults.accept_interrupted) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.listener(key).queue.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.rng.chance(faults.accept_blocked) {
            self.owe_listener_edge(key);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.descriptors_are_used_up(host) {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        if self.rng.chance(faults.accept_shortage) {
            return Err(match self.rng.below(3) {
                0 => io::Error::from_raw_os_error(ENOBUFS),
                1 => io::ErrorKind::OutOfMemory.into(),
                _ => io::Error::from_raw_os_error(ENFILE),
            });
        }
        if self.rng.chance(faults.accept_errors) {
            if self.rng.chance(500) {
                let lost = self.listener(key).queue.pop_front().expect("a client waits");
                self.abort(lost);
            }
            return Err(match self.rng.below(4) {
                0 => io::ErrorKind::ConnectionAborted.into(),
                1 => io::ErrorKind::NetworkDown.into(),
                2 => io::ErrorKind::PermissionDenied.into(),
                _ => io::Error::from_raw_os_error(EPROTO),
            });
        }
        let end = self.accept_raw(key, Owner::App).expect("a client waits");
        self.hosts[host].open += 1;
        self.hosts[host].counts.opened += 1;
        Ok((end, self.conn_mut(end).ends[end.peer().side].addr))
    }

    pub(super) fn accept_raw(&mut self, key: ListenerKey, owner: Owner) -> Option<End> {
        let end = self.listener(key).queue.pop_front()?;
        self.trace.note(18, key as u64, end.conn as u64);
        self.conn_mut(end).ends[end.side].owner = owner;
        Some(end)
    }

    pub(super) fn listener(&mut self, key: ListenerKey) -> &mut Listener {
        self.listeners[key].as_mut().expect("whoever holds a listener has not closed it")
    }

    pub(super) fn register(&mut self, host: HostId, end: End, slot: u32) -> io::Result<()> {
        let faults = self.hosts[host].faults;
        if self.rng.chance(faults.register_errors) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.watch(host, end, slot);
        // Whatever is there already, as epoll reports it after EPOLL_CTL_ADD.
        let level = self.level(end);
        self.raise(end, level);
        Ok(())
    }

    fn watch(&mut self, host: HostId, end: End, slot: u32) {
        self.conn_mut(end).ends[end.side].slot = Some(slot);
        let before = self.hosts[host].streams.insert(slot, end);
        assert!(before.is_none(), "slot {slot} is taken by a socket that was not given back");
    }

    // --- connecting ----------------------------------------------------------------------------

    /// `slot` is `None` for a raw peer, which no poller watches and no fault hits.
    pub(super) fn connect(
        &mut self,
        host: HostId,
        target: SocketAddr,
        slot: Option<u32>,
    ) -> io::Result<End> {
        let faults = self.hosts[host].faults;
        if slot.is_some() {
            self.hosts[host].counts.connects += 1;
            if self.descriptors_are_used_up(host) {
                return Err(io::Error::from_raw_os_error(EMFILE));
            }
            if self.rng.chance(faults.connect_unavailable) {
                return Err(io::ErrorKind::AddrNotAvailable.into());
            }
        }
        let there = self.hosts.iter().position(|known| known.ip == target.ip());
        let addr = SocketAddr::new(self.hosts[host].ip, self.ephemeral_port(host));
        let owner = if slot.is_some() { Owner::App } else { Owner::Raw };
        let client = Side::new(host, addr, owner, State::Connecting);
        let server = Side::new(there.unwrap_or(host), target, Owner::Nobody, State::Absent);
        let window_down = self.hosts[there.unwrap_or(host)].faults.window;
        let end = End { conn: self.conns.len(), side: 0 };
        self.conns.push(Some(Conn::new(client, server, faults.window, window_down)));
        if let Some(slot) = slot {
            self.hosts[host].open += 1;
            self.hosts[host].counts.opened += 1;
            self.watch(host, end, slot);
        }
        self.trace.note(19, end.conn as u64, addr.port().into());
        if slot.is_none() || !self.rng.chance(faults.connect_hangs) {
            self.request(end, there.is_some());
        }
        Ok(end)
    }

    fn request(&mut self, client: End, somebody_is_there: bool) {
        let at = self.arrival_from(self.host_at(client));
        let unreachable = Happening::Answer { client, failure: Some(HostUnreachable) };
        let syn = Happening::Syn { client, attempt: 0 };
        self.plan(at, if somebody_is_there { syn } else { unreachable });
    }

    pub(super) fn connected(&mut self, end: End) -> io::Result<bool> {
        let side = &mut self.conn_mut(end).ends[end.side];
        match (side.state, side.error.take()) {
            (State::Connecting, _) => Ok(false),
            (_, Some(kind)) => Err(kind.into()),
            (State::Dead, None) => Err(io::ErrorKind::NotConnected.into()),
            _ => Ok(true),
        }
    }

    // --- data ----------------------------------------------------------------------------------

    pub(super) fn recv(&mut self, end: End, into: &mut [u8]) -> io::Result<Received> {
        assert!(!into.is_empty(), "receiving into nothing looks like the peer's end");
        let host = self.host_at(end);
        self.hosts[host].counts.recvs += 1;
        self.spend_time(host);
        let faults = self.hosts[host].faults;
        if self.rng.chance(faults.recv_interrupted) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let readable = self.pipe_to(end).readable(faults.recv_segments);
        if readable == 0 {
            return self.recv_nothing(end);
        }
        if self.rng.chance(faults.recv_blocked) {
            self.owe_edge(end, Edge::READABLE);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.rng.chance(faults.recv_shortage) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mut len = readable.min(into.len());
        if self.rng.chance(faults.recv_one_byte) {
            len = 1;
        } else if self.rng.chance(faults.recv_short) {
            len = self.rng.between(1, len);
        }
        let known_drained = !self.rng.chance(faults.drained_unknown);
        let pipe = self.pipe_to(end);
        pipe.read(&mut into[..len]);
        // As MioNet with epoll: full to the brim tells nothing, and a FIN behind the data does not
        // matter here, as its own readiness says `insist`.
        let drained = known_drained && len < into.len() && !pipe.has_unread();
        self.acknowledge(end);
        self.hosts[host].counts.bytes_received += len as u64;
        self.trace.note(20, end.conn as u64, (len as u64) << 1 | u64::from(drained));
        Ok(Received { len, drained })
    }

    /// The order of tcp_recvmsg: data, end, error, and after an error was told the end again.
    fn recv_nothing(&mut self, end: End) -> io::Result<Received> {
        let conn = self.conn_mut(end);
        let at_end = conn.pipes[end.side].at_end();
        let side = &mut conn.ends[end.side];
        if at_end {
            return Ok(Received { len: 0, drained: true });
        }
        match side.error.take() {
            Some(kind) => Err(kind.into()),
            None if side.state == State::Dead => Ok(Received { len: 0, drained: true }),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(super) fn send(&mut self, end: End, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let offered: usize = from.iter().map(|slice| slice.len()).sum();
        assert!(offered > 0, "there is something to send");
        let host = self.host_at(end);
        self.hosts[host].counts.sends += 1;
        self.spend_time(host);
        let faults = self.hosts[host].faults;
        if self.rng.chance(faults.send_interrupted) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let conn = self.conn_mut(end);
        let room = conn.pipes[end.peer().side].room();
        let side = &mut conn.ends[end.side];
        // A reset is told to a send too, and then a receive finds the plain end (sk_stream_error).
        if let Some(kind) = side.error.take() {
            return Err(kind.into());
        }
        if side.state == State::Dead || side.fin_sent {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if side.state == State::Connecting || room == 0 {
            side.wants_room = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.rng.chance(faults.send_shortage) {
            return Err(io::Error::from_raw_os_error(ENOBUFS));
        }
        if self.rng.chance(faults.send_blocked) {
            self.owe_edge(end, Edge::WRITABLE);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let possible = offered.min(room);
        let mut len = possible;
        if self.rng.chance(faults.send_one_byte) {
            len = 1;
        } else if self.rng.chance(faults.send_short) {
            len = self.rng.between(1, possible);
        }
        if len < possible {
            self.owe_edge(end, Edge::WRITABLE);
        } else if len < offered {
            self.conn_mut(end).ends[end.side].wants_room = true;
        }
        let bytes = gathered(from, len);
        self.hosts[host].counts.bytes_sent += len as u64;
        self.trace.note(21, end.conn as u64, digest(&bytes));
        self.send_segment(end, Segment::Data(bytes));
        Ok(len)
    }

    pub(super) fn shutdown_write(&mut self, end: End) -> io::Result<()> {
        self.trace.note(22, end.conn as u64, end.side as u64);
        let side = &mut self.conn_mut(end).ends[end.side];
        if side.state != State::Established {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if !std::mem::replace(&mut side.fin_sent, true) {
            self.send_segment(end, Segment::Fin);
        }
        Ok(())
    }

    // --- ending --------------------------------------------------------------------------------

    /// With unread input, closing resets, and what was sent may be lost (RFC 2525, section 2.17).
    pub(super) fn close(&mut self, end: End) {
        if self.pipe_to(end).has_unread() {
            return self.abort(end);
        }
        let _ = self.shutdown_write(end);
        if self.conn_mut(end).ends[end.side].state == State::Connecting {
            return self.abort(end);
        }
        self.give_back(end);
        self.forget_if_over(end.conn);
    }

    /// As [`close`](World::close), but what waits for room in the window still leaves.
    pub(super) fn close_raw(&mut self, end: End) {
        let connecting = self.conn_mut(end).ends[end.side].state == State::Connecting;
        if connecting || self.pipe_to(end).has_unread() {
            return self.abort(end);
        }
        let side = &mut self.conn_mut(end).ends[end.side];
        if side.state == State::Established && !side.fin_sent {
            side.unsent.push_back(Segment::Fin);
            self.pump(end);
        }
        self.give_back(end);
        self.forget_if_over(end.conn);
    }

    pub(super) fn abort(&mut self, end: End) {
        self.trace.note(23, end.conn as u64, end.side as u64);
        let conn = self.conn_mut(end);
        let was_up = conn.ends[end.side].state != State::Dead;
        let somebody_is_there = conn.ends[end.peer().side].state != State::Absent;
        if was_up && somebody_is_there {
            self.send_reset(end, io::ErrorKind::ConnectionReset);
        }
        self.give_back(end);
        self.die(end, None);
    }

    /// The application lets go of the descriptor.
    fn give_back(&mut self, end: End) {
        let side = &mut self.conn_mut(end).ends[end.side];
        let (host, slot) = (side.host, side.slot.take());
        let owner = std::mem::replace(&mut side.owner, Owner::Nobody);
        if owner == Owner::App {
            self.hosts[host].open -= 1;
            self.hosts[host].counts.closed += 1;
        }
        if let Some(slot) = slot {
            self.hosts[host].streams.remove(&slot);
        }
    }

    /// All that a host holds is closed, as when its process ends.
    pub(super) fn detach(&mut self, host: HostId) {
        self.hosts[host].attached = false;
        for key in 0..self.listeners.len() {
            let is_ours = |known: &Listener| known.host == host && known.index.is_some();
            if self.listeners[key].as_ref().is_some_and(is_ours) {
                self.unlisten(key);
            }
        }
        for conn in 0..self.conns.len() {
            for side in 0..2 {
                let is_ours = |known: &Conn| {
                    known.ends[side].host == host && known.ends[side].owner == Owner::App
                };
                if self.conns[conn].as_ref().is_some_and(is_ours) {
                    self.close(End { conn, side });
                }
            }
        }
        self.hosts[host].ready.clear();
    }

    // --- faults --------------------------------------------------------------------------------

    fn descriptors_are_used_up(&self, host: HostId) -> bool {
        self.hosts[host].open >= self.hosts[host].faults.descriptors_max
    }

    /// The world goes on while a call takes its time.
    fn spend_time(&mut self, host: HostId) {
        let most = self.hosts[host].faults.call_time_max;
        if !most.is_zero() {
            let spent = self.rng.duration(std::time::Duration::ZERO, most);
            self.run_until(self.now + spent);
        }
    }

    fn owe_edge(&mut self, end: End, edge: Edge) {
        let at = self.a_little_later();
        self.plan_edge(at, Watched::Stream(end), edge);
    }

    fn owe_listener_edge(&mut self, key: ListenerKey) {
        let at = self.a_little_later();
        self.plan_edge(at, Watched::Listener(key), Edge::READABLE);
    }
}

fn gathered(from: &[IoSlice<'_>], len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    for slice in from {
        let rest = len - bytes.len();
        bytes.extend_from_slice(&slice[..slice.len().min(rest)]);
    }
    bytes
}

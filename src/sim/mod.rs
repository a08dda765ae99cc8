//! A seeded fake network with virtual time, for testing games and the reactor itself.
//!
//! A [`SimWorld`] holds hosts, links and a clock that moves only when somebody waits. Each host's
//! [`SimNet`] is a [`Net`], so a whole reactor runs on it. Chance comes from one seed: a run can be
//! repeated bit by bit ([`SimWorld::trace_hash`]). [`Faults`] say how badly everything behaves.
//!
//! ```
//! use std::time::Duration;
//! use tickwire::sim::{Faults, SimWorld};
//! use tickwire::{Event, Reactor, Wait};
//!
//! let world = SimWorld::new(7, Faults::default());
//! let mut server = Reactor::builder().build_on(world.host([10, 0, 0, 1].into()))?;
//! server.listen("10.0.0.1:7777")?;
//!
//! let mut peer = world.raw_connect([10, 0, 0, 2].into(), &"10.0.0.1:7777".parse()?);
//! peer.write(b"\0\0\0\x02hi");
//! let mut messages = 0;
//! while messages == 0 {
//!     for event in server.tick(Wait::Event(Duration::from_millis(10)))?.events {
//!         if let Event::Message { payload, .. } = event {
//!             assert_eq!(payload, b"hi");
//!             messages += 1;
//!         }
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is modelled is Linux: data received before a reset stays readable, closing with unread input
//! resets, a full backlog is silent. What is not: urgent data, packet loss (TCP hides it as delay),
//! and a connection with itself.

mod calls;
mod faults;
mod pipe;
mod poller;
mod raw;
mod rng;
mod world;

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use log::trace;

pub use self::faults::Faults;
pub use self::raw::{RawListener, RawPeer};
pub use self::rng::Rng;
use self::world::{End, HostId, ListenerKey, World};
use crate::addr::Addr;
use crate::config::{ConnectOptions, ListenOptions};
use crate::id::ConnId;
use crate::net::{Net, Readiness, Received};

/// A handle to a world of hosts. Clones name the same world.
#[derive(Clone, Debug)]
pub struct SimWorld {
    world: Shared,
}

impl SimWorld {
    /// A world without hosts, in which everything that is left to chance depends on `seed`.
    pub fn new(seed: u64, faults: Faults) -> SimWorld {
        SimWorld { world: Arc::new(Mutex::new(World::new(seed, faults))) }
    }

    /// A host's network, to build a reactor on. Dropping it closes all that is open there, and the
    /// host can be had anew.
    ///
    /// # Panics
    ///
    /// If somebody has this host's network already.
    pub fn host(&self, ip: IpAddr) -> SimNet {
        let mut world = lock(&self.world);
        let host = world.host_of(ip);
        let taken = std::mem::replace(&mut world.hosts[host].attached, true);
        assert!(!taken, "there is a network on {ip} already");
        SimNet { world: self.world.clone(), host }
    }

    /// The time in this world.
    pub fn now(&self) -> Instant {
        lock(&self.world).instant()
    }

    /// Lets time pass for everybody.
    pub fn advance(&self, time: Duration) {
        let mut world = lock(&self.world);
        let target = world.now + time;
        world.run_until(target);
    }

    /// How long nothing will happen by itself; `None`: for ever.
    pub fn quiet_for(&self) -> Option<Duration> {
        let world = lock(&self.world);
        world.next_at().map(|at| at.saturating_sub(world.now))
    }

    /// A hash over everything that has happened. Two runs that did the same have the same.
    pub fn trace_hash(&self) -> u64 {
        lock(&self.world).trace.0
    }

    /// From now on these faults, for every host that there is or will be.
    pub fn set_faults(&self, faults: Faults) {
        lock(&self.world).set_faults(faults);
    }

    /// From now on these faults, for one host and what leaves it.
    pub fn set_faults_of(&self, ip: IpAddr, faults: Faults) {
        let mut world = lock(&self.world);
        let host = world.host_of(ip);
        world.hosts[host].faults = faults;
    }

    /// Stops everything between two hosts, until [`heal`](Self::heal). Nothing is lost: TCP would
    /// try on and on.
    pub fn partition(&self, one: IpAddr, other: IpAddr) {
        self.set_partition(one, other, true);
    }

    /// Ends a [`partition`](Self::partition): what was held up arrives now.
    pub fn heal(&self, one: IpAddr, other: IpAddr) {
        self.set_partition(one, other, false);
    }

    /// Descriptors that a host's [`SimNet`] holds: streams and listeners.
    pub fn open_sockets(&self, ip: IpAddr) -> usize {
        let mut world = lock(&self.world);
        let host = world.host_of(ip);
        world.hosts[host].open
    }

    /// Clients that wait to be accepted by a host.
    pub fn backlog(&self, ip: IpAddr) -> usize {
        let mut world = lock(&self.world);
        let host = world.host_of(ip);
        let listeners = world.listeners.iter().flatten();
        listeners.filter(|known| known.host == host).map(|known| known.queue.len()).sum()
    }

    /// What a host's [`SimNet`] has done, also after its end.
    pub fn counts(&self, ip: IpAddr) -> Counts {
        let mut world = lock(&self.world);
        let host = world.host_of(ip);
        world.hosts[host].counts
    }

    /// Connects without a reactor. The handle is there at once, the connection as time passes.
    ///
    /// # Panics
    ///
    /// If `to` is no IP address.
    pub fn raw_connect(&self, from: IpAddr, to: &Addr) -> RawPeer {
        let to = to.as_socket_addr().expect("the simulation has IP addresses");
        let mut world = lock(&self.world);
        let host = world.host_of(from);
        let end = world.connect(host, to, None).expect("no fault hits a raw peer");
        drop(world);
        RawPeer::new(self.world.clone(), end)
    }

    /// Listens without a reactor; port 0 takes a free one.
    pub fn raw_listen(&self, addr: &Addr, backlog: usize) -> io::Result<RawListener> {
        let addr = addr.as_socket_addr().ok_or(io::ErrorKind::Unsupported)?;
        let mut world = lock(&self.world);
        let host = world.host_of(addr.ip());
        let key = world.listen(host, addr, backlog, None)?;
        let addr = world.listener(key).addr;
        drop(world);
        Ok(RawListener::new(self.world.clone(), key, addr))
    }

    fn set_partition(&self, one: IpAddr, other: IpAddr, cut: bool) {
        let mut world = lock(&self.world);
        let (one, other) = (world.host_of(one), world.host_of(other));
        world.set_partition(one, other, cut);
    }
}

/// The network of one host of a [`SimWorld`].
#[derive(Debug)]
pub struct SimNet {
    world: Shared,
    host: HostId,
}

/// What a host has done with its [`SimNet`], call by call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Calls of `wait`.
    pub waits: u64,
    /// Calls of `sleep`.
    pub sleeps: u64,
    /// Calls of `accept`.
    pub accepts: u64,
    /// Calls of `connect`.
    pub connects: u64,
    /// Calls of `recv`.
    pub recvs: u64,
    /// Calls of `send`.
    pub sends: u64,
    /// Bytes that `recv` brought.
    pub bytes_received: u64,
    /// Bytes that `send` took.
    pub bytes_sent: u64,
    /// Streams that were accepted or began to connect.
    pub opened: u64,
    /// Streams that were closed or aborted.
    pub closed: u64,
}

impl SimNet {
    /// What this host has done so far.
    pub fn counts(&self) -> Counts {
        self.lock().hosts[self.host].counts
    }

    /// The local address of a connection's socket, which is how its peer names it: so a test can
    /// tell which connection here is which one there. `None` once the socket is closed.
    pub fn local_addr_of(&self, conn: ConnId) -> Option<Addr> {
        let mut world = self.lock();
        let end = *world.hosts[self.host].streams.get(&conn.slot())?;
        Some(Addr::Ip(world.conn_mut(end).ends[end.side].addr))
    }

    /// How many bytes have arrived on a connection so far, whether they were received or not. `None` once the socket is
    /// closed.
    pub fn arrived_on(&self, conn: ConnId) -> Option<u64> {
        let mut world = self.lock();
        world.settle();
        let end = *world.hosts[self.host].streams.get(&conn.slot())?;
        Some(world.pipe_to(end).arrived())
    }

    /// The world that this host belongs to.
    pub fn world(&self) -> SimWorld {
        SimWorld { world: self.world.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }
}

/// A listening socket of a [`SimNet`].
#[derive(Debug)]
pub struct SimListener {
    key: ListenerKey,
}

/// A connection's socket of a [`SimNet`].
#[derive(Debug)]
pub struct SimStream {
    end: End,
}

impl Net for SimNet {
    type Listener = SimListener;
    type Stream = SimStream;

    fn now(&self) -> Instant {
        self.lock().instant()
    }

    fn sleep(&mut self, deadline: Instant) {
        let mut world = self.lock();
        let deadline = world.since_base(deadline);
        world.sleep(self.host, deadline);
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()> {
        let mut world = self.lock();
        let deadline = timeout.map(|timeout| world.now.saturating_add(timeout));
        world.wait(self.host, deadline, ready);
        trace!("{}: wait at most {timeout:?}: {ready:?}", self.host);
        Ok(())
    }

    fn waker(&mut self) -> io::Result<Arc<dyn Fn() + Send + Sync>> {
        let (world, host) = (self.world.clone(), self.host);
        Ok(Arc::new(move || lock(&world).hosts[host].is_woken = true))
    }

    fn listen(
        &mut self,
        addr: &Addr,
        options: &ListenOptions,
        index: u32,
    ) -> io::Result<SimListener> {
        let addr = addr.as_socket_addr().ok_or(io::ErrorKind::Unsupported)?;
        let key = self.lock().listen(self.host, addr, options.backlog as usize, Some(index))?;
        Ok(SimListener { key })
    }

    fn local_addr(&self, listener: &SimListener) -> io::Result<Addr> {
        Ok(Addr::Ip(self.lock().listener(listener.key).addr))
    }

    fn unlisten(&mut self, listener: SimListener) {
        self.lock().unlisten(listener.key);
    }

    fn accept(&mut self, listener: &SimListener) -> io::Result<(SimStream, Addr)> {
        let accepted = self.lock().accept(self.host, listener.key);
        trace!("{}: accept: {accepted:?}", self.host);
        let (end, addr) = accepted?;
        Ok((SimStream { end }, Addr::Ip(addr)))
    }

    fn register(&mut self, stream: &mut SimStream, slot: u32) -> io::Result<()> {
        trace!("{}: register {:?} in slot {slot}", self.host, stream.end);
        self.lock().register(self.host, stream.end, slot)
    }

    fn connect(&mut self, addr: &Addr, _: &ConnectOptions, slot: u32) -> io::Result<SimStream> {
        let addr = addr.as_socket_addr().ok_or(io::ErrorKind::Unsupported)?;
        let connecting = self.lock().connect(self.host, addr, Some(slot));
        trace!("{}: connect to {addr} in slot {slot}: {connecting:?}", self.host);
        Ok(SimStream { end: connecting? })
    }

    fn connected(&mut self, stream: &mut SimStream) -> io::Result<bool> {
        let connected = self.lock().connected(stream.end);
        trace!("{}: connected {:?}: {connected:?}", self.host, stream.end);
        connected
    }

    fn recv(&mut self, stream: &mut SimStream, into: &mut [u8]) -> io::Result<Received> {
        let received = self.lock().recv(stream.end, into);
        trace!("{}: recv {:?} of {}: {received:?}", self.host, stream.end, into.len());
        received
    }

    fn send(&mut self, stream: &mut SimStream, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let sent = self.lock().send(stream.end, from);
        trace!("{}: send {:?}: {sent:?}", self.host, stream.end);
        sent
    }

    fn shutdown_write(&mut self, stream: &mut SimStream) -> io::Result<()> {
        trace!("{}: shut {:?}", self.host, stream.end);
        self.lock().shutdown_write(stream.end)
    }

    fn close(&mut self, stream: SimStream) {
        trace!("{}: close {:?}", self.host, stream.end);
        self.lock().close(stream.end);
    }

    fn abort(&mut self, stream: SimStream) {
        trace!("{}: abort {:?}", self.host, stream.end);
        self.lock().abort(stream.end);
    }
}

impl Drop for SimNet {
    fn drop(&mut self) {
        self.lock().detach(self.host);
    }
}

/// Behind a mutex, so that a reactor on a [`SimNet`] is as `Send` and `Sync` as one on sockets.
type Shared = Arc<Mutex<World>>;

fn lock(world: &Shared) -> MutexGuard<'_, World> {
    // After a test's panic the world is still needed, if only to close the sockets.
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

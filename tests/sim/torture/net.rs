//! A network on which a chosen call fails: the simulated one, behind a counter.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwire::net::{Net, Readiness, Received, Source};
use tickwire::sim::{SimListener, SimNet, SimStream};
use tickwire::{Addr, ConnectOptions, ListenOptions};

use super::errno::EAGAIN;

/// The calls of the seam that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Wait,
    Waker,
    Listen,
    LocalAddr,
    Accept,
    Register,
    Connect,
    Connected,
    Recv,
    Send,
    Shutdown,
}

const CALLS: usize = Call::Shutdown as usize + 1;

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does nothing and fails with this errno. After EAGAIN the edge that is owed follows.
    Errno(i32),
    /// An accept that fails with this errno, and the client is lost with it.
    Lost(i32),
    /// A receive or send of one byte, however much was asked for.
    OneByte,
    /// A receive that tells an end which the peer has not sent, or a send that takes nothing.
    Zero,
}

/// Which calls go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) call: Call,
    /// The first of them, counted from 0.
    pub(crate) nth: usize,
    pub(crate) fault: Fault,
    /// How long the fault lasts from then on; zero: for one call.
    pub(crate) lasts: Duration,
}

/// See the module.
pub(crate) struct FailingNet {
    net: SimNet,
    plans: Vec<Plan>,
    counts: [Cell<usize>; CALLS],
    /// Until when the fault that has come lasts.
    until: Cell<Option<Instant>>,
    failed: Cell<usize>,
    hit: RefCell<Option<Addr>>,
    /// Edges that a lie has put off: told by the next wait.
    owed: Vec<Readiness>,
}

/// A listening socket, and where its edges go.
pub(crate) struct Door {
    listener: SimListener,
    index: u32,
}

/// A connection's socket, and whose it is.
pub(crate) struct Line {
    stream: SimStream,
    slot: u32,
    whom: Addr,
}

impl FailingNet {
    pub(crate) fn new(net: SimNet, plans: Vec<Plan>) -> FailingNet {
        FailingNet {
            net,
            plans,
            counts: Default::default(),
            until: Cell::new(None),
            failed: Cell::new(0),
            hit: RefCell::new(None),
            owed: Vec::new(),
        }
    }

    /// How often a call was made.
    pub(crate) fn count(&self, call: Call) -> usize {
        self.counts[call as usize].get()
    }

    /// How often the fault came.
    pub(crate) fn failed(&self) -> usize {
        self.failed.get()
    }

    /// The peer on whose socket the fault came last, if it was a connection's.
    pub(crate) fn hit(&self) -> Option<Addr> {
        self.hit.borrow().clone()
    }

    /// Counts a call, and tells whether and how it goes wrong.
    fn fault(&self, call: Call) -> Option<Fault> {
        let count = &self.counts[call as usize];
        let nth = count.replace(count.get() + 1);
        let now = self.net.now();
        let is_lasting = self.until.get().is_some_and(|until| now < until);
        let comes =
            |plan: &&Plan| plan.call == call && (nth == plan.nth || nth > plan.nth && is_lasting);
        let plan = self.plans.iter().find(comes)?;
        if nth == plan.nth {
            self.until.set(Some(now + plan.lasts));
        }
        self.failed.set(self.failed.get() + 1);
        assert!(self.failed.get() < SPIN, "{call:?} is tried again and again, without a rest");
        Some(plan.fault)
    }

    /// The same for a call that can do nothing but fail.
    fn fails(&self, call: Call) -> io::Result<()> {
        match self.fault(call) {
            Some(Fault::Errno(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(other) => unreachable!("{other:?} is not for {call:?}"),
            None => Ok(()),
        }
    }

    /// The same for a call on a connection.
    fn fault_of(&mut self, call: Call, line: &Line) -> Option<Fault> {
        let fault = self.fault(call)?;
        *self.hit.borrow_mut() = Some(line.whom.clone());
        let is_lie = match fault {
            Fault::Errno(errno) => errno == EAGAIN,
            Fault::OneByte | Fault::Zero => call == Call::Send,
            Fault::Lost(_) => false,
        };
        if is_lie {
            let (readable, writable) = (call == Call::Recv, call == Call::Send);
            // What else there is to learn, a poller tells again with each edge.
            let source = Source::Conn(line.slot);
            self.owed.push(Readiness { source, readable, writable, insist: readable });
        }
        Some(fault)
    }
}

impl Net for FailingNet {
    type Listener = Door;
    type Stream = Line;

    fn now(&self) -> Instant {
        self.net.now()
    }

    fn sleep(&mut self, deadline: Instant) {
        self.net.sleep(deadline);
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()> {
        self.fails(Call::Wait)?;
        let timeout = if self.owed.is_empty() { timeout } else { Some(Duration::ZERO) };
        ready.append(&mut self.owed);
        self.net.wait(timeout, ready)
    }

    fn waker(&mut self) -> io::Result<Arc<dyn Fn() + Send + Sync>> {
        self.fails(Call::Waker)?;
        self.net.waker()
    }

    fn listen(&mut self, addr: &Addr, options: &ListenOptions, index: u32) -> io::Result<Door> {
        self.fails(Call::Listen)?;
        Ok(Door { listener: self.net.listen(addr, options, index)?, index })
    }

    fn local_addr(&self, door: &Door) -> io::Result<Addr> {
        self.fails(Call::LocalAddr)?;
        self.net.local_addr(&door.listener)
    }

    fn unlisten(&mut self, door: Door) {
        self.net.unlisten(door.listener);
    }

    fn accept(&mut self, door: &Door) -> io::Result<(Line, Addr)> {
        match self.fault(Call::Accept) {
            Some(Fault::Errno(errno)) => {
                if errno == EAGAIN {
                    let source = Source::Listener(door.index);
                    let edge = Readiness { source, readable: true, writable: false, insist: false };
                    self.owed.push(edge);
                }
                return Err(io::Error::from_raw_os_error(errno));
            }
            Some(Fault::Lost(errno)) => {
                if let Ok((stream, addr)) = self.net.accept(&door.listener) {
                    self.net.abort(stream);
                    *self.hit.borrow_mut() = Some(addr);
                }
                return Err(io::Error::from_raw_os_error(errno));
            }
            Some(other) => unreachable!("{other:?} is not for accept"),
            None => {}
        }
        let (stream, addr) = self.net.accept(&door.listener)?;
        Ok((Line { stream, slot: u32::MAX, whom: addr.clone() }, addr))
    }

    fn register(&mut self, line: &mut Line, slot: u32) -> io::Result<()> {
        if let Some(Fault::Errno(errno)) = self.fault_of(Call::Register, line) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        line.slot = slot;
        self.net.register(&mut line.stream, slot)
    }

    fn connect(&mut self, addr: &Addr, options: &ConnectOptions, slot: u32) -> io::Result<Line> {
        if let Some(Fault::Errno(errno)) = self.fault(Call::Connect) {
            *self.hit.borrow_mut() = Some(addr.clone());
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(Line { stream: self.net.connect(addr, options, slot)?, slot, whom: addr.clone() })
    }

    fn connected(&mut self, line: &mut Line) -> io::Result<bool> {
        if let Some(Fault::Errno(errno)) = self.fault_of(Call::Connected, line) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        self.net.connected(&mut line.stream)
    }

    fn recv(&mut self, line: &mut Line, into: &mut [u8]) -> io::Result<Received> {
        match self.fault_of(Call::Recv, line) {
            Some(Fault::Errno(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Zero) => Ok(Received { len: 0, drained: true }),
            Some(Fault::OneByte) => self.net.recv(&mut line.stream, &mut into[..1]),
            _ => self.net.recv(&mut line.stream, into),
        }
    }

    fn send(&mut self, line: &mut Line, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.fault_of(Call::Send, line) {
            Some(Fault::Errno(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Zero) => Ok(0),
            Some(Fault::OneByte) => {
                let first = from.iter().find(|slice| !slice.is_empty()).expect("never empty");
                self.net.send(&mut line.stream, &[IoSlice::new(&first[..1])])
            }
            _ => self.net.send(&mut line.stream, from),
        }
    }

    fn shutdown_write(&mut self, line: &mut Line) -> io::Result<()> {
        if let Some(Fault::Errno(errno)) = self.fault_of(Call::Shutdown, line) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        self.net.shutdown_write(&mut line.stream)
    }

    fn close(&mut self, line: Line) {
        self.net.close(line.stream);
    }

    fn abort(&mut self, line: Line) {
        self.net.abort(line.stream);
    }
}

/// Failures that no story has without spinning.
const SPIN: usize = 10_000;

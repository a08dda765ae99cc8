//! A process of clients: does what it is asked to, and tells how it goes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use tickwire::Handle;

use crate::crowd::Crowd;
use crate::scenario::{Kind, LoadOrder};
use crate::schedule::{Place, Schedule};
use crate::talk::{self, Ask, Tell};

/// How long missing messages are waited for after the last send.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(5);

/// How long nothing may happen while clients wait for the server's greeting. A connect that fails
/// by itself takes less.
pub(crate) const GREETING_MAX: Duration = Duration::from_secs(15);

/// Messages under way while idle clients show that they are still served.
const PROBES_MAX: u64 = 256;

const WAIT: Duration = Duration::from_millis(50);

static STOP: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(order: LoadOrder) -> io::Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let mut crowd = Crowd::new(&order)?;
    let asks = listen(crowd.handle()?);
    let mut load = Load { crowd, order, told: Instant::now() };
    loop {
        match asks.try_recv() {
            Ok(Ask::Connect { more }) => load.connect(more)?,
            Ok(Ask::Measure { clients }) => load.measure(clients)?,
            Ok(Ask::Stop) => {}
            Err(TryRecvError::Empty) => load.crowd.turn(WAIT)?,
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
    }
}

/// Hears what is asked, on a thread of its own, and wakes the reactor for it. When whoever asks is
/// gone, we stop.
fn listen(handle: Handle) -> Receiver<Ask> {
    let (sender, asks) = channel();
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Ok(Some(ask)) = talk::read(&mut stdin) {
            if matches!(ask, Ask::Stop) {
                STOP.store(true, Ordering::Relaxed);
            }
            if sender.send(ask).is_err() {
                break;
            }
            handle.wake();
        }
        STOP.store(true, Ordering::Relaxed);
        drop(sender);
        handle.wake();
    });
    asks
}

struct Load {
    crowd: Crowd,
    order: LoadOrder,
    /// When we last told how it goes.
    told: Instant,
}

impl Load {
    /// Connects more clients, until each connect has an outcome.
    fn connect(&mut self, more: usize) -> io::Result<()> {
        self.crowd.want(more);
        let (mut waiting, mut changed) = (self.crowd.waiting(), Instant::now());
        while waiting > 0 && !stopped() {
            self.crowd.connect()?;
            self.crowd.turn(WAIT)?;
            if self.crowd.waiting() < waiting {
                (waiting, changed) = (self.crowd.waiting(), Instant::now());
            } else if changed.elapsed() > GREETING_MAX {
                self.crowd.give_up_waiting();
                break;
            }
            if self.is_time_to_tell() {
                tell(&self.connecting(true))?;
            }
        }
        tell(&self.connecting(false))
    }

    fn connecting(&self, waiting: bool) -> Tell {
        let tally = &self.crowd.tally;
        Tell::Connecting { connected: tally.connected, unconnected: tally.unconnected(), waiting }
    }

    /// Sends as the schedule says, whatever comes back (an open loop: a slow server gets no mercy).
    fn measure(&mut self, clients: usize) -> io::Result<()> {
        let scenario = self.order.scenario.clone();
        let place = Place { index: self.order.index, processes: self.order.processes, clients };
        let senders = match scenario.kind {
            Kind::Echo => self.crowd.made(),
            Kind::Broadcast => self.crowd.made().min(1),
            Kind::Idle => 0,
        };
        let schedule = Schedule::new(&scenario, place, senders);
        let measured = scenario.measured();
        let start = Instant::now();
        let mut bursts = 0;
        while start.elapsed() < measured && !stopped() {
            let now = start.elapsed();
            let mut next = measured;
            while let Some((client, due)) = schedule.burst(bursts) {
                if due > now || due >= measured {
                    next = next.min(due);
                    break;
                }
                self.crowd.tally.late.record(start.elapsed().saturating_sub(due));
                for _ in 0..scenario.burst {
                    self.crowd.send(client);
                }
                bursts += 1;
            }
            self.crowd.turn(next.saturating_sub(now))?;
            if self.is_time_to_tell() {
                tell(&Tell::Measuring { received: self.crowd.tally.received })?;
            }
        }
        let tally = &self.crowd.tally;
        tell(&Tell::Measured { sent: tally.sent, received: tally.received })?;
        if scenario.kind == Kind::Idle && !stopped() {
            self.probe(self.crowd.made())?;
        }
        self.drain()?;
        tell(&Tell::Done(Box::new(std::mem::take(&mut self.crowd.tally))))
    }

    /// One message of each client.
    fn probe(&mut self, clients: usize) -> io::Result<()> {
        let (mut next, mut changed) = (0, Instant::now());
        while next < clients && changed.elapsed() < DRAIN_MAX {
            if self.crowd.outstanding() < PROBES_MAX {
                changed = Instant::now();
            }
            while next < clients && self.crowd.outstanding() < PROBES_MAX {
                self.crowd.send(next);
                next += 1;
            }
            self.crowd.turn(WAIT)?;
        }
        Ok(())
    }

    /// Waits until every client that is still there has all that is to come.
    fn drain(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + DRAIN_MAX;
        while self.crowd.outstanding() > 0 && Instant::now() < deadline {
            self.crowd.turn(WAIT)?;
        }
        Ok(())
    }

    /// A few times a second is enough for the eye and costs the measurement nothing.
    fn is_time_to_tell(&mut self) -> bool {
        let due = self.told.elapsed() > Duration::from_millis(100);
        if due {
            self.told = Instant::now();
        }
        due
    }
}

fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

fn tell(tell: &Tell) -> io::Result<()> {
    talk::write(&mut io::stdout(), tell)
}

//! The reactor: the phases of a tick, in order.

mod admit;
mod deadlines;
mod ending;
mod reading;
mod remote;
mod sending;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::admit::Listeners;
use crate::addr::Addr;
use crate::batch::What;
use crate::config::{Builder, Limits};
use crate::conn::inbound::Inlet;
use crate::conn::outbound::Outlet;
use crate::conn::{Card, Stage};
use crate::error::Error;
use crate::event::{Events, Outbox, Tick, Wait};
use crate::filter::{AddrFilter, Crowd};
use crate::handle::{Command, Shared};
use crate::id::ConnId;
use crate::net::{MioNet, Net, Readiness, Source};
use crate::report::{Laps, Phase, Reading, TickReport};
use crate::slots::Slots;
use crate::stats::{ConnStats, Stats};
use crate::timers::{Moment, Timers};

/// A single-threaded TCP reactor: owns the sockets, does all I/O inside [`tick`](Reactor::tick).
///
/// Nothing runs by itself: no thread, no runtime, no callback. See the [crate docs](crate) for a whole
/// server, and [`Builder`] for every limit and its default.
///
/// Dropping a reactor closes all its sockets; what is still queued is lost, and there are no events.
///
/// `N` is the network that it runs on; leave it alone outside of tests.
pub struct Reactor<N: Net = MioNet> {
    limits: Limits,
    /// Who is connected. Shared by the two halves, which never meet but here.
    slots: Slots<Card>,
    /// What was received; the events of a batch borrow it.
    inlet: Inlet,
    /// What is to be sent; the outbox borrows it.
    outlet: Outlet,
    sockets: Vec<Option<N::Stream>>,
    listeners: Listeners<N::Listener>,
    timers: Timers,
    /// When connections that have used up their rate, or found the system short of memory, are read on. Apart, since there is
    /// one for nearly every message.
    rests: Timers,
    /// First and last events that wait for room in the batch.
    announcements: VecDeque<(ConnId, What)>,
    /// Connections in [`PeerClosed`](crate::conn::Stage::PeerClosed).
    half_closed: Vec<ConnId>,
    /// Slots whose last event the game has fetched.
    reap: Vec<u32>,
    /// Clients that may still be accepted in this tick.
    accept_budget: usize,
    /// Who may come in, and how many have from each address.
    filter: AddrFilter,
    crowd: Crowd,
    /// Connections whose send failed for want of memory, and when they try again.
    short_of_memory: Vec<ConnId>,
    resend_at: Option<Instant>,
    /// Nobody comes any more, and who is left goes at this moment.
    is_shut: bool,
    shutdown_at: Option<Moment>,
    /// What other threads reach this reactor by, once somebody has asked for it, and what they ask for.
    shared: Option<Arc<Shared>>,
    commands: Vec<Command>,
    /// Whether they have asked for anything in this tick.
    was_called: bool,
    /// What the poller reported, for one pass.
    reports: Vec<Readiness>,
    /// The time, as read at the start of a tick and once in each service pass: all of a pass agrees on it.
    now: Instant,
    trim_at: Instant,
    counts: Stats,
    /// What the last report has told already.
    reported: Reading,
    laps: Option<Laps>,
    net: N,
}

impl Reactor {
    /// A reactor with the default settings.
    ///
    /// # Errors
    ///
    /// [`Error::Poller`] if the system has no poller to give.
    pub fn new() -> Result<Reactor, Error> {
        Builder::new().build()
    }

    /// For other settings than the default.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// Builds the reactor.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if a setting cannot work, alone or with the others; [`Error::Poller`] if the
    /// system has no poller to give.
    pub fn build(self) -> Result<Reactor, Error> {
        let limits = self.check()?;
        let net = MioNet::new(limits.socket.clone()).map_err(Error::Poller)?;
        Ok(Reactor::on(net, limits))
    }

    /// Builds the reactor on a network of one's own, such as the simulated one.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if a setting cannot work, alone or with the others.
    pub fn build_on<N: Net>(self, net: N) -> Result<Reactor<N>, Error> {
        Ok(Reactor::on(net, self.check()?))
    }
}

impl<N: Net> Reactor<N> {
    fn on(net: N, limits: Limits) -> Reactor<N> {
        let now = net.now();
        Reactor {
            slots: Slots::default(),
            inlet: Inlet::new(limits.batch_memory),
            outlet: Outlet::new(&limits),
            sockets: Vec::new(),
            listeners: Listeners::default(),
            timers: Timers::new(now),
            rests: Timers::new(now),
            announcements: VecDeque::new(),
            half_closed: Vec::new(),
            reap: Vec::new(),
            accept_budget: 0,
            filter: AddrFilter::new(),
            crowd: Crowd::default(),
            short_of_memory: Vec::new(),
            resend_at: None,
            shared: None,
            commands: Vec::new(),
            was_called: false,
            is_shut: false,
            shutdown_at: None,
            reports: Vec::new(),
            now,
            trim_at: now + TRIM_PERIOD,
            counts: Stats::default(),
            reported: Reading::default(),
            laps: None,
            limits,
            net,
        }
    }

    /// Does all I/O that is due and returns what has happened. To be called once a frame, or in a loop.
    ///
    /// First, what the last batch lent is taken back and what is queued is sent; then the tick waits as
    /// `wait` says, serves the sockets, and returns the events. Its work is bounded by what was there when
    /// it looked, and by the budgets of the [`Builder`].
    ///
    /// Call it regularly: deadlines, too, are kept only inside of `tick`.
    ///
    /// # Errors
    ///
    /// [`Error::Poller`] if the system's poller is broken. One peer's misfortune is never an error here: it
    /// ends at most that connection, with an event.
    pub fn tick(&mut self, wait: Wait) -> Result<Tick<'_>, Error> {
        self.counts.ticks += 1;
        self.set_now(self.net.now());
        self.laps = self.limits.phase_times.then(|| Laps::start(self.now));
        self.was_called = false;
        self.release();
        let carried_over = self.inlet.batch.remaining();
        self.flush();
        self.lap(Phase::Send);
        self.renew_budgets();
        match wait {
            Wait::No => self.service(Some(Duration::ZERO), u64::MAX)?,
            Wait::Event(timeout) => self.service_until_event(timeout)?,
            Wait::Until(deadline) => self.service_until(deadline)?,
        }
        self.outlet.set_held(self.inlet.held(), &self.limits);
        let report = self.report(carried_over);
        Ok(Tick {
            report,
            events: Events::new(&mut self.inlet, &self.slots, &mut self.reap),
            outbox: Outbox::new(&mut self.outlet, &self.slots, &self.limits),
        })
    }

    fn service_until_event(&mut self, timeout: Duration) -> Result<(), Error> {
        let deadline = self.now.checked_add(timeout);
        loop {
            let patience = self.patience(deadline);
            self.service(patience, WARM_LEN)?;
            let is_over = deadline.is_some_and(|deadline| self.now >= deadline);
            if self.inlet.batch.remaining() > 0 || self.was_called || is_over {
                return Ok(());
            }
            // Nobody has got anything yet, so the tick begins anew.
            self.renew_budgets();
        }
    }

    fn service_until(&mut self, deadline: Instant) -> Result<(), Error> {
        loop {
            self.service(Some(Duration::ZERO), u64::MAX)?;
            if self.now >= deadline {
                return Ok(());
            }
            let next = self.now.checked_add(self.limits.pace);
            self.net.sleep(next.map_or(deadline, |next| next.min(deadline)));
            self.lap(Phase::Wait);
        }
    }

    /// What is allowed per tick is allowed anew.
    fn renew_budgets(&mut self) {
        self.inlet.renew_turns();
        self.accept_budget = self.limits.accept_budget;
    }

    /// One look at the sockets, to receive about so many bytes at most.
    fn service(&mut self, timeout: Option<Duration>, most: u64) -> Result<(), Error> {
        self.counts.polls += 1;
        self.net.wait(timeout, &mut self.reports).map_err(Error::Poller)?;
        self.set_now(self.net.now());
        self.lap(Phase::Wait);
        self.counts.idle_wakes += u64::from(self.reports.is_empty() && !self.is_busy());
        self.note_reports();
        if self.take_commands() {
            self.was_called = true;
            self.carry_out_requests();
        }
        self.retry_sends();
        self.flush_dirty();
        self.lap(Phase::Send);
        self.accept();
        self.announce(self.announce_share());
        self.lap(Phase::Admit);
        self.read(most);
        self.expire();
        self.announce(usize::MAX);
        self.lap(Phase::Read);
        Ok(())
    }

    /// How long the poller may wait: not at all while there is something to do.
    fn patience(&self, deadline: Option<Instant>) -> Option<Duration> {
        if self.is_busy() {
            return Some(Duration::ZERO);
        }
        let until = deadline.into_iter().chain(self.next_timer()).min();
        until.map(|moment| moment.saturating_duration_since(self.now))
    }

    fn is_busy(&self) -> bool {
        self.inlet.batch.remaining() > 0
            || self.inlet.ready_len() > 0
            || !self.announcements.is_empty()
    }

    /// When something is to be done that no report of the poller will call for.
    fn next_timer(&self) -> Option<Instant> {
        let accept = self.listeners.next(self.now, self.has_accept_room());
        [self.timers.next(), self.rests.next(), self.resend_at, accept].into_iter().flatten().min()
    }

    fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.timers.set_now(now);
        self.rests.set_now(now);
    }

    /// Ends a phase, if somebody wants to know how long it took.
    fn lap(&mut self, phase: Phase) {
        if let Some(laps) = &mut self.laps {
            laps.lap(phase, self.net.now());
        }
    }

    fn report(&mut self, carried_over: usize) -> TickReport {
        let reading = Reading {
            passes: self.counts.polls,
            accepted: self.counts.accepted,
            receives: self.inlet.receives,
            bytes_received: self.inlet.bytes_received,
            messages_received: self.inlet.messages_received,
            sends: self.outlet.sends,
            bytes_sent: self.outlet.bytes_sent,
        };
        let since = std::mem::replace(&mut self.reported, reading);
        TickReport {
            events: self.inlet.batch.remaining(),
            carried_over,
            event_budget: self.limits.event_budget,
            memory_used: self.inlet.arena.used(),
            memory: self.limits.batch_memory,
            unserved: self.inlet.ready_len(),
            times: self.laps.as_ref().map(|laps| laps.times),
            ..TickReport::between(&since, &reading)
        }
    }

    /// Takes back what the game has fetched, and frees the slots whose last event it was.
    fn release(&mut self) {
        self.inlet.release();
        while let Some(slot) = self.reap.pop() {
            self.inlet.reap(slot);
            self.outlet.end(slot);
            self.slots.remove(slot);
        }
        self.close_answered();
        if self.now >= self.trim_at {
            self.trim_at = self.now + TRIM_PERIOD;
            self.inlet.pool.trim();
            self.outlet.trim();
        }
    }

    /// Acts on what the poller reported. All of it is hints, and may be late.
    fn note_reports(&mut self) {
        let mut reports = std::mem::take(&mut self.reports);
        for report in reports.drain(..) {
            match report.source {
                Source::Listener(index) => self.listeners.set_ready(index),
                Source::Conn(slot) => {
                    if self.has_socket(slot) {
                        self.note_report(slot, report);
                    }
                }
            }
        }
        self.reports = reports;
    }

    fn note_report(&mut self, slot: u32, report: Readiness) {
        if self.slots.get(slot).stage == Stage::Connecting && !self.finish_connecting(slot) {
            return;
        }
        if report.writable || report.insist {
            self.outlet.set_writable(slot);
        }
        if report.readable || report.insist {
            self.inlet.set_readable(slot, report.insist);
        }
    }

    /// How many first and last events may be told before anybody is read: a storm of newcomers leaves every other place in
    /// the batch to those who play.
    fn announce_share(&self) -> usize {
        match self.inlet.ready_len() {
            0 => usize::MAX,
            _ => (self.limits.event_budget + self.counts.ticks as usize % 2) / 2,
        }
    }

    /// Puts first and last events into the batch, at most so many and as far as the budget reaches.
    fn announce(&mut self, most: usize) {
        for _ in 0..most {
            if self.inlet.batch.remaining() >= self.limits.event_budget {
                return;
            }
            let Some((id, what)) = self.announcements.pop_front() else {
                return;
            };
            match what {
                What::Connected => self.inlet.introduce(id),
                _ => drop(self.inlet.batch.push(id, what)),
            }
        }
    }

    /// The outbox outside of a tick: for what the game has to say after its step.
    pub fn outbox(&mut self) -> Outbox<'_> {
        Outbox::new(&mut self.outlet, &self.slots, &self.limits)
    }

    /// Sends what is queued, with one system call for each connection that has something, and carries out
    /// closes and kicks. Never waits: what a socket does not take stays queued.
    ///
    /// Each tick begins with a flush, so call this only where something is to leave before. It is no substitute for a tick: only
    /// that learns that a full socket has room again.
    pub fn flush(&mut self) {
        if !self.outlet.requests.is_empty() {
            self.set_now(self.net.now());
            self.carry_out_requests();
        }
        self.flush_dirty();
    }

    /// Where a peer is; known until the tick after the connection's last event was fetched.
    pub fn peer(&self, conn: ConnId) -> Option<Addr> {
        self.slots.find(conn).map(|slot| self.slots.get(slot).peer.addr())
    }

    /// How many connections there are, incoming and outgoing, until their last event was fetched.
    pub fn connections(&self) -> usize {
        self.slots.len()
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        Stats {
            connections: self.slots.len(),
            receives: self.inlet.receives,
            bytes_received: self.inlet.bytes_received,
            messages_received: self.inlet.messages_received,
            bytes_moved: self.inlet.bytes_moved,
            sends: self.outlet.sends,
            bytes_sent: self.outlet.bytes_sent,
            messages_sent: self.outlet.messages_sent,
            messages_refused: self.outlet.refusals.total(),
            refusals: self.outlet.refusals,
            bytes_in_batch: self.inlet.arena.used(),
            messages_superseded: self.outlet.messages_superseded,
            bytes_queued: self.outlet.queued_in_all(),
            bytes_unfinished: self.inlet.held(),
            bytes_pooled: self.inlet.pool.bytes() + self.outlet.pool.bytes(),
            buffers_held: self.inlet.pool.lent() + self.outlet.pool.lent(),
            ..self.counts
        }
    }

    /// What one connection has done so far; `None` for a stale id, and unless
    /// [`Builder::connection_stats`](crate::Builder::connection_stats) is set.
    pub fn connection_stats(&self, conn: ConnId) -> Option<ConnStats> {
        let slot = self.slots.find(conn)?;
        let received = self.inlet.stats_of(slot)?;
        let sent = self.outlet.stats_of(slot)?;
        Some(ConnStats {
            bytes_received: received.bytes,
            messages_received: received.messages,
            bytes_sent: sent.bytes,
            messages_sent: sent.messages,
            messages_refused: sent.refused,
            queue_peak: sent.queue_peak,
        })
    }

    /// When [`tick`](Self::tick) should be called although nothing arrives, for a foreign loop that waits for the reactor's
    /// descriptor: at once if the answer is not in the future; `None` if only an arrival gives it something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let is_owed =
            |id: &ConnId| self.slots.find(*id).is_some_and(|slot| self.inlet.is_fetched(slot));
        match self.is_busy() || !self.reap.is_empty() || self.half_closed.iter().any(is_owed) {
            true => Some(self.now),
            false => self.next_timer(),
        }
    }

    /// The time of the network that the reactor runs on; the real time, except in a simulation.
    pub fn now(&self) -> Instant {
        self.net.now()
    }

    /// The network that the reactor runs on.
    pub fn net(&self) -> &N {
        &self.net
    }

    /// The network that the reactor runs on, to be changed: for simulations.
    pub fn net_mut(&mut self) -> &mut N {
        &mut self.net
    }

    fn has_socket(&self, slot: u32) -> bool {
        matches!(self.sockets.get(slot as usize), Some(Some(_)))
    }
}

/// The poller's descriptor, for a foreign loop: it is readable when [`tick`](Reactor::tick) has something to do, except for
/// what [`next_deadline`](Reactor::next_deadline) tells, and for what was queued since the last flush. Wait for it without edges
/// (epoll(7): no EPOLLET), and tick with [`Wait::No`].
#[cfg(unix)]
impl std::os::fd::AsRawFd for Reactor<MioNet> {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.net.as_raw_fd()
    }
}

impl<N: Net> fmt::Debug for Reactor<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor")
            .field("connections", &self.slots.len())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<N: Net> Drop for Reactor<N> {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.mailbox.close();
        }
        for socket in self.sockets.drain(..).flatten() {
            self.net.close(socket);
        }
        for listener in self.listeners.drain() {
            self.net.unlisten(listener);
        }
    }
}

/// About how many bytes a tick receives at most that waits for events, and so comes back at once, unless fairness asks for
/// more: what it received, and the replies to it, then still lie in the processor's cache when they are used. Measured in
/// docs/performance.md.
const WARM_LEN: u64 = 128 * 1024;

/// How often the pools give back what nobody needs.
const TRIM_PERIOD: Duration = Duration::from_secs(1);

/// How long a connection rests whose send or receive failed for want of memory.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(10);

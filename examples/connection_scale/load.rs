//! The clients: all on one reactor, each with its own moment of the 1/14 s.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tickwire::{ConnId, Event, Reactor, SendError, Tick, Wait};

use crate::payload;
use crate::process::{self, ServerProcess};
use crate::report::{Figures, Progress, Row};
use crate::tally::Tally;

/// How often a client sends, per second, and how many messages at once.
pub(crate) const BURSTS_PER_SEC: u64 = 14;
pub(crate) const BURST: u32 = 2;

/// How long missing echoes are waited for after the last send.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(5);

/// How many connects are under way at one time: the smallest usual backlog (128) holds them.
const CONNECTING_MAX: usize = 100;

/// The longest wait in one tick, so that Ctrl-C is noticed and the progress bar moves.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Plays `count` clients against `server` and measures for the time given, or until `stop`.
pub(crate) fn run(
    server: &ServerProcess,
    count: usize,
    measured: Duration,
    progress: &mut Progress,
    stop: &AtomicBool,
) -> io::Result<Row> {
    let mut load = Load::new(count, stop)?;
    load.connect(server.addr(), count, progress)?;
    let mut figures = None;
    if load.tally.all_connected() {
        progress.connected();
        figures = Some(load.measure(server.id(), measured, progress)?);
        load.drain(progress)?;
    }
    Ok(Row { clients: count, figures, stopped: load.stopped(), tally: load.tally })
}

struct Load<'a> {
    reactor: Reactor,
    clients: Vec<Client>,
    /// Places in `clients`. A client that is gone is in here no more.
    numbers: HashMap<ConnId, usize>,
    tally: Tally,
    /// What the send times in the payloads count from.
    epoch: Instant,
    stop: &'a AtomicBool,
}

struct Client {
    conn: ConnId,
    sent: u32,
    echoed: u32,
}

impl<'a> Load<'a> {
    fn new(count: usize, stop: &'a AtomicBool) -> io::Result<Load<'a>> {
        Ok(Load {
            reactor: Reactor::builder().connections_max(count).build()?,
            clients: Vec::with_capacity(count),
            numbers: HashMap::with_capacity(count),
            tally: Tally::new(count),
            epoch: Instant::now(),
            stop,
        })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Connects `count` clients, until each connect has an outcome (the reactor sees to that).
    fn connect(
        &mut self,
        addr: SocketAddr,
        count: usize,
        progress: &mut Progress,
    ) -> io::Result<()> {
        while self.tally.answered() < count && !self.stopped() {
            while self.clients.len() < count.min(self.tally.answered() + CONNECTING_MAX) {
                let conn = self.reactor.connect(addr)?;
                self.numbers.insert(conn, self.clients.len());
                self.clients.push(Client { conn, sent: 0, echoed: 0 });
            }
            self.turn(WAIT_MAX)?;
            progress.connecting(self.tally.connected);
        }
        Ok(())
    }

    /// Sends as the schedule says, whatever comes back (an open loop: a slow server gets no mercy),
    /// and takes the figures of exactly this time.
    fn measure(
        &mut self,
        server: u32,
        measured: Duration,
        progress: &mut Progress,
    ) -> io::Result<Figures> {
        let clients = self.clients.len() as u64;
        let bursts = measured.as_secs() * BURSTS_PER_SEC * clients;
        let start = Instant::now();
        let due = |burst: u64| {
            start + Duration::from_nanos(burst * 1_000_000_000 / (BURSTS_PER_SEC * clients))
        };
        let cpu_before = (process::cpu_time(server), process::cpu_time(std::process::id()));

        let mut next = 0;
        while start.elapsed() < measured && !self.stopped() {
            let now = Instant::now();
            while next < bursts && due(next) <= now {
                self.send_burst((next % clients) as usize, due(next));
                next += 1;
            }
            let until = if next < bursts { due(next) } else { start + measured };
            self.turn(until.saturating_duration_since(now))?;
            progress.measuring(start.elapsed(), self.tally.echoed);
        }

        let time = start.elapsed();
        Ok(Figures {
            time,
            server_cpu: cpu_share(cpu_before.0, process::cpu_time(server), time),
            load_cpu: cpu_share(cpu_before.1, process::cpu_time(std::process::id()), time),
            server_memory: process::resident(server),
            sent: self.tally.sent,
            echoed: self.tally.echoed,
        })
    }

    fn send_burst(&mut self, number: usize, due: Instant) {
        let now = Instant::now();
        self.tally.late_max = self.tally.late_max.max(now.saturating_duration_since(due));
        let client = &mut self.clients[number];
        let mut outbox = self.reactor.outbox();
        for _ in 0..BURST {
            let sent = now.duration_since(self.epoch).as_nanos() as u64;
            match outbox.send(client.conn, &payload::make(number as u32, client.sent, sent)) {
                Ok(()) => {
                    client.sent += 1;
                    self.tally.sent += 1;
                }
                // A client that was disconnected is in the tally already.
                Err(SendError::Stale | SendError::Closing) => {}
                Err(error) => self.tally.refused(error),
            }
        }
    }

    /// Waits until every client that is still there has all its echoes.
    fn drain(&mut self, progress: &mut Progress) -> io::Result<()> {
        let deadline = Instant::now() + DRAIN_MAX;
        loop {
            let missing = self.missing();
            let now = Instant::now();
            if missing == 0 || now >= deadline {
                return Ok(());
            }
            progress.draining(missing);
            self.turn(deadline - now)?;
        }
    }

    fn missing(&self) -> u32 {
        let client = |&number: &usize| &self.clients[number];
        self.numbers.values().map(client).map(|client| client.sent - client.echoed).sum()
    }

    /// One tick, and a look at what it brought.
    fn turn(&mut self, wait: Duration) -> io::Result<()> {
        let Tick { events, .. } = self.reactor.tick(Wait::Event(wait.min(WAIT_MAX)))?;
        let now = self.epoch.elapsed();
        for event in events {
            match event {
                Event::Connected { .. } => self.tally.connected += 1,
                Event::Message { conn, payload } => {
                    let number = self.numbers[&conn];
                    check(payload, number, &mut self.clients[number], now, &mut self.tally);
                }
                Event::Disconnected { conn, reason } => {
                    self.numbers.remove(&conn);
                    self.tally.lost(reason);
                }
                Event::ConnectFailed { conn, reason } => {
                    self.numbers.remove(&conn);
                    self.tally.connect_failed(reason);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn check(payload: &[u8], number: usize, client: &mut Client, now: Duration, tally: &mut Tally) {
    let expected = client.echoed < client.sent;
    match payload::check(payload, number as u32, client.echoed) {
        Some(sent) if expected => tally.right(now.saturating_sub(Duration::from_nanos(sent))),
        _ => tally.wrong(),
    }
    client.echoed += u32::from(expected);
}

/// Processor time used between two readings, as a share of one core.
fn cpu_share(before: Option<Duration>, after: Option<Duration>, time: Duration) -> Option<f64> {
    Some(after?.saturating_sub(before?).as_secs_f64() / time.as_secs_f64())
}

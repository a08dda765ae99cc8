//! One row, directed from outside: servers and clients are other processes; here they are started,
//! told when to do what, and watched.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::args::{LOAD, Options, SERVE};
use crate::process::{self, Process};
use crate::progress::Progress;
use crate::scenario::{LoadOrder, ServerOrder};
use crate::schedule::Place;
use crate::talk::{self, Ask, Listening, Tell};
use crate::tally::Tally;
use crate::{limits, stop, usage};

/// How long we are deaf to Ctrl-C.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// What came of one number of clients.
pub(crate) struct Row {
    pub(crate) clients: usize,
    pub(crate) connected: usize,
    pub(crate) connecting: Duration,
    /// Nothing, if not all clients connected.
    pub(crate) measured: Option<Measured>,
    pub(crate) tally: Tally,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It went on as long as it was to.
    Whole,
    /// By Ctrl-C.
    Stopped,
    /// Fewer clients than wanted, so that the machine does not run out of memory.
    MemoryLow,
}

/// What was counted while it was measured (what came afterwards is not in it).
pub(crate) struct Measured {
    pub(crate) time: Duration,
    pub(crate) server_cpu: Option<Duration>,
    pub(crate) load_cpu: Option<Duration>,
    /// In bytes, of all servers: with no client, and now.
    pub(crate) server_memory: Option<(u64, u64)>,
    /// In bytes, free on the whole machine: with no client, and now.
    pub(crate) available: Option<(u64, u64)>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Plays one row, against servers of its own, so that no row's memory is counted in the next.
pub(crate) fn run(clients: usize, options: &Options) -> io::Result<Row> {
    let mut progress = Progress::new(clients, &options.scenario);
    let mut cast = Cast::start(clients, options)?;
    let before = (usage::resident(&ids(&cast.servers)), usage::available());
    let begin = Instant::now();
    let (connected, unconnected, mut end) =
        cast.connect(clients, options.keep_free, &mut progress)?;
    let connecting = begin.elapsed();
    let mut measured = None;
    let complete = unconnected == 0 && end != End::Stopped && connected > 0;
    if complete {
        progress.connected(connected);
        measured = Some(cast.measure(connected, before, &mut progress)?);
    }
    let tally = cast.finish(complete)?;
    if stop::is_asked() {
        end = End::Stopped;
    }
    Ok(Row { clients, connected, connecting, measured, tally, end })
}

/// All who take part.
struct Cast {
    servers: Vec<Process>,
    loads: Vec<Process>,
    /// From the processes of clients: which, and what. Nothing, when one is gone.
    news: Receiver<(usize, Option<Tell>)>,
    asked_to_stop: bool,
    /// What those have counted that are done.
    tally: Tally,
    done: usize,
}

impl Cast {
    fn start(clients: usize, options: &Options) -> io::Result<Cast> {
        let processes = options.processes.min(clients);
        let addresses = limits::addresses(clients);
        let (sender, news) = channel();
        let mut cast = Cast {
            servers: Vec::new(),
            loads: Vec::new(),
            news,
            asked_to_stop: false,
            tally: Tally::default(),
            done: 0,
        };
        let mut port = 0;
        for _ in 0..processes {
            let scenario = options.scenario.clone();
            let order = ServerOrder { port, addresses, shared: processes > 1, scenario };
            let (server, mut stdout) = Process::start(SERVE, &order)?;
            cast.servers.push(server);
            Listening { port } = process::first(&mut stdout)?;
        }
        for index in 0..processes {
            let clients_max = Place { index, processes, clients }.share();
            let scenario = options.scenario.clone();
            let order = LoadOrder { port, addresses, index, processes, clients_max, scenario };
            let (load, stdout) = Process::start(LOAD, &order)?;
            cast.loads.push(load);
            let sender = sender.clone();
            thread::spawn(move || listen(index, stdout, &sender));
        }
        Ok(cast)
    }

    /// Lets the clients connect step by step, as long as there is memory. Answers how many did, how
    /// many did not, and how it ended.
    fn connect(
        &mut self,
        clients: usize,
        keep_free: u64,
        progress: &mut Progress,
    ) -> io::Result<(usize, usize, End)> {
        /// In all processes together: some hundred megabytes, at most, between two looks at what is
        /// free.
        const STEP: usize = 20_000;
        let processes = self.loads.len();
        let step = (STEP / processes).clamp(100, 1_000);
        let mut parts: Vec<_> = (0..processes)
            .map(|index| Part {
                left: Place { index, processes, clients }.share(),
                ..Part::default()
            })
            .collect();
        let mut end = End::Whole;
        loop {
            if limits::memory_is_low(keep_free) && parts.iter().any(|part| part.left > 0) {
                end = End::MemoryLow;
            }
            if stop::is_asked() {
                self.stop()?;
                end = End::Stopped;
            }
            for (part, load) in parts.iter_mut().zip(&mut self.loads) {
                if !part.waiting && part.left > 0 && part.unconnected == 0 && end == End::Whole {
                    let more = part.left.min(step);
                    part.left -= more;
                    part.waiting = true;
                    load.ask(&Ask::Connect { more })?;
                }
            }
            let connected = parts.iter().map(|part| part.connected).sum();
            let unconnected = parts.iter().map(|part| part.unconnected).sum();
            if parts.iter().all(|part| !part.waiting) {
                return Ok((connected, unconnected, end));
            }
            progress.connecting(connected);
            if let Some((index, Tell::Connecting { connected, unconnected, waiting })) =
                self.next()?
            {
                let left = parts[index].left;
                parts[index] = Part { left, connected, unconnected, waiting };
            }
        }
    }

    /// Has everybody measure, and takes the figures of exactly this time.
    fn measure(
        &mut self,
        clients: usize,
        before: (Option<u64>, Option<u64>),
        progress: &mut Progress,
    ) -> io::Result<Measured> {
        let (servers, loads) = (ids(&self.servers), ids(&self.loads));
        let cpu_before = (usage::cpu_time(&servers), usage::cpu_time(&loads));
        let start = Instant::now();
        for load in &mut self.loads {
            load.ask(&Ask::Measure { clients })?;
        }
        let mut received_so_far = vec![0; self.loads.len()];
        let (mut counted, mut sent, mut received) = (0, 0, 0);
        while counted < self.loads.len() {
            if stop::is_asked() {
                self.stop()?;
            }
            match self.next()? {
                Some((index, Tell::Measuring { received })) => received_so_far[index] = received,
                Some((_, Tell::Measured { sent: its_sent, received: its_received })) => {
                    counted += 1;
                    sent += its_sent;
                    received += its_received;
                }
                _ => {}
            }
            progress.measuring(start.elapsed(), received_so_far.iter().sum());
        }
        let time = start.elapsed();
        let used =
            |before: Option<Duration>, ids| Some(usage::cpu_time(ids)?.saturating_sub(before?));
        let measured = Measured {
            time,
            server_cpu: used(cpu_before.0, &servers),
            load_cpu: used(cpu_before.1, &loads),
            server_memory: before.0.zip(usage::resident(&servers)),
            available: before.1.zip(usage::available()),
            sent,
            received,
        };
        progress.draining();
        Ok(measured)
    }

    /// Adds up what was counted, and lets everybody go: first all of them, then each is waited for.
    fn finish(mut self, measured: bool) -> io::Result<Tally> {
        if !measured {
            self.stop()?;
            for load in &mut self.loads {
                load.ask(&Ask::Measure { clients: 1 })?; // ends at once, with the tally
            }
        }
        while self.done < self.loads.len() {
            if stop::is_asked() {
                self.stop()?;
            }
            self.next()?;
        }
        self.loads.iter_mut().chain(&mut self.servers).for_each(Process::release);
        Ok(self.tally)
    }

    /// Asks everybody to stop, once.
    fn stop(&mut self) -> io::Result<()> {
        if !self.asked_to_stop {
            self.asked_to_stop = true;
            self.loads.iter_mut().try_for_each(|load| load.ask(&Ask::Stop))?;
        }
        Ok(())
    }

    /// The next news, if they come soon. A process may be done while others still measure: so that is
    /// noted here, whoever asked.
    fn next(&mut self) -> io::Result<Option<(usize, Tell)>> {
        match self.news.recv_timeout(WAIT_MAX) {
            Ok((_, Some(Tell::Done(tally)))) => {
                self.tally.merge(*tally);
                self.done += 1;
                Ok(None)
            }
            Ok((index, Some(tell))) => Ok(Some((index, tell))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            // Its reason it has told on stderr.
            Ok((_, None)) | Err(RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("a process of clients has ended early"))
            }
        }
    }
}

/// How far one process of clients is.
#[derive(Default)]
struct Part {
    /// Clients that it was not yet asked to connect.
    left: usize,
    connected: usize,
    unconnected: usize,
    waiting: bool,
}

fn listen(index: usize, mut from: impl BufRead, to: &Sender<(usize, Option<Tell>)>) {
    while let Ok(Some(tell)) = talk::read(&mut from) {
        let _ = to.send((index, Some(tell)));
    }
    let _ = to.send((index, None));
}

fn ids(processes: &[Process]) -> Vec<u32> {
    processes.iter().map(Process::id).collect()
}

//! An echo server: every message goes back to whoever sent it.
//!
//! ```text
//! cargo run --release --example echo -- --listen 127.0.0.1:7777
//! ```
//!
//! You will see `listening on 127.0.0.1:7777`, then a line for each client that joins or leaves,
//! and why it left. `--help` lists the options, Ctrl-C ends it. A message is 4 bytes of length
//! (big-endian) and then the payload, so a client in a second terminal can be as short as this, and
//! prints `b'\x00\x00\x00\x05hello'`:
//!
//! ```text
//! python3 -c "import socket; s = socket.create_connection(('127.0.0.1', 7777)); \
//!             s.sendall(b'\0\0\0\5hello'); print(s.recv(9))"
//! ```

use std::collections::HashMap;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use log::{info, warn};
use tickwire::{Addr, ConnId, Error, Event, Outbox, Reactor, Tick, Wait};

const HELP: &str = "\
An echo server: every message goes back to whoever sent it.

Usage: cargo run --release --example echo -- [OPTIONS]

Options:
  --listen ADDR    where to listen, IP:PORT; port 0 takes a free one  [default: 127.0.0.1:7777]
  --fps N          0: answer as soon as something arrives;
                   1 to 1000: a game's frame loop, N frames a second  [default: 0]
  --broadcast      send each message to all clients, its sender included
  --max-frame N    largest message in bytes, 1 to 1073741824          [default: 16384]
  --help           show this page

RUST_LOG sets how much is logged [default: info].";

/// Set by Ctrl-C and SIGTERM. The loop wakes often enough to notice; a handle that wakes the
/// reactor from another thread will make that unnecessary.
static STOP: AtomicBool = AtomicBool::new(false);
const STOP_NOTICED_WITHIN: Duration = Duration::from_millis(100);

/// A client that is behind and for this long takes not one byte is given up.
const STALL_MAX: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let options = match Options::from_args() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => return fail(2, problem),
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    if let Err(error) = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)) {
        warn!("Ctrl-C will end this less politely: {error}");
    }
    match serve(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ Error::Config { .. }) => fail(2, error),
        Err(error) => fail(1, error),
    }
}

fn fail(code: u8, problem: impl Display) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(code)
}

fn serve(options: &Options) -> Result<(), Error> {
    let mut reactor = options.reactor()?;
    let listener = reactor.listen(&options.listen)?;
    let addr = reactor.local_addr(listener).expect("we listen there");
    // Each client takes a descriptor, and the usual soft limit is 1024.
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => info!("room for {limit} open descriptors"),
        Err(error) => warn!("the limit of open descriptors stays as it is: {error}"),
    }
    println!("listening on {addr}");
    let _ = std::io::stdout().flush(); // a launcher may wait for this line

    let mut clients: HashMap<ConnId, Addr> = HashMap::new();
    let mut brake = Brake::new(options);
    let mut next_frame = Instant::now();
    while !STOP.load(Ordering::Relaxed) {
        let wait = match options.frame() {
            // A frame that is over already is left out rather than caught up with.
            Some(frame) => {
                next_frame = (next_frame + frame).max(Instant::now());
                Wait::Until(next_frame)
            }
            None => Wait::Event(brake.patience()),
        };
        let Tick { events, mut outbox, .. } = reactor.tick(wait)?;
        for event in events {
            match event {
                Event::Connected { conn, peer, .. } => {
                    info!("{conn} from {peer} joined");
                    clients.insert(conn, peer);
                }
                Event::Message { conn, payload } if options.broadcast => {
                    outbox.broadcast(clients.keys(), payload);
                    for to in clients.keys() {
                        brake.sent(&mut outbox, conn, *to);
                    }
                }
                Event::Message { conn, payload } => {
                    // Refused only while the connection is ending: the brake keeps room for the rest.
                    let _ = outbox.send(conn, payload);
                    brake.sent(&mut outbox, conn, conn);
                }
                Event::Disconnected { conn, reason } => {
                    if let Some(peer) = clients.remove(&conn) {
                        info!("{conn} from {peer} left: {reason}");
                    }
                }
                _ => {}
            }
        }
        brake.release(&mut outbox);
    }
    info!("stopped; {} clients were connected", clients.len());
    Ok(())
}

/// Back-pressure: who makes us send faster than it is read is not read from for a while, so that TCP
/// slows it down. Nothing is lost, nobody else is slowed, and what waits for a client is bounded.
struct Brake {
    /// Whether a message goes to everyone, so that whoever is behind holds up all senders.
    broadcast: bool,
    /// With more bytes than this waiting, a client is behind, until half of them have left.
    high_water: usize,
    /// Who is behind: how much waited, and since when no byte of it has left.
    behind: HashMap<ConnId, (usize, Instant)>,
    paused: Vec<ConnId>,
}

impl Brake {
    fn new(options: &Options) -> Brake {
        let high_water = options.send_queue_max() / 4;
        Brake { broadcast: options.broadcast, high_water, behind: HashMap::new(), paused: vec![] }
    }

    /// To be told of each message that `from` made us send `to` somebody.
    fn sent(&mut self, outbox: &mut Outbox<'_>, from: ConnId, to: ConnId) {
        let queued = outbox.queued(to);
        if queued > self.high_water {
            self.behind.entry(to).or_insert_with(|| (queued, Instant::now()));
            if !self.paused.contains(&from) && outbox.pause_read(from) {
                self.paused.push(from);
            }
        }
    }

    /// Lets go of those who were waited for. Who takes nothing at all is not waited for for ever.
    fn release(&mut self, outbox: &mut Outbox<'_>) {
        let low_water = self.high_water / 2;
        self.behind.retain(|conn, (before, since)| {
            let queued = outbox.queued(*conn);
            if queued < *before {
                (*before, *since) = (queued, Instant::now());
            }
            if since.elapsed() > STALL_MAX {
                warn!("{conn} reads nothing, and {queued} bytes wait for it: kicking it");
                outbox.kick(*conn);
            }
            queued > low_water && outbox.is_open(*conn)
        });
        let Brake { broadcast, behind, .. } = self;
        self.paused.retain(|conn| {
            let held = if *broadcast { !behind.is_empty() } else { behind.contains_key(conn) };
            held || !outbox.resume_read(*conn) && outbox.is_open(*conn)
        });
    }

    /// How long to wait for the next event. That somebody has caught up is none.
    fn patience(&self) -> Duration {
        if self.paused.is_empty() { STOP_NOTICED_WITHIN } else { Duration::from_millis(2) }
    }
}

struct Options {
    listen: Addr,
    fps: u32,
    broadcast: bool,
    max_frame: usize,
}

impl Options {
    /// The command line's options, or `None` if it asks for help.
    fn from_args() -> Result<Option<Options>, String> {
        let mut options = Options {
            listen: Addr::from(([127, 0, 0, 1], 7777)),
            fps: 0,
            broadcast: false,
            max_frame: 16_384,
        };
        let mut parser = lexopt::Parser::from_env();
        while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
            match arg {
                Long("listen") => options.listen = value(&mut parser, "--listen")?,
                Long("fps") => options.fps = value(&mut parser, "--fps")?,
                Long("broadcast") => options.broadcast = true,
                Long("max-frame") => options.max_frame = value(&mut parser, "--max-frame")?,
                Long("help") | Short('h') => return Ok(None),
                _ => return Err(format!("{} (--help lists the options)", arg.unexpected())),
            }
        }
        if options.fps > 1_000 {
            return Err(format!("--fps: {} is out of range: choose 0 to 1000", options.fps));
        }
        Ok(Some(options))
    }

    fn reactor(&self) -> Result<Reactor, Error> {
        let builder = Reactor::builder()
            .frame_len_max(self.max_frame)
            .send_queue_max(self.send_queue_max())
            .buffered_max(self.send_queue_max().max(1 << 30))
            // Who sends its last message and half-closes gets all answers, even over a slow line.
            .close_timeout(Duration::from_secs(30));
        // Between two frames more comes together.
        if self.fps > 0 { builder.batch_memory(4 << 20).build() } else { builder.build() }
    }

    /// A quarter is where the brake takes hold; the rest is room for what the batch at hand may still
    /// bring: 128 KiB of the sender, or one large message.
    fn send_queue_max(&self) -> usize {
        self.max_frame.saturating_add(4).saturating_mul(4).clamp(4 << 20, 2 << 30)
    }

    fn frame(&self) -> Option<Duration> {
        (self.fps > 0).then(|| Duration::from_secs(1) / self.fps)
    }
}

fn value<T: FromStr<Err: Display>>(parser: &mut lexopt::Parser, name: &str) -> Result<T, String> {
    let text =
        parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())?;
    text.parse().map_err(|error| format!("{name} {text}: {error}"))
}

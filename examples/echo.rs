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

use std::collections::HashSet;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use log::{info, warn};
use tickwire::{Addr, ConnId, ConnMap, Error, Event, Framing, Outbox, Reactor, Tick, Wait};

const HELP: &str = "\
An echo server: every message goes back to whoever sent it.

Usage: cargo run --release --example echo -- [OPTIONS]

Options:
  --listen ADDR    where to listen, IP:PORT; port 0 takes a free one  [default: 127.0.0.1:7777]
  --fps N          0: answer as soon as something arrives;
                   1 to 1000: a game's frame loop, N frames a second  [default: 0]
  --broadcast      send each message to all clients, its sender included
  --max-frame N    largest message in bytes, 1 to 1073741824          [default: 16384]
  --framing NAME   what stands around a message: length-prefix, telepathy (the same without
                   empty messages), or godot (little-endian)          [default: length-prefix]
  --help           show this page

RUST_LOG sets how much is logged [default: info].";

/// Set by Ctrl-C and SIGTERM. The loop wakes often enough to notice; a handle that wakes the
/// reactor from another thread will make that unnecessary.
static STOP: AtomicBool = AtomicBool::new(false);
const STOP_NOTICED_WITHIN: Duration = Duration::from_millis(100);

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

    let mut clients: ConnMap<Addr> = ConnMap::new();
    let mut brake = Brake::default();
    let mut next_frame = Instant::now();
    while !STOP.load(Ordering::Relaxed) {
        let wait = match options.frame() {
            // A frame that is over already is left out rather than caught up with.
            Some(frame) => {
                next_frame = (next_frame + frame).max(Instant::now());
                Wait::Until(next_frame)
            }
            None => Wait::Event(STOP_NOTICED_WITHIN),
        };
        let Tick { events, mut outbox, .. } = reactor.tick(wait)?;
        for event in events {
            match event {
                Event::Connected { conn, peer, .. } => {
                    info!("{conn} from {peer} joined");
                    clients.insert(conn, peer);
                }
                Event::Message { conn, payload } if options.broadcast => {
                    // Refused only while a connection is ending: the brake keeps room for the rest.
                    outbox.broadcast(clients.keys(), payload);
                    if !brake.behind.is_empty() {
                        brake.hold(conn, &mut outbox);
                    }
                }
                Event::Message { conn, payload } => {
                    let _ = outbox.send(conn, payload);
                }
                Event::SendQueueHigh { conn } => {
                    brake.behind.insert(conn);
                    brake.hold(conn, &mut outbox);
                }
                Event::SendQueueLow { conn } => brake.caught_up(conn, options, &mut outbox),
                Event::Disconnected { conn, reason } => {
                    if let Some(peer) = clients.remove(conn) {
                        info!("{conn} from {peer} left: {reason}");
                    }
                    brake.caught_up(conn, options, &mut outbox);
                }
                _ => {}
            }
        }
    }
    info!("stopped; {} clients were connected", clients.len());
    Ok(())
}

/// Back-pressure: who makes us send faster than it is read is not read from for a while, so that TCP
/// slows it down. Nothing is lost, and what waits for a client is bounded. A client that takes nothing at
/// all is not waited for for ever: the reactor ends it (`write_stall_timeout`).
#[derive(Default)]
struct Brake {
    /// Whose send queue is high.
    behind: HashSet<ConnId>,
    /// Who is not read from: a client that is behind itself or, as messages go to everyone, has sent while one was.
    held: HashSet<ConnId>,
}

impl Brake {
    fn hold(&mut self, conn: ConnId, outbox: &mut Outbox<'_>) {
        outbox.pause_read(conn);
        self.held.insert(conn);
    }

    /// A client has caught up, or is gone.
    fn caught_up(&mut self, conn: ConnId, options: &Options, outbox: &mut Outbox<'_>) {
        self.behind.remove(&conn);
        let everybody_waited_for_it = options.broadcast && self.behind.is_empty();
        self.held.retain(|held| {
            let is_free = everybody_waited_for_it || *held == conn;
            if is_free {
                outbox.resume_read(*held);
            }
            !is_free
        });
    }
}

struct Options {
    listen: Addr,
    fps: u32,
    broadcast: bool,
    max_frame: usize,
    framing: Framing,
}

impl Options {
    /// The command line's options, or `None` if it asks for help.
    fn from_args() -> Result<Option<Options>, String> {
        let mut options = Options {
            listen: Addr::from(([127, 0, 0, 1], 7777)),
            fps: 0,
            broadcast: false,
            max_frame: 16_384,
            framing: Framing::LengthPrefix,
        };
        let mut parser = lexopt::Parser::from_env();
        while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
            match arg {
                Long("listen") => options.listen = value(&mut parser, "--listen")?,
                Long("fps") => options.fps = value(&mut parser, "--fps")?,
                Long("broadcast") => options.broadcast = true,
                Long("max-frame") => options.max_frame = value(&mut parser, "--max-frame")?,
                Long("framing") => {
                    let name: String = value(&mut parser, "--framing")?;
                    options.framing = framing(&name)?;
                }
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
        let queue_max = self.send_queue_max();
        Reactor::builder()
            .framing(self.framing)
            .frame_len_max(self.max_frame)
            .batch_memory(self.batch_memory())
            .send_queue_max(queue_max)
            .buffered_max((2 * queue_max).max(1 << 30))
            .water_marks(queue_max / 8, queue_max / 4)
            .write_stall_timeout(Duration::from_secs(5))
            // Who sends its last message and half-closes gets all answers, even over a slow line.
            .close_timeout(Duration::from_secs(30))
            .build()
    }

    /// Between two frames more comes together than between two wake-ups.
    fn batch_memory(&self) -> usize {
        if self.fps > 0 { 4 << 20 } else { 1 << 20 }
    }

    /// At a quarter we stop to read; the rest is room for what is on its way then: a batch or two, or the largest
    /// messages.
    fn send_queue_max(&self) -> usize {
        let largest = self.max_frame.saturating_add(4).saturating_mul(4);
        largest.max(4 * self.batch_memory()).min(2 << 30)
    }

    fn frame(&self) -> Option<Duration> {
        (self.fps > 0).then(|| Duration::from_secs(1) / self.fps)
    }
}

fn framing(name: &str) -> Result<Framing, String> {
    match name {
        "length-prefix" => Ok(Framing::LengthPrefix),
        "telepathy" => Ok(Framing::Telepathy),
        "godot" => Ok(Framing::GODOT),
        _ => Err(format!("--framing {name}: choose length-prefix, telepathy or godot")),
    }
}

fn value<T: FromStr<Err: Display>>(parser: &mut lexopt::Parser, name: &str) -> Result<T, String> {
    let text =
        parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())?;
    text.parse().map_err(|error| format!("{name} {text}: {error}"))
}

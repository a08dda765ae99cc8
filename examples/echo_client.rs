//! A client: type lines to an echo or chat server, or measure how fast its echoes come back.
//!
//! ```text
//! cargo run --release --example echo -- --listen 127.0.0.1:7777             # in another terminal
//! cargo run --release --example echo_client -- --connect 127.0.0.1:7777
//! cargo run --release --example echo_client -- --count 10000 --size 100
//! ```
//!
//! Without `--count` you will see `connected to 127.0.0.1:7777`, then each line that the server sends; Ctrl-D
//! ends it. With it, every echo is checked byte for byte, and you will see two lines of figures.

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use lexopt::prelude::*;
use tickwire::{Addr, ConnId, DisconnectReason, Event, Reactor, Tick, Wait};

const HELP: &str = "\
A client: type lines to an echo or chat server, or measure how fast its echoes come back.

Usage: cargo run --release --example echo_client -- [OPTIONS]

Options:
  --connect ADDR   where the server is, IP:PORT                       [default: 127.0.0.1:7777]
  --count N        send N messages, one after the other's echo, check each and show round-trip times
  --size B         size of these messages in bytes, 0 to 1048576      [default: 100]
  --help           show this page

Without --count, lines come from the keyboard or a pipe; what comes back is shown. After the last line
(Ctrl-D) it waits until nothing has come for a second.

RUST_LOG sets how much is logged [default: error].";

static STOP: AtomicBool = AtomicBool::new(false);
/// How soon Ctrl-C or a typed line is noticed.
const NOTICED_WITHIN: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    env_logger::init();
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("error: {error}");
    ExitCode::from(if error.is::<lexopt::Error>() { 2 } else { 1 })
}

fn run() -> Result<(), Box<dyn Error>> {
    let Some(options) = Options::from_args()? else {
        println!("{HELP}");
        return Ok(());
    };
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed))?;
    let builder = Reactor::builder().frame_len_max(SIZE_MAX).send_queue_max(2 * SIZE_MAX);
    let mut reactor = builder.build()?;
    let conn = reactor.connect(&options.connect)?;
    // A connect never blocks; its outcome is an event.
    let connected = wait_for(&mut reactor, None);
    connected.map_err(|error| format!("cannot connect to {}: {error}", options.connect))?;
    match options.count {
        Some(count) => measure(&mut reactor, conn, count, options.size)?,
        None => talk(&mut reactor, conn, &options)?,
    }
    // In order: what is queued leaves, and the server sees an end, not a reset.
    reactor.outbox().close(conn);
    reactor.flush();
    Ok(())
}

/// Reading a keyboard blocks, so it is done on a thread of its own.
fn lines_of_stdin() -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

fn talk(reactor: &mut Reactor, conn: ConnId, options: &Options) -> Result<(), Box<dyn Error>> {
    const SILENCE: Duration = Duration::from_secs(1);
    println!("connected to {}", options.connect);
    let lines = lines_of_stdin();
    let (mut last_heard, mut input_ended) = (Instant::now(), false);
    while !STOP.load(Ordering::Relaxed) && (!input_ended || last_heard.elapsed() < SILENCE) {
        let Tick { events, mut outbox, .. } = reactor.tick(Wait::Event(NOTICED_WITHIN))?;
        for event in events {
            match event {
                Event::Message { payload, .. } => {
                    println!("{}", String::from_utf8_lossy(payload));
                    last_heard = Instant::now();
                }
                Event::Disconnected { reason: DisconnectReason::ClosedByPeer, .. } => {
                    println!("the server has closed the connection");
                    return Ok(());
                }
                Event::Disconnected { reason, .. } => return Err(lost(reason)),
                _ => {}
            }
        }
        // No faster than the server takes it: what does not fit waits in the channel, and in the pipe.
        while !input_ended && outbox.queued(conn) < SIZE_MAX {
            match lines.try_recv() {
                Ok(line) => outbox.send(conn, line.as_bytes())?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    (input_ended, last_heard) = (true, Instant::now());
                }
            }
        }
    }
    Ok(())
}

fn measure(
    reactor: &mut Reactor,
    conn: ConnId,
    count: u64,
    size: usize,
) -> Result<(), Box<dyn Error>> {
    let mut round_trips = Histogram::<u64>::new(3)?;
    let begun = Instant::now();
    for number in 0..count {
        // Bytes that differ from place to place and from message to message.
        let sent: Vec<u8> =
            (0..size as u64).map(|i| (i ^ (i >> 8) ^ (number * 31)) as u8).collect();
        let sent_at = Instant::now();
        reactor.outbox().send(conn, &sent)?;
        if !wait_for(reactor, Some(&sent))? {
            break;
        }
        round_trips.record(sent_at.elapsed().as_nanos() as u64)?;
    }
    let (echoes, secs) = (round_trips.len(), begun.elapsed().as_secs_f64());
    let rate = echoes as f64 / secs;
    println!("{echoes} echoes of {size} bytes, every byte as sent, {rate:.0} a second");
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|q| round_trips.value_at_quantile(q) as f64 / 1e6);
    println!("round trip: p50 {p50:.3} ms, p99 {p99:.3} ms, max {max:.3} ms");
    Ok(())
}

/// Waits for Connected, or else for this echo. `false` if Ctrl-C comes first.
fn wait_for(reactor: &mut Reactor, echo: Option<&[u8]>) -> Result<bool, Box<dyn Error>> {
    while !STOP.load(Ordering::Relaxed) {
        for event in reactor.tick(Wait::Event(NOTICED_WITHIN))?.events {
            match event {
                Event::Connected { .. } => return Ok(true),
                Event::ConnectFailed { reason, .. } => return Err(reason.into()),
                Event::Message { payload, .. } if Some(payload) == echo => return Ok(true),
                Event::Message { .. } => return Err("an echo is not what was sent".into()),
                Event::Disconnected { reason, .. } => return Err(lost(reason)),
                _ => {}
            }
        }
    }
    Ok(false)
}

fn lost(reason: DisconnectReason) -> Box<dyn Error> {
    format!("the connection is lost: {reason}").into()
}

/// The largest message that it takes and sends.
const SIZE_MAX: usize = 1 << 20;

struct Options {
    connect: Addr,
    count: Option<u64>,
    size: usize,
}

impl Options {
    /// The command line's options, or `None` if it asks for help.
    fn from_args() -> Result<Option<Options>, lexopt::Error> {
        let connect = Addr::from(([127, 0, 0, 1], 7777));
        let mut options = Options { connect, count: None, size: 100 };
        let mut parser = lexopt::Parser::from_env();
        while let Some(arg) = parser.next()? {
            match arg {
                Long("connect") => options.connect = parser.value()?.parse()?,
                Long("count") => options.count = Some(parser.value()?.parse()?),
                Long("size") => options.size = parser.value()?.parse()?,
                Long("help") | Short('h') => return Ok(None),
                _ => return Err(arg.unexpected()),
            }
        }
        match options.size {
            0..=SIZE_MAX => Ok(Some(options)),
            size => Err(format!("--size {size} is out of range: choose 0 to {SIZE_MAX}").into()),
        }
    }
}

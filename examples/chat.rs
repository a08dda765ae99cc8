//! A chat server: the first message is your name, everything after it goes to everybody.
//!
//! ```text
//! cargo run --release --example chat -- --listen 127.0.0.1:7777
//! cargo run --release --example echo_client -- --connect 127.0.0.1:7777    # in further terminals
//! ```
//!
//! Here you will see `listening on 127.0.0.1:7777` and who comes and goes; there, the chat. `/who` lists who is
//! there, `/quit` leaves. A client that does not read hurts nobody: 64 KiB may wait for it, then it is let go.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use log::{info, warn};
use tickwire::{
    Addr, ConnId, ConnMap, Error, Event, Outbox, Reactor, SendError, SendPolicy, Tick, Wait,
};

const HELP: &str = "\
A chat server: the first message is your name, everything after it goes to everybody. /who lists who
is there, /quit leaves. Talk to it with the example echo_client.

Usage: cargo run --release --example chat -- [OPTIONS]

Options:
  --listen ADDR    where to listen, IP:PORT; port 0 takes a free one  [default: 127.0.0.1:7777]
  --help           show this page

RUST_LOG sets how much is logged [default: info].";

/// Set by Ctrl-C and SIGTERM.
static STOP: AtomicBool = AtomicBool::new(false);
const STOP_NOTICED_WITHIN: Duration = Duration::from_millis(100);

/// Longer lines are cut, so that no line with a name in front exceeds the largest message.
const LINE_CHARS_MAX: usize = 500;
/// How much may wait for a client that does not read, beside what the system buffers.
const BACKLOG_MAX: usize = 64 * 1024;

fn main() -> ExitCode {
    let listen = match listen_option() {
        Ok(Some(listen)) => listen,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => return fail(2, format!("{problem} (--help lists the options)")),
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    if let Err(error) = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)) {
        warn!("Ctrl-C will end this less politely: {error}");
    }
    match serve(&listen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, error),
    }
}

fn fail(code: u8, problem: impl Display) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(code)
}

fn serve(listen: &Addr) -> Result<(), Error> {
    let mut reactor = Reactor::builder()
        .send_queue_max(BACKLOG_MAX)
        // Whoever does not read is let go, so that nobody else has to care.
        .send_policy(SendPolicy::Disconnect)
        .build()?;
    let listener = reactor.listen(listen)?;
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        warn!("the limit of open descriptors stays as it is: {error}");
    }
    println!("listening on {}", reactor.local_addr(listener).expect("we listen there"));
    let _ = std::io::stdout().flush(); // a launcher may wait for this line

    let mut room = Room::default();
    while !STOP.load(Ordering::Relaxed) {
        let Tick { events, mut outbox, .. } = reactor.tick(Wait::Event(STOP_NOTICED_WITHIN))?;
        for event in events {
            match event {
                Event::Connected { conn, peer, .. } => {
                    info!("{conn} from {peer} connected");
                    tell(&mut outbox, conn, "Welcome! What is your name?");
                }
                Event::Message { conn, payload } => {
                    room.hear(&mut outbox, conn, &printable(payload));
                }
                Event::Disconnected { conn, reason } => {
                    info!("{conn} disconnected: {reason}");
                    room.leave(&mut outbox, conn);
                }
                _ => {}
            }
        }
    }
    // What a close has queued before it still arrives, within this deadline.
    let deadline = Instant::now() + Duration::from_secs(1);
    room.end(&mut reactor.outbox());
    while reactor.connections() > 0 && Instant::now() < deadline {
        reactor.tick(Wait::Event(STOP_NOTICED_WITHIN))?.events.for_each(drop);
    }
    info!("stopped");
    Ok(())
}

/// Who has given a name. Who has not is connected, but hears nothing and is not heard.
#[derive(Default)]
struct Room {
    names: ConnMap<String>,
}

impl Room {
    fn hear(&mut self, outbox: &mut Outbox<'_>, conn: ConnId, line: &str) {
        match (self.names.get(conn), line) {
            (_, "") => {}
            (_, "/quit") => {
                let name = self.names.get(conn).map_or("stranger", String::as_str);
                tell(outbox, conn, &format!("Goodbye, {name}."));
                outbox.close(conn); // the goodbye leaves first
                self.leave(outbox, conn);
            }
            (_, "/who") => {
                let names: Vec<_> = self.names.values().take(50).map(String::as_str).collect();
                tell(outbox, conn, &format!("{} here: {}", self.names.len(), names.join(", ")));
            }
            (None, name) => self.join(outbox, conn, name),
            (Some(name), line) => self.tell_all(outbox, &format!("{name}: {line}")),
        }
    }

    fn join(&mut self, outbox: &mut Outbox<'_>, conn: ConnId, name: &str) {
        const NAME_LEN_MAX: usize = 20;
        if name.chars().count() > NAME_LEN_MAX || name.starts_with('/') {
            tell(outbox, conn, "At most 20 characters, please, and no slash in front. Your name?");
        } else if self.names.values().any(|taken| taken == name) {
            tell(outbox, conn, &format!("There is a {name} already. Your name?"));
        } else {
            info!("{name} ({conn}) joined");
            self.names.insert(conn, name.to_owned());
            self.tell_all(outbox, &format!("* {name} joined"));
        }
    }

    /// Announces that someone has left; a second time, and for who had no name, does nothing.
    fn leave(&mut self, outbox: &mut Outbox<'_>, conn: ConnId) {
        if let Some(name) = self.names.remove(conn) {
            info!("{name} ({conn}) left");
            self.tell_all(outbox, &format!("* {name} left"));
        }
    }

    fn end(&mut self, outbox: &mut Outbox<'_>) {
        self.tell_all(outbox, "* the server stops");
        for conn in self.names.keys() {
            outbox.close(conn);
        }
    }

    fn tell_all(&self, outbox: &mut Outbox<'_>, line: &str) {
        for (conn, refusal) in outbox.broadcast(self.names.keys(), line.as_bytes()).refused {
            // From then on it is closing, and refuses with that until its end is told.
            if *refusal == SendError::Full {
                warn!("{conn}, {}, does not read and is let go", self.names[*conn]);
            }
        }
    }
}

/// A refusal needs no care here: the policy has ended the connection, and `Disconnected` follows.
fn tell(outbox: &mut Outbox<'_>, conn: ConnId, line: &str) {
    let _ = outbox.send(conn, line.as_bytes());
}

/// A line as it may be shown on other people's terminals.
fn printable(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(payload);
    let shown = text.trim().chars().filter(|character| !character.is_control());
    shown.take(LINE_CHARS_MAX).collect()
}

/// Where to listen, or `None` if the command line asks for help.
fn listen_option() -> Result<Option<Addr>, lexopt::Error> {
    let mut listen = Addr::from(([127, 0, 0, 1], 7777));
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("listen") => listen = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(arg.unexpected()),
        }
    }
    Ok(Some(listen))
}

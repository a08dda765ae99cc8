//! A long run on real sockets: does anything leak?
//!
//! ```text
//! cargo run --release --example soak
//! ```
//!
//! An echo server, players who talk to it all the time and check each echo, and a crowd of clients that come and go: most of
//! them abort, the others end in order, half-close, stop in the middle of a frame, announce a frame that is too large,
//! talk another protocol, or leave before they are accepted. After a warm-up, descriptors and resident memory are looked
//! at whenever a twentieth of the work is done and the crowd is gone. Descriptors have to be the same each time. Memory goes up and
//! down with what the pools hold and the allocator keeps; the most in the second half must not be above the most in
//! the first by over 1 %. Ctrl-C ends it early, with a
//! result. The exit code is 0 if all is well.
//!
//! The rooms: `players` and `crowd` are the two kinds of clients; `watch` looks at the process and shows what it sees.

mod crowd;
mod players;
mod watch;

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use tickwire::{Event, Reactor, Tick, Wait};

use crate::crowd::Crowd;
use crate::players::Players;
use crate::watch::{Count, Watch};

const HELP: &str = "\
A long run on real sockets, which checks that descriptors and memory stay flat.

Usage: cargo run --release --example soak -- [OPTIONS]

Options:
  --cycles N     connections that come and go    [default: 1000000]
  --messages N   messages, counted at both ends  [default: 100000000]
  --help         show this page

The exit code is 0 if all is well, 1 if something leaked, was lost or was cut short, 2 for
arguments that make no sense.";

/// Set by Ctrl-C and SIGTERM.
static STOP: AtomicBool = AtomicBool::new(false);

struct Options {
    cycles: u64,
    messages: u64,
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => return fail(2, problem),
    };
    match soak(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(1, error),
    }
}

fn fail(code: u8, problem: impl Display) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(code)
}

fn parse() -> Result<Option<Options>, String> {
    let mut options = Options { cycles: 1_000_000, messages: 100_000_000 };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        let (name, number) = match arg {
            Long("cycles") => ("--cycles", &mut options.cycles),
            Long("messages") => ("--messages", &mut options.messages),
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(format!("{} (--help lists the options)", arg.unexpected())),
        };
        let text = parser.value().and_then(|value| value.string());
        *number = match text.map_err(|error| error.to_string())?.parse() {
            Ok(parsed) if parsed > 0 => parsed,
            _ => return Err(format!("{name}: not a number above 0")),
        };
    }
    Ok(Some(options))
}

/// The whole run. Answers whether all was well.
fn soak(options: &Options) -> io::Result<bool> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130); // asked twice
        }
    })
    .map_err(io::Error::other)?;
    let mut soak = Soak::start()?;
    let total = Count { cycles: options.cycles, messages: options.messages };
    // What is allocated once, and the kernel's and allocator's own habits, settle in the warm-up.
    eprintln!("warming up with a tenth of the work");
    let warm_up = total.share(1, WARM_UP_PART);
    soak.work_until(warm_up)?;
    soak.come_to_rest()?;
    let begin = soak.count();
    let mut watch = Watch::begin(total, &begin);
    for part in 1..=PARTS {
        let goal = begin.plus(total.share(part, PARTS));
        soak.watched_until(goal, &watch)?;
        soak.come_to_rest()?;
        watch.look(&soak.count());
        if STOP.load(Ordering::Relaxed) {
            break;
        }
    }
    let stats = soak.server.stats();
    let faults = soak.faults();
    Ok(watch.report(&stats, &soak.crowd.tally, &faults))
}

/// Everybody, in one thread: a turn of each after the other.
struct Soak {
    server: Reactor,
    clients: Reactor,
    addr: SocketAddr,
    players: Players,
    crowd: Crowd,
    turned: u64,
}

impl Soak {
    fn start() -> io::Result<Soak> {
        // A small batch memory has soon been filled to its end, and then no page of it is new.
        let mut server = Reactor::builder().batch_memory(BATCH_MEMORY).build()?;
        let listener = server.listen("0.0.0.0:0")?;
        let port = server
            .local_addr(listener)
            .and_then(|addr| addr.as_socket_addr())
            .ok_or_else(|| io::Error::other("the listener has no address"))?
            .port();
        let mut clients = Reactor::builder().batch_memory(BATCH_MEMORY).build()?;
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let players = Players::join(&mut clients, addr)?;
        Ok(Soak { server, clients, addr, players, crowd: Crowd::new(), turned: 0 })
    }

    /// What was done so far: connections of the crowd that the server has seen the end of, and messages at both ends.
    fn count(&self) -> Count {
        let (server, clients) = (self.server.stats(), self.clients.stats());
        let messages = server.messages_received + clients.messages_received;
        Count { cycles: server.ended, messages }
    }

    fn work_until(&mut self, goal: Count) -> io::Result<()> {
        while !self.count().reaches(&goal) && !STOP.load(Ordering::Relaxed) {
            self.turn(&goal)?;
        }
        Ok(())
    }

    fn watched_until(&mut self, goal: Count, watch: &Watch) -> io::Result<()> {
        while !self.count().reaches(&goal) && !STOP.load(Ordering::Relaxed) {
            self.turn(&goal)?;
            if self.turned % 64 == 0 {
                watch.show(&self.count());
            }
        }
        Ok(())
    }

    /// A little of everything that the goal still asks for.
    fn turn(&mut self, goal: &Count) -> io::Result<()> {
        self.turned += 1;
        let done = self.count();
        if done.messages < goal.messages {
            self.players.speak(&mut self.clients);
        }
        if done.cycles < goal.cycles {
            self.crowd.arrive(&mut self.clients, self.addr);
        }
        self.ticks()
    }

    /// A tick of each side.
    fn ticks(&mut self) -> io::Result<()> {
        self.clients.flush();
        serve(&mut self.server)?;
        self.server.flush();
        self.crowd.go_on();
        let Tick { events, mut outbox, .. } = self.clients.tick(Wait::No)?;
        for event in events {
            if !self.players.heard(&event) {
                self.crowd.heard(&event, &mut outbox);
            }
        }
        Ok(())
    }

    /// Waits until the crowd is gone and the players have all their echoes, and for the pools to give back what is too much.
    fn come_to_rest(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + REST_MAX;
        while !(self.crowd.is_gone() && self.players.are_silent() && self.only_players_are_left()) {
            self.ticks()?;
            if Instant::now() >= deadline {
                return Err(io::Error::other(format!(
                    "never comes to rest: {} connections at the server, {} at the clients",
                    self.server.connections(),
                    self.clients.connections()
                )));
            }
        }
        Ok(())
    }

    fn only_players_are_left(&self) -> bool {
        self.server.connections() == self.players.len()
            && self.clients.connections() == self.players.len()
            && self.server.stats().buffers_held + self.clients.stats().buffers_held == 0
    }

    /// What should not have happened, in words.
    fn faults(&self) -> Vec<String> {
        let mut faults = self.players.faults.clone();
        let stats = self.server.stats();
        let lost = stats.accepted - stats.ended - stats.connections as u64;
        if lost > 0 {
            faults.push(format!("{lost} connections without an end"));
        }
        faults
    }
}

/// The server's game: every message goes back.
fn serve(server: &mut Reactor) -> io::Result<()> {
    let Tick { events, mut outbox, .. } = server.tick(Wait::No)?;
    for event in events {
        match event {
            Event::Message { conn, payload: crowd::CLOSE_ME } => {
                outbox.close(conn);
            }
            Event::Message { conn, payload: crowd::KICK_ME } => {
                outbox.kick(conn);
            }
            Event::Message { conn, payload } => {
                let _ = outbox.send(conn, payload); // full: then its client has stopped to read
            }
            _ => {}
        }
    }
    Ok(())
}

const BATCH_MEMORY: usize = 256 * 1024;
const PARTS: u64 = 20;
const WARM_UP_PART: u64 = 10;
const REST_MAX: Duration = Duration::from_secs(120);

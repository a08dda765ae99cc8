//! A game server at 60 frames a second, and 200 bots that play on it, in one process.
//!
//!     cargo run --release --example skirmish
//!
//! You will see a line a second: how long a frame's work takes, from its events to the last send, how late it
//! begins, the traffic, the server thread's share of one core. At the end there is a hash of the world: the same
//! for the same seed and inputs, as each moves its player's goal by so much, in whichever frame it arrives.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use tickwire::{Addr, ConnMap, Event, Reactor, Stats, Tick, Wait};

const HELP: &str = "\
A game server at 60 frames a second, and bots that play on it, in one process.

Usage: cargo run --release --example skirmish -- [OPTIONS]

Options:
  --players N      how many bots, 1 to 2000          [default: 200]
  --secs N         how long they play, 1 to 3600     [default: 10]
  --inputs N       inputs a second of each, 1 to 30  [default: 10]
  --seed N         what they do                      [default: 1]
  --help           show this page";

static STOP: AtomicBool = AtomicBool::new(false); // Ctrl-C, or one of the two threads is done or fails
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);
/// Missed frames beyond these are dropped: the work of catching up would make it miss more (a spiral of death).
const CATCH_UP_MAX: u32 = 4;

fn main() -> ExitCode {
    env_logger::init();
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("error: {error}");
    ExitCode::from(if error.is::<lexopt::Error>() { 2 } else { 1 })
}

fn run() -> Result<(), Failure> {
    let Some(options) = options()? else {
        println!("{HELP}");
        return Ok(());
    };
    ctrlc::set_handler(|| STOP.store(true, Relaxed))?;
    rlimit::increase_nofile_limit(u64::MAX)?; // each player takes two descriptors
    let mut reactor = Reactor::builder().batch_memory(4 << 20).build()?;
    let listener = reactor.listen("127.0.0.1:0")?;
    let addr = reactor.local_addr(listener).expect("it listens there");
    let bots =
        std::thread::spawn(move || play(options, &addr).inspect_err(|_| STOP.store(true, Relaxed)));
    let served = serve(&mut reactor, options);
    STOP.store(true, Relaxed);
    let (snapshots, (inputs, hash)) = (bots.join().expect("bots do not panic")?, served?);
    println!("{snapshots} snapshots, {inputs} inputs, seed {}: world {hash:016x}", options.seed);
    Ok(())
}

/// The game, until all inputs are applied. Returns how many those were, and the hash of the world.
fn serve(reactor: &mut Reactor, options: Options) -> Result<(u64, u64), Failure> {
    let mut numbers: ConnMap<usize> = ConnMap::new();
    let mut places = vec![0i16; 2 * options.players as usize]; // two coordinates of each player
    let mut goals = places.clone();
    let (mut step, mut inputs, mut frames) = (0u32, 0, Vec::new());
    let mut before = (Instant::now(), Stats::default(), cpu_time());
    let mut next_frame = Instant::now();
    while !STOP.load(Relaxed) && inputs < options.players * options.secs * options.inputs {
        next_frame += FRAME;
        let Tick { events, .. } = reactor.tick(Wait::Until(next_frame))?;
        let begun = Instant::now();
        for event in events {
            match event {
                // A bot's first message says which player it is, each further one is an input.
                Event::Message { conn, payload: &[a, b] } => match numbers.get(conn) {
                    None => drop(numbers.insert(conn, u16::from_be_bytes([a, b]).into())),
                    Some(&number) => {
                        for (goal, by) in goals.iter_mut().skip(2 * number).take(2).zip([a, b]) {
                            *goal = goal.wrapping_add(i16::from(by as i8)); // the world is round
                        }
                        inputs += 1;
                    }
                },
                Event::Disconnected { conn, .. } => drop(numbers.remove(conn)),
                _ => {}
            }
        }
        // A step is as long as a frame, so a late frame makes up for those that it has missed.
        let late = begun.saturating_duration_since(next_frame);
        let missed = (late.as_nanos() / FRAME.as_nanos()) as u32;
        next_frame += FRAME * missed;
        for _ in 0..=missed.min(CATCH_UP_MAX) {
            step += 1;
            for (place, goal) in places.iter_mut().zip(&goals) {
                *place = place.wrapping_add(goal.wrapping_sub(*place) / 4);
            }
        }
        let mut snapshot = step.to_be_bytes().to_vec();
        snapshot.extend(places.iter().flat_map(|place| place.to_be_bytes()));
        // Who has no room for it misses this one; the next is newer anyway.
        reactor.outbox().broadcast(numbers.keys(), &snapshot);
        reactor.flush(); // one send for each player
        frames.push((begun.elapsed(), late));
        if before.0.elapsed() >= Duration::from_secs(1) {
            before = report(std::mem::take(&mut frames), before, reactor.stats());
        }
    }
    Ok((inputs, goals.iter().fold(options.seed, |hash, goal| mix(hash, *goal as u64))))
}

/// The bots, on a thread and a reactor of their own. Returns how many snapshots they got.
fn play(options: Options, addr: &Addr) -> Result<u64, Failure> {
    let mut reactor = Reactor::builder().batch_memory(4 << 20).build()?;
    let mut bots = ConnMap::new(); // number, inputs sent
    for number in 0..options.players {
        let conn = reactor.connect(addr)?;
        reactor.outbox().send(conn, &(number as u16).to_be_bytes())?;
        bots.insert(conn, (number, 0));
    }
    let (begun, mut snapshots) = (Instant::now(), 0);
    while !STOP.load(Relaxed) {
        let Tick { events, mut outbox, .. } = reactor.tick(Wait::Until(Instant::now() + FRAME))?;
        for event in events {
            match event {
                Event::Message { .. } => snapshots += 1,
                Event::Connected { .. } => {}
                other => return Err(format!("unexpected: {other:?}").into()),
            }
        }
        let turns = begun.elapsed().as_secs_f64() * options.inputs as f64;
        for (conn, (number, sent)) in &mut bots {
            let turn = *sent as f64 + *number as f64 / options.players as f64; // not all at once
            if turn < turns && *sent < options.secs * options.inputs {
                outbox.send(conn, &mix(mix(options.seed, *number), *sent).to_be_bytes()[..2])?;
                *sent += 1;
            }
        }
    }
    Ok(snapshots)
}

fn mix(hash: u64, number: u64) -> u64 {
    (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Then = (Instant, Stats, Option<Duration>);

fn report(mut frames: Vec<(Duration, Duration)>, before: Then, stats: Stats) -> Then {
    let now = (Instant::now(), stats, cpu_time());
    let secs = (now.0 - before.0).as_secs_f64();
    let per_sec = |count: fn(&Stats) -> u64| (count(&now.1) - count(&before.1)) as f64 / secs;
    let cpu = now.2.zip(before.2).map(|(now, before)| (now - before).as_secs_f64() / secs * 100.0);
    let late_max = frames.iter().map(|frame| frame.1).max().unwrap_or_default();
    frames.sort();
    println!(
        "work {:.1?}, at most {:.1?}; late {late_max:.1?} at most; {:.0} inputs/s, {:.0} sends/s, {:.1} MB/s; CPU {}",
        frames[frames.len() / 2].0,
        frames[frames.len() - 1].0,
        per_sec(|stats| stats.messages_received),
        per_sec(|stats| stats.sends),
        per_sec(|stats| stats.bytes_sent) / 1e6,
        cpu.map_or("n/a".to_owned(), |share| format!("{share:.1} %")),
    );
    now
}

/// The processor time that this thread has used, where the system tells (Linux).
fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(stat.split(' ').next()?.parse().ok()?))
}

#[derive(Clone, Copy)]
struct Options {
    players: u64,
    secs: u64,
    inputs: u64,
    seed: u64,
}

/// The command line's options, or `None` if it asks for help.
fn options() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options { players: 200, secs: 10, inputs: 10, seed: 1 };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("players") => options.players = parser.value()?.parse()?,
            Long("secs") => options.secs = parser.value()?.parse()?,
            Long("inputs") => options.inputs = parser.value()?.parse()?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(arg.unexpected()),
        }
    }
    match options {
        Options { players: 1..=2_000, secs: 1..=3_600, inputs: 1..=30, .. } => Ok(Some(options)),
        _ => Err("a number is out of range: --help shows the ranges".into()),
    }
}

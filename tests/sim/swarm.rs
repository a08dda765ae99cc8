//! Random reactors with random settings, doing random things on a random network: each seed is one
//! story, and the same story every time.
//!
//! `TICKWIRE_SEEDS=N cargo test --release --test sim swarm` tells N of them,
//! `TICKWIRE_SEED=S cargo test --test sim swarm` that one again, with `RUST_LOG=trace` in detail.
//! What of all this finds a mistake, and how soon: `tests/sim/mutants/run`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::plan::Plan;
use crate::story::{Story, Tally};

/// Seeds that once found a bug, or a mistake of the swarm's own. They are told for ever; a change to what a seed draws makes
/// other stories of them, so each bug has a scenario of its own, too.
///
/// 756, 812: a half-closed connection that ended before its last message was fetched.
const REGRESSIONS: &[u64] = &[756, 812];

const SEEDS: u64 = 1_000;

#[test]
fn swarm() {
    if let Some(seed) = number("TICKWIRE_SEED") {
        let _ = env_logger::try_init();
        println!("seed {seed}: {:#?}", Plan::of(seed));
        println!("{:#?}", Story::new(seed).tell().1);
        return;
    }
    let seeds = number("TICKWIRE_SEEDS").unwrap_or(SEEDS);
    let tally = tell_all(seeds);
    println!("{tally:#?}");
    for kind in [
        "Connected",
        "Message",
        "Disconnected ClosedByPeer",
        "Disconnected Reset",
        "Disconnected TimedOut",
        "Disconnected ClosedByUs",
        "Disconnected CloseDeadline",
        "Disconnected Kicked",
        "Disconnected FrameTooLarge",
        "Disconnected BadFrame",
        "Disconnected Truncated",
        "Disconnected SendQueueFull",
        "ConnectFailed Refused",
        "ConnectFailed TimedOut",
        "ConnectFailed AddrNotAvailable",
        "ConnectFailed Cancelled",
        "Disconnected Shutdown",
        "Disconnected Idle",
        "Disconnected FirstFrame",
        "Disconnected FrameDeadline",
        "Disconnected WriteStall",
        "Disconnected MemoryLimit",
        "Disconnected RateLimit",
        "SendQueueHigh",
        "SendQueueLow",
    ] {
        let told = tally.get(kind).copied().unwrap_or(0);
        assert!(told > 0 || seeds < SEEDS, "the stories are too dull: no {kind}");
    }
}

#[test]
fn seeds_that_once_failed() {
    for &seed in REGRESSIONS {
        Story::new(seed).tell();
    }
}

#[test]
fn a_story_can_be_told_again_bit_by_bit() {
    for seed in 0..40 {
        assert_eq!(Story::new(seed).tell(), Story::new(seed).tell(), "seed {seed}");
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

/// Tells the stories of the seeds from 0 on, on all cores; if some fail, the first of them is named.
fn tell_all(seeds: u64) -> Tally {
    let (next, end) = (AtomicU64::new(0), AtomicU64::new(seeds));
    let tally = Mutex::new(Tally::new());
    let failure = Mutex::new(None);
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end.load(Ordering::Relaxed) {
                        return;
                    }
                    match catch_unwind(AssertUnwindSafe(|| Story::new(seed).tell())) {
                        Ok((_, told)) => {
                            let mut tally = tally.lock().expect("nobody fails while counting");
                            for (kind, count) in told {
                                *tally.entry(kind).or_default() += count;
                            }
                        }
                        // Nobody begins a later story, but an earlier one may be under way and fail too.
                        Err(panic) if end.fetch_min(seed, Ordering::Relaxed) > seed => {
                            *failure.lock().expect("nobody fails while counting") = Some(panic);
                        }
                        Err(_) => return,
                    }
                }
            });
        }
    });
    if let Some(panic) = failure.into_inner().expect("nobody fails while counting") {
        let seed = end.into_inner();
        eprintln!("seed {seed} fails; again: TICKWIRE_SEED={seed} cargo test --test sim swarm");
        resume_unwind(panic);
    }
    tally.into_inner().expect("nobody fails while counting")
}

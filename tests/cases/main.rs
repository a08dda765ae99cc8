//! Public bug reports of other servers as scenarios, O01 to O18, on real sockets: each test is named after its case. What a
//! case says about time is asserted in virtual time (`cargo test --test sim o`); here counts are: looks at the poller,
//! accepts, events, calls that must not block. The measured times are printed:
//!
//! ```text
//! cargo test --release --test cases -- --nocapture --test-threads=1
//! ```
#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;

mod accepting;
mod closing;
mod framing;
mod heap;
mod memory;
mod outgoing;
mod readiness;
mod silence;

use std::net::SocketAddr;
use std::time::Duration;

use common::{Client, accept};
use tickwire::{ConnId, Reactor, Wait};

/// A client and its id at the server.
fn meet(reactor: &mut Reactor, addr: SocketAddr) -> (Client, ConnId) {
    let client = Client::connect(addr);
    (client, accept(reactor))
}

/// So many ticks that wait in vain, after one that may have something left to do.
fn idle_ticks(reactor: &mut Reactor, ticks: u32, wait: Duration) {
    for _ in 0..=ticks {
        let tick = reactor.tick(Wait::Event(wait)).expect("a poller");
        assert_eq!(tick.events.remaining(), 0, "nothing happens any more");
    }
}

/// Processor time of this thread so far, where the system tells.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Runs a test again in a process of its own, whose limits and memory nobody shares. Returns whether this is that process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "TICKWIRE_CASE_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let alone = std::process::Command::new(std::env::current_exe().expect("it has a path"))
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&alone.stdout);
    let errors = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.success() && told.contains("1 passed"), "{told}{errors}");
    told.lines().filter(|line| line.starts_with('o')).for_each(|line| println!("{line}"));
    false
}

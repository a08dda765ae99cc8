//! What must not grow with use: counted by an allocator, on the simulated network.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tickwire::sim::{Faults, SimWorld};
use tickwire::{Event, Rate, Reactor, Wait};

struct Counting;
static LIVE: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    /// By thread, since the test harness allocates too.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}
// SAFETY: everything is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(ptr, layout) }
    }
}
#[global_allocator]
static COUNTING: Counting = Counting;

/// The allocator counts everybody, so one test at a time.
static TURN: Mutex<()> = Mutex::new(());

const MS: Duration = Duration::from_millis(1);

/// Each rest of a throttled connection leaves a dead entry in the timers.
#[test]
fn the_timers_of_a_throttled_connection_stay_bounded() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let world = SimWorld::new(1, Faults::default());
    let mut reactor = Reactor::builder()
        .message_rate(Rate::per_second(200).burst(1))
        .idle_timeout(Duration::from_secs(3_600))
        .build_on(world.host([10, 0, 0, 1].into()))
        .expect("it works");
    let listener = reactor.listen("10.0.0.1:7777").expect("it works");
    let addr = reactor.local_addr(listener).expect("it works");
    let mut peer = world.raw_connect([10, 0, 0, 2].into(), &addr);
    peer.write(&[0, 0, 0, 1, 1].repeat(13_000)); // 65 s at its rate
    let mut live = Vec::new();
    for round in 0..60_000 {
        world.advance(MS);
        reactor.tick(Wait::No).expect("it works").events.for_each(drop);
        if round % 10_000 == 9_999 {
            live.push(LIVE.load(Ordering::Relaxed));
        }
    }
    assert!(live[5] < live[0] + 50_000, "one minute of one connection: {live:?}");
}

/// Each message above the high water mark leaves a request.
#[test]
fn messages_above_the_mark_cost_no_memory_of_their_own() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let world = SimWorld::new(1, Faults::default());
    let mut reactor = Reactor::builder()
        .water_marks(0, 1)
        .send_queue_max(1 << 20)
        .build_on(world.host([10, 0, 0, 1].into()))
        .expect("it works");
    let listener = reactor.listen("10.0.0.1:7777").expect("it works");
    let addr = reactor.local_addr(listener).expect("it works");
    let _peer = world.raw_connect([10, 0, 0, 2].into(), &addr);
    let mut id = None;
    while id.is_none() {
        world.advance(MS);
        for event in reactor.tick(Wait::No).expect("it works").events {
            if let Event::Connected { conn, .. } = event {
                id = Some(conn);
            }
        }
    }
    let before = LIVE.load(Ordering::Relaxed);
    while reactor.outbox().send(id.expect("it works"), b"").is_ok() {}
    let grown = LIVE.load(Ordering::Relaxed) - before;
    assert!(grown < 3 << 20, "{grown} bytes for a queue of 1 MiB");
}

/// A tick with a short write allocates, every time.
#[test]
fn a_warm_tick_with_a_slow_client_allocates_nothing() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let world = SimWorld::new(1, Faults { window: 1_000, ..Faults::default() });
    let mut reactor =
        Reactor::builder().build_on(world.host([10, 0, 0, 1].into())).expect("it works");
    let listener = reactor.listen("10.0.0.1:7777").expect("it works");
    let addr = reactor.local_addr(listener).expect("it works");
    let mut peer = world.raw_connect([10, 0, 0, 2].into(), &addr);
    let mut id = None;
    while id.is_none() {
        world.advance(MS);
        for event in reactor.tick(Wait::No).expect("it works").events {
            if let Event::Connected { conn, .. } = event {
                id = Some(conn);
            }
        }
    }
    // The simulated network allocates for itself; so the same with and without short writes, after warming up.
    let mut count = |len: usize| {
        let mut calls = Vec::new();
        for _ in 0..100 {
            while reactor.outbox().queued(id.expect("it works")) > 0 {
                peer.read();
                world.advance(MS);
                reactor.flush();
                reactor.tick(Wait::No).expect("it works").events.for_each(drop);
            }
            peer.read();
            world.advance(MS);
            reactor.outbox().send(id.expect("it works"), &vec![1; len]).expect("it works");
            let before = CALLS.get();
            reactor.flush();
            calls.push(CALLS.get() - before);
        }
        calls[50..].iter().sum::<usize>()
    };
    let (whole, short) = (count(900), count(1_900));
    assert_eq!(whole, short, "allocations of 50 flushes, whole and short");
}

/// A handle costs memory for every connection that there might ever be.
#[test]
fn a_handle_does_not_pay_for_connections_that_are_not_there() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut reactor = Reactor::builder().connections_max(100_000_000).build().expect("it works");
    let before = LIVE.load(Ordering::Relaxed);
    let _handle = reactor.handle().expect("it works");
    let grown = LIVE.load(Ordering::Relaxed) - before;
    assert!(grown < 10 << 20, "{} MiB", grown >> 20);
}

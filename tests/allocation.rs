//! After a few ticks of the same load, a tick allocates nothing: counted, not believed.
//!
//! One test in a process of its own, since the counting allocator counts everybody.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{Client, accept, frame, pattern, server};
use tickwire::{Builder, ConnId, Event, Reactor, Tick, Wait};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, len) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CLIENTS: usize = 50;

/// Where the first of two writes ends: in the first header, in payloads, between frames.
const CUTS: [usize; 8] = [1, 3, 50, 104, 150, 300, 500, 727];

#[test]
fn a_warm_tick_allocates_nothing() {
    let (mut reactor, addr) = server(Builder::new().frame_len_max(100_000));
    let mut clients = Vec::new();
    let mut conns = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Client::connect(addr));
        conns.push(accept(&mut reactor));
    }
    let shared = Bytes::from(pattern(20_000));
    let large = frame(&pattern(60_000));
    let small = frame(&pattern(100)).repeat(7);
    let mut sink = vec![0; 256 * 1024];

    let mut round = |reactor: &mut Reactor, number: usize| {
        // Whole frames, frames cut in the middle, and one too long for the arena's way.
        let cut = CUTS[number % CUTS.len()];
        for (index, client) in clients.iter_mut().enumerate() {
            match index {
                0 => client.stream.write_all(&large).expect("room"),
                _ => client.stream.write_all(&small[..cut]).expect("room"),
            }
        }
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        echo(reactor);
        speak(reactor, &conns, &shared);
        let mut allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
        for client in &mut clients[1..] {
            client.stream.write_all(&small[cut..]).expect("room");
        }
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        echo(reactor);
        allocated += ALLOCATIONS.load(Ordering::Relaxed) - before;
        for (index, client) in clients.iter_mut().enumerate() {
            let echoed = if index == 0 { large.len() } else { small.len() };
            let told = 4 + 20_000 + 4 + 4_000 + 4 + 8;
            client.stream.read_exact(&mut sink[..echoed + told]).expect("all that was sent");
        }
        allocated
    };

    for number in 0..200 {
        round(&mut reactor, number);
    }
    let allocated: Vec<u64> = (0..200).map(|number| round(&mut reactor, number)).collect();
    assert_eq!(allocated.iter().sum::<u64>(), 0, "allocations by round: {allocated:?}");
}

/// Echoes all that has arrived. Every byte is in our sockets already, so two ticks without a message mean
/// that this is done.
fn echo(reactor: &mut Reactor) {
    let mut quiet = 0;
    while quiet < 2 {
        let Tick { events, mut outbox, .. } =
            reactor.tick(Wait::Event(Duration::from_millis(1))).expect("a poller");
        quiet += 1;
        for event in events {
            if let Event::Message { conn, payload } = event {
                outbox.send(conn, payload).expect("room");
                quiet = 0;
            }
        }
        reactor.flush();
    }
}

/// Every other way to send.
fn speak(reactor: &mut Reactor, conns: &[ConnId], shared: &Bytes) {
    let mut outbox = reactor.outbox();
    assert_eq!(outbox.broadcast_bytes(conns, shared).refused, []);
    for conn in conns {
        outbox.send_with(*conn, |w| w.put_bytes(1, 4_000)).expect("room");
    }
    outbox.broadcast(conns, &[2; 8]);
    reactor.flush();
}

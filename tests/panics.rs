//! Mistakes in the game's code cost neither messages nor the reactor.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{Client, PATIENCE, accept, frame, server, tick_until};
use tickwire::{Builder, Event, Reactor, Tick, Wait};

/// Ticks once, and panics at the message that is the `nth` of this tick.
fn tick_and_panic(reactor: &mut Reactor, nth: usize, seen: &mut Vec<u8>) {
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let Tick { events, mut outbox, .. } =
            reactor.tick(Wait::Event(PATIENCE)).expect("a poller");
        let mut count = 0;
        for event in events {
            let Event::Message { conn, payload } = event else { continue };
            count += 1;
            seen.push(payload[0]);
            outbox.send(conn, payload).expect("room");
            assert!(count < nth, "the game has a bug");
        }
    }));
    assert!(panicked.is_err());
}

/// In Telepathy a handler that throws sees the same message again, every tick.
#[test]
fn a_panic_in_the_middle_of_a_batch_neither_loses_nor_repeats_a_message() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    accept(&mut reactor);
    let bytes: Vec<u8> = (0..9).flat_map(|number| frame(&[number])).collect();
    client.write(&bytes);
    let mut seen = Vec::new();
    for _ in 0..3 {
        tick_and_panic(&mut reactor, 3, &mut seen);
    }
    assert_eq!(seen, (0..9).collect::<Vec<u8>>());
    // What was sent before each panic is not lost either.
    reactor.flush();
    for number in 0..9 {
        assert_eq!(client.receive(), [number]);
    }
}

#[test]
fn a_reactor_can_be_dropped_after_a_panic() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    accept(&mut reactor);
    client.write(&frame(b"x").repeat(3));
    tick_and_panic(&mut reactor, 1, &mut Vec::new());
    drop(reactor);
    let (_, in_order) = client.read_to_end();
    assert!(in_order, "all had been received, so the end is no reset");
}

#[test]
fn a_panic_while_a_connection_ends_ends_it_once() {
    let (mut reactor, addr) = server(Builder::new());
    drop(Client::connect(addr));
    let mut ends = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        loop {
            for event in reactor.tick(Wait::Event(PATIENCE)).expect("a poller").events {
                if let Event::Disconnected { .. } = event {
                    ends += 1;
                    panic!("the game has a bug");
                }
            }
        }
    }));
    assert!(panicked.is_err());
    tick_until(&mut reactor, |reactor| reactor.connections() == 0);
    assert_eq!(reactor.tick(Wait::No).expect("a poller").events.next(), None);
    assert_eq!(ends, 1);
}

/// Ticking again without having fetched is the same as breaking out: all comes again, once.
#[test]
fn ticks_whose_events_are_ignored_lose_nothing() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    client.write(&frame(b"kept").repeat(5));
    for _ in 0..3 {
        assert_eq!(reactor.tick(Wait::Event(PATIENCE)).expect("a poller").events.remaining(), 5);
    }
    let tick = reactor.tick(Wait::Event(PATIENCE)).expect("a poller");
    let kept: Vec<_> = tick.events.collect();
    assert_eq!(kept, vec![Event::Message { conn, payload: b"kept" }; 5]);
    assert_eq!(reactor.tick(Wait::No).expect("a poller").events.count(), 0);
}

//! O16: connects that come to nothing. With a black hole of the network's own: `tests/namespaces.rs`.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use tickwire::{Builder, ConnectFailure, ConnectOptions, Event, Reactor, Wait};

use crate::common::{black_hole, pump, server};

/// MirrorNetworking/Telepathy#86. None of the calls may wait for the network: each returns while the connect is as far from
/// an outcome as it will ever be.
#[test]
fn o16_connecting_to_a_black_hole_cannot_be_cancelled() {
    let (hole, _hole) = black_hole();
    let (mut there, addr) = server(Builder::new());
    let mut client = Reactor::new().expect("a poller");
    let begun = Instant::now();
    let dead = client.connect(hole).expect("an id");
    let took = begun.elapsed();
    for _ in 0..5 {
        let tick = client.tick(Wait::Event(Duration::from_millis(20))).expect("a poller");
        assert_eq!(tick.events.remaining(), 0, "nothing comes of it");
    }
    assert!(client.outbox().close(dead));
    let alive = client.connect(addr).expect("an id");
    client.outbox().send(alive, b"hello").expect("room");
    let mut told = 0;
    pump(&mut client, |event, _| {
        told += 1;
        match event {
            Event::ConnectFailed { conn, reason } => {
                assert_eq!((conn, reason), (dead, ConnectFailure::Cancelled));
            }
            Event::Connected { conn, .. } => assert_eq!(conn, alive),
            other => panic!("{other:?}"),
        }
        told == 2
    });
    client.flush();
    pump(&mut there, |event, outbox| {
        let Event::Message { conn, payload } = event else { return false };
        outbox.send(conn, payload).expect("room");
        true
    });
    there.flush();
    pump(&mut client, |event, _| {
        assert_eq!(event, Event::Message { conn: alive, payload: b"hello" }, "and no late outcome");
        true
    });
    // What is left to be dropped waits for nothing either.
    client.connect(hole).expect("an id");
    let begun = Instant::now();
    drop(client);
    println!("o16: connect returned after {took:?}, drop after {:?}", begun.elapsed());
}

/// The same: refused, and silent until a deadline.
#[test]
fn o16_each_failure_of_a_connect_is_one_event() {
    let (hole, _hole) = black_hole();
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = free.local_addr().expect("it is bound");
    drop(free);
    for (to, expected) in [(nobody, ConnectFailure::Refused), (hole, ConnectFailure::TimedOut)] {
        let mut client = Reactor::new().expect("a poller");
        let options = ConnectOptions::new().timeout(Duration::from_millis(50));
        let begun = Instant::now();
        let conn = client.connect_with(to, &options).expect("an id");
        pump(&mut client, |event, _| {
            assert_eq!(event, Event::ConnectFailed { conn, reason: expected });
            true
        });
        println!("o16: {expected} after {:?}", begun.elapsed());
        crate::idle_ticks(&mut client, 2, Duration::from_millis(5));
    }
}

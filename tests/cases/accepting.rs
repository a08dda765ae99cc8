//! O10 and O12: accepting when there is nothing to accept with, and whoever is gone already. O11 injects errors of accept:
//! `o11_` in `tests/sim`.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use tickwire::{Addr, Builder, DisconnectReason, Event, Tick, Wait};

use crate::common::{Client, accept, pump, server, tick_until};
use crate::is_alone;

/// ninenines/ranch#36, joyent/libuv#690: no spin while descriptors are out, nobody else is hurt, and whoever waited is
/// accepted once there are some, without any new client having to arrive. The limit is the process's, so this runs in one
/// of its own.
#[cfg(target_os = "linux")]
#[test]
fn o10_out_of_descriptors_on_accept() {
    if !is_alone("accepting::o10_out_of_descriptors_on_accept") {
        return;
    }
    const WAITING: usize = 64;
    let (mut reactor, addr) = server(Builder::new());
    let mut first = Client::connect(addr);
    accept(&mut reactor);

    // The clients' ends take descriptors of this process too, so they are opened before the limit falls.
    let _waiting: Vec<_> =
        (0..WAITING).map(|_| TcpStream::connect(addr).expect("a backlog")).collect();
    let open = std::fs::read_dir("/proc/self/fd").expect("proc(5)").count() as u64;
    let (_, hard) = rlimit::Resource::NOFILE.get().expect("getrlimit(2)");
    rlimit::Resource::NOFILE.set(open + 16, hard).expect("a lower limit is always allowed");

    tick_until(&mut reactor, |reactor| reactor.stats().accept_failures > 0);
    let (before, begun) = (reactor.stats(), Instant::now());
    let processor = crate::processor_time();
    for _ in 0..50 {
        let tick = reactor.tick(Wait::Event(Duration::from_millis(10))).expect("a poller");
        tick.events.for_each(drop);
    }
    let (after, took) = (reactor.stats(), begun.elapsed());
    let tries = after.accept_failures - before.accept_failures;
    let most = took.as_millis() / 50 + 2;
    assert!(u128::from(tries) <= most, "{tries} tries in {took:?}: one each 50 ms is enough");
    assert!(after.polls - before.polls <= 150, "no spin");
    if let (Some(before), Some(after)) = (processor, crate::processor_time()) {
        println!("o10: {tries} tries and {:?} of processor time in {took:?}", after - before);
    }

    first.send(b"served all the time");
    pump(&mut reactor, |event, outbox| match event {
        Event::Message { conn, payload } => {
            outbox.send(conn, payload).expect("room");
            true
        }
        _ => false,
    });
    reactor.flush();
    assert_eq!(first.receive(), b"served all the time");

    // One that leaves makes room for one that waits.
    let connected = reactor.connections();
    let accepted = reactor.stats().accepted;
    assert!((10..=WAITING).contains(&connected), "{connected}");
    drop(first);
    let begun = Instant::now();
    tick_until(&mut reactor, |reactor| reactor.stats().accepted > accepted);
    println!("o10: accepted {:?} after a descriptor was closed", begun.elapsed());

    rlimit::Resource::NOFILE.set(hard, hard).expect("up to the hard limit is allowed");
    tick_until(&mut reactor, |reactor| reactor.connections() == WAITING);
}

/// lemunozm/message-io#119, MirrorNetworking/Telepathy#123.
#[test]
fn o12_peer_already_gone_when_we_ask_for_its_address() {
    const CLIENTS: usize = 500;
    let (mut reactor, addr) = server(Builder::new());
    let mut addrs = std::collections::HashSet::new();
    for _ in 0..CLIENTS {
        let client = Client::connect(addr);
        addrs.insert(Addr::from(client.stream.local_addr().expect("bound")));
        client.reset();
    }
    let mut of = std::collections::HashMap::new();
    let mut ended = Vec::new();
    // Each is either never seen, or begins and ends; Linux shows them all.
    let deadline = Instant::now() + crate::common::PATIENCE;
    while ended.len() < of.len() || of.is_empty() {
        assert!(Instant::now() < deadline, "{} of {} have ended", ended.len(), of.len());
        let Tick { events, outbox, .. } =
            reactor.tick(Wait::Event(Duration::from_millis(50))).expect("a poller");
        for event in events {
            match event {
                Event::Connected { conn, peer, .. } => {
                    assert!(addrs.contains(&peer), "what accept has told: {peer}");
                    assert_eq!(outbox.peer(conn).as_ref(), Some(&peer));
                    assert_eq!(of.insert(conn, peer), None);
                }
                Event::Disconnected { conn, reason } => {
                    assert_eq!(reason, DisconnectReason::Reset);
                    let known = outbox.peer(conn);
                    assert!(known.is_none() || known.as_ref() == of.get(&conn));
                    ended.push(conn);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    for _ in 0..10 {
        let tick = reactor.tick(Wait::No).expect("a poller");
        assert_eq!(tick.events.remaining(), 0);
    }
    assert!(ended.into_iter().all(|conn| reactor.peer(conn).is_none()));
    assert_eq!(reactor.connections(), 0);
}

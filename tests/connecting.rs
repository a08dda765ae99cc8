//! Connecting out: on real sockets.

mod common;

use std::net::TcpListener;
use std::time::Duration;

use common::{Client, black_hole, pump, server, tick_until};
use tickwire::{Addr, Builder, ConnectFailure, ConnectOptions, Error, Event, Reactor, Tick, Wait};

#[test]
fn two_reactors_talk_and_each_hears_the_other_leave() {
    let (mut server, addr) = server(Builder::new());
    let mut client = Reactor::new().expect("a poller");
    let conn = client.connect(addr).expect("room");
    client.outbox().send(conn, b"queued before it came about").expect("room");
    pump(&mut client, |event, _| {
        let Event::Connected { conn: connected, peer, listener, .. } = event else { return false };
        assert_eq!((connected, peer, listener), (conn, Addr::from(addr), None));
        true
    });
    pump(&mut server, |event, outbox| {
        let Event::Message { conn, payload } = event else { return false };
        assert_eq!(payload, b"queued before it came about");
        outbox.send(conn, b"answer").expect("room");
        outbox.close(conn);
        true
    });
    server.flush();
    let mut answered = false;
    pump(&mut client, |event, _| match event {
        Event::Message { payload, .. } => {
            assert_eq!(payload, b"answer");
            answered = true;
            false
        }
        Event::Disconnected { .. } => true,
        _ => false,
    });
    assert!(answered);
    tick_until(&mut client, |client| client.connections() == 0);
    tick_until(&mut server, |server| server.connections() == 0);
}

#[test]
fn nobody_listening_is_a_refusal() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = free.local_addr().expect("it is bound");
    drop(free);
    let mut reactor = Reactor::new().expect("a poller");
    let conn = reactor.connect(addr).expect("an id");
    pump(&mut reactor, |event, outbox| {
        assert_eq!(event, Event::ConnectFailed { conn, reason: ConnectFailure::Refused });
        assert_eq!(outbox.peer(conn), Some(addr.into()));
        true
    });
    tick_until(&mut reactor, |reactor| reactor.connections() == 0);
}

#[test]
fn what_the_system_refuses_at_once_is_an_event_too() {
    let mut reactor = Reactor::new().expect("a poller");
    let conn = reactor.connect("127.0.0.1:0").expect("an id"); // no port to connect to
    pump(&mut reactor, |event, _| match event {
        Event::ConnectFailed { conn: failed, .. } => {
            assert_eq!(failed, conn);
            true
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn silence_is_given_up_at_the_deadline() {
    let (addr, _hole) = black_hole();
    let mut reactor = Reactor::new().expect("a poller");
    let options = ConnectOptions::new().timeout(Duration::from_millis(30));
    let conn = reactor.connect_with(addr, &options).expect("an id");
    let begun = reactor.now();
    pump(&mut reactor, |event, _| {
        assert_eq!(event, Event::ConnectFailed { conn, reason: ConnectFailure::TimedOut });
        true
    });
    assert!(reactor.now() - begun >= Duration::from_millis(30), "never early");
}

/// MirrorNetworking/Telepathy#86: a dead end must neither block nor come back later.
#[test]
fn a_cancelled_attempt_does_not_touch_the_next_one() {
    let (hole, _hole) = black_hole();
    let (mut server, addr) = server(Builder::new());
    let mut client = Reactor::new().expect("a poller");
    let dead = client.connect(hole).expect("an id");
    assert_eq!(client.tick(Wait::No).expect("a poller").events.next(), None);
    assert!(client.outbox().kick(dead));
    let alive = client.connect(addr).expect("an id");
    client.outbox().send(alive, b"hello").expect("room");
    let mut seen = Vec::new();
    pump(&mut client, |event, _| {
        match event {
            Event::ConnectFailed { conn, reason } => {
                assert_eq!(reason, ConnectFailure::Cancelled);
                seen.push(conn);
            }
            Event::Connected { conn, .. } => seen.push(conn),
            other => panic!("{other:?}"),
        }
        seen.len() == 2
    });
    seen.sort();
    let mut expected = [dead, alive];
    expected.sort();
    assert_eq!(seen, expected);
    client.flush();
    pump(&mut server, |event, _| matches!(event, Event::Message { payload: b"hello", .. }));
}

#[test]
fn at_the_limit_a_connect_is_refused_without_an_id() {
    let (addr, _hole) = black_hole();
    let mut reactor = Builder::new().connections_max(1).build().expect("usable");
    reactor.connect(addr).expect("room for one");
    let error = reactor.connect(addr).expect_err("no room for two");
    assert!(matches!(error, Error::ConnectionsMax { limit: 1 }), "{error}");
    assert_eq!(error.to_string(), "no room for a further connection: `connections_max` is 1");
}

#[test]
fn a_name_is_no_address() {
    let mut reactor = Reactor::new().expect("a poller");
    let error = reactor.connect("localhost:7777").expect_err("names are resolved elsewhere");
    assert!(error.to_string().contains("expected IP:PORT"), "{error}");
}

#[test]
fn messages_queued_while_connecting_keep_their_order() {
    let (mut server, addr) = server(Builder::new());
    let mut client = Reactor::new().expect("a poller");
    let conn = client.connect(addr).expect("room");
    for number in 0..100u8 {
        client.outbox().send(conn, &[number]).expect("room");
        client.flush(); // nothing can leave yet, or everything does: either is fine
    }
    let mut next = 0;
    while next < 100 {
        let Tick { events, .. } = client.tick(Wait::No).expect("a poller");
        events.for_each(drop);
        let tick = server.tick(Wait::Event(Duration::from_millis(1))).expect("a poller");
        for event in tick.events {
            if let Event::Message { payload, .. } = event {
                assert_eq!(payload, [next]);
                next += 1;
            }
        }
    }
}

#[test]
fn clients_of_other_makes_are_welcome_beside_ours() {
    let (mut server, addr) = server(Builder::new());
    let mut plain = Client::connect(addr);
    let mut ours = Reactor::new().expect("a poller");
    let conn = ours.connect(addr).expect("room");
    ours.outbox().send(conn, b"ours").expect("room");
    plain.send(b"plain");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        ours.tick(Wait::No).expect("a poller").events.for_each(drop);
        let tick = server.tick(Wait::Event(Duration::from_millis(1))).expect("a poller");
        for event in tick.events {
            if let Event::Message { payload, .. } = event {
                seen.push(payload.to_vec());
            }
        }
    }
    seen.sort();
    assert_eq!(seen, [b"ours".to_vec(), b"plain".to_vec()]);
}

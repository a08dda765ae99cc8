//! How a connection ends when we end it: on real sockets.

mod common;

use std::io::Read;
use std::time::Duration;

use common::{Client, accept, black_hole, frame, pattern, pump, server, tick_until};
use tickwire::{Builder, ConnectFailure, DisconnectReason, Event, Reactor, SendError, Wait};

/// snapview/tungstenite-rs#405: what was queued before our own close must arrive.
#[test]
fn close_delivers_what_was_queued() {
    for len in [3, 1024 * 1024 - 4] {
        let (mut reactor, addr) = server(Builder::new().frame_len_max(1024 * 1024 - 4));
        let mut client = Client::connect(addr);
        client.send(b"bye?");
        let payload = pattern(len);
        pump(&mut reactor, |event, outbox| {
            let Event::Message { conn, .. } = event else { return false };
            outbox.send(conn, &payload).expect("room");
            assert!(outbox.close(conn));
            assert_eq!(outbox.send(conn, b"more"), Err(SendError::Closing));
            true
        });
        let reader = std::thread::spawn(move || {
            let all = client.read_to_end();
            (all, client)
        });
        tick_until(&mut reactor, |_| reader.is_finished());
        let ((bytes, in_order), client) = reader.join().expect("no panic");
        assert!(in_order, "an end, no reset");
        assert!(bytes == frame(&payload), "the whole message and nothing else");
        // The peer has not closed yet; when it does, that is the end.
        drop(client);
        let mut reason = None;
        pump(&mut reactor, |event, _| {
            let Event::Disconnected { reason: why, .. } = event else { return false };
            reason = Some(why);
            true
        });
        assert_eq!(reason, Some(DisconnectReason::ClosedByUs));
    }
}

#[test]
fn close_gives_up_at_its_deadline() {
    let timeout = Duration::from_millis(30);
    let (mut reactor, addr) = server(Builder::new().close_timeout(timeout));
    let client = Client::connect(addr);
    let conn = accept(&mut reactor);
    assert!(reactor.outbox().close(conn));
    pump(&mut reactor, |event, _| match event {
        Event::Disconnected { reason, .. } => {
            assert_eq!(reason, DisconnectReason::CloseDeadline);
            true
        }
        _ => false,
    });
    drop(client);
}

#[test]
fn kick_resets_at_once_and_mutes_the_rest_of_the_batch() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let bytes: Vec<u8> = (0..10).flat_map(|number| frame(&[number])).collect();
    client.write(&bytes);
    let mut messages = 0;
    pump(&mut reactor, |event, outbox| match event {
        Event::Message { conn, .. } => {
            messages += 1;
            outbox.send(conn, b"lost").expect("room");
            assert!(outbox.kick(conn));
            assert!(outbox.kick(conn), "a second kick changes nothing");
            false
        }
        Event::Disconnected { reason, .. } => {
            assert_eq!(reason, DisconnectReason::Kicked);
            true
        }
        _ => false,
    });
    assert_eq!(messages, 1, "nine were in the same batch");
    assert_eq!(client.read_to_end(), (vec![], false), "a reset");
    assert!(!reactor.outbox().kick(conn), "its last event was fetched");
}

#[test]
fn a_kick_takes_effect_with_the_flush() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    reactor.outbox().kick(conn);
    reactor.flush();
    assert_eq!(client.read_to_end(), (vec![], false));
}

#[test]
fn dropping_the_reactor_closes_everything() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    accept(&mut reactor);
    drop(reactor);
    assert_eq!(client.read_to_end(), (vec![], true));
    assert!(std::net::TcpStream::connect(addr).is_err(), "nobody listens any more");
}

/// MirrorNetworking/Mirror#3287: ending a connection while it ends.
#[test]
fn ending_what_has_ended_is_harmless() {
    let (mut reactor, addr) = server(Builder::new());
    let mut clients: Vec<_> = (0..20).map(|_| Client::connect(addr)).collect();
    let mut conns = Vec::new();
    while conns.len() < 20 {
        conns.push(accept(&mut reactor));
    }
    for client in clients.drain(..10) {
        client.reset();
    }
    let mut ends = 0;
    pump(&mut reactor, |event, outbox| {
        outbox.broadcast(&conns, &[7; 1_000]);
        if let Event::Disconnected { conn, .. } = event {
            ends += 1;
            assert!(!outbox.kick(conn) && !outbox.close(conn));
            assert_eq!(outbox.send(conn, b"ghost"), Err(SendError::Stale));
        }
        ends == 10
    });
    reactor.flush();
    for client in &mut clients {
        assert_eq!(client.receive(), [7; 1_000]);
    }
    tick_until(&mut reactor, |reactor| reactor.connections() == 10);
}

#[test]
fn cancelling_a_connect_gives_its_one_event() {
    let mut reactor = Reactor::new().expect("a poller");
    let (addr, _hole) = black_hole();
    let conn = reactor.connect(addr).expect("an id");
    reactor.outbox().send(conn, b"queued while connecting").expect("room");
    assert!(reactor.outbox().close(conn));
    pump(&mut reactor, |event, _| {
        assert_eq!(event, Event::ConnectFailed { conn, reason: ConnectFailure::Cancelled });
        true
    });
    let tick = reactor.tick(Wait::No).expect("a poller");
    assert_eq!(tick.events.remaining(), 0);
}

/// A peer that reads slowly while we close: nothing is cut short, and the reset never overtakes data.
#[test]
fn unread_input_does_not_cost_the_goodbye() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    client.write(&frame(&pattern(16_384)).repeat(20)); // never fetched by the game
    reactor.outbox().send(conn, b"goodbye").expect("room");
    assert!(reactor.outbox().close(conn));
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 11];
        client.stream.read_exact(&mut bytes).expect("the goodbye");
        (bytes, client.read_to_end())
    });
    tick_until(&mut reactor, |_| reader.is_finished());
    let (bytes, rest) = reader.join().expect("no panic");
    assert_eq!((bytes, rest), (frame(b"goodbye"), (vec![], true)));
}

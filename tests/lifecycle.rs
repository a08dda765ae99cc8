//! One Connected, messages in order, one Disconnected: on real sockets.

mod common;

use std::io::Read;
use std::time::{Duration, Instant};

use common::{Client, accept, echo_until_disconnect, frame, pattern, pump, server, tick_until};
use tickwire::{Builder, ConnId, DisconnectReason, Event, Reactor, SendError, Tick, Wait};

#[test]
fn a_connection_is_told_from_beginning_to_end() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let local = client.stream.local_addr().expect("a bound socket");
    client.send(b"hello");
    client.send(b"");
    drop(client);

    let mut seen = Vec::new();
    pump(&mut reactor, |event, outbox| {
        let (line, conn) = match event {
            Event::Connected { conn, peer, listener, .. } => {
                assert_eq!(peer, local.into());
                assert!(listener.is_some());
                ("connected".to_owned(), conn)
            }
            Event::Message { conn, payload } => (format!("{payload:?}"), conn),
            Event::Disconnected { conn, reason } => {
                assert_eq!(outbox.peer(conn), Some(local.into()), "still known at the end");
                (reason.to_string(), conn)
            }
            other => panic!("{other:?}"),
        };
        seen.push((conn, line));
        seen.len() == 4
    });
    let (id, _) = seen[0];
    assert!(seen.iter().all(|(conn, _)| *conn == id));
    let lines: Vec<_> = seen.into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["connected", "[104, 101, 108, 108, 111]", "[]", "closed by the peer"]);

    tick_until(&mut reactor, |reactor| reactor.connections() == 0);
    assert_eq!(reactor.peer(id), None);
    assert_eq!(reactor.outbox().send(id, b"too late"), Err(SendError::Stale));
    assert!(!reactor.outbox().close(id) && !reactor.outbox().kick(id));
}

/// netty/netty#4317: the hang-up hint must not overtake the input.
#[test]
fn all_messages_before_a_close_are_delivered() {
    for (cut, resets) in [(0, false), (1, false), (0, true)] {
        let (mut reactor, addr) = server(Builder::new());
        let mut client = Client::connect(addr);
        let count = if resets { 30 } else { 100 };
        let mut bytes = Vec::new();
        for number in 0..count {
            bytes.extend(frame(&[number as u8; 1_024]));
        }
        bytes.truncate(bytes.len() - cut);
        client.write(&bytes);
        if resets {
            // A loopback write is in the other side's receive queue when it returns, if only the
            // connection has been accepted: which an unfetched event proves.
            let tick = reactor.tick(Wait::Event(common::PATIENCE)).expect("a poller");
            assert!(tick.events.remaining() > 0);
            client.reset();
        } else {
            drop(client);
        }

        let mut next = 0;
        let mut end = None;
        pump(&mut reactor, |event, _| match event {
            Event::Message { payload, .. } => {
                assert_eq!(payload, [next as u8; 1_024]);
                next += 1;
                false
            }
            Event::Disconnected { reason, .. } => {
                end = Some(reason);
                true
            }
            _ => false,
        });
        let reason = match (cut, resets) {
            (0, false) => DisconnectReason::ClosedByPeer,
            (_, false) => DisconnectReason::Truncated,
            _ => DisconnectReason::Reset,
        };
        assert_eq!((next, end), (if cut > 0 { 99 } else { count }, Some(reason)));
    }
}

#[test]
fn a_peer_that_half_closes_gets_its_replies_then_the_end() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    for number in 0..100 {
        client.send(&[number; 100]);
    }
    client.shutdown_write();
    let (_, reason) = echo_until_disconnect(&mut reactor);
    assert_eq!(reason, DisconnectReason::ClosedByPeer);
    for number in 0..100 {
        assert_eq!(client.receive(), [number; 100]);
    }
    assert_eq!(client.read_to_end(), (vec![], true));
}

/// netty/netty#4082: a half-closed connection must not keep the loop awake.
#[test]
fn after_the_end_there_is_nothing_to_wake_for() {
    let (mut reactor, addr) = server(Builder::new());
    let client = Client::connect(addr);
    client.shutdown_write();
    echo_until_disconnect(&mut reactor);
    tick_until(&mut reactor, |reactor| reactor.connections() == 0);
    let before = reactor.stats().polls;
    for _ in 0..5 {
        let tick = reactor.tick(Wait::Event(Duration::from_millis(40))).expect("a poller");
        assert_eq!(tick.events.remaining(), 0);
    }
    assert!(reactor.stats().polls - before <= 10, "each tick waits, and looks at most twice");
}

#[test]
fn what_is_not_fetched_comes_first_next_tick() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    for number in 0..10 {
        client.send(&[number]);
    }
    let mut fetched = Vec::new();
    let deadline = Instant::now() + common::PATIENCE;
    while fetched.len() < 10 && Instant::now() < deadline {
        // One event a tick: a budget of the game's own is a plain `break`.
        let mut tick = reactor.tick(Wait::Event(Duration::from_millis(50))).expect("a poller");
        if let Some(Event::Message { conn: from, payload }) = tick.events.next() {
            assert_eq!(from, conn);
            fetched.push(payload[0]);
        }
    }
    assert_eq!(fetched, (0..10).collect::<Vec<u8>>());
}

#[test]
fn a_slot_taken_again_has_another_id() {
    let (mut reactor, addr) = server(Builder::new());
    let mut ids: Vec<ConnId> = Vec::new();
    for _ in 0..5 {
        drop(Client::connect(addr));
        let id = accept(&mut reactor);
        tick_until(&mut reactor, |reactor| reactor.connections() == 0);
        assert!(!ids.contains(&id), "an id is never given twice");
        ids.push(id);
    }
    let mut client = Client::connect(addr);
    let current = accept(&mut reactor);
    let mut outbox = reactor.outbox();
    for old in ids {
        assert_eq!(outbox.send(old, b"stranger"), Err(SendError::Stale));
        assert!(!outbox.kick(old));
    }
    outbox.send(current, b"friend").expect("it is connected");
    reactor.flush();
    assert_eq!(client.receive(), b"friend");
}

/// lemunozm/message-io#119: peers that are gone before we look.
#[test]
fn peers_that_reset_before_the_first_tick_keep_their_address() {
    let (mut reactor, addr) = server(Builder::new());
    let clients: Vec<_> = (0..200).map(|_| Client::connect(addr)).collect();
    let addresses: Vec<_> =
        clients.iter().map(|client| client.stream.local_addr().expect("bound").into()).collect();
    clients.into_iter().for_each(Client::reset);
    let mut connected = 0;
    let mut ended = 0;
    pump(&mut reactor, |event, outbox| {
        match event {
            Event::Connected { conn, peer, .. } => {
                assert!(addresses.contains(&peer));
                assert_eq!(outbox.peer(conn), Some(peer));
                connected += 1;
            }
            Event::Disconnected { conn, .. } => {
                assert!(outbox.peer(conn).is_some());
                ended += 1;
            }
            other => panic!("{other:?}"),
        }
        ended == 200
    });
    assert_eq!(connected, 200);
}

#[test]
fn an_oversized_header_ends_that_connection_alone() {
    for declared in [16_385u32, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
        let (mut reactor, addr) = server(Builder::new());
        let mut bad = Client::connect(addr);
        let mut good = Client::connect(addr);
        bad.write(&[&frame(b"fine")[..], &declared.to_be_bytes(), &frame(b"never")].concat());
        let mut messages = 0;
        pump(&mut reactor, |event, _| match event {
            Event::Message { payload, .. } => {
                assert_eq!(payload, b"fine");
                messages += 1;
                false
            }
            Event::Disconnected { reason, .. } => {
                let declared = declared.into();
                assert_eq!(reason, DisconnectReason::FrameTooLarge { declared, limit: 16_384 });
                true
            }
            _ => false,
        });
        assert_eq!(messages, 1);
        bad.read_to_end();
        good.send(b"still here");
        pump(&mut reactor, |event, outbox| {
            let Event::Message { conn, payload } = event else { return false };
            outbox.send(conn, payload).expect("room");
            true
        });
        reactor.flush();
        assert_eq!(good.receive(), b"still here");
    }
}

#[test]
fn frames_of_every_size_come_back_however_they_arrive() {
    let (mut reactor, addr) = server(Builder::new().frame_len_max(200_000));
    let server = std::thread::spawn(move || echo_until_disconnect(&mut reactor));
    let mut client = Client::connect(addr);
    for len in [0, 1, 100, 16_384, 20 * 1024, 200_000] {
        let payload = pattern(len);
        client.send(&payload);
        assert_eq!(client.receive(), payload, "{len} bytes at once");
    }
    for byte in frame(&pattern(100)) {
        client.write(&[byte]);
    }
    assert_eq!(client.receive(), pattern(100), "byte by byte");
    let many: Vec<u8> = (0..1_000).flat_map(|i| frame(&pattern(i % 101))).collect();
    client.write(&many);
    let mut echoed = vec![0; many.len()];
    client.stream.read_exact(&mut echoed).expect("all echoes");
    assert_eq!(echoed, many, "a thousand in one write");
    drop(client);
    server.join().expect("no panic");
}

#[test]
fn a_reactor_can_move_between_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Reactor>();
    is_send_and_sync::<Tick<'_>>();
}

//! Sending: on real sockets.

mod common;

use std::io::Write;

use bytes::Bytes;
use common::{Client, accept, pattern, pump, server, tick_until};
use tickwire::{Builder, DisconnectReason, EncodeError, Event, SendError, SendPolicy, Tick};

#[test]
fn many_messages_leave_with_one_send() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let before = reactor.stats().sends;
    for number in 0..1_000u32 {
        reactor.outbox().send(conn, &number.to_be_bytes()).expect("room");
    }
    reactor.flush();
    reactor.flush(); // nothing is left to send
    assert_eq!(reactor.stats().sends - before, 1);
    for number in 0..1_000u32 {
        assert_eq!(client.receive(), number.to_be_bytes());
    }
}

#[test]
fn many_messages_that_arrived_together_cost_one_receive() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let bytes: Vec<u8> = (0..1_000).flat_map(|_| common::frame(&[7; 20])).collect();
    client.write(&bytes);
    let before = reactor.stats().receives;
    let mut messages = 0;
    pump(&mut reactor, |event, _| {
        if let Event::Message { conn: from, payload } = event {
            assert_eq!((from, payload), (conn, &[7; 20][..]));
            messages += 1;
        }
        messages == 1_000
    });
    let receives = reactor.stats().receives - before;
    assert!(receives <= 2, "24,000 bytes in {receives} receives; a loopback write may be cut once");
}

#[test]
fn a_message_is_encoded_in_place() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let mut outbox = reactor.outbox();
    outbox.send(conn, b"before").expect("room");
    outbox
        .send_with(conn, |w| {
            w.put_u16(0x0102);
            w.put_slice(b"abc");
            assert_eq!(w.len(), 5);
            write!(w, "{}", 42).expect("a buffer in memory");
        })
        .expect("room");
    outbox.send_with(conn, |_| {}).expect("an empty message");
    let large = pattern(16_384);
    outbox.send_with(conn, |w| w.put_slice(&large)).expect("room");
    outbox.send(conn, b"after").expect("room");
    reactor.flush();
    assert_eq!(client.receive(), b"before");
    assert_eq!(client.receive(), b"\x01\x02abc42");
    assert_eq!(client.receive(), b"");
    assert_eq!(client.receive(), large);
    assert_eq!(client.receive(), b"after");
}

#[test]
fn an_encoder_that_fails_leaves_no_trace() {
    let (mut reactor, addr) = server(Builder::new().frame_len_max(100));
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let mut outbox = reactor.outbox();
    let failed = outbox.try_send_with(conn, |w| {
        w.put_slice(b"half a mess");
        Err("no more ideas")
    });
    assert_eq!(failed, Err(EncodeError::Encode("no more ideas")));
    assert_eq!(outbox.send_with(conn, |w| w.put_bytes(1, 101)), Err(SendError::TooLarge));
    assert_eq!(outbox.queued(conn), 0);
    outbox.send(conn, b"first").expect("room");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = outbox.send_with(conn, |w| {
            w.put_slice(&[9; 300]);
            panic!("the game has a bug");
        });
    }));
    assert!(panicked.is_err());
    outbox.send_with(conn, |w| w.put_bytes(2, 100)).expect("room");
    reactor.flush();
    assert_eq!(client.receive(), b"first");
    assert_eq!(client.receive(), [2; 100]);
}

/// tokio-rs/tokio#5080: what does not fit is refused, and the stream stays whole.
#[test]
fn a_too_large_message_puts_nothing_on_the_wire() {
    let (mut reactor, addr) = server(Builder::new().frame_len_max(1_000));
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let mut outbox = reactor.outbox();
    outbox.send(conn, &pattern(999)).expect("room");
    outbox.send(conn, &pattern(1_000)).expect("room");
    assert_eq!(outbox.send(conn, &pattern(1_001)), Err(SendError::TooLarge));
    outbox.send(conn, b"next").expect("room");
    reactor.flush();
    assert_eq!(client.receive(), pattern(999));
    assert_eq!(client.receive(), pattern(1_000));
    assert_eq!(client.receive(), b"next");
}

/// redis/redis#91: a peer that never reads.
#[test]
fn the_send_queue_has_a_limit_and_harms_nobody_else() {
    const LIMIT: usize = 64 * 1024;
    for policy in [SendPolicy::Error, SendPolicy::Disconnect] {
        let (mut reactor, addr) = server(Builder::new().send_queue_max(LIMIT).send_policy(policy));
        let _silent = Client::connect(addr);
        let silent = accept(&mut reactor);
        let mut healthy_client = Client::connect(addr);
        let healthy = accept(&mut reactor);
        let reader = std::thread::spawn(move || {
            for number in 0..20_000u32 {
                assert_eq!(healthy_client.receive()[..4], number.to_be_bytes());
            }
            healthy_client // or its end could be seen before the loop below is over
        });
        let mut refused = 0;
        let mut reason = None;
        let mut note = |tick: Tick<'_>| {
            for event in tick.events {
                if let Event::Disconnected { conn, reason: why } = event {
                    assert_eq!(conn, silent);
                    assert_eq!(reason.replace(why), None, "only once");
                }
            }
        };
        for number in 0..20_000u32 {
            let mut payload = [0; 1_020];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            match reactor.outbox().send(silent, &payload) {
                Ok(()) | Err(SendError::Stale | SendError::Closing) => {}
                Err(error) => {
                    assert_eq!(error, SendError::Full);
                    refused += 1;
                }
            }
            assert!(reactor.outbox().queued(silent) <= LIMIT);
            // The reader is a thread of its own: give it the time it takes.
            while reactor.outbox().queued(healthy) + 1_024 > LIMIT {
                let wait = tickwire::Wait::Event(common::PATIENCE / 1_000);
                note(reactor.tick(wait).expect("a poller"));
            }
            reactor.outbox().send(healthy, &payload).expect("there is room");
            note(reactor.tick(tickwire::Wait::No).expect("a poller"));
        }
        tick_until(&mut reactor, |_| reader.is_finished());
        reader.join().expect("all in order");
        match policy {
            SendPolicy::Error => assert!(refused > 1 && reason.is_none()),
            _ => assert_eq!((refused, reason), (1, Some(DisconnectReason::SendQueueFull))),
        }
    }
}

#[test]
fn a_broadcast_reaches_all_and_names_who_refused() {
    let (mut reactor, addr) = server(Builder::new().frame_len_max(100_000).send_queue_max(150_000));
    let mut clients = Vec::new();
    let mut conns = Vec::new();
    for _ in 0..10 {
        clients.push(Client::connect(addr));
        conns.push(accept(&mut reactor));
    }
    // One is gone, one is full.
    drop(clients.remove(9));
    tick_until(&mut reactor, |reactor| reactor.connections() == 9);
    let small = pattern(100);
    let large = pattern(60_000);
    let mut outbox = reactor.outbox();
    outbox.send(conns[3], &pattern(100_000)).expect("room");
    assert_eq!(outbox.broadcast(&conns, &small).sent, 9);
    outbox.send(conns[3], &pattern(49_000)).expect("room for that");
    let told = outbox.broadcast(conns.iter().copied().filter(|conn| *conn != conns[0]), &large);
    assert_eq!(told.sent, 7);
    assert_eq!(told.refused, [(conns[3], SendError::Full), (conns[9], SendError::Stale)]);
    let told = outbox.broadcast_bytes(&conns[1..3], &Bytes::from(pattern(20_000)));
    assert_eq!((told.sent, told.refused.len()), (2, 0));
    outbox.broadcast(&conns[..9], b"end");

    let reader = std::thread::spawn(move || {
        for (number, client) in clients.iter_mut().enumerate() {
            if number == 3 {
                assert_eq!(client.receive(), pattern(100_000));
            }
            assert_eq!(client.receive(), small);
            match number {
                0 => {}
                3 => assert_eq!(client.receive(), pattern(49_000)),
                _ => assert_eq!(client.receive(), large),
            }
            if number == 1 || number == 2 {
                assert_eq!(client.receive(), pattern(20_000));
            }
            assert_eq!(client.receive(), b"end");
        }
    });
    tick_until(&mut reactor, |_| reader.is_finished());
    reader.join().expect("every client got its own");
}

#[test]
fn a_paused_connection_keeps_its_messages_until_it_is_resumed() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    assert!(reactor.outbox().pause_read(conn));
    client.send(b"later");
    let mut other = Client::connect(addr);
    other.send(b"now");
    pump(&mut reactor, |event, _| match event {
        Event::Message { payload, .. } => {
            assert_eq!(payload, b"now");
            true
        }
        _ => false,
    });
    assert!(reactor.outbox().resume_read(conn));
    pump(&mut reactor, |event, _| matches!(event, Event::Message { payload: b"later", .. }));
}

//! O02 to O05: lengths that lie, lengths of nothing, and buffers that are exactly full.

use std::time::Instant;

use tickwire::{Builder, ConnId, DisconnectReason, Event, Framing, LengthField, SendError, Wait};

use crate::common::{Pair, Seen, frame, pattern, pump, server, tick_until};
use crate::meet;

/// netty/netty#1798.
#[test]
fn o02_an_oversized_frame_that_is_already_complete_in_the_buffer() {
    const LIMIT: u32 = 1_024;
    for (declared, is_dripped) in [
        (LIMIT, false),
        (LIMIT + 1, false),
        (LIMIT + 1, true),
        (0x7fff_ffff, false),
        (0x8000_0000, false),
        (0xffff_ffff, true),
    ] {
        let (mut reactor, addr) = server(Builder::new().frame_len_max(LIMIT as usize));
        let (mut client, conn) = meet(&mut reactor, addr);
        let body = pattern(declared.min(LIMIT + 1) as usize);
        match is_dripped {
            true => declared.to_be_bytes().iter().for_each(|byte| {
                client.write(&[*byte]);
                let tick = reactor.tick(Wait::No).expect("a poller");
                tick.events.for_each(|event| assert!(!matches!(event, Event::Message { .. })));
            }),
            false => client.write(&[&declared.to_be_bytes()[..], &body, &frame(b"xyz")].concat()),
        }
        if declared == LIMIT {
            let mut lens = Vec::new();
            pump(&mut reactor, |event, _| {
                let Event::Message { payload, .. } = event else { panic!("{event:?}") };
                lens.push(payload.len());
                lens.len() == 2
            });
            assert_eq!(lens, [1_024, 3]);
            continue;
        }
        let limit = LIMIT;
        let reason = DisconnectReason::FrameTooLarge { declared: declared.into(), limit };
        // With the header alone it may have been told already, while it was dripped.
        if reactor.connections() > 0 {
            tick_until(&mut reactor, |reactor| reactor.connections() == 0);
        }
        let stats = reactor.stats();
        assert_eq!((stats.messages_received, stats.ends.frame_too_large, stats.ended), (0, 1, 1));
        assert!(reason.to_string().contains(&declared.to_string()), "{conn}: {reason}");
    }
}

/// tokio-rs/tokio#5080, tokio-rs/tokio#8275.
#[test]
fn o03_the_length_field_cannot_hold_the_length() {
    const MIB: usize = 1 << 20;
    for (width, max) in [(1, 255), (2, 65_535), (3, 16_777_215), (4, MIB), (8, MIB)] {
        for is_little in [false, true] {
            let field = LengthField::new(width);
            let field = if is_little { field.little_endian() } else { field };
            let builder = |frame_len_max: usize| {
                Builder::new()
                    .framing(Framing::LengthField(field))
                    .frame_len_max(frame_len_max)
                    .send_queue_max(2 * max + 100)
                    .buffered_max(8 * max + (1 << 20))
            };
            if width < 4 {
                assert!(builder(max + 1).build().is_err(), "{width} bytes cannot tell {max} + 1");
            }
            let mut pair = Pair::new(builder(max), builder(max));
            let (theirs, ours) = pair.connect();
            for (len, is_fine) in [(max - 1, true), (max + 1, false), (max, true), (7, true)] {
                let before = pair.client.stats().bytes_sent;
                let sent = pair.client.outbox().send(ours, &pattern(len));
                if !is_fine {
                    assert_eq!(sent, Err(SendError::TooLarge));
                    pair.tick();
                    assert_eq!(pair.client.stats().bytes_sent, before, "not a byte of it");
                    continue;
                }
                sent.expect("room");
                pair.until(|pair| !pair.at_server.is_empty());
                let is_it = pair.at_server == [Seen::Message(theirs, pattern(len))];
                assert!(is_it, "{len} bytes behind a length of {width}");
                pair.at_server.clear();
            }
        }
    }
}

/// NethermindEth/nethermind#12202, project-chip/connectedhomeip#71942, philippseith/signalr#54.
#[test]
fn o04_zero_length_frames() {
    // One before another frame.
    let (mut reactor, addr) = server(Builder::new());
    let (mut client, _) = meet(&mut reactor, addr);
    client.write(&[frame(b""), frame(b"x")].concat());
    let mut payloads = Vec::new();
    pump(&mut reactor, |event, _| {
        let Event::Message { payload, .. } = event else { panic!("{event:?}") };
        payloads.push(payload.to_vec());
        payloads.len() == 2
    });
    assert_eq!(payloads, [b"".to_vec(), b"x".to_vec()]);

    // One as the last thing before FIN.
    client.write(&frame(b""));
    drop(client);
    let mut told = Vec::new();
    pump(&mut reactor, |event, _| {
        told.push(Seen::from(event));
        told.len() == 2
    });
    let [Seen::Message(conn, empty), Seen::Disconnected(over, reason)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((conn, empty.len(), *reason), (over, 0, DisconnectReason::ClosedByPeer));
}

/// The same: a million of them in one burst.
#[test]
fn o04_a_million_zero_length_frames_are_events_like_others() {
    const FRAMES: usize = 1_000_000;
    const BUDGET: usize = 1_000;
    let (mut reactor, addr) = server(Builder::new().event_budget(BUDGET));
    let (mut flooder, flood) = meet(&mut reactor, addr);
    let (mut other, other_conn) = meet(&mut reactor, addr);
    let begun = Instant::now();
    let writer = std::thread::spawn(move || {
        flooder.write(&vec![0; 4 * FRAMES]);
        flooder
    });
    let (mut empty, mut waited) = (0, None);
    while empty < FRAMES {
        if empty > FRAMES / 4 && waited.is_none() {
            other.send(b"ten bytes!");
            waited = Some(0);
        }
        let events = reactor.tick(Wait::Event(crate::common::PATIENCE)).expect("a poller").events;
        assert!(events.remaining() <= BUDGET, "{}", events.remaining());
        waited = waited.map(|ticks| ticks + 1);
        for event in events {
            match event {
                Event::Message { conn, payload } if conn == flood => {
                    assert!(payload.is_empty());
                    empty += 1;
                }
                Event::Message { conn, payload } => {
                    assert_eq!((conn, payload), (other_conn, &b"ten bytes!"[..]));
                    assert!(waited <= Some(2), "after {waited:?} ticks");
                    waited = Some(i32::MIN);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(waited < Some(0), "the other was heard");
    drop(writer.join().expect("no panic"));
    println!(
        "o04: {FRAMES} empty frames in {:?}, {} ticks",
        begun.elapsed(),
        reactor.stats().ticks
    );
}

/// containers/crun#2207, through the socket: frames that end at, before and behind the end of every buffer that is
/// used for them. The buffer itself, against a queue: `o05_` in `src/ring.rs`.
#[test]
fn o05_ring_buffer_wrong_exactly_when_full() {
    for frame_len_max in [60, 64, 124, 1_020, 20_476, 32_764] {
        let builder = || Builder::new().frame_len_max(frame_len_max);
        let mut pair = Pair::new(builder(), builder());
        let (theirs, ours) = pair.connect();
        let lens = [frame_len_max, frame_len_max - 1, 1, frame_len_max, frame_len_max - 2, 3];
        let lens: Vec<usize> = lens.into_iter().cycle().take(60).collect();
        let mut got = 0;
        for part in lens.chunks(4) {
            for len in part {
                pair.client.outbox().send(ours, &pattern(*len)).expect("room");
            }
            pair.until(|pair| pair.at_server.len() == part.len());
            for (seen, len) in std::mem::take(&mut pair.at_server).into_iter().zip(part) {
                assert!(seen == Seen::Message(theirs, pattern(*len)), "message {got} of {len}");
                got += 1;
            }
        }
    }
}

/// In pieces, so that what is unfinished fills its buffer to the last byte.
#[test]
fn o05_a_frame_of_exactly_the_largest_size_arrives_in_any_pieces() {
    for frame_len_max in [60, 124, 20_476, 32_764, 65_532] {
        let (mut reactor, addr) = server(Builder::new().frame_len_max(frame_len_max));
        let (mut client, conn) = meet(&mut reactor, addr);
        let bytes = frame(&pattern(frame_len_max));
        for cut in [1, 4, bytes.len() / 2, bytes.len() - 1] {
            let before = reactor.stats().bytes_received;
            client.write(&bytes[..cut]);
            tick_until(&mut reactor, |it| it.stats().bytes_received == before + cut as u64);
            client.write(&bytes[cut..]);
            expect_message(&mut reactor, conn, &bytes[4..]);
        }
    }
}

fn expect_message(reactor: &mut tickwire::Reactor, conn: ConnId, expected: &[u8]) {
    pump(reactor, |event, _| {
        assert!(event == Event::Message { conn, payload: expected }, "another event");
        true
    });
}

//! O15: those who say just enough not to be silent. When each goes is asserted in virtual time: `o15_` in `tests/sim`.

use std::time::{Duration, Instant};

use tickwire::{Builder, DisconnectReason, Event, Wait};

use crate::common::{PATIENCE, frame, pattern, server};
use crate::meet;

/// dolthub/doltlite#1761, cloudflare/pingora#539.
#[test]
fn o15_drip_feeding_keeps_a_slot_for_ever() {
    let frame_timeout = Duration::from_millis(200);
    let (mut reactor, addr) = server(Builder::new().frame_timeout(frame_timeout));
    let (mut header, header_conn) = meet(&mut reactor, addr);
    let (mut payload, payload_conn) = meet(&mut reactor, addr);
    let (mut honest, honest_conn) = meet(&mut reactor, addr);
    let whole = frame(&pattern(100));
    header.write(&whole[..1]);
    payload.write(&whole[..5]);
    let begun = Instant::now();
    let (mut ends, mut heard, mut at) = (Vec::new(), 0, 5);
    while ends.len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "{ends:?}");
        // A byte each tick, as long as they are let; the honest one says all it has to say at once.
        if at < whole.len() - 2 {
            let _ = std::io::Write::write(&mut payload.stream, &whole[at..at + 1]);
            at += 1;
        }
        honest.send(b"here I am");
        for event in reactor.tick(Wait::Event(Duration::from_millis(5))).expect("a poller").events {
            match event {
                Event::Message { conn, .. } => {
                    assert_eq!(conn, honest_conn);
                    heard += 1;
                }
                Event::Disconnected { conn, reason } => {
                    assert_eq!(reason, DisconnectReason::FrameDeadline);
                    ends.push(conn);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    ends.sort();
    assert_eq!(ends, [header_conn, payload_conn]);
    assert!(heard > 0 && reactor.connections() <= 3);
    println!("o15: the dripping ones went after {:?}, of {frame_timeout:?}", begun.elapsed());
}

/// Whoever says nothing at all.
#[test]
fn o15_a_silent_client_is_idle() {
    let idle = Duration::from_millis(50);
    let (mut reactor, addr) = server(Builder::new().idle_timeout(idle));
    let (_silent, conn) = meet(&mut reactor, addr);
    let (begun, polls) = (Instant::now(), reactor.stats().polls);
    let mut events = Vec::new();
    while events.is_empty() {
        let tick = reactor.tick(Wait::Event(PATIENCE)).expect("a poller");
        events.extend(tick.events.map(crate::common::Seen::from));
    }
    let end = crate::common::Seen::Disconnected(conn, DisconnectReason::Idle);
    assert_eq!(events, [end]);
    let polls = reactor.stats().polls - polls;
    assert!(polls <= 4, "{polls} looks: it sleeps until then");
    println!("o15: idle after {:?}, of {idle:?}", begun.elapsed());
}

//! Time-outs, in virtual time: to the millisecond, and never for what we did ourselves.

use std::collections::HashMap;
use std::time::Duration;

use tickwire::sim::{Faults, RawPeer};
use tickwire::{Builder, ConnId, DisconnectReason, Reactor, Wait};

use crate::harness::{Arena, MS, SECOND, SERVER, Seen, frame, frames, messages};

fn arena(builder: Builder) -> Arena {
    Arena::with(builder, Faults::default())
}

/// Ticks each millisecond until the connection is over; how long that took since `begin`, and why.
fn end_of(arena: &mut Arena, conn: ConnId, begin: std::time::Instant) -> (u128, DisconnectReason) {
    let (_, reason) = arena.until_over(conn);
    ((arena.now() - begin).as_millis(), reason)
}

/// A deadline is kept to the millisecond in which it is rounded up, and the tick that notices.
fn assert_about(took: u128, due: u128) {
    assert!((due..=due + 3).contains(&took), "{took} ms where {due} were due");
}

/// dolthub/doltlite#1761, cloudflare/pingora#539: the drip.
#[test]
fn o15_dripping_does_not_move_the_deadline_of_a_frame() {
    let builder = Reactor::builder().idle_timeout(500 * MS).frame_timeout(2 * SECOND);
    for head in [&[][..], &frame(&[0; 100])[..5]] {
        let mut arena = arena(builder.clone());
        let (mut peer, conn) = arena.meet();
        peer.write(head);
        let begin = arena.now();
        let whole = [&[0, 0, 0, 100][..], &[1; 100]].concat();
        let mut rest = whole[head.len()..].iter();
        let reason = loop {
            peer.write(&[*rest.next().expect("it is over long before")]);
            let seen = arena.ticks(450);
            if let Some(Seen::Disconnected(over, reason)) = seen.last() {
                assert_eq!(*over, conn);
                break *reason;
            }
        };
        assert_eq!(reason, DisconnectReason::FrameDeadline);
        let took = (arena.now() - begin).as_millis();
        assert!((2_000..2_500).contains(&took), "{took} ms: in the round in which 2 s were over");
    }
}

#[test]
fn o15_honest_peers_outlive_every_deadline() {
    let builder = Reactor::builder()
        .idle_timeout(500 * MS)
        .frame_timeout(2 * SECOND)
        .first_frame_timeout(SECOND)
        .frame_len_max(1 << 20)
        .send_queue_max(2 << 20);
    let mut arena = arena(builder);
    let (mut small, small_conn) = arena.meet();
    let (mut large, large_conn) = arena.meet();
    let frame_of_a_second = frame(&vec![7; 1 << 20]);
    let mut parts = frame_of_a_second.chunks(1 << 17).cycle();
    small.write(&frame(b"first"));
    let mut seen = Vec::new();
    for _ in 0..40 {
        small.write(&frame(&[1; 20]));
        large.write(parts.next().expect("a cycle"));
        seen.extend(arena.ticks(125));
    }
    assert_eq!(messages(&seen, small_conn).len(), 41);
    assert_eq!(messages(&seen, large_conn).len(), 4, "each took more than a second");
}

#[test]
fn o15_silence_ends_at_the_idle_timeout() {
    let mut arena = arena(Reactor::builder().idle_timeout(500 * MS));
    let (mut peer, conn) = arena.meet();
    arena.ticks(300);
    peer.write(&frame(b"still here"));
    arena.ticks(1);
    let begin = arena.now();
    let (took, reason) = end_of(&mut arena, conn, begin);
    assert_eq!(reason, DisconnectReason::Idle);
    assert_about(took, 500);
}

#[test]
fn a_client_that_says_nothing_has_its_own_deadline() {
    for says in [&b""[..], &[0, 0], &[0, 0, 0, 9, 1]] {
        let mut arena = arena(Reactor::builder().first_frame_timeout(300 * MS));
        let (mut peer, conn) = arena.meet();
        let begin = arena.now();
        peer.write(says);
        let (took, reason) = end_of(&mut arena, conn, begin);
        assert_eq!(reason, DisconnectReason::FirstFrame);
        assert_about(took, 299);
    }
    let mut arena = arena(Reactor::builder().first_frame_timeout(300 * MS));
    let (mut peer, conn) = arena.meet();
    peer.write(&frame(b""));
    assert_eq!(messages(&arena.ticks(5_000), conn), [b""], "one message is enough for ever");
}

#[test]
fn a_peer_that_takes_nothing_ends_at_the_write_stall() {
    let builder = Reactor::builder().write_stall_timeout(2 * SECOND);
    let mut arena = arena(builder);
    let (mut peer, conn) = arena.meet();
    for _ in 0..60 {
        arena.server.send(conn, &[5; 16_000]);
    }
    arena.ticks(1_900);
    // It reads a little: that is progress, and the time begins anew.
    assert!(!peer.read().is_empty());
    let seen = arena.ticks(1_900);
    assert!(seen.is_empty(), "{seen:?}");
    let (_, reason) = arena.until_over(conn);
    assert_eq!(reason, DisconnectReason::WriteStall);
    assert!(peer.is_reset(), "what was queued is lost, and the peer is to know");
}

#[test]
fn every_deadline_can_be_switched_off() {
    let builder = Reactor::builder()
        .public_port()
        .first_frame_timeout(None)
        .frame_timeout(None)
        .idle_timeout(None)
        .write_stall_timeout(None)
        .close_timeout(None);
    let mut arena = arena(builder);
    let (mut silent, silent_conn) = arena.meet();
    let (mut dripping, _) = arena.meet();
    let (_deaf, deaf_conn) = arena.meet();
    let (_stubborn, stubborn_conn) = arena.meet();
    dripping.write(&[0, 0, 0]);
    for _ in 0..60 {
        arena.server.send(deaf_conn, &[5; 16_000]);
    }
    arena.server.reactor.outbox().close(stubborn_conn);
    arena.tick();
    arena.world.advance(Duration::from_secs(100_000));
    assert_eq!(arena.ticks(5), []);
    silent.write(&frame(b"at last"));
    assert_eq!(messages(&arena.ticks(5), silent_conn), [b"at last"]);
}

/// SIGSTOP, a laptop's sleep: read first, then look at the clock.
#[test]
fn after_a_pause_of_the_process_nobody_is_late_who_was_not() {
    let builder =
        Reactor::builder().idle_timeout(SECOND).frame_timeout(SECOND).first_frame_timeout(SECOND);
    let mut arena = arena(builder);
    let (mut talker, talker_conn) = arena.meet();
    let (mut silent, silent_conn) = arena.meet();
    talker.write(&frame(b"one")[..5]);
    silent.write(&frame(b"hello"));
    arena.ticks(3);
    talker.write(&frame(b"one")[5..]);
    arena.world.advance(Duration::from_secs(3_600));
    let seen = arena.server.tick();
    assert_eq!(messages(&seen, talker_conn), [b"one"]);
    let late: Vec<_> = seen.iter().filter(|it| matches!(it, Seen::Disconnected(..))).collect();
    assert_eq!(late, [&Seen::Disconnected(silent_conn, DisconnectReason::Idle)]);
}

#[test]
fn nobody_is_blamed_for_what_the_game_does_not_fetch() {
    let builder = Reactor::builder()
        .idle_timeout(100 * MS)
        .frame_timeout(100 * MS)
        .batch_memory(64 * 1024)
        .frame_len_max(100_000);
    let mut arena = arena(builder);
    let (mut peer, conn) = arena.meet();
    let whole = frames([&[1; 60_000][..], &[2; 60_000], &[3; 60_000]]);
    peer.write(&whole[..whole.len() - 1]);
    let mut seen = Vec::new();
    for round in 0..20 {
        arena.world.advance(50 * MS);
        peer.write(b"");
        // The game is busy with something else and fetches now and then.
        if round % 5 == 4 {
            seen.extend(arena.server.tick());
        } else {
            seen.extend(arena.server.tick_while(Wait::No, |_, _| false));
        }
    }
    let of_peer = seen.iter().filter(|it| it.conn() == conn);
    assert!(of_peer.clone().count() >= 2, "{seen:?}");
    let ends = of_peer.filter(|it| matches!(it, Seen::Disconnected(..))).count();
    assert!(ends <= 1, "it may end, for the byte that it owes, but not while we owe it a turn");
}

#[test]
fn a_paused_connection_is_not_idle() {
    let mut arena = arena(Reactor::builder().idle_timeout(100 * MS).frame_timeout(100 * MS));
    let (mut peer, conn) = arena.meet();
    peer.write(&frame(b"later")[..6]);
    arena.ticks(2);
    assert!(arena.server.reactor.outbox().pause_read(conn));
    peer.write(&frame(b"later")[6..]);
    assert_eq!(arena.ticks(1_000), []);
    assert!(arena.server.reactor.outbox().resume_read(conn));
    assert_eq!(messages(&arena.ticks(3), conn), [b"later"]);
}

#[test]
fn ten_thousand_connections_time_out_at_their_moment_each() {
    let mut arena = arena(Reactor::builder().idle_timeout(SECOND));
    let _peers: Vec<RawPeer> = (0..10_000).map(|_| arena.knock()).collect();
    let mut met = HashMap::new();
    let mut ended = 0;
    while ended < 10_000 {
        for event in arena.tick() {
            match event {
                Seen::Connected(conn) => {
                    met.insert(conn, arena.now());
                }
                Seen::Disconnected(conn, reason) => {
                    assert_eq!(reason, DisconnectReason::Idle);
                    assert_about((arena.now() - met[&conn]).as_millis(), 999);
                    ended += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_waiting_tick_wakes_up_for_the_next_deadline_and_for_nothing_else() {
    let mut arena = arena(Reactor::builder().idle_timeout(SECOND));
    let (_peer, conn) = arena.meet();
    let begin = arena.now();
    let before = arena.server.counts().waits;
    let seen = arena.server.tick_with(Wait::Event(10 * SECOND), |_, _| ());
    assert_eq!(seen, [Seen::Disconnected(conn, DisconnectReason::Idle)]);
    assert_about((arena.now() - begin).as_millis(), 999);
    assert!(arena.server.counts().waits - before <= 2);
    assert_eq!(arena.server.reactor.net().world().now(), arena.now());
    assert_eq!(arena.addr.ip(), Some(SERVER));
}

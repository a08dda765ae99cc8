//! Ends of every kind, and what is still delivered on the way there.

use tickwire::sim::{Faults, RawPeer};
use tickwire::{ConnId, DisconnectReason, Event, Reactor, SendError, SendPolicy, Wait};

use crate::harness::{
    Arena, MS, Pair, SECOND, SERVER, Seen, frame, frames, messages, payload, unframe,
};

#[test]
fn data_before_a_fin_is_all_delivered() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    let said: Vec<Vec<u8>> = (0..200).map(|n| payload(n, n)).collect();
    peer.write(&frames(&said));
    peer.close();
    let (seen, reason) = arena.until_over(conn);
    assert_eq!(messages(&seen, conn), said);
    assert_eq!(reason, DisconnectReason::ClosedByPeer);
}

#[test]
fn data_before_a_reset_is_all_delivered() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    let said: Vec<Vec<u8>> = (0..200).map(|n| payload(n, n)).collect();
    peer.write(&frames(&said));
    peer.reset();
    let (seen, reason) = arena.until_over(conn);
    assert_eq!(messages(&seen, conn), said);
    assert_eq!(reason, DisconnectReason::Reset);
}

#[test]
fn a_failed_send_does_not_cost_what_the_peer_said_before_its_reset() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(["last", "words"]));
    peer.reset();
    arena.world.advance(MS);
    // The send meets the reset first, as the flush comes before the reading, and takes its error.
    arena.server.send(conn, b"too late");
    let (seen, reason) = arena.until_over(conn);
    assert_eq!(messages(&seen, conn), [b"last".to_vec(), b"words".to_vec()]);
    assert_eq!(reason, DisconnectReason::Reset, "the reason of the send is kept");
}

#[test]
fn a_frame_that_ends_half_way_is_truncated() {
    for cut in 1..7 {
        let mut arena = Arena::new();
        let (mut peer, conn) = arena.meet();
        peer.write(&frame(b"whole"));
        peer.write(&frame(b"abc")[..cut]);
        peer.close();
        let (seen, reason) = arena.until_over(conn);
        assert_eq!(messages(&seen, conn), [b"whole"]);
        assert_eq!(reason, DisconnectReason::Truncated, "cut after {cut} bytes");
    }
}

#[test]
fn a_half_closed_peer_still_gets_its_replies() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(["ping", "pong"]));
    peer.shutdown_write();
    arena.world.advance(MS);
    let mut seen = arena.server.tick_with(Wait::No, |event, outbox| {
        if let Event::Message { conn, payload } = event {
            outbox.send(*conn, payload).expect("replies are taken while messages are fetched");
        }
    });
    arena.server.send(conn, b"and one after the loop");
    seen.extend(arena.ticks(10));
    let ends = Seen::Disconnected(conn, DisconnectReason::ClosedByPeer);
    assert_eq!(seen.iter().filter(|event| **event == ends).count(), 1);
    assert_eq!(seen.last(), Some(&ends));
    let heard = unframe(&peer.read());
    assert_eq!(heard, [b"ping".to_vec(), b"pong".to_vec(), b"and one after the loop".to_vec()]);
    assert!(peer.is_eof() && !peer.is_reset());
}

#[test]
fn replies_are_taken_until_the_tick_after_the_last_fetch() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(["a", "b", "c"]));
    peer.shutdown_write();
    // One message is fetched each tick, so for three ticks the conversation goes on.
    for reply in [b"1", b"2", b"3"] {
        arena.world.advance(MS);
        let seen = arena.server.tick_while(Wait::No, |_, _| false);
        assert!(matches!(seen[..], [Seen::Message(..)]));
        arena.server.send(conn, reply);
    }
    let (_, reason) = arena.until_over(conn);
    assert_eq!(reason, DisconnectReason::ClosedByPeer);
    assert_eq!(unframe(&peer.read()), [b"1", b"2", b"3"]);
}

#[test]
fn replies_to_a_half_closed_slow_reader_all_arrive() {
    let mut arena = Arena::with(Reactor::builder(), Faults { window: 4_096, ..Faults::default() });
    let (mut peer, conn) = arena.meet();
    peer.write(&frame(b"all of it, please"));
    peer.shutdown_write();
    arena.world.advance(MS);
    let said: Vec<Vec<u8>> = (0..10).map(|n| payload(n, 10_000)).collect();
    arena.server.tick_with(Wait::No, |event, outbox| {
        if let Event::Message { conn, .. } = event {
            for part in &said {
                outbox.send(*conn, part).expect("the queue has room");
            }
        }
    });
    let mut heard = Vec::new();
    let mut seen = Vec::new();
    while !peer.is_eof() {
        heard.extend(peer.read_at_most(1_000));
        seen.extend(arena.tick());
        assert!(heard.len() <= 100_040);
    }
    seen.extend(arena.ticks(3));
    assert_eq!(unframe(&heard), said);
    assert_eq!(seen, [Seen::Disconnected(conn, DisconnectReason::ClosedByPeer)]);
}

#[test]
fn replies_to_a_half_closed_peer_that_never_reads_end_at_the_deadline() {
    let builder = Reactor::builder().close_timeout(SECOND);
    let mut arena = Arena::with(builder, Faults { window: 4_096, ..Faults::default() });
    let (mut peer, conn) = arena.meet();
    peer.write(&frame(b"tell me"));
    peer.shutdown_write();
    arena.world.advance(MS);
    arena.server.tick_with(Wait::No, |event, outbox| {
        if let Event::Message { conn, .. } = event {
            outbox.send(*conn, &[7; 16_000]).expect("the queue has room");
        }
    });
    let begin = arena.now();
    let (_, reason) = arena.until_over(conn);
    assert_eq!(reason, DisconnectReason::CloseDeadline);
    let took = arena.now() - begin;
    assert!(took >= SECOND && took < SECOND + 20 * MS, "{took:?}");
    assert!(peer.is_reset());
}

#[test]
fn o17_closing_delivers_a_mebibyte_to_a_slow_reader() {
    let mut arena =
        Arena::with(Reactor::builder(), Faults { window: 32 * 1024, ..Faults::default() });
    let (mut peer, conn) = arena.meet();
    let said: Vec<Vec<u8>> = (0..63).map(|n| payload(n, 16_384)).collect();
    for part in &said {
        arena.server.send(conn, part);
    }
    assert!(arena.server.reactor.outbox().close(conn));
    assert_eq!(arena.server.reactor.outbox().send(conn, b"x"), Err(SendError::Closing));
    let mut heard = Vec::new();
    let mut seen = Vec::new();
    while !peer.is_eof() {
        heard.extend(peer.read_at_most(8 * 1024));
        seen.extend(arena.tick());
        assert!(arena.world.quiet_for().is_some() || !peer.is_reset());
    }
    assert_eq!(unframe(&heard), said);
    assert!(!peer.is_reset());
    peer.close();
    seen.extend(arena.ticks(5));
    assert_eq!(seen, [Seen::Disconnected(conn, DisconnectReason::ClosedByUs)]);
    assert_eq!(arena.world.open_sockets(SERVER), 1);
}

#[test]
fn closing_discards_input_instead_of_resetting_what_leaves() {
    // Closing a socket with unread input resets it and loses what was queued: here it would.
    let faults = Faults { window: 4_096, reset_overtakes: 1_000, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let (mut peer, conn) = arena.meet();
    let said: Vec<Vec<u8>> = (0..20).map(|n| payload(n, 1_000)).collect();
    for part in &said {
        arena.server.send(conn, part);
    }
    assert!(arena.server.reactor.outbox().close(conn));
    let mut heard = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..200 {
        peer.write(&frame(&[1; 100]));
        heard.extend(peer.read_at_most(500));
        seen.extend(arena.tick());
    }
    assert_eq!(unframe(&heard), said);
    assert!(peer.is_eof() && !peer.is_reset());
    peer.close();
    seen.extend(arena.ticks(5));
    assert_eq!(seen, [Seen::Disconnected(conn, DisconnectReason::ClosedByUs)]);
}

#[test]
fn o17_a_peer_that_never_reads_is_reset_at_the_close_deadline() {
    let builder = Reactor::builder().close_timeout(2 * SECOND);
    let mut arena = Arena::with(builder, Faults { window: 1_024, ..Faults::default() });
    let (peer, conn) = arena.meet();
    arena.server.send(conn, &[1; 10_000]);
    assert!(arena.server.reactor.outbox().close(conn));
    let begin = arena.now();
    let seen = arena.server.tick_with(Wait::Event(60 * SECOND), |_, _| ());
    assert_eq!(seen, [Seen::Disconnected(conn, DisconnectReason::CloseDeadline)]);
    let took = arena.now() - begin;
    assert!(took >= 2 * SECOND && took < 2 * SECOND + 20 * MS, "{took:?}");
    assert!(peer.is_reset());
}

#[test]
fn a_peer_that_never_closes_is_reset_at_the_close_deadline() {
    let mut arena = Arena::with(Reactor::builder().close_timeout(SECOND), Faults::default());
    let (mut peer, conn) = arena.meet();
    arena.server.send(conn, b"bye");
    assert!(arena.server.reactor.outbox().close(conn));
    let (_, reason) = arena.until_over(conn);
    assert_eq!(reason, DisconnectReason::CloseDeadline);
    assert_eq!(unframe(&peer.read()), [b"bye"]);
    assert!(peer.is_reset());
}

#[test]
fn a_kick_resets_and_loses_the_queue() {
    let mut arena = Arena::with(Reactor::builder(), Faults { window: 8, ..Faults::default() });
    let (mut peer, conn) = arena.meet();
    arena.server.send(conn, b"a message longer than the window");
    assert!(arena.server.reactor.outbox().kick(conn));
    assert_eq!(arena.server.reactor.outbox().send(conn, b"x"), Err(SendError::Closing));
    assert_eq!(arena.ticks(3), [Seen::Disconnected(conn, DisconnectReason::Kicked)]);
    assert!(peer.is_reset());
    assert!(unframe(&peer.read()).is_empty());
}

#[test]
fn no_message_follows_a_close_or_kick_not_even_of_the_same_batch() {
    for kick in [false, true] {
        let mut arena = Arena::new();
        let (mut noisy, noisy_conn) = arena.meet();
        let (mut other, other_conn) = arena.meet();
        noisy.write(&frames(["bad word", "more", "more"]));
        other.write(&frame(b"hello"));
        arena.world.advance(MS);
        let mut seen = arena.server.tick_with(Wait::No, |event, outbox| {
            if matches!(event, Event::Message { payload: b"bad word", .. }) {
                assert!(if kick { outbox.kick(noisy_conn) } else { outbox.close(noisy_conn) });
            }
        });
        noisy.write(&frames(["and", "more"]));
        noisy.close();
        seen.extend(arena.ticks(5));
        assert_eq!(messages(&seen, noisy_conn), [b"bad word"]);
        assert_eq!(messages(&seen, other_conn), [b"hello"]);
        let ends = seen.iter().filter(|event| matches!(event, Seen::Disconnected(..)));
        assert_eq!(ends.count(), 1);
    }
}

#[test]
fn a_connection_can_be_closed_before_its_first_message_is_fetched() {
    let mut arena = Arena::new();
    let mut peer = arena.knock();
    peer.write(&frames(["early", "bird"]));
    arena.world.advance(MS);
    let seen = arena.server.tick_with(Wait::No, |event, outbox| {
        if let Event::Connected { conn, .. } = event {
            assert!(outbox.kick(*conn));
        }
    });
    assert!(matches!(seen[..], [Seen::Connected(_)]), "{seen:?}");
    let rest = arena.ticks(3);
    assert!(matches!(rest[..], [Seen::Disconnected(_, DisconnectReason::Kicked)]), "{rest:?}");
}

#[test]
fn closing_twice_is_closing_once() {
    let mut pair = Pair::new();
    let (_, here) = pair.meet();
    for _ in 0..3 {
        assert!(pair.server.reactor.outbox().close(here));
    }
    let (at_server, _) = pair.ticks(10);
    assert_eq!(at_server, [Seen::Disconnected(here, DisconnectReason::ClosedByUs)]);
}

#[test]
fn a_kick_overrides_a_close_under_way() {
    let mut arena = Arena::new();
    let (peer, conn) = arena.meet();
    assert!(arena.server.reactor.outbox().close(conn));
    arena.ticks(3);
    assert!(arena.server.reactor.outbox().kick(conn));
    let seen = arena.ticks(3);
    assert!(matches!(seen[..], [Seen::Disconnected(ended, _)] if ended == conn), "{seen:?}");
    assert!(peer.is_reset());
}

/// A peer that has closed its write side, of whose three messages the last is not fetched yet.
fn half_closed_with_one_unfetched(arena: &mut Arena) -> (RawPeer, ConnId) {
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(["one", "two", "three"]));
    peer.shutdown_write();
    for expected in ["one", "two"] {
        arena.world.advance(MS);
        let seen = arena.server.tick_while(Wait::No, |_, _| false);
        assert_eq!(messages(&seen, conn), [expected.as_bytes()]);
    }
    (peer, conn)
}

#[test]
fn a_half_closed_peer_with_unfetched_messages_can_be_kicked() {
    let mut arena = Arena::new();
    let (_peer, conn) = half_closed_with_one_unfetched(&mut arena);
    assert!(arena.server.reactor.outbox().kick(conn));
    assert_eq!(arena.ticks(3), [Seen::Disconnected(conn, DisconnectReason::Kicked)]);
}

#[test]
fn a_half_closed_peer_may_reset_before_its_messages_are_fetched() {
    let mut arena = Arena::new();
    let (peer, conn) = half_closed_with_one_unfetched(&mut arena);
    peer.reset();
    arena.server.send(conn, b"a reply that cannot arrive");
    arena.world.advance(MS);
    let mut seen = arena.server.tick();
    // Whoever takes the slot over has a life of its own.
    let (mut next, next_conn) = arena.meet();
    next.write(&frame(b"hello"));
    seen.extend(arena.ticks(5));
    assert_eq!(messages(&seen, conn), [b"three"]);
    assert_eq!(messages(&seen, next_conn), [b"hello"]);
}

#[test]
fn a_full_queue_ends_the_connection_where_the_policy_says_so() {
    let builder = Reactor::builder()
        .frame_len_max(1_000)
        .send_queue_max(2_500)
        .send_policy(SendPolicy::Disconnect);
    let mut arena = Arena::with(builder, Faults { window: 1, ..Faults::default() });
    let (peer, conn) = arena.meet();
    let mut outbox = arena.server.reactor.outbox();
    assert_eq!(outbox.send(conn, &[0; 1_000]), Ok(()));
    assert_eq!(outbox.send(conn, &[0; 1_000]), Ok(()));
    assert_eq!(outbox.send(conn, &[0; 1_000]), Err(SendError::Full));
    let (_, reason) = arena.until_over(conn);
    assert_eq!(reason, DisconnectReason::SendQueueFull);
    assert!(peer.is_reset());
}

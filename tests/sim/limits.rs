//! What happens where a bound is met, and that life goes on afterwards.

use std::time::Duration;

use tickwire::sim::{Faults, RawPeer};
use tickwire::{ConnId, DisconnectReason, Error, Framing, Reactor, SendError, Wait};

use crate::harness::{
    Arena, MS, Pair, SECOND, SERVER, Seen, frame, frames, messages, payload, unframe,
};

/// The connections that began.
fn newcomers(seen: &[Seen]) -> Vec<ConnId> {
    let began = seen.iter().filter(|event| matches!(event, Seen::Connected(_)));
    began.map(Seen::conn).collect()
}

#[test]
fn o10_without_descriptors_clients_wait_and_get_in_when_we_close_one() {
    let faults = Faults { descriptors_max: 3, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let peers: Vec<RawPeer> = (0..4).map(|_| arena.knock()).collect();
    let in_now = newcomers(&arena.ticks(100));
    assert_eq!(in_now.len(), 2, "the listener has the third");
    assert!(peers.iter().all(RawPeer::is_connected), "the others wait in the backlog");
    // Nobody new arrives, so no edge tells that there is room: the reactor has to remember.
    assert!(arena.server.reactor.outbox().kick(in_now[0]));
    let seen = arena.ticks(3);
    assert_eq!(newcomers(&seen).len(), 1);
}

#[test]
fn o10_without_descriptors_accept_is_retried_without_spinning() {
    let faults = Faults { descriptors_max: 2, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let _peers: Vec<RawPeer> = (0..3).map(|_| arena.knock()).collect();
    arena.ticks(10);
    let before = arena.server.counts().accepts;
    arena.ticks(1_000);
    let tried = arena.server.counts().accepts - before;
    assert!((10..=25).contains(&tried), "{tried} accepts in a second: every 50 ms was promised");
    // Somebody else in the process frees descriptors, of which nothing tells either.
    arena.world.set_faults(Faults::default());
    assert_eq!(newcomers(&arena.ticks(60)).len(), 2);
}

#[test]
fn o10_without_descriptors_a_waiting_tick_wakes_up_for_the_retry() {
    let faults = Faults { descriptors_max: 2, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let _peers: Vec<RawPeer> = (0..2).map(|_| arena.knock()).collect();
    arena.ticks(10);
    arena.world.set_faults(Faults::default());
    let begin = arena.now();
    let seen = arena.server.tick_with(Wait::Event(10 * SECOND), |_, _| ());
    assert_eq!(newcomers(&seen).len(), 1);
    assert!(arena.now() - begin <= 60 * MS);
}

#[test]
fn the_accept_budget_is_that_of_a_tick_however_often_it_looks() {
    for wait in [Duration::ZERO, 40 * MS] {
        let mut arena = Arena::with(Reactor::builder().accept_budget(3), Faults::default());
        let _peers: Vec<RawPeer> = (0..10).map(|_| arena.knock()).collect();
        for left in [7, 4, 1, 0] {
            let until = arena.now() + wait;
            arena.server.tick_with(Wait::Until(until), |_, _| ());
            assert_eq!(arena.world.backlog(SERVER), left, "waiting {wait:?}");
        }
    }
}

#[test]
fn at_the_connection_limit_clients_wait_and_get_in_when_one_leaves() {
    let mut arena = Arena::with(Reactor::builder().connections_max(2), Faults::default());
    let mut peers: Vec<RawPeer> = (0..4).map(|_| arena.knock()).collect();
    for peer in &mut peers {
        peer.write(&frame(b"hello"));
    }
    let mut seen = arena.ticks(20);
    let in_now = newcomers(&seen);
    assert_eq!(in_now.len(), 2);
    assert_eq!(arena.server.reactor.connections(), 2);
    peers.remove(0).close();
    seen.extend(arena.ticks(10));
    assert_eq!(newcomers(&seen).len(), 3);
    assert!(arena.server.reactor.outbox().kick(in_now[1]));
    seen.extend(arena.ticks(10));
    let all = newcomers(&seen);
    assert_eq!(all.len(), 4);
    for conn in all {
        assert_eq!(messages(&seen, conn), [b"hello"], "what was said while waiting is not lost");
    }
}

#[test]
fn at_the_connection_limit_a_connect_is_refused_at_once() {
    let builder = Reactor::builder().connections_max(1);
    let mut pair = Pair::with(Reactor::builder(), builder, Faults::default());
    pair.meet();
    let refused = pair.client.reactor.connect(&pair.addr).expect_err("no room");
    assert!(matches!(refused, Error::ConnectionsMax { limit: 1 }));
}

#[test]
fn accept_errors_do_not_end_the_listener() {
    let faults = Faults {
        accept_errors: 300,
        accept_interrupted: 200,
        accept_blocked: 200,
        accept_shortage: 100,
        ..Faults::default()
    };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let mut peers = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..300 {
        peers.push(arena.knock());
        seen.extend(arena.tick());
    }
    // Each shortage costs 50 ms.
    seen.extend(arena.ticks(5_000));
    let lost = peers.iter().filter(|peer| peer.is_reset()).count();
    assert!(lost > 10, "some were lost with the error");
    assert_eq!(newcomers(&seen).len() + lost, 300, "and nobody else");
}

#[test]
fn a_socket_that_the_poller_does_not_take_is_given_back() {
    let faults = Faults { register_errors: 500, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let peers: Vec<RawPeer> = (0..50).map(|_| arena.knock()).collect();
    let seen = arena.ticks(50);
    let alive = peers.iter().filter(|peer| peer.is_connected() && !peer.is_eof()).count();
    assert!((1..50).contains(&alive), "{alive}");
    assert_eq!(arena.server.reactor.connections(), alive);
    assert_eq!(arena.world.open_sockets(SERVER), 1 + alive);
    let over = seen.iter().filter(|event| matches!(event, Seen::Disconnected(..))).count();
    assert_eq!(newcomers(&seen).len(), alive + over);
}

#[test]
fn an_oversized_header_ends_its_connection_alone() {
    for declared in [1_001, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x4745_5420_u32] {
        let builder = Reactor::builder().frame_len_max(1_000);
        let mut arena = Arena::with(builder, Faults::default());
        let (mut bad, bad_conn) = arena.meet();
        let (mut good, good_conn) = arena.meet();
        bad.write(&frames(["so far", "so good"]));
        bad.write(&declared.to_be_bytes());
        bad.write(&frame(b"never parsed"));
        good.write(&frame(b"hello"));
        let seen = arena.ticks(5);
        assert_eq!(messages(&seen, bad_conn), [b"so far".to_vec(), b"so good".to_vec()]);
        let reason = DisconnectReason::FrameTooLarge { declared: declared.into(), limit: 1_000 };
        assert!(seen.contains(&Seen::Disconnected(bad_conn, reason)), "{seen:?}");
        assert_eq!(messages(&seen, good_conn), [b"hello"]);
        good.write(&frame(b"still here"));
        assert_eq!(arena.ticks(5), [Seen::Message(good_conn, b"still here".to_vec())]);
        assert_eq!(arena.world.open_sockets(SERVER), 2);
    }
}

#[test]
fn empty_frames_are_messages_but_not_for_telepathy() {
    for (framing, is_fine) in [(Framing::LengthPrefix, true), (Framing::Telepathy, false)] {
        let mut arena = Arena::with(Reactor::builder().framing(framing), Faults::default());
        let (mut peer, conn) = arena.meet();
        let sent = arena.server.reactor.outbox().send(conn, b"");
        assert_eq!(sent, if is_fine { Ok(()) } else { Err(SendError::Empty) });
        peer.write(&frames(["", "behind"]));
        let seen = arena.ticks(3);
        let end = Seen::Disconnected(conn, DisconnectReason::BadFrame(tickwire::BadFrame::Empty));
        match is_fine {
            true => assert_eq!(messages(&seen, conn), [b"".to_vec(), b"behind".to_vec()]),
            false => assert_eq!(seen, [end]),
        }
    }
}

#[test]
fn a_full_send_queue_refuses_whole_messages_and_recovers() {
    let builder = Reactor::builder().frame_len_max(100).send_queue_max(1_000);
    let mut arena = Arena::with(builder, Faults { window: 50, ..Faults::default() });
    let (mut peer, conn) = arena.meet();
    let mut taken = Vec::new();
    let mut heard = Vec::new();
    let mut refused = 0;
    for round in 0..300 {
        let said = payload(round, round % 101);
        let mut outbox = arena.server.reactor.outbox();
        assert!(outbox.queued(conn) <= 1_000);
        match outbox.send(conn, &said) {
            Ok(()) => taken.push(said),
            Err(error) => {
                assert_eq!(error, SendError::Full);
                refused += 1;
            }
        }
        heard.extend(peer.read_at_most(20));
        arena.tick();
    }
    assert!(refused > 50);
    while arena.server.reactor.outbox().queued(conn) > 0 {
        heard.extend(peer.read());
        arena.tick();
    }
    arena.tick();
    heard.extend(peer.read());
    assert_eq!(unframe(&heard), taken);
}

#[test]
fn a_message_above_the_limit_is_refused_and_harms_nothing() {
    let mut arena = Arena::with(Reactor::builder().frame_len_max(10), Faults::default());
    let (mut peer, conn) = arena.meet();
    let mut outbox = arena.server.reactor.outbox();
    assert_eq!(outbox.send(conn, &[1; 11]), Err(SendError::TooLarge));
    assert_eq!(outbox.send_with(conn, |w| w.put_slice(&[2; 11])), Err(SendError::TooLarge));
    assert_eq!(outbox.send_with(conn, |w| w.put_slice(&[3; 10])), Ok(()));
    assert_eq!(outbox.queued(conn), 14);
    arena.tick();
    assert_eq!(unframe(&peer.read()), [[3; 10]]);
}

#[test]
fn a_broadcast_reaches_all_and_lists_who_refused() {
    let builder = Reactor::builder().frame_len_max(40_000).send_queue_max(50_000);
    let mut arena = Arena::with(builder, Faults::default());
    let mut met: Vec<(RawPeer, ConnId)> = (0..5).map(|_| arena.meet()).collect();
    let ids: Vec<ConnId> = met.iter().map(|(_, conn)| *conn).collect();
    // Small ones are copied, large ones shared; the order on each wire is that of the calls.
    arena.server.send(ids[4], &[9; 20_000]);
    let said = [payload(1, 10), payload(2, 30_000), payload(3, 0), payload(4, 16_384)];
    for (nth, part) in said.iter().enumerate() {
        let mut outbox = arena.server.reactor.outbox();
        let broadcast = outbox.broadcast(&ids, part);
        let refused: &[_] = if nth == 1 { &[(ids[4], SendError::Full)] } else { &[] };
        assert_eq!((broadcast.sent, broadcast.refused), (5 - refused.len(), refused));
    }
    arena.ticks(3);
    for (nth, (peer, _)) in met.iter_mut().enumerate() {
        let mut expected = said.to_vec();
        if nth == 4 {
            expected[1] = vec![9; 20_000];
            expected.swap(0, 1);
        }
        assert_eq!(unframe(&peer.read()), expected, "peer {nth}");
    }
}

#[test]
fn a_send_buffer_shortage_is_overcome_without_an_edge() {
    let faults = Faults { send_shortage: 700, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let (mut peer, conn) = arena.meet();
    let said: Vec<Vec<u8>> = (0..20).map(|n| payload(n, 1_000)).collect();
    for part in &said {
        arena.server.send(conn, part);
        arena.tick();
    }
    let seen = arena.ticks(2_000);
    assert_eq!(seen, []);
    assert_eq!(unframe(&peer.read()), said);
}

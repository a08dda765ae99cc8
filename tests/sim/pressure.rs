//! Back-pressure: queues that rise and fall, rates, and the memory of all together.

use tickwire::sim::Faults;
use tickwire::{Builder, DisconnectReason, Rate, RatePolicy, Reactor, SendError, SendPolicy};

use crate::harness::{Arena, MS, SECOND, Seen, frame, frames, messages, unframe};

/// A server whose peers' windows are small, so that queues are ours and not the network's.
fn arena(builder: Builder) -> Arena {
    Arena::with(builder, Faults { window: 1_000, ..Faults::default() })
}

#[test]
fn each_crossing_of_a_water_mark_is_one_event() {
    let mut arena = arena(Reactor::builder().water_marks(5_000, 20_000));
    let (mut peer, conn) = arena.meet();
    for round in 0..3 {
        for _ in 0..30 {
            arena.server.send(conn, &[round; 996]);
        }
        assert_eq!(arena.ticks(5), [Seen::SendQueueHigh(conn)], "once, however far it rises");
        let mut seen = Vec::new();
        while arena.server.reactor.outbox().queued(conn) > 0 {
            peer.read();
            seen.extend(arena.ticks(3));
        }
        assert_eq!(seen, [Seen::SendQueueLow(conn)]);
    }
}

#[test]
fn a_queue_that_rises_while_connecting_is_told_after_the_beginning() {
    let faults = Faults { window: 1_000, ..Faults::default() };
    let builder = || Reactor::builder().water_marks(100, 2_000);
    let mut pair = crate::harness::Pair::with(Reactor::builder(), builder(), faults);
    let conn = pair.client.reactor.connect(&pair.addr).expect("room");
    pair.client.send(conn, &[1; 5_000]);
    let (_, at_client) = pair.ticks(50);
    assert_eq!(at_client[..2], [Seen::Connected(conn), Seen::SendQueueHigh(conn)]);
    assert_eq!(at_client[2..], [Seen::SendQueueLow(conn)]);
}

#[test]
fn a_soft_limit_may_be_passed_for_a_while() {
    for policy in [SendPolicy::Error, SendPolicy::Disconnect] {
        let builder = Reactor::builder().send_queue_soft(10_000, 500 * MS, policy);
        let mut arena = arena(builder);
        let (mut peer, conn) = arena.meet();
        // A burst that is read in time is fine.
        (0..30).for_each(|_| arena.server.send(conn, &[1; 996]));
        let mut bytes = Vec::new();
        for _ in 0..100 {
            bytes.extend(peer.read());
            arena.ticks(3);
        }
        assert_eq!(unframe(&bytes).len(), 30);
        arena.ticks(600);
        // Who stays behind is not.
        (0..30).for_each(|_| arena.server.send(conn, &[2; 996]));
        assert_eq!(arena.ticks(450), []);
        arena.server.send(conn, b"still taken");
        let seen = arena.ticks(100);
        match policy {
            SendPolicy::Error => {
                assert_eq!(seen, []);
                let mut outbox = arena.server.reactor.outbox();
                assert_eq!(outbox.send(conn, b"x"), Err(SendError::Full));
                while arena.server.reactor.outbox().queued(conn) > 10_000 {
                    peer.read();
                    arena.ticks(3);
                }
                arena.server.send(conn, b"taken again");
            }
            _ => assert_eq!(seen, [Seen::Disconnected(conn, DisconnectReason::SendQueueFull)]),
        }
    }
}

#[test]
fn all_queues_together_have_a_limit() {
    for policy in [SendPolicy::Error, SendPolicy::Disconnect] {
        let builder = Reactor::builder()
            .frame_len_max(1_000)
            .send_queue_max(10_000)
            .buffered_max(20_000)
            .send_policy(policy);
        let mut arena = arena(builder);
        let (_greedy, greedy) = arena.meet();
        let (_other, other) = arena.meet();
        (0..9).for_each(|_| arena.server.send(greedy, &[1; 996]));
        (0..6).for_each(|_| arena.server.send(other, &[1; 996]));
        let mut outbox = arena.server.reactor.outbox();
        assert_eq!(outbox.send(other, &[1; 996]), Err(SendError::Full));
        assert_eq!(arena.server.reactor.stats().bytes_queued, 15_000);
        let seen = arena.ticks(3);
        match policy {
            SendPolicy::Error => assert_eq!(seen, []),
            _ => {
                assert_eq!(seen, [Seen::Disconnected(other, DisconnectReason::MemoryLimit)]);
                arena.server.send(greedy, &[1; 996]);
            }
        }
    }
}

#[test]
fn unfinished_input_counts_too() {
    let builder =
        Reactor::builder().frame_len_max(50_000).send_queue_max(60_000).buffered_max(80_000);
    let mut arena = arena(builder);
    let (mut first, first_conn) = arena.meet();
    let (mut second, second_conn) = arena.meet();
    let begun = &frame(&[1; 50_000])[..45_000];
    first.write(begun);
    second.write(begun);
    let (_, reason) = arena.until_over(second_conn);
    assert_eq!(reason, DisconnectReason::MemoryLimit);
    first.write(&frame(&[1; 50_000])[45_000..]);
    let seen = arena.until(|seen| matches!(seen, Seen::Message(..)));
    assert_eq!(messages(&seen, first_conn), [[1; 50_000]]);
    arena.ticks(2);
    assert_eq!(arena.server.reactor.stats().bytes_unfinished, 0);
}

#[test]
fn a_slow_client_holds_one_message_of_each_kind() {
    let mut arena = arena(Reactor::builder());
    let (mut peer, conn) = arena.meet();
    for number in 0..100u8 {
        let mut outbox = arena.server.reactor.outbox();
        outbox.send_latest(conn, 1, &[1, number].repeat(400)).expect("room");
        outbox.send_latest(conn, 2, &[2, number].repeat(400)).expect("room");
        if number % 25 == 0 {
            outbox.send(conn, &[0, number]).expect("room");
        }
        assert!(outbox.queued(conn) <= 4 * 804 + 4 * 6, "two have begun to leave, two wait");
        arena.tick();
    }
    let mut bytes = Vec::new();
    for _ in 0..50 {
        bytes.extend(peer.read());
        arena.ticks(2);
    }
    let got: Vec<(u8, u8)> = unframe(&bytes).iter().map(|it| (it[0], it[1])).collect();
    let of = |kind: u8| got.iter().filter(move |it| it.0 == kind).map(|it| it.1);
    assert_eq!(of(0).collect::<Vec<_>>(), [0, 25, 50, 75], "the others are not touched");
    for kind in [1, 2] {
        let numbers: Vec<u8> = of(kind).collect();
        assert!(numbers.is_sorted() && numbers.last() == Some(&99), "{numbers:?}");
        assert!(numbers.len() < 10, "{numbers:?}");
    }
    assert!(arena.server.reactor.stats().messages_superseded > 180);
}

#[test]
fn a_refused_latest_message_leaves_the_older_one() {
    let mut arena = arena(Reactor::builder().frame_len_max(1_000).send_queue_max(1_500));
    let (mut peer, conn) = arena.meet();
    let mut outbox = arena.server.reactor.outbox();
    outbox.send(conn, &[0; 600]).expect("room");
    outbox.send_latest(conn, 1, &[1; 500]).expect("room");
    assert_eq!(outbox.send_latest(conn, 1, &[2; 900]), Err(SendError::Full));
    outbox.send_latest(conn, 1, &[3; 800]).expect("the older one makes room");
    arena.ticks(3);
    let mut bytes = peer.read();
    arena.ticks(3);
    bytes.extend(peer.read());
    assert_eq!(unframe(&bytes), [vec![0; 600], vec![3; 800]]);
}

#[test]
fn a_rate_slows_the_peer_and_loses_nothing() {
    let builder = Reactor::builder().message_rate(Rate::per_second(100).burst(10));
    let mut arena = Arena::with(builder, Faults::default());
    let (mut flooder, flooder_conn) = arena.meet();
    let (mut other, other_conn) = arena.meet();
    flooder.write(&frames((0..110u8).map(|number| [number])));
    let begin = arena.now();
    let mut got = Vec::new();
    let mut rounds = 0;
    while got.len() < 110 {
        if rounds % 100 == 0 {
            other.write(&frame(b"me"));
            let seen = arena.ticks(3);
            assert_eq!(messages(&seen, other_conn), [b"me"], "nobody else is slowed");
            got.extend(messages(&seen, flooder_conn));
        }
        got.extend(messages(&arena.tick(), flooder_conn));
        rounds += 1;
    }
    assert_eq!(got.concat(), (0..110).collect::<Vec<u8>>());
    let took = (arena.now() - begin).as_millis();
    assert!((990..1_400).contains(&took), "100 messages beyond the burst in {took} ms");
}

#[test]
fn a_byte_rate_slows_the_peer_and_loses_nothing() {
    let builder = Reactor::builder().byte_rate(Rate::per_second(10_000).burst(2_000));
    let mut arena = Arena::with(builder, Faults::default());
    let (mut flooder, conn) = arena.meet();
    flooder.write(&frames((0..12u8).map(|number| [number; 996])));
    let begin = arena.now();
    let mut got = Vec::new();
    while got.len() < 12 {
        got.extend(messages(&arena.tick(), conn));
    }
    assert!(got.iter().zip(0..).all(|(message, number)| *message == [number; 996]));
    let took = (arena.now() - begin).as_millis();
    assert!((950..1_400).contains(&took), "10,000 bytes beyond the burst in {took} ms");
}

#[test]
fn a_rate_may_be_the_end_and_a_waiting_tick_knows_when_to_go_on() {
    let rate = Rate::per_second(10).burst(5);
    let builder = Reactor::builder().message_rate(rate).rate_policy(RatePolicy::Disconnect);
    let mut arena = Arena::with(builder, Faults::default());
    let (mut peer, conn) = arena.meet();
    peer.write(&frames([[1]; 5]));
    assert_eq!(messages(&arena.ticks(3), conn).len(), 5);
    arena.ticks(100);
    peer.write(&frames([[2]; 2]));
    let (_, reason) = arena.until_over(conn);
    assert_eq!(reason, DisconnectReason::RateLimit);

    let mut arena = Arena::with(Reactor::builder().message_rate(rate), Faults::default());
    let (mut peer, conn) = arena.meet();
    peer.write(&frames([[1]; 6]));
    assert_eq!(messages(&arena.ticks(2), conn).len(), 5);
    let begin = arena.now();
    let before = arena.server.counts().waits;
    let seen = arena.server.tick_with(tickwire::Wait::Event(10 * SECOND), |_, _| ());
    assert_eq!(messages(&seen, conn).len(), 1);
    assert!((arena.now() - begin).as_millis() <= 101);
    assert!(arena.server.counts().waits - before <= 4, "it sleeps until then");
}

/// Who drips, who sends only headers and who never reads cost a healthy player nothing: its message comes with the
/// next look, and what they hold stays bounded.
#[test]
fn a_crowd_of_hostile_peers_costs_a_healthy_one_nothing() {
    let builder = Reactor::builder().frame_len_max(1_000).send_queue_max(4_000);
    let mut arena = arena(builder);
    let mut hostile = Vec::new();
    for number in 0..900 {
        let (peer, conn) = arena.meet();
        hostile.push((number % 3, peer, conn));
    }
    let (mut healthy, healthy_conn) = arena.meet();
    let drip = frame(&[1; 1_000]);
    let mut got = 0;
    for round in 0..200u8 {
        for (kind, peer, _) in &mut hostile {
            match kind {
                0 => peer.write(&drip[usize::from(round)..][..1]),
                1 if round < 4 => peer.write(&[0, 0, 3, 0][usize::from(round)..][..1]),
                _ => {} // says nothing more, or never reads
            }
        }
        healthy.write(&frame(&[round]));
        let seen = arena.ticks(2);
        got += messages(&seen, healthy_conn).len();
        assert_eq!(got, usize::from(round) + 1, "within two ticks");
        let deaf = hostile.iter().filter(|(kind, ..)| *kind == 2).map(|(.., conn)| *conn);
        arena.server.reactor.outbox().broadcast(deaf, &[7; 500]);
    }
    let stats = arena.server.reactor.stats();
    assert!(stats.bytes_queued <= 300 * 4_000, "{stats}");
    assert!(stats.bytes_unfinished <= 600 * 1_004, "{stats}");
    assert_eq!(stats.ended, 0);
}

#[test]
fn a_large_encoded_message_that_is_refused_costs_no_memory_afterwards() {
    let mut arena = arena(Reactor::builder());
    let (_peer, conn) = arena.meet();
    let mut outbox = arena.server.reactor.outbox();
    let refused = outbox.send_with(conn, |w| w.put_bytes(1, 10_000_000));
    assert_eq!(refused, Err(SendError::TooLarge));
    outbox.send_with(conn, |w| w.put_bytes(1, 100)).expect("room");
    arena.ticks(3);
    for _ in 0..40 {
        arena.world.advance(SECOND);
        arena.tick();
    }
    assert!(arena.server.reactor.stats().bytes_pooled < 1_000_000);
}

/// After a burst memory shrinks: half of what nobody needs each second.
#[test]
fn o18_after_a_burst_the_pools_give_back_what_nobody_needs() {
    let builder = Reactor::builder().frame_len_max(100_000).send_queue_max(300_000);
    let mut arena = arena(builder);
    let mut peers: Vec<_> = (0..50).map(|_| arena.meet()).collect();
    for (peer, conn) in &mut peers {
        peer.write(&frame(&[1; 60_000]));
        arena.server.send(*conn, &[2; 60_000]);
    }
    while arena.server.reactor.stats().messages_received < 50
        || arena.server.reactor.stats().bytes_queued > 0
    {
        arena.tick();
        peers.iter_mut().for_each(|(peer, _)| drop(peer.read()));
    }
    arena.ticks(2);
    let before = arena.server.reactor.stats().bytes_pooled;
    assert!(before > 50 * 65_536, "{before} bytes were needed");
    for _ in 0..20 {
        arena.world.advance(SECOND);
        arena.tick();
    }
    assert_eq!(arena.server.reactor.stats().bytes_pooled, 0);
}

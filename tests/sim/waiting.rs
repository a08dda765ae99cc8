//! What `Wait` promises, in virtual time.

use std::time::Duration;

use tickwire::sim::{Faults, RawPeer};
use tickwire::{ConnId, Reactor, Tick, Wait};

use crate::harness::{Arena, CLIENT, MS, SECOND, SERVER, Seen, frame, frames, messages, payload};

fn slow_link(delay: Duration) -> Faults {
    Faults { delay_min: delay, delay_max: delay, ..Faults::default() }
}

#[test]
fn no_wait_takes_no_time() {
    let mut arena = Arena::new();
    let begin = arena.now();
    for _ in 0..10 {
        arena.server.tick();
    }
    assert_eq!(arena.now(), begin);
    assert_eq!(arena.server.counts().sleeps, 0);
}

#[test]
fn waiting_for_an_event_ends_with_the_first() {
    let mut arena = Arena::with(Reactor::builder(), slow_link(7 * MS));
    let (mut peer, conn) = arena.meet();
    arena.ticks(20);
    let begin = arena.now();
    peer.write(&frame(b"first"));
    arena.world.partition(CLIENT, [10, 0, 0, 9].into());
    let seen = arena.server.tick_with(Wait::Event(SECOND), |_, _| ());
    assert_eq!(seen, [Seen::Message(conn, b"first".to_vec())]);
    assert_eq!(arena.now() - begin, 7 * MS);
}

/// Receives of 70,000 bytes, so that two of them are more than the 128 KiB after which such a tick may end: in the arena, where
/// whole messages lie, and in the rings, where large ones are put together. It does not end before as many peers have had
/// a turn as the promise of fairness takes (R ready peers, q frames of one peer in a tick, E events in a tick: ⌈R·q/E⌉ + 1 ticks).
#[test]
fn a_tick_that_waits_for_events_leaves_what_is_beyond_the_cache_to_the_next() {
    const PEERS: usize = 8;
    let large = (100_000 - 4, 30_000);
    for (q, turns, (len, first_part)) in
        [(8_192, 2, (7_000 - 4, 0)), (8_192, 2, large), (4_096, 4, large)]
    {
        let builder = Reactor::builder().frame_quantum(q).event_budget(16_384);
        let builder = builder.frame_len_max(100_000).send_queue_max(1 << 20);
        let faults = Faults { window: 1 << 20, ..Faults::default() };
        let mut arena = Arena::with(builder, faults);
        let mut met: Vec<_> = (0..PEERS).map(|_| arena.meet()).collect();
        let sent = frame(&payload(1, len)).repeat((70_000 + first_part) / (len + 4));
        let send = |arena: &mut Arena, met: &mut [(RawPeer, ConnId)], part: &[u8]| {
            met.iter_mut().for_each(|(peer, _)| peer.write(part));
            arena.world.advance(10 * MS);
        };
        for all_at_once in [false, true] {
            send(&mut arena, &mut met, &sent[..first_part]);
            assert_eq!(arena.ticks(2), [], "nothing whole yet");
            send(&mut arena, &mut met, &sent[first_part..]);
            let each = sent.len() / (len + 4);
            let wait = if all_at_once { Wait::No } else { Wait::Event(SECOND) };
            let mut ticks = Vec::new();
            while ticks.iter().sum::<usize>() < PEERS * each {
                ticks.push(arena.server.tick_with(wait, |_, _| ()).len());
            }
            match all_at_once {
                true => {
                    assert_eq!(ticks, [PEERS * each], "a game that looks once a frame gets all")
                }
                false => assert_eq!(ticks, vec![turns * each; PEERS / turns]),
            }
        }
    }
}

#[test]
fn waiting_for_an_event_ends_after_its_time() {
    let mut arena = Arena::new();
    let (_peer, _) = arena.meet();
    let begin = arena.now();
    assert_eq!(arena.server.tick_with(Wait::Event(50 * MS), |_, _| ()), []);
    assert_eq!(arena.now() - begin, 50 * MS);
    assert_eq!(arena.server.tick_with(Wait::Event(Duration::ZERO), |_, _| ()), []);
    assert_eq!(arena.now() - begin, 50 * MS);
}

#[test]
fn a_piece_of_a_frame_is_no_event() {
    let mut arena = Arena::with(Reactor::builder(), slow_link(MS));
    let (mut peer, conn) = arena.meet();
    arena.ticks(5);
    let bytes = frame(b"in pieces");
    let begin = arena.now();
    peer.write_cut(&bytes, &[1, 4, 6]);
    arena.world.set_faults(slow_link(30 * MS));
    peer.write(&frame(b"next"));
    arena.world.set_faults(Faults { recv_segments: true, ..Faults::default() });
    let seen = arena.server.tick_with(Wait::Event(SECOND), |_, _| ());
    assert_eq!(messages(&seen, conn), [b"in pieces"]);
    assert_eq!(arena.now() - begin, MS);
    // Half a frame alone does not end the wait early.
    arena.until(|seen| matches!(seen, Seen::Message(..)));
    peer.write(&bytes[..5]);
    let begin = arena.now();
    assert_eq!(arena.server.tick_with(Wait::Event(40 * MS), |_, _| ()), []);
    assert_eq!(arena.now() - begin, 40 * MS);
}

#[test]
fn waiting_for_an_event_does_not_wait_while_events_are_unfetched() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(["a", "b"]));
    arena.world.advance(MS);
    arena.server.tick_while(Wait::No, |_, _| false);
    let begin = arena.now();
    let seen = arena.server.tick_with(Wait::Event(SECOND), |_, _| ());
    assert_eq!(messages(&seen, conn), [b"b"]);
    assert_eq!(arena.now(), begin);
}

#[test]
fn waiting_for_an_event_does_not_wait_while_a_budget_left_something() {
    let mut arena = Arena::with(Reactor::builder().frame_quantum(2), Faults::default());
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(["a", "b", "c", "d", "e"]));
    arena.world.advance(MS);
    let begin = arena.now();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.extend(arena.server.tick_with(Wait::Event(SECOND), |_, _| ()));
    }
    assert_eq!(messages(&seen, conn).len(), 5);
    assert_eq!(arena.now(), begin);
}

#[test]
fn a_spurious_wake_up_is_no_event() {
    let faults = Faults { spurious: 900, early: 300, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let (_peer, _) = arena.meet();
    let begin = arena.now();
    assert_eq!(arena.server.tick_with(Wait::Event(50 * MS), |_, _| ()), []);
    assert!(arena.now() - begin >= 50 * MS);
}

#[test]
fn waiting_until_a_moment_never_ends_before_it() {
    let mut arena = Arena::with(Reactor::builder(), slow_link(3 * MS));
    let (mut peer, conn) = arena.meet();
    arena.ticks(10);
    for micros in [1, 300, 1_000, 3_999, 4_000, 4_001, 16_667, 100_000] {
        peer.write(&frames(["while", "waiting"]));
        let until = arena.now() + Duration::from_micros(micros);
        let mut seen = arena.server.tick_with(Wait::Until(until), |_, _| ());
        assert!(arena.now() >= until);
        assert!(arena.now() - until <= MS, "and not much later");
        // The last look is at the moment itself.
        assert_eq!(messages(&seen, conn).is_empty(), micros < 3_000, "{micros} us");
        seen.extend(arena.ticks(10));
        assert_eq!(messages(&seen, conn), [b"while".to_vec(), b"waiting".to_vec()]);
    }
}

#[test]
fn waiting_until_the_past_takes_no_time() {
    let mut arena = Arena::new();
    let begin = arena.now();
    arena.server.tick_with(Wait::Until(begin), |_, _| ());
    arena.server.tick_with(Wait::Until(begin - MS), |_, _| ());
    assert_eq!(arena.now(), begin);
}

#[test]
fn waiting_until_a_moment_looks_at_the_pace_and_not_at_each_arrival() {
    let mut arena = Arena::with(Reactor::builder().pace(4 * MS), Faults::default());
    let (mut peer, conn) = arena.meet();
    // A message every 100 us of the frame.
    for arrival in 0..160 {
        let delay = Duration::from_micros(100 * arrival);
        arena.world.set_faults(slow_link(delay));
        peer.write(&frame(&[arrival as u8]));
    }
    arena.world.set_faults(Faults::default());
    let before = arena.server.counts();
    let until = arena.now() + 16 * MS;
    let seen = arena.server.tick_with(Wait::Until(until), |_, _| ());
    let after = arena.server.counts();
    let looks = after.waits - before.waits;
    assert!((4..=6).contains(&looks), "on entry, at 4, 8, 12 and 16 ms: {looks}");
    assert!(after.recvs - before.recvs <= 2 * looks);
    assert_eq!(messages(&seen, conn).len(), 160, "all of it in one batch");
}

#[test]
fn waiting_until_a_moment_goes_on_flushing_and_accepting_when_the_budget_is_used_up() {
    let faults = Faults { window: 1_000, ..slow_link(5 * MS) };
    let mut arena = Arena::with(Reactor::builder().event_budget(1), faults);
    let (mut talker, talker_conn) = arena.meet();
    let (mut listener, listener_conn) = arena.meet();
    talker.write(&frames(vec![b"x"; 10]));
    arena.server.send(listener_conn, &payload(1, 5_000));
    arena.world.advance(20 * MS);
    arena.server.tick();
    arena.world.advance(20 * MS);
    // Of this the server hears 5 ms later, in the middle of its wait.
    assert_eq!(listener.read().len(), 1_000);
    let newcomer = arena.knock();
    let sent_before = arena.server.counts().bytes_sent;
    let until = arena.now() + 20 * MS;
    let seen = arena.server.tick_with(Wait::Until(until), |_, _| ());
    assert_eq!(seen, [Seen::Message(talker_conn, b"x".to_vec())]);
    assert_eq!(arena.server.counts().bytes_sent - sent_before, 1_000);
    assert!(newcomer.is_connected());
    assert_eq!(arena.world.backlog(SERVER), 0);
}

#[test]
fn replies_to_an_until_wait_leave_with_the_flush() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    arena.server.send(conn, b"snapshot");
    assert!(peer.read().is_empty(), "send makes no system call");
    arena.server.reactor.flush();
    assert_eq!(peer.read(), frame(b"snapshot"));
}

#[test]
fn a_tick_is_bounded_by_what_was_there_when_it_looked() {
    // Each receive takes 50 us, in which the flooder's next segment arrives: a tick that read until
    // nothing was left would never end.
    let mut arena = Arena::with(Reactor::builder(), slow_link(MS));
    let (mut peer, conn) = arena.meet();
    for nth in 0..2_000 {
        arena.world.set_faults(slow_link(Duration::from_micros(10 * nth)));
        peer.write(&frame(b"flood"));
    }
    let slow_calls = Faults { call_time_max: Duration::from_micros(50), ..Faults::default() };
    arena.world.set_faults(slow_calls);
    let begin = arena.now();
    let Tick { events, .. } = arena.server.reactor.tick(Wait::No).expect("it works");
    let first = events.remaining();
    assert!(arena.now() - begin < MS, "{:?}", arena.now() - begin);
    assert!(first < 200, "{first}");
    arena.world.set_faults(Faults::default());
    assert_eq!(messages(&arena.ticks(100), conn).len(), 2_000);
}

#[test]
fn a_sleepy_system_delays_but_never_shortens() {
    let faults = Faults { late_max: 3 * MS, early: 200, spurious: 200, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let (_peer, _) = arena.meet();
    for _ in 0..50 {
        let until = arena.now() + 10 * MS;
        arena.server.tick_with(Wait::Until(until), |_, _| ());
        assert!(arena.now() >= until);
        let begin = arena.now();
        assert_eq!(arena.server.tick_with(Wait::Event(10 * MS), |_, _| ()), []);
        assert!(arena.now() - begin >= 10 * MS);
    }
}

/// netty/netty#4082, redpanda-data/seastar#64: five ticks of a second each wait their full second.
#[test]
fn o07_a_closed_connection_wakes_nobody() {
    for resets in [false, true] {
        let mut arena =
            Arena::with(Reactor::builder(), Faults { window: 1_000, ..Faults::default() });
        let (mut peer, conn) = arena.meet();
        let stays = if resets {
            for _ in 0..60 {
                arena.server.send(conn, &[1; 16_384]);
            }
            arena.tick();
            peer.reset();
            None
        } else {
            peer.shutdown_write();
            Some(peer)
        };
        arena.until_over(conn);
        arena.tick();
        let (begin, before) = (arena.now(), arena.server.counts().waits);
        for _ in 0..5 {
            assert_eq!(arena.server.tick_with(Wait::Event(Duration::from_secs(1)), |_, _| ()), []);
        }
        assert!(arena.now() - begin >= Duration::from_secs(5));
        assert!(arena.server.counts().waits - before < 10);
        drop(stays);
    }
}

//! Nobody waits longer than promised, whatever the others do.

use tickwire::sim::{Faults, RawPeer};
use tickwire::{ConnId, Reactor, Tick, Wait};

use crate::harness::{Arena, MS, Seen, frame, frames, messages, payload};

/// Empty frames that the flooder sends.
const FLOOD: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

#[test]
fn o04_a_flood_of_empty_frames_costs_a_neighbour_at_most_two_ticks() {
    let mut arena = Arena::with(Reactor::builder(), roomy());
    let (mut flooder, noisy) = arena.meet();
    let (mut neighbour, quiet) = arena.meet();
    flooder.write(&vec![0; 4 * FLOOD]);
    let mut flood = 0;
    let mut tick = |arena: &mut Arena| {
        arena.world.advance(MS);
        let mut heard = false;
        let Tick { events, .. } = arena.server.reactor.tick(Wait::No).expect("it works");
        for event in events {
            match Seen::of(&event) {
                Seen::Message(conn, _) if conn == noisy => flood += 1,
                Seen::Message(conn, _) if conn == quiet => heard = true,
                other => panic!("unexpected: {other:?}"),
            }
        }
        heard
    };
    for _ in 0..10 {
        neighbour.write(&frame(b"am I heard?"));
        let ticks = (1..10).find(|_| tick(&mut arena)).expect("heard at last");
        assert!(ticks <= 2, "after {ticks} ticks");
    }
    for _ in 0..FLOOD / 1_000 {
        assert!(!tick(&mut arena));
    }
    assert_eq!(flood, FLOOD);
}

#[test]
fn o08_a_flood_of_large_frames_costs_a_neighbour_at_most_two_ticks() {
    let mut arena = Arena::with(Reactor::builder().batch_memory(256 * 1024), roomy());
    let (mut flooder, noisy) = arena.meet();
    let (mut neighbour, quiet) = arena.meet();
    let part = payload(1, 16_000);
    flooder.write(&frames(vec![&part; 300]));
    let mut flood = 0;
    for _ in 0..10 {
        neighbour.write(&frame(b"am I heard?"));
        let mut heard = false;
        for _ in 0..2 {
            let seen = arena.tick();
            heard |= !messages(&seen, quiet).is_empty();
            flood += messages(&seen, noisy).len();
        }
        assert!(heard);
    }
    flood += messages(&arena.ticks(100), noisy).len();
    assert_eq!(flood, 300);
}

#[test]
fn with_everybody_ready_each_is_served_within_the_bound() {
    // R ready peers, q frames of one peer in a tick, E events in a tick: ⌈R·q/E⌉ + 1 ticks.
    for (peers, quantum, budget) in
        [(10, 4_usize, 8), (7, 3, 10), (5, 1, 1), (3, 100, 64), (4, 2, 100)]
    {
        let bound = (peers * quantum).div_ceil(budget) + 1;
        let builder = Reactor::builder().frame_quantum(quantum).event_budget(budget);
        let mut arena = Arena::with(builder, roomy());
        let mut met: Vec<(RawPeer, ConnId)> = (0..peers).map(|_| arena.meet()).collect();
        for (peer, _) in &mut met {
            peer.write(&frames(vec![b"x"; 40 * quantum]));
        }
        let mut served_last = vec![0; peers];
        for tick in 1..30 {
            let seen = arena.tick();
            assert!(seen.len() <= budget, "{} events, {budget} allowed", seen.len());
            for (peer, (_, conn)) in met.iter().enumerate() {
                let served = messages(&seen, *conn).len();
                assert!(served <= quantum);
                if served > 0 {
                    served_last[peer] = tick;
                }
                let waited = tick - served_last[peer];
                assert!(
                    waited < bound,
                    "peer {peer} of {peers} waits {waited} ticks, bound {bound}"
                );
            }
        }
    }
}

#[test]
fn one_peer_brings_at_most_its_quanta_in_a_tick() {
    let builder = Reactor::builder().read_quantum(1_000).frame_quantum(7);
    let mut arena = Arena::with(builder, roomy());
    let (mut large, large_conn) = arena.meet();
    let (mut small, small_conn) = arena.meet();
    large.write(&frames(vec![[0; 96]; 100]));
    small.write(&frames(vec![[0; 1]; 100]));
    let mut heard = (0, 0);
    for _ in 0..60 {
        let seen = arena.tick();
        let brought = |conn| messages(&seen, conn).len();
        assert!(brought(large_conn) <= 7, "frames");
        assert!(brought(small_conn) <= 7, "frames");
        heard = (heard.0 + brought(large_conn), heard.1 + brought(small_conn));
    }
    assert_eq!(heard, (100, 100));
}

#[test]
fn bytes_of_one_peer_in_a_tick_are_bounded() {
    let mut arena = Arena::with(Reactor::builder().read_quantum(1_000), roomy());
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(vec![[0; 96]; 100]));
    let mut heard = 0;
    let mut bytes = arena.server.counts().bytes_received;
    for _ in 0..20 {
        heard += messages(&arena.tick(), conn).len();
        let now = arena.server.counts().bytes_received;
        assert!(now - bytes <= 1_000);
        bytes = now;
    }
    assert_eq!(heard, 100);
}

#[test]
fn a_full_batch_memory_serves_everybody_in_turn() {
    let builder = Reactor::builder().batch_memory(64 * 1024);
    let mut arena = Arena::with(builder, roomy());
    let mut met: Vec<(RawPeer, ConnId)> = (0..12).map(|_| arena.meet()).collect();
    for (peer, _) in &mut met {
        peer.write(&frames(vec![[5; 15_000]; 20]));
    }
    let mut served_last = [0; 12];
    let mut heard = [0; 12];
    for tick in 1..200 {
        let seen = arena.tick();
        for (peer, (_, conn)) in met.iter().enumerate() {
            let served = messages(&seen, *conn).len();
            heard[peer] += served;
            if served > 0 || heard[peer] == 20 {
                served_last[peer] = tick;
            }
            assert!(tick - served_last[peer] <= 12, "peer {peer} starves");
        }
    }
    assert_eq!(heard, [20; 12]);
}

#[test]
fn a_paused_peer_waits_and_loses_nothing() {
    let faults = Faults { window: 1_000, bare_edges: true, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder().frame_quantum(5), faults);
    let (mut peer, conn) = arena.meet();
    let (mut other, other_conn) = arena.meet();
    let said: Vec<Vec<u8>> = (0..100).map(|n| payload(n, n)).collect();
    peer.write(&frames(&said));
    peer.shutdown_write();
    let mut seen = arena.ticks(3);
    assert!(arena.server.reactor.outbox().pause_read(conn));
    other.write(&frame(b"am I heard?"));
    assert_eq!(arena.ticks(100), [Seen::Message(other_conn, b"am I heard?".to_vec())]);
    assert!(peer.unsent() > 3_000, "TCP holds the peer back");
    assert!(arena.server.reactor.outbox().resume_read(conn));
    seen.extend(arena.until_over(conn).0);
    assert_eq!(messages(&seen, conn), said);
}

#[test]
fn a_pause_costs_a_waiting_tick_nothing() {
    let mut arena = Arena::with(Reactor::builder().frame_quantum(1), roomy());
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(["a", "b", "c"]));
    arena.tick();
    assert!(arena.server.reactor.outbox().pause_read(conn));
    let before = arena.server.counts().waits;
    assert_eq!(arena.server.tick_with(Wait::Event(1_000 * MS), |_, _| ()), []);
    assert!(arena.server.counts().waits - before <= 3, "it sleeps");
    assert!(arena.server.reactor.outbox().resume_read(conn));
    assert_eq!(messages(&arena.ticks(3), conn), [b"b", b"c"]);
}

#[test]
fn a_crowd_of_new_clients_does_not_hold_up_those_that_are_there() {
    let mut arena = Arena::with(Reactor::builder().accept_budget(10), roomy());
    let (mut peer, conn) = arena.meet();
    let crowd: Vec<RawPeer> = (0..200).map(|_| arena.knock()).collect();
    peer.write(&frame(b"am I heard?"));
    let seen = arena.tick();
    assert_eq!(messages(&seen, conn).len(), 1);
    let mut arrived = seen.len() - 1;
    assert!(arrived <= 10);
    for _ in 0..40 {
        let new = arena.tick().len();
        assert!(new <= 10, "{new} accepted in one tick");
        arrived += new;
    }
    assert_eq!(arrived, crowd.len());
}

fn roomy() -> Faults {
    Faults { window: 64 << 20, ..Faults::default() }
}

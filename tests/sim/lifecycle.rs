//! From the first event of an id to its last.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tickwire::sim::{Faults, SimWorld};
use tickwire::{
    Addr, ConnectFailure, ConnectOptions, DisconnectReason, Event, Reactor, SendError, Tick, Wait,
};

use crate::harness::{
    Arena, CLIENT, Host, MS, Pair, SECOND, SERVER, Seen, frame, frames, messages, payload, unframe,
};

#[test]
fn a_connection_begins_speaks_and_ends() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    assert_eq!(arena.server.reactor.peer(conn), Some(peer.local_addr()));
    peer.write(&frames(["one", "", "three"]));
    peer.close();
    let (seen, reason) = arena.until_over(conn);
    assert_eq!(messages(&seen, conn), [b"one".to_vec(), Vec::new(), b"three".to_vec()]);
    assert_eq!(reason, DisconnectReason::ClosedByPeer);
    assert_eq!(arena.ticks(10), [], "and then nothing");
    assert_eq!(arena.server.reactor.connections(), 0);
    assert_eq!(arena.world.open_sockets(SERVER), 1, "the listener");
}

#[test]
fn connected_tells_the_listener_and_its_absence() {
    let mut pair = Pair::new();
    let second = pair.server.reactor.listen((SERVER, 0)).expect("a port is free");
    let addr = pair.server.reactor.local_addr(second).expect("it listens");
    let there = pair.client.reactor.connect(&addr).expect("there is room");
    let mut heard = Vec::new();
    for _ in 0..5 {
        pair.world.advance(MS);
        for (host, name) in [(&mut pair.server, "server"), (&mut pair.client, "client")] {
            host.tick_with(Wait::No, |event, _| {
                if let Event::Connected { conn, peer, listener, .. } = event {
                    heard.push((name, *conn, peer.clone(), *listener));
                }
            });
        }
    }
    heard.sort_by_key(|heard| heard.0);
    assert_eq!(heard.len(), 2);
    assert_eq!(heard[0], ("client", there, addr, None));
    assert_eq!(heard[1].3, Some(second));
    assert_eq!(heard[1].2.ip(), Some(CLIENT));
}

#[test]
fn breaking_out_of_a_batch_loses_nothing() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    let said: Vec<Vec<u8>> = (0..100).map(|n| payload(n, n * 7)).collect();
    peer.write(&frames(&said));
    peer.close();
    arena.world.advance(MS);
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(Seen::Disconnected(..))) {
        // Three events a tick, as a game with a message budget of its own does.
        let mut left = 3;
        seen.extend(arena.server.tick_while(Wait::No, |_, _| {
            left -= 1;
            left > 0
        }));
        arena.world.advance(MS);
        assert!(seen.len() < 200);
    }
    assert_eq!(messages(&seen, conn), said);
}

#[test]
fn a_panic_in_the_middle_of_a_batch_loses_only_what_was_fetched() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(["a", "b", "c"]));
    arena.world.advance(MS);
    let reactor = &mut arena.server.reactor;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let Tick { events, .. } = reactor.tick(Wait::No).expect("a simulated poller works");
        for event in events {
            assert!(!matches!(event, Event::Message { payload: b"b", .. }), "the game fails");
        }
    }));
    assert!(caught.is_err());
    assert_eq!(messages(&arena.tick(), conn), [b"c"]);
}

#[test]
fn an_unfetched_batch_comes_again_whole() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    peer.write(&frames(["a", "b"]));
    arena.world.advance(MS);
    for _ in 0..3 {
        let Tick { events, .. } = arena.server.reactor.tick(Wait::No).expect("it works");
        assert_eq!(events.remaining(), 2);
    }
    peer.write(&frame(b"c"));
    assert_eq!(messages(&arena.ticks(2), conn), [b"a", b"b", b"c"]);
}

#[test]
fn an_id_of_the_past_reaches_nobody() {
    let mut arena = Arena::new();
    let (first, old) = arena.meet();
    first.close();
    arena.until_over(old);
    // The slot is free again now, and the next connection takes it.
    let (mut second, new) = arena.meet();
    assert_eq!(old.to_bits() as u32, new.to_bits() as u32, "the same slot");
    assert_ne!(old, new);
    let mut outbox = arena.server.reactor.outbox();
    assert_eq!(outbox.send(old, b"for the first"), Err(SendError::Stale));
    assert!(!outbox.close(old));
    assert!(!outbox.kick(old));
    assert!(!outbox.is_open(old));
    assert_eq!(outbox.queued(old), 0);
    assert_eq!(outbox.peer(old), None);
    assert_eq!(outbox.send(new, b"for the second"), Ok(()));
    arena.ticks(2);
    assert!(!second.is_reset() && !second.is_eof());
    assert_eq!(unframe(&second.read()), [b"for the second"]);
}

#[test]
fn an_id_is_stale_as_soon_as_its_last_event_is_fetched() {
    let mut arena = Arena::new();
    let (peer, conn) = arena.meet();
    peer.close();
    let mut answers = Vec::new();
    for _ in 0..5 {
        arena.world.advance(MS);
        arena.server.tick_with(Wait::No, |event, outbox| {
            if matches!(event, Event::Disconnected { .. }) {
                answers.push((outbox.send(conn, b"x"), outbox.kick(conn)));
            }
        });
    }
    assert_eq!(answers, [(Err(SendError::Stale), false)]);
}

#[test]
fn messages_sent_while_connecting_arrive_in_order() {
    let faults = Faults { delay_min: 20 * MS, delay_max: 20 * MS, ..Faults::default() };
    let mut pair = Pair::with(Reactor::builder(), Reactor::builder(), faults);
    let there = pair.client.reactor.connect(&pair.addr).expect("there is room");
    let said: Vec<Vec<u8>> = (0..50).map(|n| payload(n, 10 * n)).collect();
    for part in &said {
        pair.client.send(there, part);
    }
    let (at_server, at_client) = pair.ticks(100);
    assert_eq!(at_client, [Seen::Connected(there)]);
    let here = at_server[0].conn();
    assert_eq!(messages(&at_server, here), said);
}

#[test]
fn a_refused_connect_is_one_event() {
    let mut pair = Pair::new();
    let nobody = Addr::from((SERVER, 1));
    let there = pair.client.reactor.connect(&nobody).expect("there is room");
    pair.client.send(there, b"never leaves");
    let (_, at_client) = pair.ticks(10);
    assert_eq!(at_client, [Seen::ConnectFailed(there, ConnectFailure::Refused)]);
    assert_eq!(pair.client.reactor.outbox().send(there, b"x"), Err(SendError::Stale));
    assert_eq!(pair.world.open_sockets(CLIENT), 0);
}

#[test]
fn an_unreachable_host_is_one_event() {
    let mut pair = Pair::new();
    let there = pair.client.reactor.connect("192.0.2.1:7777").expect("there is room");
    let (_, at_client) = pair.ticks(10);
    assert_eq!(at_client, [Seen::ConnectFailed(there, ConnectFailure::Unreachable)]);
}

#[test]
fn a_connect_that_fails_on_the_spot_is_one_event_too() {
    let faults = Faults { connect_unavailable: 1_000, ..Faults::default() };
    let mut pair = Pair::with(Reactor::builder(), Reactor::builder(), faults);
    let there = pair.client.reactor.connect(&pair.addr).expect("there is room");
    let (_, at_client) = pair.ticks(3);
    assert_eq!(at_client, [Seen::ConnectFailed(there, ConnectFailure::AddrNotAvailable)]);
}

#[test]
fn o16_a_connect_without_answer_ends_at_its_deadline() {
    let faults = Faults { connect_hangs: 1_000, ..Faults::default() };
    let builder = Reactor::builder().connect_timeout(3 * SECOND);
    let mut pair = Pair::with(Reactor::builder(), builder, faults);
    let own = ConnectOptions::new().timeout(SECOND);
    let begin = pair.world.now();
    let slow = pair.client.reactor.connect(&pair.addr).expect("there is room");
    let quick = pair.client.reactor.connect_with(&pair.addr, &own).expect("there is room");
    for (conn, deadline) in [(quick, SECOND), (slow, 3 * SECOND)] {
        // The deadline ends the wait: nobody has to look for it.
        let seen = pair.client.tick_with(Wait::Event(60 * SECOND), |_, _| ());
        assert_eq!(seen, [Seen::ConnectFailed(conn, ConnectFailure::TimedOut)]);
        let late = pair.world.now() - begin - deadline;
        assert!(late < 20 * MS, "{late:?} late");
    }
    assert_eq!(pair.world.open_sockets(CLIENT), 0);
}

#[test]
fn a_connect_can_be_cancelled_by_close_and_by_kick() {
    let faults = Faults { delay_min: 50 * MS, delay_max: 50 * MS, ..Faults::default() };
    let mut pair = Pair::with(Reactor::builder(), Reactor::builder(), faults);
    let closed = pair.client.reactor.connect(&pair.addr).expect("there is room");
    let kicked = pair.client.reactor.connect(&pair.addr).expect("there is room");
    pair.client.send(closed, b"never leaves");
    pair.tick();
    assert!(pair.client.reactor.outbox().close(closed));
    assert!(pair.client.reactor.outbox().kick(kicked));
    let (at_server, at_client) = pair.ticks(300);
    assert_eq!(at_client.len(), 2);
    for conn in [closed, kicked] {
        assert!(at_client.contains(&Seen::ConnectFailed(conn, ConnectFailure::Cancelled)));
    }
    assert_eq!(at_server, [], "the requests met nobody at the client");
    assert_eq!(pair.world.open_sockets(CLIENT), 0);
}

#[test]
fn both_sides_may_close_in_the_same_tick() {
    let mut pair = Pair::new();
    let (there, here) = pair.meet();
    pair.ticks(2);
    assert!(pair.client.reactor.outbox().close(there));
    assert!(pair.server.reactor.outbox().close(here));
    let (at_server, at_client) = pair.ticks(10);
    assert_eq!(at_server, [Seen::Disconnected(here, DisconnectReason::ClosedByUs)]);
    assert_eq!(at_client, [Seen::Disconnected(there, DisconnectReason::ClosedByUs)]);
}

#[test]
fn a_peer_that_resets_before_it_is_accepted_still_has_a_life() {
    let mut arena = Arena::new();
    let peer = arena.knock();
    assert!(peer.is_connected());
    let addr = peer.local_addr();
    peer.reset();
    let mut told = None;
    arena.world.advance(MS);
    arena.server.tick_with(Wait::No, |event, _| {
        if let Event::Connected { peer, .. } = event {
            told = Some(peer.clone());
        }
    });
    let rest = arena.ticks(5);
    assert_eq!(told, Some(addr), "the address that accept gave");
    assert!(rest.len() <= 1);
    assert_eq!(arena.server.reactor.connections(), 0);
}

#[test]
fn dropping_the_reactor_closes_every_socket() {
    let mut pair = Pair::new();
    let (there, _) = pair.meet();
    pair.tick();
    let Pair { world, server, mut client, .. } = pair;
    drop(server);
    assert_eq!(world.open_sockets(SERVER), 0);
    let mut seen = Vec::new();
    for _ in 0..5 {
        world.advance(MS);
        seen.extend(client.tick());
    }
    assert!(matches!(seen[..], [Seen::Disconnected(conn, _)] if conn == there));
    let again = Host::new(&world, SERVER, Reactor::builder());
    assert_eq!(again.reactor.connections(), 0);
}

#[test]
fn a_closed_listener_takes_nobody_and_harms_nobody() {
    let mut arena = Arena::new();
    let (mut peer, conn) = arena.meet();
    let extra = arena.server.reactor.listen((SERVER, 9)).expect("the port is free");
    assert!(arena.server.reactor.close_listener(extra));
    assert!(!arena.server.reactor.close_listener(extra), "only once");
    assert_eq!(arena.server.reactor.local_addr(extra), None);
    let late = arena.world.raw_connect(CLIENT, &Addr::from((SERVER, 9)));
    peer.write(&frame(b"still here"));
    assert_eq!(arena.ticks(3), [Seen::Message(conn, b"still here".to_vec())]);
    assert!(late.is_reset());
    assert!(arena.server.reactor.listen((SERVER, 9)).is_ok(), "the port is free again");
}

#[test]
fn a_reactor_meets_a_plain_listener() {
    let world = SimWorld::new(1, Faults::default());
    let mut client = Host::new(&world, CLIENT, Reactor::builder());
    let addr = "10.0.0.1:7777".parse().expect("an address");
    let mut listener = world.raw_listen(&addr, 8).expect("the port is free");
    assert_eq!(listener.local_addr(), addr);
    let conn = client.reactor.connect(&addr).expect("there is room");
    world.advance(MS);
    let mut peer = listener.accept().expect("it has come");
    peer.write(&frame(b"welcome"));
    world.advance(MS);
    assert_eq!(client.tick(), [Seen::Connected(conn), Seen::Message(conn, b"welcome".to_vec())]);
    assert!(listener.accept().is_none(), "nobody else");
    drop(listener);
    let late = client.reactor.connect(&addr).expect("there is room");
    world.advance(MS);
    assert_eq!(client.tick(), [Seen::ConnectFailed(late, ConnectFailure::Refused)]);
    assert_eq!(world.counts(CLIENT).connects, 2);
}

/// Where our own deadline is far away, the system gives up first, after some two minutes.
#[test]
fn a_connect_that_a_full_backlog_never_answers_times_out() {
    let world = SimWorld::new(1, Faults::default());
    let builder = Reactor::builder().connect_timeout(1_000 * SECOND);
    let mut client = Host::new(&world, CLIENT, builder);
    let addr = "10.0.0.1:7777".parse().expect("an address");
    let _listener = world.raw_listen(&addr, 0).expect("the port is free");
    let _first = world.raw_connect([10, 0, 0, 9].into(), &addr);
    world.advance(MS);
    let conn = client.reactor.connect(&addr).expect("there is room");
    world.advance(60 * SECOND);
    assert_eq!(client.tick(), []);
    world.advance(100 * SECOND);
    assert_eq!(client.tick(), [Seen::ConnectFailed(conn, ConnectFailure::TimedOut)]);
}

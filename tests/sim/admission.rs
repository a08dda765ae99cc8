//! Who comes in, and how the service ends.

use std::net::IpAddr;

use tickwire::sim::{Faults, RawPeer};
use tickwire::{
    AcceptPolicy, AddrFilter, ConnectFailure, DisconnectReason, Error, Reactor, SendError, Wait,
};

use crate::harness::{Arena, MS, Pair, SECOND, Seen, frame, messages, unframe};

fn connected(seen: &[Seen]) -> usize {
    seen.iter().filter(|event| matches!(event, Seen::Connected(_))).count()
}

#[test]
fn a_full_house_may_turn_clients_away_at_once() {
    let builder = Reactor::builder().connections_max(2).connections_policy(AcceptPolicy::Close);
    let mut arena = Arena::with(builder, Faults::default());
    let peers: Vec<RawPeer> = (0..4).map(|_| arena.knock()).collect();
    assert_eq!(connected(&arena.ticks(10)), 2);
    let told = peers.iter().filter(|peer| peer.is_eof() || peer.is_reset()).count();
    assert_eq!((told, arena.server.reactor.stats().turned_away), (2, 2));
}

#[test]
fn one_address_has_its_limit_and_gets_its_place_back() {
    let builder = Reactor::builder().connections_per_address_max(2);
    let mut arena = Arena::with(builder, Faults::default());
    let from = |arena: &Arena, ip: &str| -> RawPeer {
        arena.world.raw_connect(ip.parse::<IpAddr>().expect("an address"), &arena.addr)
    };
    let greedy: Vec<RawPeer> = (0..3).map(|_| from(&arena, "10.0.9.9")).collect();
    let _other = from(&arena, "10.0.9.8");
    let seen = arena.ticks(10);
    assert_eq!(connected(&seen), 3);
    assert_eq!(arena.server.reactor.stats().turned_away, 1);
    greedy.into_iter().next().expect("three knocked").close();
    arena.ticks(10);
    let _again = from(&arena, "10.0.9.9");
    assert_eq!(connected(&arena.ticks(10)), 1);
}

#[test]
fn a_filter_can_change_between_ticks() {
    let mut arena = Arena::new();
    let (mut known, known_conn) = arena.meet();
    let own: IpAddr = [10, 0, 1, 0].into();
    let prefix = tickwire::Prefix::new(own, 24).expect("a prefix");
    arena.server.reactor.set_filter(AddrFilter::new().deny(prefix));
    let banned = arena.knock();
    assert_eq!(connected(&arena.ticks(10)), 0);
    assert!(banned.is_eof() || banned.is_reset());
    known.write(&frame(b"here already"));
    assert_eq!(messages(&arena.ticks(3), known_conn), [b"here already"]);
    arena.server.reactor.set_filter(AddrFilter::new());
    let _welcome = arena.knock();
    assert_eq!(connected(&arena.ticks(10)), 1);
}

#[test]
fn a_suspended_listener_lets_clients_wait() {
    let mut arena = Arena::new();
    let (_known, _) = arena.meet();
    let port = (crate::harness::SERVER, 7778);
    let listener = arena.server.reactor.listen(port).expect("a free port");
    assert!(arena.server.reactor.suspend_listener(listener));
    let addr = arena.server.reactor.local_addr(listener).expect("it listens");
    let waiting = arena.world.raw_connect([10, 0, 7, 7].into(), &addr);
    assert_eq!(arena.ticks(20), []);
    assert!(waiting.is_connected(), "in the backlog");
    let _other = arena.knock();
    assert_eq!(connected(&arena.ticks(5)), 1, "the other listener goes on");
    // A tick that waits is not kept awake by who must wait.
    let before = arena.server.counts().waits;
    assert_eq!(arena.server.tick_with(Wait::Event(SECOND), |_, _| ()), []);
    assert!(arena.server.counts().waits - before <= 2);
    assert!(arena.server.reactor.resume_listener(listener));
    assert_eq!(connected(&arena.ticks(2)), 1, "without any new client having to come");
    arena.server.reactor.close_listener(listener);
    assert!(!arena.server.reactor.suspend_listener(listener));
}

#[test]
fn a_shutdown_says_goodbye_and_ends_everybody_once() {
    let mut arena = Arena::new();
    let (mut polite, polite_conn) = arena.meet();
    let (mut stubborn, stubborn_conn) = arena.meet();
    let (_closing, closing_conn) = arena.meet();
    arena.server.reactor.outbox().close(closing_conn);
    arena.tick();
    stubborn.write(&frame(b"never fetched"));
    let conns = [polite_conn, stubborn_conn];
    arena.server.reactor.outbox().broadcast(conns, b"goodbye");
    let deadline = arena.now() + SECOND;
    arena.server.reactor.shutdown(deadline);
    let late = arena.server.reactor.outbox().send(polite_conn, b"late");
    assert_eq!(late, Err(SendError::Closing));
    let newcomer = arena.knock();
    let mut seen = arena.ticks(5);
    assert_eq!(unframe(&polite.read()), [b"goodbye"]);
    assert_eq!(unframe(&stubborn.read()), [b"goodbye"]);
    assert!(polite.is_eof());
    assert!(!newcomer.is_connected(), "nobody listens any more");
    polite.close();
    seen.extend(arena.ticks(20));
    assert_eq!(seen, [Seen::Disconnected(polite_conn, DisconnectReason::Shutdown)]);
    let mut rest = Vec::new();
    while arena.server.reactor.connections() > 0 {
        rest.extend(arena.tick());
        assert!(arena.now() <= deadline + 5 * MS);
    }
    rest.sort_by_key(Seen::conn);
    let (first, second) = (rest[0].clone(), rest[1].clone());
    let of = |conn| if first.conn() == conn { first.clone() } else { second.clone() };
    assert_eq!(of(stubborn_conn), Seen::Disconnected(stubborn_conn, DisconnectReason::Shutdown));
    assert_eq!(of(closing_conn), Seen::Disconnected(closing_conn, DisconnectReason::CloseDeadline));
    assert!(stubborn.is_reset());
    assert!(matches!(arena.server.reactor.listen("10.0.0.1:9"), Err(Error::Shutdown)));
    assert!(matches!(arena.server.reactor.connect("10.0.0.1:9"), Err(Error::Shutdown)));
}

#[test]
fn connects_under_way_end_with_the_shutdown() {
    let mut pair = Pair::new();
    pair.world.set_faults(Faults { connect_hangs: 1_000, ..Faults::default() });
    let conn = pair.client.reactor.connect(&pair.addr).expect("room");
    pair.client.send(conn, b"never");
    pair.ticks(3);
    pair.client.reactor.shutdown(pair.world.now() + SECOND);
    let (_, at_client) = pair.ticks(3);
    assert_eq!(at_client, [Seen::ConnectFailed(conn, ConnectFailure::Shutdown)]);
    assert_eq!(pair.client.reactor.connections(), 0);
}

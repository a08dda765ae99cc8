//! Telepathy's own tests, as far as they say something about behaviour: for each a twin of ours, on real
//! sockets, without sleeps. Numbers and titles are those of its transport tests. Where we differ on
//! purpose, the difference is what is tested, and the comment says why.
//!
//! Its unit tests: `telepathy_units.rs`. That its known bugs do not happen here: `telepathy_hazards.rs`.

mod common;

use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};

use common::{Client, Pair, Seen, accept, pattern, pump, server, tick_until_remaining};
use tickwire::{
    Addr, Builder, ConnId, ConnectFailure, DisconnectReason, Error, Event, ListenOptions, Reactor,
    SendError, SendPolicy, Wait,
};

// The transport

/// 1, NextConnectionId. There the first id is 1 and each client gets the next number. Here an id is a slot
/// and its generation, since a slot is used again, and the next one cannot be foretold. As there, it is
/// never 0, which stays free for a player without a connection.
#[test]
fn t01_the_first_id_is_the_first_of_the_first_slot() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (first, _) = pair.connect();
    assert_eq!(first.to_string(), "0v1");
    assert_eq!(first.to_bits(), 1 << 32);
    assert_eq!(ConnId::from_bits(0), None);
}

/// 2, DisconnectImmediate.
#[test]
fn t02_a_connect_that_is_closed_at_once_leaves_nothing() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let conn = pair.client.connect(pair.addr).expect("room");
    assert!(pair.client.outbox().close(conn));
    assert!(!pair.client.outbox().is_open(conn));
    pair.until(|pair| pair.client.connections() == 0 && pair.server.connections() == 0);
    let cancelled = Seen::ConnectFailed(conn, ConnectFailure::Cancelled);
    assert_eq!(pair.at_client, [cancelled], "one event, and it never was connected");
}

/// 3, SpamConnect. Beside the 1000 rounds without a pause, as there, a hundred whole ones.
#[test]
fn t03_a_thousand_connects_and_closes_each_have_their_one_end() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let mut expected = Vec::new();
    for _ in 0..1_000 {
        let conn = pair.client.connect(pair.addr).expect("room");
        assert!(pair.client.outbox().is_open(conn), "it takes messages already");
        assert!(pair.client.outbox().close(conn));
        assert!(!pair.client.outbox().is_open(conn));
        expected.push(Seen::ConnectFailed(conn, ConnectFailure::Cancelled));
        if expected.len() % 100 == 0 {
            pair.tick(); // their sockets go with the flush
        }
    }
    pair.until(|pair| pair.client.connections() == 0);
    pair.at_client.sort_by_key(|seen| expected.iter().position(|other| other == seen));
    assert_eq!(pair.at_client, expected);
    pair.until(|pair| pair.server.connections() == 0);

    for _ in 0..100 {
        pair.at_server.clear();
        pair.at_client.clear();
        let (_, conn) = pair.connect();
        assert!(pair.client.outbox().is_open(conn));
        assert!(pair.client.outbox().kick(conn));
        assert!(!pair.client.outbox().is_open(conn));
        pair.until(|pair| pair.client.connections() == 0 && pair.server.connections() == 0);
        assert_eq!(pair.at_client, [Seen::Disconnected(conn, DisconnectReason::Kicked)]);
    }
}

/// 4, SpamSend: 1000 times 99,999 bytes where 16 KiB are the most.
#[test]
fn t04_a_thousand_too_large_sends_change_nothing() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (theirs, ours) = pair.connect();
    let payload = pattern(99_999);
    for _ in 0..1_000 {
        assert_eq!(pair.client.outbox().send(ours, &payload), Err(SendError::TooLarge));
    }
    assert_eq!(pair.client.outbox().queued(ours), 0);
    assert!(pair.client.outbox().close(ours));
    pair.until(|pair| pair.client.connections() == 0 && pair.server.connections() == 0);
    assert_eq!(pair.at_client, [Seen::Disconnected(ours, DisconnectReason::ClosedByUs)]);
    assert_eq!(pair.at_server, [Seen::Disconnected(theirs, DisconnectReason::ClosedByPeer)]);
}

/// 5, Reconnect.
#[test]
fn t05_a_second_connection_begins_with_connected() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (_, first) = pair.connect();
    assert!(pair.client.outbox().close(first));
    // At once, before the first one's end was told: its last event is still its own.
    let second = pair.client.connect(pair.addr).expect("room");
    assert_ne!(first, second);
    pair.until(|pair| pair.at_client.len() == 2);
    let of = |conn: ConnId| move |seen: &&Seen| is_of(seen, conn);
    let firsts: Vec<_> = pair.at_client.iter().filter(of(first)).collect();
    let seconds: Vec<_> = pair.at_client.iter().filter(of(second)).collect();
    assert_eq!(firsts, [&Seen::Disconnected(first, DisconnectReason::ClosedByUs)]);
    assert_eq!(seconds, [&Seen::Connected(second)]);
}

/// 6, Server.
#[test]
fn t06_the_server_sees_connected_the_text_and_disconnected() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let ours = pair.client.connect(pair.addr).expect("room");
    pair.client.outbox().send(ours, "Grüße, Welt".as_bytes()).expect("room");
    pair.client.flush();
    pair.until(|pair| pair.at_server.len() == 2);
    assert!(pair.client.outbox().close(ours));
    pair.until(|pair| pair.at_server.len() == 3);
    let conn = conn_of(&pair.at_server[0]);
    assert_eq!(
        pair.at_server,
        [
            Seen::Connected(conn),
            Seen::Message(conn, "Grüße, Welt".into()),
            Seen::Disconnected(conn, DisconnectReason::ClosedByPeer),
        ]
    );
}

/// 7, Client. Stopping a server is dropping its reactor.
#[test]
fn t07_the_client_sees_connected_the_text_and_disconnected() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (theirs, ours) = pair.connect();
    pair.server.outbox().send(theirs, "Grüße, Welt".as_bytes()).expect("room");
    pair.until(|pair| !pair.at_client.is_empty());
    pair.server = Reactor::new().expect("a poller"); // and the old one is dropped
    pair.until(|pair| pair.at_client.len() == 2);
    assert_eq!(
        pair.at_client,
        [
            Seen::Message(ours, "Grüße, Welt".into()),
            Seen::Disconnected(ours, DisconnectReason::ClosedByPeer),
        ]
    );
}

/// 8, ServerDisconnectClient.
#[test]
fn t08_ending_a_live_connection_says_true_and_a_stale_one_false() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    for kicks in [true, false] {
        let end = |reactor: &mut Reactor, conn| match kicks {
            true => reactor.outbox().kick(conn),
            false => reactor.outbox().close(conn),
        };
        let (theirs, _) = pair.connect();
        assert!(end(&mut pair.server, theirs));
        pair.until(|pair| pair.server.connections() == 0 && pair.client.connections() == 0);
        assert!(!end(&mut pair.server, theirs));
        pair.at_server.clear();
        pair.at_client.clear();
    }
}

/// 9, ClientKickedCleanup.
#[test]
fn t09_a_client_that_was_kicked_is_not_connected_by_the_time_it_is_told() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (theirs, ours) = pair.connect();
    pair.server.outbox().kick(theirs);
    pair.server.flush();
    pump(&mut pair.client, |event, outbox| {
        assert_eq!(event, Event::Disconnected { conn: ours, reason: DisconnectReason::Reset });
        assert!(!outbox.is_open(ours));
        assert_eq!(outbox.send(ours, b"too late"), Err(SendError::Stale));
        true
    });
    // So a handler may connect anew right away.
    let again = pair.client.connect(pair.addr).expect("room");
    pair.until(|pair| !pair.at_client.is_empty());
    assert_eq!(pair.at_client, [Seen::Connected(again)]);
}

/// 10, GetConnectionInfo. The whole address comes with Connected, and never in the IPv4-mapped form, so
/// that logs and bans know one name for one peer.
#[test]
fn t10_the_server_knows_where_a_client_is() {
    let (mut reactor, addr) = server(Builder::new());
    let client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let local = client.stream.local_addr().expect("it is bound");
    assert_eq!(local.ip().to_string(), "127.0.0.1");
    assert_eq!(reactor.peer(conn), Some(Addr::from(local)));

    if let Some((mut reactor, port)) = dual_stack() {
        let client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port)));
        let conn = accept(&mut reactor);
        let local = client.stream.local_addr().expect("it is bound");
        assert_eq!(reactor.peer(conn), Some(Addr::from(local)));
    }
}

/// 11, ParseLocalHost. Names are not resolved in here: that blocks, for seconds if it goes badly. Whoever
/// resolves them elsewhere gets several addresses, and the first that answers is the one.
#[test]
fn t11_localhost_is_resolved_before_and_then_works() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let name = ("localhost", pair.addr.port());
    let error = pair.client.connect(format!("{}:{}", name.0, name.1)).expect_err("no address");
    assert!(matches!(error, Error::Addr(_)));
    assert!(error.to_string().contains("host names are not resolved here"), "{error}");

    for addr in name.to_socket_addrs().expect("a name that every machine knows") {
        pair.client.connect(addr).expect("room");
    }
    pair.until(|pair| pair.at_client.iter().any(|seen| matches!(seen, Seen::Connected(_))));
}

/// 12, ConnectIPv4.
#[test]
fn t12_connecting_over_ipv4_works() {
    let mut reactor = Reactor::new().expect("a poller");
    let listener = reactor.listen("127.0.0.1:0").expect("a free port");
    let addr = reactor.local_addr(listener).expect("it listens");
    let conn = reactor.connect(addr).expect("room");
    assert_connects(&mut reactor, conn);
}

/// 13, ConnectIPv6.
#[test]
fn t13_connecting_over_ipv6_works() {
    let mut reactor = Reactor::new().expect("a poller");
    let Ok(listener) = reactor.listen("[::1]:0") else {
        println!("skipped: this machine has no IPv6");
        return;
    };
    let addr = reactor.local_addr(listener).expect("it listens");
    let conn = reactor.connect(addr).expect("room");
    assert_connects(&mut reactor, conn);
    // A listener for both takes this kind too.
    let (mut reactor, port) = dual_stack().expect("there is IPv6");
    let conn = reactor.connect((Ipv6Addr::LOCALHOST, port)).expect("room");
    assert_connects(&mut reactor, conn);
}

/// 14, LargeMessage.
#[test]
fn t14_a_message_of_the_largest_size_arrives_whole() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (theirs, ours) = pair.connect();
    let payload = pattern(16_384);
    pair.client.outbox().send(ours, &payload).expect("exactly the limit");
    pair.until(|pair| !pair.at_server.is_empty());
    assert_eq!(pair.at_server, [Seen::Message(theirs, payload)]);
}

/// 15, AllocationAttack. The event says what was announced and what is allowed.
#[test]
fn t15_a_message_of_twice_the_limit_ends_the_connection_without_data() {
    let mut pair = Pair::new(Builder::new(), Builder::new().frame_len_max(32_768));
    let (theirs, ours) = pair.connect();
    pair.client.outbox().send(ours, &pattern(32_768)).expect("within the sender's limit");
    pair.until(|pair| !pair.at_server.is_empty());
    let reason = DisconnectReason::FrameTooLarge { declared: 32_768, limit: 16_384 };
    assert_eq!(pair.at_server, [Seen::Disconnected(theirs, reason)]);
    pair.until(|pair| !pair.at_client.is_empty());
}

/// 16, ServerStartStop. Whether a server runs is whether it has a listener.
#[test]
fn t16_a_listener_begins_and_ends_at_once() {
    let mut reactor = Reactor::new().expect("a poller");
    let listener = reactor.listen("127.0.0.1:0").expect("a free port");
    let addr = reactor.local_addr(listener).and_then(|addr| addr.as_socket_addr());
    let addr = addr.expect("it listens already");
    drop(TcpStream::connect(addr).expect("even before the first tick"));
    assert!(reactor.close_listener(listener));
    assert_eq!(reactor.local_addr(listener), None);
    assert!(TcpStream::connect(addr).is_err());
}

/// 17, ServerStartStopRepeated. With clients, whose connections the stop ends.
#[test]
fn t17_ten_starts_and_stops_on_one_port_succeed() {
    let (mut reactor, addr) = server(Builder::new());
    for _ in 0..10 {
        let _client = Client::connect(addr);
        accept(&mut reactor);
        drop(reactor);
        reactor = Reactor::new().expect("a poller");
        let mut listener = reactor.listen(addr).expect("the port is free again");
        for _ in 0..10 {
            assert!(reactor.close_listener(listener));
            listener = reactor.listen(addr).expect("the port is free again");
        }
    }
}

/// 18, ClientTickRespectsLimit. There the limit is an argument of the tick; here it is how many one takes.
#[test]
fn t18_a_client_takes_two_events_and_the_third_next_tick() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (theirs, ours) = pair.connect();
    for number in 1..=3 {
        pair.server.outbox().send(theirs, &[number]).expect("room");
    }
    pair.server.flush();
    assert_two_then_one(&mut pair.client, ours);
}

/// 19, ServerTickRespectsLimit.
#[test]
fn t19_a_server_takes_two_events_and_the_third_next_tick() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (theirs, ours) = pair.connect();
    for number in 1..=3 {
        pair.client.outbox().send(ours, &[number]).expect("room");
    }
    pair.client.flush();
    assert_two_then_one(&mut pair.server, theirs);
}

/// 20, ServerSendQueueLimitDisconnects. Two differences: the limit is in bytes, for a limit in messages
/// says nothing about memory; and to disconnect is a choice, since a snapshot may just as well be left out.
#[test]
fn t20_a_server_that_floods_a_connection_ends_it_or_is_told() {
    for policy in [SendPolicy::Disconnect, SendPolicy::Error] {
        let small = Builder::new().frame_len_max(100).send_queue_max(208).send_policy(policy);
        let mut pair = Pair::new(small, Builder::new());
        let (theirs, ours) = pair.connect();
        assert_flood_is_refused(&mut pair.server, theirs, policy);
        pair.until(|pair| !pair.at_client.is_empty());
        match policy {
            SendPolicy::Disconnect => {
                pair.until(|pair| pair.client.connections() == 0 && pair.server.connections() == 0);
                let reason = DisconnectReason::SendQueueFull;
                assert_eq!(pair.at_server, [Seen::Disconnected(theirs, reason)]);
                assert_eq!(pair.at_client, [Seen::Disconnected(ours, DisconnectReason::Reset)]);
            }
            _ => {
                // What was accepted arrives, and the connection goes on.
                pair.until(|pair| pair.at_client.len() == 2);
                pair.server.outbox().send(theirs, b"room again").expect("it was flushed");
                pair.until(|pair| pair.at_client.len() == 3);
                assert!(pair.at_server.is_empty());
            }
        }
    }
}

/// 21, ClientSendQueueLimitDisconnects. As 20, from the other side: both are the same kind of connection.
#[test]
fn t21_a_client_that_floods_its_connection_ends_it_or_is_told() {
    for policy in [SendPolicy::Disconnect, SendPolicy::Error] {
        let small = Builder::new().frame_len_max(100).send_queue_max(208).send_policy(policy);
        let mut pair = Pair::new(Builder::new(), small);
        let (_, ours) = pair.connect();
        assert_flood_is_refused(&mut pair.client, ours, policy);
        match policy {
            SendPolicy::Disconnect => {
                pair.until(|pair| pair.client.connections() == 0 && pair.server.connections() == 0);
                let reason = DisconnectReason::SendQueueFull;
                assert_eq!(pair.at_client, [Seen::Disconnected(ours, reason)]);
            }
            _ => {
                pair.until(|pair| pair.at_server.len() == 2);
                assert!(pair.at_client.is_empty());
            }
        }
    }
}

/// 22, ClientReceiveQueueLimitDisconnects. Here a full receiving side slows its sender down (TCP's own
/// means) and nobody is disconnected for having sent much: that would punish a peer for our frame rate.
#[test]
fn t22_a_client_that_does_not_fetch_slows_the_server_and_loses_nothing() {
    let mut pair = Pair::new(Builder::new(), Builder::new().event_budget(2));
    let (theirs, ours) = pair.connect();
    assert_slowed_without_loss(&mut pair.server, theirs, &mut pair.client, ours);
}

/// 23, ServerReceivePipeLimitDisconnects. As 22, from the other side.
#[test]
fn t23_a_server_that_does_not_fetch_slows_the_client_and_loses_nothing() {
    let mut pair = Pair::new(Builder::new().event_budget(2), Builder::new());
    let (theirs, ours) = pair.connect();
    assert_slowed_without_loss(&mut pair.client, ours, &mut pair.server, theirs);
}

/// 24, ClientTickRespectsEnabledCheck. The predicate is an `if` of one's own, and the stop a `break`.
#[test]
fn t24_a_client_may_stop_after_the_first_event() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (theirs, _) = pair.connect();
    pair.server.outbox().send(theirs, b"change the scene").expect("room");
    pair.server.outbox().send(theirs, b"for the new scene").expect("room");
    pair.server.flush();
    assert_stops_and_goes_on(&mut pair.client);
}

/// 25, ServerTickRespectsEnabledCheck.
#[test]
fn t25_a_server_may_stop_after_the_first_event() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (_, ours) = pair.connect();
    pair.client.outbox().send(ours, b"change the scene").expect("room");
    pair.client.outbox().send(ours, b"for the new scene").expect("room");
    pair.client.flush();
    assert_stops_and_goes_on(&mut pair.server);
}

/// 26, MultipleConnections.
#[test]
fn t26_ten_clients_send_one_after_the_other() {
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let mut conns = Vec::new();
    for _ in 0..10 {
        conns.push(pair.connect());
    }
    for (number, (theirs, ours)) in conns.into_iter().enumerate() {
        pair.client.outbox().send(ours, &[number as u8]).expect("room");
        pair.until(|pair| !pair.at_server.is_empty());
        assert_eq!(pair.at_server, [Seen::Message(theirs, vec![number as u8])]);
        pair.at_server.clear();
    }
}

// Helpers

fn conn_of(seen: &Seen) -> ConnId {
    match seen {
        Seen::Connected(conn)
        | Seen::Message(conn, _)
        | Seen::Disconnected(conn, _)
        | Seen::ConnectFailed(conn, _) => *conn,
    }
}

fn is_of(seen: &Seen, conn: ConnId) -> bool {
    conn_of(seen) == conn
}

/// A reactor that listens for both kinds of addresses, and its port, if this machine has IPv6.
fn dual_stack() -> Option<(Reactor, u16)> {
    TcpListener::bind("[::1]:0").ok()?;
    let mut reactor = Reactor::new().expect("a poller");
    let options = ListenOptions::new().dual_stack(true);
    let listener = reactor.listen_with("[::]:0", &options).expect("a free port");
    let port = reactor.local_addr(listener).and_then(|addr| addr.port());
    Some((reactor, port.expect("it listens")))
}

/// Both ends are in this reactor.
fn assert_connects(reactor: &mut Reactor, conn: ConnId) {
    let mut ends = Vec::new();
    pump(reactor, |event, _| match event {
        Event::Connected { conn, .. } => {
            ends.push(conn);
            ends.len() == 2
        }
        other => panic!("{other:?}"),
    });
    assert!(ends.contains(&conn));
}

fn assert_two_then_one(reactor: &mut Reactor, conn: ConnId) {
    tick_until_remaining(reactor, 3);
    let events = reactor.tick(Wait::No).expect("a poller").events;
    let first: Vec<_> = events.take(2).map(Seen::from).collect();
    assert_eq!(first, [Seen::Message(conn, vec![1]), Seen::Message(conn, vec![2])]);
    let events = reactor.tick(Wait::No).expect("a poller").events;
    let rest: Vec<_> = events.take(999).map(Seen::from).collect();
    assert_eq!(rest, [Seen::Message(conn, vec![3])]);
}

/// Two frames of a hundred bytes fill the queue, so the third is refused.
fn assert_flood_is_refused(reactor: &mut Reactor, conn: ConnId, policy: SendPolicy) {
    let mut outbox = reactor.outbox();
    outbox.send(conn, &[1; 100]).expect("room for two");
    outbox.send(conn, &[2; 100]).expect("room for two");
    assert_eq!(outbox.send(conn, &[3; 100]), Err(SendError::Full));
    assert_eq!(
        outbox.send(conn, b""),
        match policy {
            SendPolicy::Disconnect => Err(SendError::Closing),
            _ => Err(SendError::Full),
        }
    );
}

/// `to` fetches nothing until `from` is refused, and then gets all that was accepted, in order.
fn assert_slowed_without_loss(
    from: &mut Reactor,
    from_conn: ConnId,
    to: &mut Reactor,
    to_conn: ConnId,
) {
    let mut accepted = 0u32;
    let mut payload = pattern(16_384);
    let mut refusals = 0;
    // A full queue that two flushes in a row do not shorten is one that TCP holds back.
    while refusals < 3 {
        payload[..4].copy_from_slice(&accepted.to_be_bytes());
        match from.outbox().send(from_conn, &payload) {
            Ok(()) => (accepted, refusals) = (accepted + 1, 0),
            Err(error) => {
                assert_eq!(error, SendError::Full);
                refusals += 1;
                assert_eq!(
                    from.tick(Wait::Event(common::PATIENCE / 1_000))
                        .expect("a poller")
                        .events
                        .next(),
                    None
                );
            }
        }
        let remaining = to.tick(Wait::No).expect("a poller").events.remaining();
        assert!(remaining <= 2, "the budget: {remaining}");
    }
    assert!(accepted > 64, "at least what the send queue holds: {accepted}");
    for number in 0..accepted {
        from.flush();
        payload[..4].copy_from_slice(&number.to_be_bytes());
        pump(to, |event, _| {
            let Event::Message { conn, payload: got } = event else { panic!("{event:?}") };
            assert!(conn == to_conn && got == payload, "message {number}");
            true
        });
        assert_eq!(from.tick(Wait::No).expect("a poller").events.next(), None);
    }
}

fn assert_stops_and_goes_on(reactor: &mut Reactor) {
    tick_until_remaining(reactor, 2);
    let mut enabled = true;
    let mut told = Vec::new();
    for event in reactor.tick(Wait::No).expect("a poller").events {
        let Event::Message { payload, .. } = event else { panic!("{event:?}") };
        told.push(payload.to_vec());
        enabled = payload != b"change the scene";
        if !enabled {
            break;
        }
    }
    assert!(!enabled);
    assert_eq!(told, [b"change the scene"]);
    let mut events = reactor.tick(Wait::No).expect("a poller").events;
    assert!(matches!(events.next(), Some(Event::Message { payload: b"for the new scene", .. })));
    assert_eq!(events.next(), None);
}

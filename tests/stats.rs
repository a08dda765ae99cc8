//! What the counters say: on real sockets.

mod common;

use std::time::Duration;

use common::{Client, accept, echo_until_disconnect, pump, server, tick_until};
use tickwire::{Builder, Event, SendError, Wait};

#[test]
fn counters_tell_what_happened() {
    let (mut reactor, addr) = server(Builder::new().frame_len_max(1_000));
    let mut client = Client::connect(addr);
    client.send(&[1; 100]);
    client.send(&[2; 50]);
    client.shutdown_write();
    let (conn, _) = echo_until_disconnect(&mut reactor);
    assert_eq!(reactor.outbox().send(conn, b"late"), Err(SendError::Stale));
    let mut bad = Client::connect(addr);
    bad.write(&[0xff; 4]);
    pump(&mut reactor, |event, _| matches!(event, Event::Disconnected { .. }));
    tick_until(&mut reactor, |reactor| reactor.connections() == 0);

    let stats = reactor.stats();
    assert_eq!((stats.accepted, stats.ended, stats.connections), (2, 2, 0));
    assert_eq!((stats.messages_received, stats.bytes_received), (2, 104 + 54 + 4));
    assert_eq!((stats.messages_sent, stats.bytes_sent), (2, 104 + 54));
    assert_eq!((stats.ends.closed_by_peer, stats.ends.frame_too_large), (1, 1));
    assert_eq!((stats.bytes_queued, stats.bytes_unfinished), (0, 0));
    assert_eq!((stats.messages_refused, stats.refusals.stale), (1, 1));
    let table = stats.to_string();
    assert!(table.lines().all(|line| line.len() == 44), "{table}");
    assert!(table.contains("frame too large"), "{table}");
}

#[test]
fn a_connection_has_its_own_counters_if_somebody_wants_to_know() {
    let (mut reactor, addr) = server(Builder::new().connection_stats(true).send_queue_max(20_000));
    let mut first = Client::connect(addr);
    let first_conn = accept(&mut reactor);
    let mut second = Client::connect(addr);
    let second_conn = accept(&mut reactor);
    first.send(&[1; 100]);
    second.send(&[2; 200]);
    second.send(&[2; 200]);
    tick_until(&mut reactor, |reactor| reactor.stats().messages_received == 3);
    let mut outbox = reactor.outbox();
    outbox.send(first_conn, &[3; 16_000]).expect("room");
    assert_eq!(outbox.send(first_conn, &[3; 16_000]), Err(SendError::Full));
    reactor.flush();
    let of = |conn| reactor.connection_stats(conn).expect("it is counted");
    assert_eq!((of(first_conn).messages_received, of(first_conn).bytes_received), (1, 104));
    assert_eq!((of(second_conn).messages_received, of(second_conn).bytes_received), (2, 408));
    assert_eq!((of(first_conn).messages_sent, of(first_conn).messages_refused), (1, 1));
    assert_eq!((of(first_conn).queue_peak, of(first_conn).bytes_sent), (16_004, 16_004));

    // A slot's next owner begins at zero.
    drop(first);
    tick_until(&mut reactor, |reactor| reactor.connections() == 1);
    assert_eq!(reactor.connection_stats(first_conn), None);
    let _third = Client::connect(addr);
    let third_conn = accept(&mut reactor);
    assert_eq!(reactor.connection_stats(third_conn).map(|it| it.bytes_received), Some(0));
}

#[test]
fn without_being_asked_nothing_is_counted_per_connection() {
    let (mut reactor, addr) = server(Builder::new());
    let _client = Client::connect(addr);
    let conn = accept(&mut reactor);
    assert_eq!(reactor.connection_stats(conn), None);
    let before = reactor.stats();
    reactor.tick(Wait::Event(Duration::from_millis(5))).expect("a poller").events.for_each(drop);
    let stats = reactor.stats();
    assert_eq!(stats.ticks, before.ticks + 1);
    assert!(stats.idle_wakes > before.idle_wakes, "a look that found nothing");
}

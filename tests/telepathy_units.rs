//! Telepathy's unit tests, and older ones that it has removed since: what they say about behaviour, seen from
//! outside, on real sockets. Its pipes, pool and byte order have no like-named part here; what they were
//! for has. See `telepathy_parity.rs`.

mod common;

use std::io::Read;

use common::{
    Client, Pair, Seen, accept, black_hole, pattern, pump, server, tick_until, tick_until_remaining,
};
use tickwire::{Builder, Event, Reactor, Wait};

// The receive pipe, whose part the events of a tick play

/// Receive pipe: enqueue counts, dequeue removes, the total count. There is no count per connection: nothing
/// is queued beyond the batch, and one connection's share of that has a limit of its own.
#[test]
fn pipe_events_are_counted_and_fetching_removes_them() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    accept(&mut reactor);
    client.write(&[common::frame(b"1"), common::frame(b"2"), common::frame(b"3")].concat());
    tick_until_remaining(&mut reactor, 3);
    for left in (0..3).rev() {
        let mut events = reactor.tick(Wait::No).expect("a poller").events;
        assert_eq!(events.remaining(), left + 1);
        assert!(matches!(events.next(), Some(Event::Message { .. })));
        assert_eq!(events.remaining(), left);
    }
    assert_eq!(reactor.tick(Wait::No).expect("a poller").events.next(), None);
}

/// Receive pipe: peek returns id, kind and bytes and removes nothing. Here to look is to fetch, as with
/// any iterator, and a tick whose events are not looked at removes nothing.
#[test]
fn pipe_a_tick_that_fetches_nothing_removes_nothing() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    client.send(b"stay");
    tick_until_remaining(&mut reactor, 1);
    for _ in 0..10 {
        assert_eq!(reactor.tick(Wait::No).expect("a poller").events.remaining(), 1);
    }
    let mut events = reactor.tick(Wait::No).expect("a poller").events;
    assert_eq!(events.next(), Some(Event::Message { conn, payload: b"stay" }));
}

/// Receive pipe: clear empties both counters, pooled buffers return on dequeue and on clear.
#[test]
fn pipe_dropping_all_events_gives_all_memory_back() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    accept(&mut reactor);
    let mut pooled = Vec::new();
    for round in 0..100 {
        // The end of each frame comes by itself, so that its beginning has to be kept in a ring.
        let frame = common::frame(&pattern(1_000));
        client.write(&frame[..700]);
        let before = reactor.stats().bytes_received;
        tick_until(&mut reactor, |reactor| reactor.stats().bytes_received == before + 700);
        client.write(&frame[700..]);
        tick_until_remaining(&mut reactor, 1);
        reactor.tick(Wait::No).expect("a poller").events.for_each(drop);
        let tick = reactor.tick(Wait::No).expect("a poller");
        assert_eq!(tick.events.remaining(), 0, "round {round}");
        pooled.push(reactor.stats().bytes_pooled);
    }
    assert!(pooled[0] > 0 && pooled.iter().all(|bytes| *bytes == pooled[0]), "{pooled:?}");
}

// The send pipe, whose part the outbox plays

/// Send pipe: the count, and serialize-all, which yields prefix and payload of both messages and empties
/// the pipe. The count is in bytes, as the limit is.
#[test]
fn pipe_two_messages_leave_as_exactly_these_bytes() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let mut outbox = reactor.outbox();
    assert_eq!(outbox.queued(conn), 0);
    outbox.send(conn, &[0xaa]).expect("room");
    outbox.send(conn, &[0xbb, 0xcc]).expect("room");
    assert_eq!(outbox.queued(conn), 4 + 1 + 4 + 2);
    let before = reactor.stats().sends;
    reactor.flush();
    assert_eq!(reactor.stats().sends - before, 1);
    assert_eq!(reactor.outbox().queued(conn), 0);
    let mut bytes = [0xff; 11];
    client.stream.read_exact(&mut bytes).expect("both frames");
    assert_eq!(bytes, [0, 0, 0, 1, 0xaa, 0, 0, 0, 2, 0xbb, 0xcc]);
}

/// Send pipe: clear, and its pooling. What clears a queue is a kick.
#[test]
fn pipe_a_kick_empties_the_send_queue_and_its_memory_goes_back() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    reactor.outbox().send(conn, &pattern(5_000)).expect("room");
    let pooled = reactor.stats().bytes_pooled;
    assert!(reactor.outbox().kick(conn));
    tick_until(&mut reactor, |reactor| reactor.connections() == 0);
    assert_eq!(reactor.outbox().queued(conn), 0);
    assert!(reactor.stats().bytes_pooled >= pooled + 5_000);
    assert_eq!(client.read_to_end(), (vec![], false), "nothing of it left");
}

// The pool and the byte order

/// Pool: a take from the empty pool makes one, a take after a return takes that one; the count.
#[test]
fn pool_a_buffer_that_came_back_is_taken_again() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    assert_eq!(reactor.stats().bytes_pooled, 0);
    let mut pooled = 0;
    for round in 0..10 {
        reactor.outbox().send(conn, &pattern(1_000)).expect("room");
        assert_eq!(reactor.stats().bytes_pooled, 0, "round {round}: it is in use");
        reactor.flush();
        assert_eq!(client.receive(), pattern(1_000));
        tick_until(&mut reactor, |reactor| reactor.stats().bytes_pooled > 0);
        match round {
            0 => pooled = reactor.stats().bytes_pooled,
            _ => assert_eq!(reactor.stats().bytes_pooled, pooled, "round {round}"),
        }
    }
}

/// Byte order: an int becomes four bytes, most significant first, also where it does not begin at zero,
/// without touching its neighbours; and back.
#[test]
fn byte_order_lengths_are_four_bytes_most_significant_first() {
    let len = 0x0001_0203;
    let (mut reactor, addr) = server(Builder::new().frame_len_max(len));
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let payload = pattern(len);
    reactor.outbox().send(conn, b"x").expect("room");
    reactor.outbox().send(conn, &payload).expect("room");
    reactor.outbox().send(conn, b"y").expect("room");
    reactor.flush();
    let mut front = [0; 9];
    client.stream.read_exact(&mut front).expect("two headers");
    assert_eq!(front, [0, 0, 0, 1, b'x', 0, 1, 2, 3]);
    let mut rest = vec![0; len + 5];
    client.stream.read_exact(&mut rest).expect("the rest");
    assert!(rest[..len] == payload);
    assert_eq!(rest[len..], [0, 0, 0, 1, b'y']);

    let back = std::thread::spawn(move || {
        client.write(&[0, 1, 2, 3]);
        client.write(&rest[..len]);
        client
    });
    pump(
        &mut reactor,
        |event, _| matches!(event, Event::Message { payload: got, .. } if got == payload),
    );
    back.join().expect("all written");
}

// Older tests, since removed there

/// Older: a message of 100,000 bytes arrives whole.
#[test]
fn older_a_message_of_100_000_bytes_arrives_whole() {
    let large = || Builder::new().frame_len_max(100_000);
    let mut pair = Pair::new(large(), large());
    let (theirs, ours) = pair.connect();
    let payload = pattern(100_000);
    pair.client.outbox().send(ours, &payload).expect("room");
    pair.until(|pair| !pair.at_server.is_empty());
    assert!(pair.at_server == [Seen::Message(theirs, payload)]);
}

/// Older: the moment of "Connecting", given up there because no outcome was wrong. Here the moment is known:
/// from the connect until its one event was fetched, whatever the network does meanwhile.
#[test]
fn older_connecting_lasts_until_its_event() {
    let (addr, _hole) = black_hole();
    let mut reactor = Reactor::new().expect("a poller");
    let conn = reactor.connect(addr).expect("room");
    for _ in 0..10 {
        assert_eq!(reactor.tick(Wait::No).expect("a poller").events.next(), None);
        assert!(reactor.outbox().is_open(conn), "messages are taken meanwhile");
        assert_eq!(reactor.peer(conn), Some(addr.into()));
    }
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (_, conn) = pair.connect();
    assert!(pair.client.outbox().is_open(conn));
}

//! What goes wrong in the newest Telepathy, as its users and we have seen it (H1 to H18 of our notes), and
//! that it does not go wrong here: on real sockets, without sleeps. Its own tests have their twins in
//! `telepathy_parity.rs`.

mod common;

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use common::{
    Client, PATIENCE, Pair, Seen, accept, black_hole, echo_until_disconnect, frame, pattern, pump,
    server, tick_until, tick_until_remaining,
};
use tickwire::{
    Builder, ConnId, ConnectFailure, DisconnectReason, Error, Event, Framing, Reactor, SendError,
    Wait,
};

/// H1: a client that had connected got two Disconnected events.
#[test]
fn h01_one_disconnected_per_connection_however_it_ends() {
    let ends: [fn(&mut Pair, _, _); 5] = [
        |pair, theirs, _| assert!(pair.server.outbox().close(theirs)),
        |pair, theirs, _| assert!(pair.server.outbox().kick(theirs)),
        |pair, _, ours| assert!(pair.client.outbox().close(ours)),
        |pair, _, ours| assert!(pair.client.outbox().kick(ours)),
        |pair, theirs, ours| {
            assert!(pair.server.outbox().kick(theirs) && pair.client.outbox().close(ours));
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let mut pair = Pair::new(Builder::new(), Builder::new());
        let (theirs, ours) = pair.connect();
        end(&mut pair, theirs, ours);
        pair.until(|pair| pair.client.connections() == 0 && pair.server.connections() == 0);
        for _ in 0..20 {
            pair.tick();
        }
        assert!(
            matches!(pair.at_client[..], [Seen::Disconnected(conn, _)] if conn == ours),
            "{number}"
        );
        assert!(
            matches!(pair.at_server[..], [Seen::Disconnected(conn, _)] if conn == theirs),
            "{number}"
        );
    }
}

/// H2: ten messages and then a leave or a kick lost some or all of them. Here `close` is the kick that
/// delivers what was sent before it; `kick` is the one that does not.
#[test]
fn h02_what_was_sent_before_a_close_arrives() {
    for round in 0..30 {
        let mut pair = Pair::new(Builder::new(), Builder::new());
        let (theirs, ours) = pair.connect();
        let from_server = round % 2 == 0;
        let (sender, from) = match from_server {
            true => (&mut pair.server, theirs),
            false => (&mut pair.client, ours),
        };
        for number in 0..10 {
            sender.outbox().send(from, &[number; 100]).expect("room");
        }
        assert!(sender.outbox().close(from));
        pair.until(|pair| pair.client.connections() == 0 && pair.server.connections() == 0);
        let (seen, to) =
            if from_server { (pair.at_client, ours) } else { (pair.at_server, theirs) };
        let mut expected: Vec<_> =
            (0..10).map(|number| Seen::Message(to, vec![number; 100])).collect();
        expected.push(Seen::Disconnected(to, DisconnectReason::ClosedByPeer));
        assert_eq!(seen, expected, "round {round}");
    }
}

/// H3: running out of descriptors once ended accepting for ever, even when all clients had left. The limit
/// is the process's, so this runs in one of its own.
#[cfg(target_os = "linux")]
#[test]
fn h03_accepting_goes_on_after_descriptors_ran_out() {
    const ALONE: &str = "TICKWIRE_H03_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().expect("it has a path"))
            .args(["--exact", "h03_accepting_goes_on_after_descriptors_ran_out"])
            .env(ALONE, "1")
            .output()
            .expect("it runs");
        assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
        return;
    }
    let (mut reactor, addr) = server(Builder::new());
    // The clients' ends take descriptors of this process too, so they are opened before the limit falls.
    let waiting: Vec<_> = (0..40).map(|_| Client::connect(addr)).collect();
    let open = std::fs::read_dir("/proc/self/fd").expect("proc(5)").count() as u64;
    let (_, hard) = rlimit::Resource::NOFILE.get().expect("getrlimit(2)");
    rlimit::Resource::NOFILE.set(open + 8, hard).expect("a lower limit is always allowed");
    tick_until(&mut reactor, |reactor| reactor.stats().accept_failures > 0);

    drop(waiting);
    tick_until(&mut reactor, |reactor| {
        reactor.connections() == 0 && reactor.stats().accepted == 40
    });
    let mut late = Client::connect(addr);
    late.send(b"anybody there?");
    pump(&mut reactor, |event, outbox| {
        let Event::Message { conn, payload } = event else { return false };
        outbox.send(conn, payload).expect("room");
        true
    });
    reactor.flush();
    assert_eq!(late.receive(), b"anybody there?");
}

/// H4: a port in use was told nowhere but in the log.
#[test]
fn h04_a_port_in_use_is_an_error_of_the_call() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut reactor = Reactor::new().expect("a poller");
    let error = reactor.listen(taken.local_addr().expect("it is bound")).expect_err("in use");
    let Error::Listen { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.kind(), ErrorKind::AddrInUse);
}

/// H5: messages of a kicked connection were delivered after the kick.
#[test]
fn h05_nothing_of_a_connection_is_delivered_after_its_kick() {
    for kicks in [true, false] {
        let (mut reactor, addr) = server(Builder::new());
        let mut client = Client::connect(addr);
        let conn = accept(&mut reactor);
        client.write(&[frame(b"1"), frame(b"2"), frame(b"3")].concat());
        tick_until_remaining(&mut reactor, 3);
        // Neither what is in the batch at hand, nor what has not been read.
        client.send(b"4");
        let mut messages = 0;
        pump(&mut reactor, |event, outbox| match event {
            Event::Message { .. } => {
                messages += 1;
                assert!(if kicks { outbox.kick(conn) } else { outbox.close(conn) });
                client.shutdown_write(); // so that a close need not wait for it
                false
            }
            Event::Disconnected { .. } => true,
            other => panic!("{other:?}"),
        });
        assert_eq!(messages, 1);
    }
}

/// H6: a handler that threw got the same message again every tick, and a tick within a handler dropped
/// messages. Here fetching is acknowledging, so a message that made the game panic is over; and a tick
/// within the loop does not compile (see the crate's front page).
#[test]
fn h06_a_handler_that_panics_sees_each_message_once() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    accept(&mut reactor);
    client.write(&[frame(&[1]), frame(&[2]), frame(&[3]), frame(&[4])].concat());
    tick_until_remaining(&mut reactor, 4);
    let mut told = Vec::new();
    for _ in 0..2 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            for event in reactor.tick(Wait::No).expect("a poller").events {
                let Event::Message { conn, payload } = event else { panic!("{event:?}") };
                told.push(payload[0]);
                assert_ne!(payload, [2], "the game has a bug with {conn}");
            }
        }));
        assert_eq!(panicked.is_err(), told.len() == 2);
    }
    assert_eq!(told, [1, 2, 3, 4]);
    client.send(&[5]);
    pump(&mut reactor, |event, _| matches!(event, Event::Message { payload: [5], .. }));
}

/// H7: the address of a client that left before the tick read "Disposed".
#[test]
fn h07_a_client_that_left_before_the_tick_has_its_address() {
    for resets in [false, true] {
        let (mut reactor, addr) = server(Builder::new());
        let client = Client::connect(addr);
        let local = client.stream.local_addr().expect("it is bound");
        if resets {
            client.reset()
        } else {
            drop(client)
        }
        pump(&mut reactor, |event, _| {
            let Event::Connected { peer, .. } = event else { panic!("{event:?}") };
            assert_eq!(peer, local.into());
            true
        });
    }
}

/// H8: a peer that had said all it had to say, and half-closed, never got its replies.
#[test]
fn h08_a_peer_that_half_closes_gets_its_replies() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    client.send(b"request");
    client.shutdown_write();
    let (_, reason) = echo_until_disconnect(&mut reactor);
    assert_eq!(reason, DisconnectReason::ClosedByPeer);
    assert_eq!(client.read_to_end(), (frame(b"request"), true));
}

/// H9: sending zero bytes said `true`, and the peer then closed the connection. Here an empty message is a
/// message; towards a Telepathy peer, with its framing, it is refused and the connection lives.
#[test]
fn h09_an_empty_message_costs_nobody_the_connection() {
    for framing in [Framing::LengthPrefix, Framing::Telepathy] {
        let builder = || Builder::new().framing(framing);
        let mut pair = Pair::new(builder(), builder());
        let (theirs, ours) = pair.connect();
        let sent = pair.client.outbox().send(ours, b"");
        pair.client.outbox().send(ours, b"next").expect("room");
        let mut expected = vec![Seen::Message(theirs, b"next".to_vec())];
        match framing {
            Framing::LengthPrefix => {
                assert_eq!(sent, Ok(()));
                expected.insert(0, Seen::Message(theirs, vec![]));
            }
            _ => assert_eq!(sent, Err(SendError::Empty)),
        }
        pair.until(|pair| pair.at_server.len() == expected.len());
        assert_eq!(pair.at_server, expected);
        assert!(pair.client.outbox().is_open(ours) && pair.server.outbox().is_open(theirs));
    }
}

/// H10: a connection that says nothing, or never ends its frame, cost two threads and 16 KiB for ever. Here
/// it costs a few bytes and no tick anything, and the game may end whom it likes; deadlines for the first
/// message and for a whole frame come with issue 4, and their tests with them.
#[test]
fn h10_who_sends_next_to_nothing_costs_next_to_nothing() {
    let (mut reactor, addr) = server(Builder::new());
    let silent: Vec<_> = (0..100).map(|_| Client::connect(addr)).collect();
    let mut dripping: Vec<_> = (0..100).map(|_| Client::connect(addr)).collect();
    for client in &mut dripping {
        client.write(&16_384u32.to_be_bytes()); // all that is announced, and one byte of it
        client.write(&[1]);
    }
    tick_until(&mut reactor, |reactor| reactor.stats().bytes_received == 500);
    assert_eq!(reactor.connections(), 200);
    // Those who wait have the poller wait too.
    let before = reactor.stats().polls;
    for _ in 0..5 {
        let tick = reactor.tick(Wait::Event(Duration::from_millis(10))).expect("a poller");
        assert_eq!(tick.events.remaining(), 0);
    }
    assert!(reactor.stats().polls - before <= 10);
    // The buffers of those who drip are seen when they go back: nothing of what was announced.
    let pooled = reactor.stats().bytes_pooled;
    drop((silent, dripping));
    tick_until(&mut reactor, |reactor| reactor.connections() == 0);
    let freed = reactor.stats().bytes_pooled.saturating_sub(pooled);
    assert!(freed <= 100 * 128, "{freed} bytes for 100 unfinished frames of 16 KiB");
}

/// H11: limits in messages, which allow 160 MB per connection by default. Here they are in bytes, headers
/// included, whatever the size of the messages.
#[test]
fn h11_limits_are_in_bytes() {
    const MIB: usize = 1024 * 1024;
    for len in [1, 100, 16_384] {
        let (mut reactor, addr) = server(Builder::new());
        let _client = Client::connect(addr);
        let conn = accept(&mut reactor);
        let mut outbox = reactor.outbox();
        let payload = pattern(len);
        let mut accepted = 0;
        while outbox.send(conn, &payload).is_ok() {
            accepted += 1;
        }
        assert_eq!(accepted, MIB / (4 + len), "messages of {len} bytes in 1 MiB");
        assert!(outbox.queued(conn) <= MIB);
    }
}

/// H12: users read past the end of a pooled buffer and saw bytes of older messages.
#[test]
fn h12_a_payload_is_exactly_its_message() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    accept(&mut reactor);
    for payload in [&pattern(16_384)[..], b"", b"short", &pattern(300)] {
        client.send(payload);
        pump(&mut reactor, |event, _| {
            let Event::Message { payload: got, .. } = event else { panic!("{event:?}") };
            assert_eq!(got, payload);
            true
        });
    }
}

/// H13: an early attempt that failed late closed the next connection of the same client.
#[test]
fn h13_a_failing_attempt_does_not_touch_the_next_one() {
    let (hole, _hole) = black_hole();
    let nobody = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        free.local_addr().expect("it is bound")
    };
    let mut pair =
        Pair::new(Builder::new(), Builder::new().connect_timeout(Duration::from_millis(30)));
    let silent = pair.client.connect(hole).expect("room");
    let refused = pair.client.connect(nobody).expect("room");
    let cancelled = pair.client.connect(hole).expect("room");
    pair.client.outbox().close(cancelled);
    let alive = pair.client.connect(pair.addr).expect("room");
    pair.until(|pair| pair.at_client.len() == 4);
    for expected in [
        Seen::ConnectFailed(silent, ConnectFailure::TimedOut),
        Seen::ConnectFailed(refused, ConnectFailure::Refused),
        Seen::ConnectFailed(cancelled, ConnectFailure::Cancelled),
        Seen::Connected(alive),
    ] {
        assert!(pair.at_client.contains(&expected), "{expected:?} in {:?}", pair.at_client);
    }
    pair.client.outbox().send(alive, b"alive").expect("room");
    pair.until(|pair| pair.at_server.len() == 2);
    assert!(matches!(&pair.at_server[1], Seen::Message(_, payload) if payload == b"alive"));
}

/// H14: ids began anew at 1 after a stop and a start, so that an old one could reach a stranger. Here they
/// go on for the life of the reactor, and a stop is its listener's end. (Ids of two reactors may be equal:
/// whoever builds a new one has to forget the ids of the old.)
#[test]
fn h14_ids_of_before_a_restart_reach_nobody() {
    let (mut reactor, addr) = server(Builder::new());
    let mut old = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(addr);
        let mut through = None;
        pump(&mut reactor, |event, outbox| {
            let Event::Connected { conn, listener, .. } = event else { return false };
            through = listener;
            assert!(!old.contains(&conn));
            old.push(conn);
            outbox.kick(conn)
        });
        assert!(reactor.close_listener(through.expect("it came through one")));
        reactor.flush();
        client.read_to_end();
        tick_until(&mut reactor, |reactor| reactor.connections() == 0);
        reactor.listen(addr).expect("a restart on the same port");
    }
    let mut stranger = Client::connect(addr);
    let current = accept(&mut reactor);
    for id in old {
        assert_eq!(reactor.outbox().send(id, b"for another"), Err(SendError::Stale));
        assert!(!reactor.outbox().kick(id) && !reactor.outbox().close(id));
    }
    reactor.outbox().send(current, b"for you").expect("room");
    reactor.flush();
    assert_eq!(stranger.receive(), b"for you");
}

/// H15: stopping hung, since nothing woke the thread that accepts. Here is no thread to wake: whatever goes
/// on at that moment, dropping the reactor ends it.
#[test]
fn h15_stopping_does_not_hang_whatever_goes_on() {
    let (hole, _hole) = black_hole();
    let (mut reactor, addr) = server(Builder::new());
    let mut connected = Client::connect(addr);
    let conn = accept(&mut reactor);
    reactor.connect(hole).expect("room");
    let waiting = TcpStream::connect(addr).expect("a backlog");
    reactor.outbox().send(conn, &pattern(16_384)).expect("room");
    connected.write(&frame(b"unfetched")[..7]);
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(reactor);
        done.send(()).expect("somebody waits");
    });
    is_done.recv_timeout(PATIENCE).expect("dropped");
    drop(waiting);
    assert!(TcpStream::connect(addr).is_err(), "nobody listens any more");
    connected.read_to_end();
}

/// H16: a change of scene has to stop here and keep the rest, in order, of all connections.
#[test]
fn h16_stopping_for_some_ticks_keeps_everything_in_order() {
    let (mut reactor, addr) = server(Builder::new());
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(addr)).collect();
    let mut conns = Vec::new();
    while conns.len() < clients.len() {
        conns.push(accept(&mut reactor));
    }
    let mut told = vec![Vec::new(); conns.len()];
    for number in 0..50u8 {
        for client in &mut clients {
            client.send(&[number]);
        }
        // The scene loads: one event is fetched, then none for three ticks.
        let mut events = reactor.tick(Wait::No).expect("a poller").events;
        if let Some(Event::Message { conn, payload }) = events.next() {
            told[index_of(&conns, conn)].push(payload[0]);
        }
        for _ in 0..3 {
            let _ = reactor.tick(Wait::No).expect("a poller");
        }
    }
    pump(&mut reactor, |event, _| {
        let Event::Message { conn, payload } = event else { panic!("{event:?}") };
        told[index_of(&conns, conn)].push(payload[0]);
        told.iter().all(|numbers| numbers.len() == 50)
    });
    assert!(told.iter().all(|numbers| numbers.iter().copied().eq(0..50)));
}

/// H17: a send to a connection that the system had closed already said `true` until the next tick. So does
/// ours, and has to: `send` makes no system call, and `Ok` means queued, not arrived. What is different: from
/// the moment that the end is told, the answer is `Stale`, and the end is always told.
#[test]
fn h17_from_the_moment_its_end_is_told_a_send_says_so() {
    let (mut reactor, addr) = server(Builder::new());
    let client = Client::connect(addr);
    let conn = accept(&mut reactor);
    client.reset();
    assert_eq!(reactor.outbox().send(conn, b"nobody knows yet"), Ok(()));
    pump(&mut reactor, |event, outbox| {
        assert_eq!(event, Event::Disconnected { conn, reason: DisconnectReason::Reset });
        assert_eq!(outbox.send(conn, b"now we do"), Err(SendError::Stale));
        true
    });
    assert_eq!(reactor.outbox().send(conn, b"and for ever"), Err(SendError::Stale));
}

/// H18: all receiving threads shared one queue and one lock, and one busy peer held up everybody: 20,000
/// messages of one delayed another's by 201 ticks. Here each has its share of a tick.
#[test]
fn h18_a_flood_does_not_delay_the_others() {
    let (mut reactor, addr) = server(Builder::new());
    let mut flooder = Client::connect(addr);
    let flood = accept(&mut reactor);
    let mut others: Vec<_> = (0..50).map(|_| Client::connect(addr)).collect();
    for _ in &others {
        accept(&mut reactor);
    }
    // As much as the system takes without anybody reading.
    flooder.stream.set_nonblocking(true).expect("a plain option");
    let bytes = frame(&[7; 20]).repeat(1_000);
    while flooder.stream.write(&bytes).is_ok() {}
    for client in &mut others {
        client.send(b"me too");
    }
    let (mut flooded, mut heard, mut ticks) = (0, 0, 0);
    while heard < others.len() {
        ticks += 1;
        for event in reactor.tick(Wait::No).expect("a poller").events {
            match event {
                Event::Message { conn, .. } if conn == flood => flooded += 1,
                Event::Message { .. } => heard += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(flooded > 0, "it had a share too");
    assert!(ticks <= 2, "{ticks} ticks, {flooded} messages of the flood");
}

fn index_of(conns: &[ConnId], conn: ConnId) -> usize {
    conns.iter().position(|other| *other == conn).expect("one of them")
}

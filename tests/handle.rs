//! Other threads reach a reactor: on real sockets.

mod common;

use std::thread;
use std::time::{Duration, Instant};

use common::{Client, PATIENCE, accept, pattern, pump, server, tick_until};
use tickwire::{Builder, Event, Handle, Reactor, SendError, Wait};

#[test]
fn a_wake_ends_the_waiting_for_an_event() {
    let mut reactor = Reactor::new().expect("a poller");
    let handle = reactor.handle().expect("a waker");
    let waker = thread::spawn(move || handle.wake());
    // Without the wake this would take a day.
    let tick = reactor.tick(Wait::Event(Duration::from_secs(86_400))).expect("a poller");
    assert_eq!(tick.events.remaining(), 0);
    assert!(waker.join().expect("no panic"));
}

#[test]
fn a_wake_before_the_wait_is_not_lost_and_not_kept() {
    let mut reactor = Reactor::new().expect("a poller");
    let handle = reactor.handle().expect("a waker");
    assert!(handle.wake() && handle.wake());
    assert_eq!(reactor.tick(Wait::Event(PATIENCE)).expect("a poller").events.remaining(), 0);
    let begun = Instant::now();
    let tick = reactor.tick(Wait::Event(Duration::from_millis(20))).expect("a poller");
    assert_eq!(tick.events.remaining(), 0);
    assert!(begun.elapsed() >= Duration::from_millis(20), "both wakes were for the first wait");
}

#[test]
fn a_frame_paced_wait_carries_out_what_is_asked_and_keeps_its_deadline() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let handle = reactor.handle().expect("a waker");
    let (sender, read) = std::sync::mpsc::channel();
    let other = thread::spawn(move || {
        handle.send(conn, "from elsewhere").expect("room");
        let message = client.receive();
        sender.send(Instant::now()).expect("the test waits for it");
        message
    });
    let deadline = Instant::now() + Duration::from_millis(300);
    reactor.tick(Wait::Until(deadline)).expect("a poller").events.for_each(drop);
    assert!(Instant::now() >= deadline, "never early");
    // The message was there before the tick returned: the wait itself has sent it.
    assert!(read.recv_timeout(PATIENCE).expect("it was read") < Instant::now());
    assert_eq!(other.join().expect("no panic"), b"from elsewhere");
}

#[test]
fn messages_of_many_threads_all_arrive_each_threads_in_order() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let handle = reactor.handle().expect("a waker");
    let threads: Vec<_> = (0..4u8)
        .map(|thread| {
            let handle = handle.clone();
            thread::spawn(move || {
                for number in 0..500u16 {
                    let [high, low] = number.to_be_bytes();
                    while handle.send(conn, [thread, high, low]) == Err(SendError::Full) {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let reader = thread::spawn(move || {
        let mut next = [0u16; 4];
        for _ in 0..4 * 500 {
            let message = client.receive();
            let number = u16::from_be_bytes([message[1], message[2]]);
            let expected = &mut next[usize::from(message[0])];
            assert_eq!(number, *expected);
            *expected += 1;
        }
    });
    tick_until(&mut reactor, |_| reader.is_finished());
    reader.join().expect("all in order");
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    tick_until(&mut reactor, |reactor| reactor.outbox().queued(conn) == 0);
}

#[test]
fn what_is_handed_in_counts_at_once() {
    let (mut reactor, addr) = server(Builder::new().frame_len_max(1_000).send_queue_max(2_008));
    let _client = Client::connect(addr);
    let conn = accept(&mut reactor);
    reactor.outbox().send(conn, &pattern(500)).expect("room");
    let handle = reactor.handle().expect("a waker");
    assert_eq!(handle.send(conn, pattern(1_001)), Err(SendError::TooLarge));
    handle.send(conn, pattern(1_000)).expect("room");
    assert_eq!(reactor.outbox().queued(conn), 504 + 1_004);
    assert_eq!(handle.send(conn, pattern(500)), Err(SendError::Full));
    assert_eq!(reactor.outbox().send(conn, &pattern(500)), Err(SendError::Full));
    reactor.outbox().send(conn, &pattern(400)).expect("room for that");
    reactor.tick(Wait::No).expect("a poller").events.for_each(drop);
    tick_until(&mut reactor, |reactor| reactor.outbox().queued(conn) == 0);
    handle.send(conn, pattern(500)).expect("room again");
}

#[test]
fn a_handle_closes_and_kicks() {
    let (mut reactor, addr) = server(Builder::new());
    let handle = reactor.handle().expect("a waker");
    let mut closed = Client::connect(addr);
    let conn = accept(&mut reactor);
    handle.send(conn, "goodbye").expect("room");
    assert!(handle.close(conn));
    let reader = thread::spawn(move || (closed.receive(), closed.read_to_end()));
    tick_until(&mut reactor, |_| reader.is_finished());
    assert_eq!(reader.join().expect("no panic"), (b"goodbye".to_vec(), (vec![], true)));

    let mut kicked = Client::connect(addr);
    let conn = accept(&mut reactor);
    assert!(handle.kick(conn));
    pump(&mut reactor, |event, _| match event {
        Event::Disconnected { conn: ended, reason } => {
            ended == conn && reason.to_string() == "kicked"
        }
        _ => false,
    });
    assert_eq!(kicked.read_to_end(), (vec![], false));
    assert_eq!(handle.send(conn, "late"), Err(SendError::Stale));
    assert!(handle.kick(conn), "the reactor is there; the stale id is ignored");
}

#[test]
fn a_stale_id_of_a_handle_never_reaches_the_slots_next_owner() {
    let (mut reactor, addr) = server(Builder::new());
    let handle = reactor.handle().expect("a waker");
    drop(Client::connect(addr));
    let old = accept(&mut reactor);
    // Handed in while the connection lives, carried out when it is gone.
    handle.send(old, "to the first").expect("it is open");
    tick_until(&mut reactor, |reactor| reactor.connections() == 0);
    let mut client = Client::connect(addr);
    let new = accept(&mut reactor);
    assert_eq!(handle.send(old, "to the first"), Err(SendError::Stale));
    handle.kick(old);
    handle.send(new, "to the second").expect("room");
    tick_until(&mut reactor, |reactor| reactor.outbox().queued(new) == 0);
    assert_eq!(client.receive(), b"to the second");
}

#[test]
fn a_handle_outlives_its_reactor() {
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    let (mut reactor, addr) = server(Builder::new());
    let _client = Client::connect(addr);
    let conn = accept(&mut reactor);
    let handle: Handle = reactor.handle().expect("a waker");
    is_shared(&handle);
    assert!(handle.is_alive());
    drop(reactor);
    assert!(!handle.is_alive() && !handle.wake() && !handle.close(conn) && !handle.kick(conn));
    assert_eq!(handle.send(conn, "nobody"), Err(SendError::Stale));
}

/// A foreign loop: it waits for the descriptor, at most until the next deadline, and ticks without waiting.
#[test]
#[cfg(unix)]
fn a_foreign_loop_can_host_the_reactor() {
    use std::os::fd::{AsRawFd, RawFd};

    let (mut reactor, addr) = server(Builder::new().idle_timeout(Duration::from_millis(50)));
    let mut foreign = mio::Poll::new().expect("a poller");
    let fd: RawFd = reactor.as_raw_fd();
    let interest = mio::Interest::READABLE;
    let mut source = mio::unix::SourceFd(&fd);
    foreign.registry().register(&mut source, mio::Token(0), interest).expect("it can be polled");
    let mut client = Client::connect(addr);
    client.send(b"hello");
    let mut seen = Vec::new();
    let mut ready = mio::Events::with_capacity(4);
    while seen.len() < 3 {
        let now = reactor.now();
        let timeout = reactor.next_deadline().map(|at| at.saturating_duration_since(now));
        foreign.poll(&mut ready, timeout.or(Some(PATIENCE))).expect("a poller");
        assert!(timeout.is_some() || !ready.is_empty(), "the descriptor tells of everything else");
        for event in reactor.tick(Wait::No).expect("a poller").events {
            seen.push(match event {
                Event::Connected { .. } => "connected".to_owned(),
                Event::Message { payload, .. } => String::from_utf8_lossy(payload).into_owned(),
                Event::Disconnected { reason, .. } => reason.to_string(),
                other => panic!("{other:?}"),
            });
        }
    }
    assert_eq!(seen, ["connected", "hello", "silent for too long"]);
}

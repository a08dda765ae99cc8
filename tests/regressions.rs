//! What was wrong once, on real sockets: a test for each, which failed before it was mended.

#![cfg(unix)]
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tickwire::{Error, Event, ListenOptions, Reactor, SocketOptions, Wait};

/// Orderly end at shutdown: the peer has half-closed, gets a reset instead of what was sent.
#[test]
fn a_shutdown_does_not_reset_what_ends_in_order() {
    let mut reactor = Reactor::new().expect("it works");
    let listener = reactor.listen("127.0.0.1:0").expect("it works");
    let addr = reactor.local_addr(listener).expect("it works").as_socket_addr().expect("it works");
    let mut client = TcpStream::connect(addr).expect("it works");
    client.write_all(&[0, 0, 0, 1, 7]).expect("it works");
    client.shutdown(Shutdown::Write).expect("it works");
    let mut is_told = false;
    while !is_told {
        let tick = reactor.tick(Wait::Event(Duration::from_millis(50))).expect("it works");
        let mut outbox = tick.outbox;
        for event in tick.events {
            if let Event::Message { conn, .. } = event {
                for _ in 0..60 {
                    outbox.send(conn, &[9; 16_000]).expect("it works");
                }
                is_told = true;
            }
        }
    }
    reactor.shutdown(Instant::now() + Duration::from_secs(10));
    while reactor.connections() > 0 {
        reactor
            .tick(Wait::Event(Duration::from_millis(50)))
            .expect("it works")
            .events
            .for_each(drop);
    }
    let mut heard = Vec::new();
    let end = client.read_to_end(&mut heard);
    assert!(end.is_ok(), "{end:?} after {} of {} bytes", heard.len(), 60 * 16_004);
    assert_eq!(heard.len(), 60 * 16_004);
}

/// listen_std after shutdown.
#[test]
fn nobody_listens_after_a_shutdown() {
    let mut reactor = Reactor::new().expect("it works");
    reactor.listen("127.0.0.1:0").expect("it works");
    reactor.shutdown(Instant::now());
    let late = reactor.listen_std(TcpListener::bind("127.0.0.1:0").expect("it works"));
    assert!(matches!(late, Err(Error::Shutdown)), "{late:?}");
}

/// Listening on a path deletes whatever file is there.
#[test]
fn listening_on_a_path_deletes_no_file_that_is_not_a_socket() {
    let path = std::env::temp_dir().join(format!("tickwire-review-{}.sav", std::process::id()));
    std::fs::write(&path, b"three years of a player's life").expect("it works");
    let listened = Reactor::new().expect("it works").listen(path.as_path()).map(drop);
    let content = std::fs::read(&path).ok();
    let _ = std::fs::remove_file(&path);
    assert!(listened.is_err(), "a regular file was in the way");
    assert_eq!(content.as_deref(), Some(&b"three years of a player's life"[..]));
}

/// A listener that ends removes its successor's socket file.
#[test]
fn an_old_server_leaves_the_socket_of_its_successor() {
    let path = std::env::temp_dir().join(format!("tickwire-review-{}.sock", std::process::id()));
    let mut old = Reactor::new().expect("it works");
    old.listen(path.as_path()).expect("it works");
    std::fs::remove_file(&path).expect("it works"); // as a supervisor does before it starts the new one
    let mut new = Reactor::new().expect("it works");
    new.listen(path.as_path()).expect("it works");
    drop(old);
    let is_there = path.exists();
    let _ = std::fs::remove_file(&path);
    assert!(is_there, "the new server cannot be reached any more");
}

/// Buffer sizes of a Unix listener do not reach what it accepts, nor those of a connect.
#[test]
fn unix_sockets_have_the_buffers_that_were_asked_for() {
    let path = std::env::temp_dir().join(format!("tickwire-review-b-{}.sock", std::process::id()));
    let taken = |bytes: usize| {
        let options = ListenOptions::new().socket_options(SocketOptions::new().send_buffer(bytes));
        let mut reactor = Reactor::builder()
            .frame_len_max(1 << 20)
            .send_queue_max(8 << 20)
            .build()
            .expect("it works");
        reactor.listen_with(path.as_path(), &options).expect("it works");
        let _client = std::os::unix::net::UnixStream::connect(&path).expect("it works");
        let mut conn = None;
        while conn.is_none() {
            for event in
                reactor.tick(Wait::Event(Duration::from_millis(50))).expect("it works").events
            {
                if let Event::Connected { conn: id, .. } = event {
                    conn = Some(id);
                }
            }
        }
        for _ in 0..6 {
            reactor.outbox().send(conn.expect("it works"), &[0; 1 << 20]).expect("it works");
        }
        for _ in 0..4 {
            reactor.flush();
        }
        reactor.stats().bytes_sent
    };
    let (small, large) = (taken(8_000), taken(200_000));
    assert!(small * 4 < large, "{small} bytes are taken with 8,000 asked, {large} with 200,000");
}

/// Asking whether somebody listens on a path must not wait for a server whose backlog is full.
#[test]
fn a_busy_server_is_neither_waited_for_nor_replaced() {
    use socket2::{Domain, SockAddr, Socket, Type};

    let path = std::env::temp_dir().join(format!("tickwire-busy-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let addr = SockAddr::unix(&path).expect("a short path");
    let socket = || Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    let busy = socket();
    busy.bind(&addr).expect("a free path");
    busy.listen(0).expect("it is bound");
    let mut waiting = Vec::new();
    loop {
        let client = socket();
        client.set_nonblocking(true).expect("a plain option");
        match client.connect(&addr) {
            Ok(()) => waiting.push(client),
            Err(_) => break, // the backlog is full
        }
    }
    let (done, is_done) = std::sync::mpsc::channel();
    let theirs = path.clone();
    std::thread::spawn(move || {
        let listened = Reactor::new().expect("a poller").listen(theirs.as_path()).is_ok();
        let _ = done.send(listened);
    });
    let listened = is_done.recv_timeout(Duration::from_secs(10)).expect("it answers at once");
    let is_there = path.exists();
    let _ = std::fs::remove_file(&path);
    assert!(!listened && is_there && !waiting.is_empty());
}

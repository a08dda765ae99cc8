//! Unix domain sockets, through the same calls.

#![cfg(unix)]

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use common::{PATIENCE, frame, pattern, pump, tick_until};
use tickwire::{Addr, ConnectFailure, DisconnectReason, Event, Reactor, Wait};

/// A path that is free and goes away with the test.
struct Path(PathBuf);

impl Path {
    fn new(name: &str) -> Path {
        let path = std::env::temp_dir().join(format!("tickwire-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Path(path)
    }

    fn listen(&self) -> Reactor {
        let mut reactor = Reactor::new().expect("a poller");
        let listener = reactor.listen(self.0.as_path()).expect("a free path");
        assert_eq!(reactor.local_addr(listener), Some(Addr::from(self.0.clone())));
        reactor
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn messages_pass_both_ways_and_the_end_is_told() {
    let path = Path::new("both-ways");
    let mut reactor = path.listen();
    let mut client = UnixStream::connect(&path.0).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a plain option");
    let large = pattern(16_384);
    client.write_all(&[frame(b"hello"), frame(&large)].concat()).expect("it is read");
    let mut messages = 0;
    pump(&mut reactor, |event, outbox| match event {
        Event::Connected { peer, .. } => {
            assert_eq!((peer.path(), peer.to_string()), (None, "unix:".to_owned()));
            false
        }
        Event::Message { conn, payload } => {
            outbox.send(conn, payload).expect("room");
            messages += 1;
            messages == 2
        }
        other => panic!("{other:?}"),
    });
    reactor.flush();
    let mut echoed = vec![0; 4 + 5 + 4 + 16_384];
    client.read_exact(&mut echoed).expect("both echoes");
    assert_eq!(echoed, [frame(b"hello"), frame(&large)].concat());
    drop(client);
    pump(&mut reactor, |event, _| {
        matches!(event, Event::Disconnected { reason: DisconnectReason::ClosedByPeer, .. })
    });
}

#[test]
fn reactors_connect_to_a_path_too() {
    let path = Path::new("connect");
    let mut server = path.listen();
    let mut client = Reactor::new().expect("a poller");
    let conn = client.connect(format!("unix:{}", path.0.display())).expect("room");
    client.outbox().send(conn, b"hello").expect("room");
    pump(&mut client, |event, _| match event {
        Event::Connected { peer, .. } => {
            assert_eq!(peer.path(), Some(path.0.as_path()));
            true
        }
        other => panic!("{other:?}"),
    });
    client.flush();
    pump(&mut server, |event, outbox| {
        let Event::Message { conn, payload: b"hello" } = event else { return false };
        outbox.kick(conn)
    });
    server.flush();
    pump(&mut client, |event, _| matches!(event, Event::Disconnected { .. }));
}

#[test]
fn a_path_where_nobody_listens_is_a_failed_connect() {
    let path = Path::new("nobody");
    let mut reactor = Reactor::new().expect("a poller");
    reactor.connect(path.0.as_path()).expect("an id");
    pump(&mut reactor, |event, _| {
        let Event::ConnectFailed { reason, .. } = event else { panic!("{event:?}") };
        assert_eq!(reason, ConnectFailure::Io(std::io::ErrorKind::NotFound));
        true
    });
}

#[test]
fn the_file_goes_with_the_listener_and_a_left_over_one_is_no_hindrance() {
    let path = Path::new("file");
    let reactor = path.listen();
    let taken = Reactor::new().expect("a poller").listen(path.0.as_path());
    assert!(taken.is_err(), "somebody listens there");
    drop(reactor);
    assert!(!path.0.exists());
    // A server that was killed leaves its file behind.
    drop(std::os::unix::net::UnixListener::bind(&path.0).expect("a free path"));
    assert!(path.0.exists());
    let mut reactor = path.listen();
    let _client = UnixStream::connect(&path.0).expect("it listens");
    tick_until(&mut reactor, |reactor| reactor.connections() == 1);
    assert!(reactor.tick(Wait::No).is_ok());
}

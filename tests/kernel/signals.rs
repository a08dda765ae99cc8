//! SIGPIPE at its default, as in a host program in C: a write to a peer that is gone must not end the process.

use bytes::Bytes;
use tickwire::{Builder, Event, Reactor, Wait};

use crate::common::{Client, PATIENCE, accept, pattern, server};
use crate::{again, is_inside, passed};

#[test]
fn a_write_to_a_closed_peer_does_not_end_the_process() {
    if !is_inside() {
        let test = "signals::a_write_to_a_closed_peer_does_not_end_the_process";
        passed(&again("env", &[], test).output().expect("it runs"));
        return;
    }
    unsafe extern "C" {
        fn signal(number: i32, handler: usize) -> usize;
    }
    const SIGPIPE: i32 = 13;
    // SAFETY: signal(2) with SIG_DFL, which is 0; no handler of ours runs.
    unsafe { signal(SIGPIPE, 0) };
    let status = std::fs::read_to_string("/proc/self/status").expect("proc(5)");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("proc(5)");
    let ignored = u64::from_str_radix(ignored.trim(), 16).expect("a mask");
    assert_eq!(ignored & 1 << (SIGPIPE - 1), 0, "a write may kill us now");

    // One slice, several, and both on a local socket.
    let path = std::env::temp_dir().join(format!("tickwire-sigpipe-{}.sock", std::process::id()));
    for is_shared in [false, true] {
        for is_local in [false, true] {
            let (mut reactor, addr) = server(Builder::new().frame_len_max(100_000));
            let conn = if is_local {
                reactor.listen(path.as_path()).expect("a free path");
                let client = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
                let conn = accept(&mut reactor);
                drop(client);
                conn
            } else {
                let client = Client::connect(addr);
                let conn = accept(&mut reactor);
                client.reset();
                conn
            };
            write_until_the_end(&mut reactor, conn, is_shared);
        }
    }
}

/// Writes without reading, so that it is the write that meets the end.
fn write_until_the_end(reactor: &mut Reactor, conn: tickwire::ConnId, is_shared: bool) {
    assert!(reactor.outbox().pause_read(conn));
    let payload = Bytes::from(pattern(50_000));
    let before = reactor.stats().sends;
    for _ in 0..10 {
        let mut outbox = reactor.outbox();
        match is_shared {
            true => drop(outbox.broadcast_bytes([conn], &payload)),
            false => drop(outbox.send(conn, b"is anybody there?")),
        }
        reactor.flush();
    }
    assert!(reactor.stats().sends > before);
    reactor.outbox().resume_read(conn);
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let tick = reactor.tick(Wait::Event(PATIENCE)).expect("a poller");
        if tick.events.into_iter().any(|event| matches!(event, Event::Disconnected { .. })) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "it has no end");
    }
}

//! Out of descriptors: on real sockets, in a process of its own, since the limit is the process's.

#![cfg(target_os = "linux")]

mod common;

use std::net::TcpStream;
use std::time::Duration;

use common::{Client, accept, pump, server, tick_until};
use tickwire::{Builder, Event, Wait};

/// ninenines/ranch#36, joyent/libuv#690: no spin while descriptors are out, nobody else is hurt, and whoever
/// waited is accepted once there are some, without any new client having to arrive.
#[test]
fn without_descriptors_accepting_rests_and_resumes_by_itself() {
    let (mut reactor, addr) = server(Builder::new());
    let mut first = Client::connect(addr);
    accept(&mut reactor);

    // The clients' ends take descriptors of this process too, so they are opened before the limit falls.
    let _waiting: Vec<_> = (0..40).map(|_| TcpStream::connect(addr).expect("a backlog")).collect();
    let open = std::fs::read_dir("/proc/self/fd").expect("proc(5)").count() as u64;
    let (_, hard) = rlimit::Resource::NOFILE.get().expect("getrlimit(2)");
    rlimit::Resource::NOFILE.set(open + 8, hard).expect("a lower limit is always allowed");

    tick_until(&mut reactor, |reactor| reactor.stats().accept_failures > 0);
    let before = reactor.stats();
    for _ in 0..10 {
        reactor
            .tick(Wait::Event(Duration::from_millis(20)))
            .expect("a poller")
            .events
            .for_each(drop);
    }
    let after = reactor.stats();
    let tries = after.accept_failures - before.accept_failures;
    assert!(tries <= 10, "{tries} tries in 200 ms: one each 50 ms is enough");
    assert!(after.polls - before.polls <= 40, "no spin");

    first.send(b"served all the time");
    pump(&mut reactor, |event, outbox| match event {
        Event::Message { conn, payload } => {
            outbox.send(conn, payload).expect("room");
            true
        }
        _ => false,
    });
    reactor.flush();
    assert_eq!(first.receive(), b"served all the time");

    // One that leaves makes room for one that waits.
    let connected = reactor.connections();
    let accepted = reactor.stats().accepted;
    assert!(connected < 41);
    drop(first);
    tick_until(&mut reactor, |reactor| reactor.stats().accepted > accepted);

    rlimit::Resource::NOFILE.set(hard, hard).expect("up to the hard limit is allowed");
    tick_until(&mut reactor, |reactor| reactor.connections() == 40);
}

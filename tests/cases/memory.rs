//! O01, O13 and O18: what peers can make a server hold. Heap is counted; it is that of the reactor's thread alone.

use std::time::{Duration, Instant};

use tickwire::{
    Builder, DisconnectReason, Event, ListenOptions, Reactor, SendError, SendPolicy, SocketOptions,
    Tick, Wait,
};

use crate::common::{Client, accept, frame, pattern, pump, server, tick_until};
use crate::heap::live;
use crate::{is_alone, meet};

/// tokio-rs/tokio#333.
#[test]
fn o01_a_header_alone_makes_the_server_allocate() {
    const CLIENTS: usize = 1_000;
    let builder =
        || Builder::new().frame_len_max(8 << 20).send_queue_max(9 << 20).buffered_max(64 << 20);
    let held_by = |declared: u32| {
        let (mut reactor, addr) = server(builder());
        let mut clients = Vec::with_capacity(CLIENTS);
        for _ in 0..CLIENTS {
            clients.push(Client::connect(addr));
            accept(&mut reactor);
        }
        let before = live();
        clients.iter_mut().for_each(|client| client.write(&declared.to_be_bytes()));
        let is_there = |reactor: &mut Reactor| {
            let stats = reactor.stats();
            stats.bytes_received == 4 * CLIENTS as u64
        };
        tick_until(&mut reactor, is_there);
        reactor.tick(Wait::No).expect("a poller").events.for_each(drop);
        let held = live() - before;
        assert_eq!((reactor.connections(), reactor.stats().messages_received), (CLIENTS, 0));

        // One of them brings 64 KiB of the payload.
        let before = live();
        if declared > 1 << 16 {
            clients[0].write(&vec![7; 1 << 16]);
            tick_until(&mut reactor, |it| it.stats().bytes_unfinished >= 1 << 16);
            reactor.tick(Wait::No).expect("a poller").events.for_each(drop);
            let grown = live() - before;
            // Its buffer; beside it the pool's list of buffers may have grown.
            assert!(grown <= (1 << 17) + 1024, "{grown} bytes for 64 KiB of payload");
        }
        held
    };
    let (modest, greedy) = (held_by(16), held_by(8 << 20));
    println!(
        "o01: {modest} bytes for {CLIENTS} headers of 16 bytes, {greedy} for as many of 8 MiB"
    );
    assert!((greedy - modest).abs() * 100 <= modest.max(1), "{greedy} bytes instead of {modest}");
    assert!(greedy <= (16 * 1024 * CLIENTS) as isize);
}

/// redis/redis#91, redis/redis#13993. Resident memory is the process's, so this runs in one of its own.
#[cfg(target_os = "linux")]
#[test]
fn o13_a_peer_that_never_reads() {
    if !is_alone("memory::o13_a_peer_that_never_reads") {
        return;
    }
    const LIMIT: usize = 256 * 1024;
    const MESSAGES: u64 = 100_000;
    for policy in [SendPolicy::Error, SendPolicy::Disconnect] {
        let builder = Builder::new().send_queue_max(LIMIT).send_policy(policy);
        let (mut reactor, addr) = server(builder.write_stall_timeout(None));
        // Small system buffers, so that it is our queue that fills.
        let small = ListenOptions::new().socket_options(SocketOptions::new().send_buffer(4_096));
        let listener = reactor.listen_with("127.0.0.1:0", &small).expect("a free port");
        let small = reactor.local_addr(listener).and_then(|addr| addr.as_socket_addr());
        let (mut healthy, healthy_conn) = meet(&mut reactor, addr);
        let reader = std::thread::spawn(move || {
            (0..MESSAGES).for_each(|number| assert_eq!(healthy.receive(), message(number)));
            healthy
        });
        // Warm, with what everybody needs.
        for number in 0..1_000 {
            send(&mut reactor, healthy_conn, number);
        }
        let before = resident();
        let (deaf, deaf_conn) = meet(&mut reactor, small.expect("it listens"));
        let (mut full, mut ends) = (0, Vec::new());
        for number in 1_000..MESSAGES {
            send(&mut reactor, healthy_conn, number);
            let Tick { events, mut outbox, .. } = reactor.tick(Wait::No).expect("a poller");
            for event in events {
                let Event::Disconnected { conn, reason } = event else { panic!("{event:?}") };
                ends.push((conn, reason));
            }
            match outbox.send(deaf_conn, &message(number)) {
                Ok(()) => {}
                Err(SendError::Full) => full += 1,
                Err(error) => assert_eq!(policy, SendPolicy::Disconnect, "{error}"),
            }
            assert!(outbox.queued(deaf_conn) <= LIMIT);
        }
        assert!(full > 0, "the limit was met");
        match policy {
            SendPolicy::Error => {
                assert_eq!(ends, []);
                drop(deaf);
                tick_until(&mut reactor, |reactor| reactor.connections() == 1);
            }
            _ => assert_eq!(ends, [(deaf_conn, DisconnectReason::SendQueueFull)]),
        }
        tick_until(&mut reactor, |reactor| {
            reactor.stats().bytes_queued == 0 && reader.is_finished()
        });
        reader.join().expect("all of them, in order");
        let grown = resident().saturating_sub(before);
        println!("o13: {policy:?}: {grown} bytes more are resident than before");
        assert!(grown <= 1 << 20, "{grown} bytes");
    }
}

fn message(number: u64) -> Vec<u8> {
    let mut payload = vec![7; 1_024];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    payload
}

/// Sends one message, as soon as there is room for it.
fn send(reactor: &mut Reactor, to: tickwire::ConnId, number: u64) {
    if reactor.outbox().queued(to) > 100_000 {
        tick_until(reactor, |reactor| reactor.outbox().queued(to) < 50_000);
    }
    reactor.outbox().send(to, &message(number)).expect("there is room");
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc(5)");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("proc(5)");
    let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<usize>().ok());
    kib.expect("proc(5)") * 1024
}

/// actix/actix-web#2075. That memory follows time back is asserted in virtual time: `o18_` in `tests/sim`.
#[test]
fn o18_peak_memory_becomes_permanent_memory() {
    const CLIENTS: usize = 200;
    const MIB: usize = 1 << 20;
    let builder = Builder::new().frame_len_max(MIB).send_queue_max(2 * MIB).batch_memory(3 * MIB);
    let (mut reactor, addr) = server(builder);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| meet(&mut reactor, addr).0).collect();
    let small = frame(&[1; 16]);
    clients.iter_mut().for_each(|client| client.write(&small));
    echo(&mut reactor, CLIENTS);
    clients.iter_mut().for_each(|client| assert_eq!(client.receive(), [1; 16]));
    let before = live();
    let mut peak = 0;
    let begun = Instant::now();
    for number in 0..CLIENTS {
        // It reads in a thread, as 1 MiB fits no pair of socket buffers for sure.
        let mut client = clients.remove(0);
        let talk = std::thread::spawn(move || {
            client.send(&pattern(MIB));
            assert!(client.receive() == pattern(MIB), "its echo");
            client
        });
        echo(&mut reactor, 1);
        tick_until(&mut reactor, |reactor| {
            peak = peak.max(live() - before);
            reactor.stats().bytes_queued == 0 && talk.is_finished()
        });
        clients.push(talk.join().expect("no panic"));
        assert!(peak <= 12 * MIB as isize, "{peak} bytes for one frame of 1 MiB, client {number}");
    }
    println!("o18: {CLIENTS} MiB echoed in {:?}, peak {peak} bytes", begun.elapsed());
}

/// Echoes so many messages.
fn echo(reactor: &mut Reactor, count: usize) {
    let mut left = count;
    pump(reactor, |event, outbox| {
        let Event::Message { conn, payload } = event else { panic!("{event:?}") };
        outbox.send(conn, payload).expect("room");
        left -= 1;
        left == 0
    });
    reactor.flush();
    reactor.tick(Wait::Event(Duration::ZERO)).expect("a poller").events.for_each(drop);
}

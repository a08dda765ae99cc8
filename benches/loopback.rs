//! What a tick costs with the kernel: over loopback, clients in the same thread.
//!
//! ```text
//! cargo bench --bench loopback
//! ```
//!
//! `echo`: time per message of a whole round: each client sends ten messages of 100 bytes in one write, ticks answer them, each client
//! reads ten. Nearly all of it is the kernel's. `idle`: an empty tick over so many connections that say nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickwire::{Event, Reactor, Tick, Wait};

const MESSAGES: usize = 10;
const FRAME_LEN: usize = 104;

fn meet(count: usize) -> (Reactor, Vec<TcpStream>) {
    let mut reactor = Reactor::new().expect("a poller");
    let listener = reactor.listen("127.0.0.1:0").expect("a free port");
    let addr = reactor.local_addr(listener).and_then(|addr| addr.as_socket_addr());
    let addr: SocketAddr = addr.expect("it listens");
    let mut clients = Vec::new();
    while clients.len() < count {
        clients.push(TcpStream::connect(addr).expect("it listens"));
        while reactor.connections() < clients.len() {
            reactor.tick(Wait::No).expect("a poller").events.for_each(drop);
        }
    }
    (reactor, clients)
}

fn echo(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("loopback echo");
    for count in [1, 100] {
        let (mut reactor, mut clients) = meet(count);
        let mut frame = [7; FRAME_LEN];
        frame[..4].copy_from_slice(&(FRAME_LEN as u32 - 4).to_be_bytes());
        let frames = frame.repeat(MESSAGES);
        let mut replies = vec![0; frames.len()];
        group.throughput(Throughput::Elements((count * MESSAGES) as u64));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                for client in &mut clients {
                    client.write_all(&frames).expect("it is open");
                }
                let mut answered = 0;
                while answered < count * MESSAGES {
                    let Tick { events, mut outbox, .. } = reactor.tick(Wait::No).expect("a poller");
                    for event in events {
                        if let Event::Message { conn, payload } = event {
                            outbox.send(conn, payload).expect("room");
                            answered += 1;
                        }
                    }
                }
                reactor.flush();
                for client in &mut clients {
                    client.read_exact(&mut replies).expect("it is open");
                }
            });
        });
        assert_eq!(replies, frames);
    }
    group.finish();
}

fn idle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("loopback idle");
    let descriptors = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(1_024) as usize;
    for count in [1, 1_000, 5_000] {
        if 2 * count + 32 > descriptors {
            println!("{count} connections: left out, there are {descriptors} descriptors");
            continue;
        }
        let (mut reactor, clients) = meet(count);
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                let tick = reactor.tick(Wait::No).expect("a poller");
                assert_eq!(tick.events.remaining(), 0);
            });
        });
        drop(clients);
    }
    group.finish();
}

/// All benches together take minutes.
fn short() -> Criterion {
    let criterion = Criterion::default().warm_up_time(Duration::from_millis(300));
    criterion.measurement_time(Duration::from_millis(1_500)).sample_size(30)
}

criterion_group!(name = benches; config = short(); targets = echo, idle);
criterion_main!(benches);

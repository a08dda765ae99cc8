//! What a tick costs without the kernel: on a network that hands out and swallows prepared bytes.
//!
//! ```text
//! cargo bench --bench tick
//! ```
//!
//! `echo`: time per 100-byte message, received and sent back, when each connection brings ten of them
//! in one receive, whole or cut in the middle of a frame. `idle`: an empty tick, with and without a deadline for
//! every connection.

use std::hint::black_box;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickwire::net::{Net, Readiness, Received, Source};
use tickwire::{Addr, Builder, ConnectOptions, Event, ListenOptions, Reactor, Tick, Wait};

const MESSAGES: usize = 10;
const PAYLOAD_LEN: usize = 100;

/// A network without a kernel: in each wait, whoever was fed is ready, and a receive copies.
struct Feed {
    /// What each connection receives per wait: the same frames, cut at the same place.
    bytes: Vec<u8>,
    /// Clients still to be accepted.
    waiting: u32,
    connections: u32,
    is_feeding: bool,
    sent: usize,
    now: Instant,
}

impl Feed {
    fn new(connections: u32, cut: usize) -> Feed {
        let mut frame = (PAYLOAD_LEN as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&[7; PAYLOAD_LEN]);
        let mut bytes = frame.repeat(MESSAGES);
        bytes.rotate_left(cut);
        Feed {
            bytes,
            waiting: connections,
            connections,
            is_feeding: false,
            sent: 0,
            now: Instant::now(),
        }
    }
}

impl Net for Feed {
    type Listener = ();
    type Stream = ();

    fn now(&self) -> Instant {
        self.now
    }

    fn sleep(&mut self, deadline: Instant) {
        self.now = deadline;
    }

    fn wait(&mut self, _: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()> {
        let report = |source| Readiness { source, readable: true, writable: false, insist: false };
        if self.waiting > 0 {
            ready.push(report(Source::Listener(0)));
        } else if self.is_feeding {
            ready.extend((0..self.connections).map(|slot| report(Source::Conn(slot))));
        }
        Ok(())
    }

    fn waker(&mut self) -> io::Result<Arc<dyn Fn() + Send + Sync>> {
        Ok(Arc::new(|| {}))
    }

    fn recv(&mut self, _: &mut (), into: &mut [u8]) -> io::Result<Received> {
        let len = self.bytes.len();
        into[..len].copy_from_slice(&self.bytes);
        Ok(Received { len, drained: true })
    }

    fn send(&mut self, _: &mut (), from: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = from.iter().map(|slice| black_box(slice).len()).sum();
        self.sent += len;
        Ok(len)
    }

    fn accept(&mut self, _: &()) -> io::Result<((), Addr)> {
        match self.waiting.checked_sub(1) {
            Some(rest) => {
                self.waiting = rest;
                Ok(((), Addr::from(([127, 0, 0, 1], 1))))
            }
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn listen(&mut self, _: &Addr, _: &ListenOptions, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn local_addr(&self, _: &()) -> io::Result<Addr> {
        Ok(Addr::from(([127, 0, 0, 1], 1)))
    }

    fn connect(&mut self, _: &Addr, _: &ConnectOptions, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn connected(&mut self, _: &mut ()) -> io::Result<bool> {
        Ok(false)
    }

    fn register(&mut self, _: &mut (), _: u32) -> io::Result<()> {
        Ok(())
    }

    fn shutdown_write(&mut self, _: &mut ()) -> io::Result<()> {
        Ok(())
    }

    fn unlisten(&mut self, _: ()) {}

    fn close(&mut self, _: ()) {}

    fn abort(&mut self, _: ()) {}
}

/// A reactor with this many connections, all accepted.
fn reactor(connections: u32, cut: usize) -> Reactor<Feed> {
    build(Builder::new(), connections, cut)
}

fn build(builder: Builder, connections: u32, cut: usize) -> Reactor<Feed> {
    let mut reactor = builder
        .batch_memory(32 * 1024 * 1024)
        .event_budget(200_000)
        .build_on(Feed::new(connections, cut))
        .expect("a usable configuration");
    reactor.listen("127.0.0.1:1").expect("it always works");
    while reactor.connections() < connections as usize {
        reactor.tick(Wait::No).expect("it always works").events.for_each(drop);
    }
    reactor
}

fn echo(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("echo");
    for connections in [1, 10_000] {
        for (shape, cut) in [("whole frames", 0), ("cut frames", 50)] {
            let mut reactor = reactor(connections, cut);
            reactor.net_mut().is_feeding = true;
            if cut > 0 {
                // The stream begins in the middle of a frame: begin with what completes it.
                let head = reactor.net().bytes[reactor.net().bytes.len() - cut..].to_vec();
                let whole = std::mem::replace(&mut reactor.net_mut().bytes, head);
                reactor.tick(Wait::No).expect("it always works").events.for_each(drop);
                reactor.net_mut().bytes = whole;
            }
            let messages = u64::from(connections) * MESSAGES as u64;
            group.throughput(Throughput::Elements(messages));
            group.bench_function(BenchmarkId::new(shape, connections), |bencher| {
                bencher.iter(|| {
                    let tick = reactor.tick(Wait::No).expect("it always works");
                    let Tick { events, mut outbox, .. } = tick;
                    let mut count = 0;
                    for event in events {
                        if let Event::Message { conn, payload } = event {
                            outbox.send(conn, payload).expect("room");
                            count += 1;
                        }
                    }
                    assert_eq!(count, messages);
                });
            });
            assert!(reactor.net().sent > 0);
        }
    }
    group.finish();
}

fn idle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("idle");
    let minute = Duration::from_secs(60);
    for (timers, builder) in [
        ("no timers", Builder::new()),
        ("all timers", Builder::new().first_frame_timeout(minute).idle_timeout(minute)),
    ] {
        for connections in [0, 10, 10_000] {
            let mut reactor = build(builder.clone(), connections, 0);
            group.bench_function(BenchmarkId::new(timers, connections), |bencher| {
                bencher.iter(|| {
                    let tick = reactor.tick(Wait::No).expect("it always works");
                    assert_eq!(tick.events.remaining(), 0);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, echo, idle);
criterion_main!(benches);

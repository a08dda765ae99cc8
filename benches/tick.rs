//! What a tick costs without the kernel: on a network that hands out and swallows prepared bytes.
//!
//! ```text
//! cargo bench --bench tick
//! ```
//!
//! `echo`: time per message, received and sent back, with default settings. `messages in a receive`: one connection brings so many
//! of 100 bytes at once; `payload length`: ten of that length; `connections`: ten of 100 bytes from each, whole or cut in the
//! middle of a frame. `idle`: an empty tick, with and without a deadline for every connection.

#[allow(missing_docs)]
#[path = "common/feed.rs"]
mod feed;

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use feed::Feed;
use tickwire::{Builder, Event, Reactor, Tick, Wait};

/// So many frames with a payload of this length.
fn frames(count: usize, len: usize) -> Vec<u8> {
    let mut frame = (len as u32).to_be_bytes().to_vec();
    frame.resize(4 + len, 7);
    frame.repeat(count)
}

/// Feeds everybody and answers all that comes, in as many ticks as that takes.
fn echo_all(reactor: &mut Reactor<Feed>, messages: u64) {
    reactor.net_mut().feed();
    let mut count = 0;
    while count < messages {
        let Tick { events, mut outbox, .. } = reactor.tick(Wait::No).expect("it always works");
        for event in events {
            if let Event::Message { conn, payload } = event {
                outbox.send(conn, payload).expect("room");
                count += 1;
            }
        }
    }
}

fn bench_echo(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    mut reactor: Reactor<Feed>,
    messages: u64,
) {
    group.throughput(Throughput::Elements(messages));
    group.bench_function(id, |bencher| bencher.iter(|| echo_all(&mut reactor, messages)));
}

fn echo(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("echo");
    for count in [1, 10, 100] {
        let (reactor, _) = feed::reactor(Builder::new(), 1, frames(count, 100));
        let id = BenchmarkId::new("messages in a receive", count);
        bench_echo(&mut group, id, reactor, count as u64);
    }
    for len in [16, 1_000, 10_000] {
        let (reactor, _) = feed::reactor(Builder::new(), 1, frames(10, len));
        bench_echo(&mut group, BenchmarkId::new("payload length", len), reactor, 10);
    }
    for connections in [100, 10_000] {
        let messages = 10 * u64::from(connections);
        let (reactor, _) = feed::reactor(Builder::new(), connections, frames(10, 100));
        let id = BenchmarkId::new("connections, whole frames", connections);
        bench_echo(&mut group, id, reactor, messages);
        let id = BenchmarkId::new("connections, cut frames", connections);
        bench_echo(&mut group, id, cut(connections), messages);
    }
    group.finish();
}

/// Ten frames in each receive, the last one in two parts.
fn cut(connections: u32) -> Reactor<Feed> {
    let mut bytes = frames(10, 100);
    bytes.rotate_left(50);
    // The stream begins in the middle of a frame: begin with what completes it.
    let head = bytes[bytes.len() - 50..].to_vec();
    let (mut reactor, _) = feed::reactor(Builder::new(), connections, head);
    reactor.net_mut().feed();
    reactor.tick(Wait::No).expect("it always works").events.for_each(drop);
    reactor.net_mut().bytes = bytes;
    reactor
}

fn idle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("idle");
    let minute = Duration::from_secs(60);
    for (timers, builder) in [
        ("no timers", Builder::new()),
        ("all timers", Builder::new().first_frame_timeout(minute).idle_timeout(minute)),
    ] {
        for connections in [0, 10, 10_000] {
            let (mut reactor, _) = feed::reactor(builder.clone(), connections, Vec::new());
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

/// All benches together take minutes.
fn short() -> Criterion {
    let criterion = Criterion::default().warm_up_time(Duration::from_millis(300));
    criterion.measurement_time(Duration::from_millis(1_500)).sample_size(30)
}

criterion_group!(name = benches; config = short(); targets = echo, idle);
criterion_main!(benches);

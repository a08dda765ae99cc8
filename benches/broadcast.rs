//! From which size on a broadcast should share its payload instead of copying it for each receiver.
//!
//! ```text
//! cargo bench --bench broadcast
//! ```
//!
//! One message to a hundred connections over loopback: time of `broadcast` and `flush` together, so with the
//! sends, and without the receivers' work. `copied` puts the payload into each connection's ring and sends one piece, `shared`
//! sends a header from the ring and a payload that all have in common: two pieces.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickwire::{Builder, ConnId, Event, Reactor, Wait};

const RECEIVERS: usize = 100;

struct Crowd {
    reactor: Reactor,
    conns: Vec<ConnId>,
    clients: Vec<TcpStream>,
}

impl Crowd {
    fn gather(shared_len_min: usize) -> Crowd {
        let builder = Builder::new().frame_len_max(1 << 20).send_queue_max(2 << 20);
        let mut reactor = builder.shared_len_min(shared_len_min).build().expect("usable settings");
        let listener = reactor.listen("127.0.0.1:0").expect("a free port");
        let addr = reactor.local_addr(listener).and_then(|addr| addr.as_socket_addr());
        let addr: SocketAddr = addr.expect("it listens");
        let clients =
            (0..RECEIVERS).map(|_| TcpStream::connect(addr).expect("it listens")).collect();
        let mut conns = Vec::new();
        while conns.len() < RECEIVERS {
            for event in reactor.tick(Wait::Event(Duration::from_secs(1))).expect("a poller").events
            {
                if let Event::Connected { conn, .. } = event {
                    conns.push(conn);
                }
            }
        }
        Crowd { reactor, conns, clients }
    }

    /// How long it takes to tell everybody, and that they have all heard it.
    fn tell(&mut self, payload: &[u8], sink: &mut [u8]) -> Duration {
        let begun = Instant::now();
        self.reactor.outbox().broadcast(&self.conns, payload);
        self.reactor.flush();
        let took = begun.elapsed();
        for client in &mut self.clients {
            client.read_exact(&mut sink[..4 + payload.len()]).expect("the whole message");
        }
        took
    }
}

fn broadcast(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("broadcast");
    let mut sink = vec![0; 1 << 17];
    for len in [256, 1 << 10, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16] {
        group.throughput(Throughput::Elements(RECEIVERS as u64));
        for (way, shared_len_min) in [("copied", usize::MAX), ("shared", 0)] {
            let mut crowd = Crowd::gather(shared_len_min);
            let payload = vec![7; len];
            group.bench_function(BenchmarkId::new(way, len), |bencher| {
                bencher.iter_custom(|rounds| {
                    (0..rounds).map(|_| crowd.tell(&payload, &mut sink)).sum()
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

criterion_group!(name = benches; config = short(); targets = broadcast);
criterion_main!(benches);

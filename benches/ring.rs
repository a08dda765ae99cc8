//! What the ring costs that holds a connection's unfinished input and its output.
//!
//! ```text
//! cargo bench --bench ring
//! ```
//!
//! Time per byte of a payload that is put in and taken out again, behind a header: from the front, as nearly always, and across the
//! end of the buffer. Beside it, the same with a `VecDeque<u8>` of the standard library, the ring that one would take else.

// The ring is no part of the public interface; it stands alone, so it can be had as it is.
#[allow(dead_code, missing_docs, unused_imports)]
#[path = "../src/ring.rs"]
mod ring;

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ring::Ring;

const CAPACITY: usize = 64 * 1024;
const HEADER: [u8; 4] = [0, 0, 0, 1];

fn through(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ring");
    for len in [16, 100, 1_000, 16_384] {
        let payload = vec![7; len];
        group.throughput(Throughput::Bytes(len as u64));
        // A byte that stays keeps the ring from starting at the front again.
        for (place, staying) in [("from the front", 0), ("all around", 1)] {
            let mut ring = Ring::default();
            ring.rehome(Vec::with_capacity(CAPACITY));
            ring.push(&[7; 1][..staying]);
            group.bench_function(BenchmarkId::new(place, len), |bencher| {
                bencher.iter(|| {
                    ring.push_both(&HEADER, black_box(&payload));
                    black_box(ring.slices());
                    ring.consume(HEADER.len() + len);
                });
            });
            assert_eq!(ring.len(), staying);
        }
        let mut ring: VecDeque<u8> = VecDeque::with_capacity(CAPACITY);
        group.bench_function(BenchmarkId::new("VecDeque", len), |bencher| {
            bencher.iter(|| {
                ring.extend(HEADER);
                ring.extend(black_box(&payload));
                black_box(ring.as_slices());
                ring.drain(..HEADER.len() + len);
            });
        });
    }
    group.finish();
}

/// All benches together take minutes.
fn short() -> Criterion {
    let criterion = Criterion::default().warm_up_time(Duration::from_millis(300));
    criterion.measurement_time(Duration::from_millis(1_500)).sample_size(30)
}

criterion_group!(name = benches; config = short(); targets = through);
criterion_main!(benches);

//! What framings cost, each beside tokio-util's `LengthDelimitedCodec` on as many payloads of the same size.
//!
//! ```text
//! cargo bench --bench framing
//! ```
//!
//! All times are per message; a run is 64 KiB of frames or 1,000, whatever is less.
//!
//! - `decode`: from bytes in memory to payload slices, the codec alone. tokio-util's side is handed a filled `BytesMut`.
//! - `receive`: the same through a whole tick, from bytes that arrive (copied once) to events. tokio-util's side copies
//!   them into its `BytesMut`, as `FramedRead` does, and decodes.
//! - `send`: from payloads to bytes that are ready to leave, and dropped then.

#[allow(missing_docs)]
#[path = "../common/feed.rs"]
mod feed;

use std::hint::black_box;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickwire::{Builder, Codec, Envelope, Event, Framing, LengthField, Line, LineEnding, Wait};
use tokio_util::codec::{Decoder, Encoder, LengthDelimitedCodec};

const LENS: [usize; 4] = [16, 100, 1_000, 16_384];
const LEN_MAX: usize = 16_384;
const RIVAL: &str = "tokio-util";

fn framings(len: usize) -> Vec<(&'static str, Framing)> {
    vec![
        ("default", Framing::LengthPrefix),
        ("2-byte little-endian", Framing::TELEPATHY_LE16),
        ("length in a header", {
            Framing::LengthField(LengthField::new(4).offset(2).counts_itself(true).strip(8))
        }),
        ("varint", Framing::Varint),
        ("fixed", Framing::Fixed(len)),
        ("line", Framing::Line(Line::new(LineEnding::Any))),
        #[cfg(feature = "delimiter")]
        ("delimiter", Framing::Delimiter(tickwire::Delimiter::new(b"\0"))),
    ]
}

fn builder(framing: Framing) -> Builder {
    Builder::new().frame_len_max(LEN_MAX).framing(framing).send_queue_max(4 << 20)
}

fn count_of(len: usize) -> usize {
    (64 * 1024 / (len + 8)).clamp(3, 1_000)
}

/// As many frames of payloads of this length as a run has.
fn stream(framing: Framing, len: usize) -> Vec<u8> {
    let payload = vec![b'x'; len];
    let mut envelope = Envelope::new();
    framing.encode(&payload, &mut envelope).expect("it fits");
    [envelope.header(), &payload, envelope.trailer()].concat().repeat(count_of(len))
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for len in LENS {
        group.throughput(Throughput::Elements(count_of(len) as u64));
        for (name, framing) in framings(len) {
            let bytes = stream(framing, len);
            group.bench_function(BenchmarkId::new(name, len), |bencher| {
                bencher.iter(|| {
                    let mut rest = black_box(&bytes[..]);
                    let (mut count, mut scanned) = (0, 0);
                    while let Ok(Some(cut)) = framing.decode(rest, &mut scanned, LEN_MAX) {
                        black_box(&rest[cut.header_len..][..cut.payload_len]);
                        rest = &rest[cut.frame_len()..];
                        count += 1;
                        scanned = 0;
                    }
                    assert_eq!(count, count_of(len));
                });
            });
        }
        let bytes = stream(Framing::LengthPrefix, len);
        group.bench_function(BenchmarkId::new(RIVAL, len), |bencher| {
            let mut codec = LengthDelimitedCodec::new();
            bencher.iter_batched_ref(
                || BytesMut::from(&bytes[..]),
                |bytes| {
                    let mut count = 0;
                    while let Some(payload) = codec.decode(bytes).expect("whole frames") {
                        black_box(&payload[..]);
                        count += 1;
                    }
                    assert_eq!(count, count_of(len));
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn receive(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("receive");
    for len in LENS {
        group.throughput(Throughput::Elements(count_of(len) as u64));
        for (name, framing) in framings(len) {
            let (mut reactor, _) = feed::reactor(builder(framing), 1, stream(framing, len));
            group.bench_function(BenchmarkId::new(name, len), |bencher| {
                bencher.iter(|| {
                    reactor.net_mut().feed();
                    let mut count = 0;
                    for event in reactor.tick(Wait::No).expect("it always works").events {
                        if let Event::Message { payload, .. } = event {
                            black_box(payload);
                            count += 1;
                        }
                    }
                    assert_eq!(count, count_of(len));
                });
            });
        }
        let bytes = stream(Framing::LengthPrefix, len);
        group.bench_function(BenchmarkId::new(RIVAL, len), |bencher| {
            let mut codec = LengthDelimitedCodec::new();
            let mut buffer = BytesMut::with_capacity(bytes.len());
            bencher.iter(|| {
                buffer.extend_from_slice(black_box(&bytes));
                let mut count = 0;
                while let Some(payload) = codec.decode(&mut buffer).expect("whole frames") {
                    black_box(&payload[..]);
                    count += 1;
                }
                assert_eq!(count, count_of(len));
            });
        });
    }
    group.finish();
}

fn send(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("send");
    for len in LENS {
        group.throughput(Throughput::Elements(count_of(len) as u64));
        for (name, framing) in framings(len) {
            let (mut reactor, conns) = feed::reactor(builder(framing), 1, Vec::new());
            let payload = vec![b'x'; len];
            group.bench_function(BenchmarkId::new(name, len), |bencher| {
                bencher.iter(|| {
                    let mut outbox = reactor.outbox();
                    for _ in 0..count_of(len) {
                        outbox.send(conns[0], black_box(&payload)).expect("room");
                    }
                    reactor.flush();
                });
            });
        }
        let payload = Bytes::from(vec![b'x'; len]);
        group.bench_function(BenchmarkId::new(RIVAL, len), |bencher| {
            let mut codec = LengthDelimitedCodec::new();
            let mut buffer = BytesMut::with_capacity(2 * 64 * 1024);
            bencher.iter(|| {
                for _ in 0..count_of(len) {
                    codec.encode(black_box(&payload).clone(), &mut buffer).expect("it fits");
                }
                black_box(&buffer[..]);
                buffer.clear();
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

criterion_group!(name = benches; config = short(); targets = decode, receive, send);
criterion_main!(benches);

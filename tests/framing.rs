//! Every framing against a naive twin that sees all bytes at once: the same events however the bytes are cut,
//! through the whole reactor on the simulated network.

#[path = "common/twin.rs"]
mod twin;

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tickwire::sim::{Faults, SimNet, SimWorld};
use tickwire::{
    Addr, BadFrame, Builder, Codec, ConnId, ConnectOptions, Cut, DisconnectReason, Envelope, Event,
    FrameError, Framing, LengthField, Line, LineEnding, ListenOptions, Reactor, SendError, Wait,
};

use twin::{Sealed, Story, Twin};

/// Every framing with its twin.
fn all() -> Vec<(Framing, Twin<'static>)> {
    let mut all = vec![
        (
            Framing::LengthPrefix,
            Twin::Length { width: 4, little: false, offset: 0, strip: 4, adjustment: 0 },
        ),
        (Framing::Telepathy, Twin::Telepathy),
        (Framing::Varint, Twin::Varint),
        (Framing::Fixed(3), Twin::Fixed(3)),
        (Framing::Raw, Twin::Raw),
        (Framing::custom(&Sealed), Twin::Sealed),
    ];
    for width in [1, 2, 3, 4, 8] {
        for little in [false, true] {
            let mut field = LengthField::new(width);
            if little {
                field = field.little_endian();
            }
            let width = usize::from(width);
            let twin = |offset, strip, adjustment| Twin::Length {
                width,
                little,
                offset,
                strip,
                adjustment,
            };
            let own = width as i32;
            all.push((Framing::LengthField(field), twin(0, width, 0)));
            let whole = field.offset(2).counts_itself(true).adjustment(-2).strip(own as u8 + 3);
            all.push((Framing::LengthField(whole), twin(2, width + 3, -(width as i128) - 2)));
            let kept = field.offset(1).strip(0).adjustment(1);
            all.push((Framing::LengthField(kept), twin(1, 0, 1)));
            let kept = field.offset(1).strip(0).counts_itself(true);
            all.push((Framing::LengthField(kept), twin(1, 0, -(width as i128))));
        }
    }
    for ending in [LineEnding::Any, LineEnding::Lf, LineEnding::CrLf] {
        for keep in [false, true] {
            let line = Line::new(ending).keep(keep);
            all.push((Framing::Line(line), Twin::Line { ending, keep }));
        }
    }
    #[cfg(feature = "delimiter")]
    for delimiter in [&b"\0"[..], b"\r\n\r\n", b"aa", b"\n\r\n"] {
        for keep in [false, true] {
            let framing = tickwire::Delimiter::new(delimiter).keep(keep);
            all.push((Framing::Delimiter(framing), Twin::Delimiter { delimiter, keep }));
        }
    }
    all
}

// The stage.

const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

struct Stage {
    world: SimWorld,
    reactor: Reactor<SimNet>,
    addr: Addr,
    peers: u32,
}

impl Stage {
    fn new(framing: Framing, max: usize, builder: Builder) -> Stage {
        let faults = Faults { recv_segments: true, window: 8 << 20, ..Faults::default() };
        let world = SimWorld::new(5, faults);
        let mut reactor = builder.build_on(world.host(SERVER)).expect("usable settings");
        let options = ListenOptions::new().framing(framing).frame_len_max(max);
        let listener = reactor.listen_with((SERVER, 7777), &options).expect("the port is free");
        let addr = reactor.local_addr(listener).expect("it listens");
        Stage { world, reactor, addr, peers: 0 }
    }

    /// What the reactor makes of these bytes, if each piece is received by itself.
    fn tell(&mut self, bytes: &[u8], cuts: &[usize]) -> Story {
        self.peers += 1;
        let from = [10, 1, (self.peers >> 8) as u8, self.peers as u8];
        let mut peer = self.world.raw_connect(from.into(), &self.addr);
        self.world.advance(Duration::from_millis(1));
        let events = self.reactor.tick(Wait::No).expect("it works").events;
        assert!(matches!(events.last(), Some(Event::Connected { .. })));
        peer.write_cut(bytes, cuts);
        peer.close();
        let mut said = Vec::new();
        for _ in 0..200_000 {
            self.world.advance(Duration::from_millis(1));
            for event in self.reactor.tick(Wait::No).expect("it works").events {
                match event {
                    Event::Message { payload, .. } => said.push(payload.to_vec()),
                    Event::Disconnected { reason, .. } => return Story { said, reason },
                    _ => {}
                }
            }
        }
        panic!("no end after {cuts:?}");
    }
}

/// Pieces of a stream without frames have no meaning; everything else is compared as it is.
fn told(twin: Twin, mut story: Story) -> Story {
    if matches!(twin, Twin::Raw) {
        story.said = vec![story.said.concat()];
    }
    story
}

/// Numbers by chance (splitmix64), the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % bound as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        // Few values, so that delimiters and plausible lengths come up often.
        b"\0\x01\x02\x03\x04\x08\r\r\n\n\naa\x7f\x80\xff"[self.below(16)]
    }

    fn payload(&mut self, twin: Twin, len_max: usize) -> Vec<u8> {
        let len = match twin {
            Twin::Fixed(len) => len,
            _ => self.below(len_max + 1),
        };
        let mut payload: Vec<u8> = (0..len).map(|_| self.byte()).collect();
        match twin {
            Twin::Line { ending, keep: true } => {
                payload.retain(|byte| *byte != b'\n');
                payload.extend_from_slice(if ending == LineEnding::Lf { b"\n" } else { b"\r\n" });
            }
            Twin::Line { .. } => payload.retain(|byte| *byte != b'\n'),
            Twin::Delimiter { delimiter, keep: true } => {
                payload.retain(|byte| !delimiter.contains(byte));
                payload.extend_from_slice(delimiter);
            }
            Twin::Length { width, little, offset, strip: 0, adjustment } => {
                // The header is the payload's: write a true one.
                let header_len = offset + width + adjustment.max(0) as usize;
                payload.resize(payload.len() + header_len, 7);
                let value = payload.len() as i128 - (offset + width) as i128 - adjustment;
                let mut field = (value as u64).to_le_bytes()[..width].to_vec();
                if !little {
                    field.reverse();
                }
                payload[offset..offset + width].copy_from_slice(&field);
            }
            _ => {}
        }
        payload
    }

    /// Whole frames, and now and then something wrong with them.
    fn stream(&mut self, twin: Twin, len: usize, max: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let payload = self.payload(twin, max.min(len));
            match twin.encode(&payload, max) {
                Some(frame) => bytes.extend(frame),
                None => bytes.push(self.byte()),
            }
            if self.below(20) == 0 {
                bytes.push(self.byte());
            }
        }
        if self.below(3) == 0 {
            let at = self.below(bytes.len());
            bytes[at] = self.byte();
        }
        if self.below(2) == 0 {
            bytes.truncate(len);
        }
        bytes
    }

    fn cuts(&mut self, len: usize, one_in: usize) -> Vec<usize> {
        (1..len).filter(|_| self.below(one_in) == 0).collect()
    }
}

/// Every way to cut `len` bytes.
fn all_cuts(len: usize) -> impl Iterator<Item = Vec<usize>> {
    (0_u32..1 << (len - 1))
        .map(move |ways| (1..len).filter(|at| ways >> (at - 1) & 1 == 1).collect())
}

#[test]
fn every_cut_of_a_short_stream_tells_the_twins_story() {
    const MAX: usize = 12;
    let mut chance = Chance(1);
    for (framing, twin) in all() {
        let mut stage = Stage::new(framing, MAX, Builder::new());
        for round in 0..12 {
            // The more cuts, the fewer rounds.
            let len = if round < 2 { 9 } else { 6 };
            let mut bytes = chance.stream(twin, len, MAX);
            bytes.truncate(len);
            let expected = told(twin, twin.decode(&bytes, MAX));
            for cuts in all_cuts(bytes.len()) {
                let heard = told(twin, stage.tell(&bytes, &cuts));
                assert_eq!(heard, expected, "{framing:?}: {bytes:?} cut at {cuts:?}");
            }
        }
    }
}

#[test]
fn long_streams_cut_by_chance_tell_the_twins_story() {
    const MAX: usize = 300;
    let settings: [fn() -> Builder; 4] = [
        Builder::new,
        || Builder::new().read_quantum(7),
        || Builder::new().frame_quantum(1),
        || Builder::new().event_budget(3),
    ];
    let mut chance = Chance(2);
    for (framing, twin) in all() {
        let max = match twin {
            Twin::Length { width: 1, .. } => 200,
            _ => MAX,
        };
        for settings in settings {
            let mut stage = Stage::new(framing, max, settings());
            for round in 0..12 {
                let bytes = chance.stream(twin, 60 + 100 * (round % 4), max);
                let expected = told(twin, twin.decode(&bytes, max));
                let cuts = match round {
                    0 => Vec::new(),
                    1 => (1..bytes.len()).collect(),
                    _ => {
                        let one_in = 1 + chance.below(40);
                        chance.cuts(bytes.len(), one_in)
                    }
                };
                let heard = told(twin, stage.tell(&bytes, &cuts));
                assert_eq!(heard, expected, "{framing:?}: {bytes:?} cut at {cuts:?}");
            }
        }
    }
}

/// Bytes that end no line and no message, and are the right length where there is one.
fn filler(len: usize) -> Vec<u8> {
    (0..len).map(|at| b'b' + (at % 23) as u8).collect()
}

#[test]
fn frames_around_every_internal_boundary_are_whole() {
    const MAX: usize = 200_000;
    let mut chance = Chance(3);
    let framings = all().into_iter().filter(|(_, twin)| match twin {
        Twin::Length { width, strip, .. } => *width > 2 && *strip > 0,
        Twin::Fixed(_) | Twin::Sealed => false,
        Twin::Line { keep, .. } | Twin::Delimiter { keep, .. } => !keep,
        _ => true,
    });
    for (framing, twin) in framings {
        let builder = Builder::new().batch_memory(64 * 1024);
        let mut stage = Stage::new(framing, MAX, builder);
        for boundary in [128, 4 * 1024, 16 * 1024, 20 * 1024, 64 * 1024, 128 * 1024] {
            for len in [boundary - 5, boundary - 1, boundary, boundary + 1] {
                let said = [filler(3), filler(len), filler(3)];
                let frames = said.iter().map(|payload| twin.encode(payload, MAX).expect("it fits"));
                let bytes = frames.collect::<Vec<_>>().concat();
                let near = boundary - 8 + chance.below(16);
                for cuts in [vec![boundary - 1], vec![boundary], vec![near, len + 4, len + 9]] {
                    let mut cuts = cuts;
                    cuts.retain(|at| *at < bytes.len());
                    cuts.sort_unstable();
                    cuts.dedup();
                    let heard = told(twin, stage.tell(&bytes, &cuts));
                    let expected = Story { said: said.to_vec(), ..heard.clone() };
                    let expected = told(twin, expected);
                    assert!(heard == expected, "{framing:?}: {len} bytes cut at {cuts:?}");
                    assert_eq!(heard.reason, DisconnectReason::ClosedByPeer);
                }
            }
        }
    }
}

/// The largest payload is a power of two, as the ring's buffer is; what stands around it has to find room too.
#[test]
fn the_largest_frame_in_pieces_is_whole_even_where_it_just_exceeds_a_buffer() {
    for max in [32 * 1024, 64 * 1024] {
        for (framing, twin) in all() {
            let Some(frame) = twin.encode(&filler(max), max) else {
                continue; // too long for its field, or of another form
            };
            let mut stage = Stage::new(framing, max, Builder::new());
            for piece in [1_500, 30_000] {
                let cuts: Vec<usize> = (piece..frame.len()).step_by(piece).chain([max]).collect();
                let cuts: std::collections::BTreeSet<usize> = cuts.into_iter().collect();
                let heard = told(twin, stage.tell(&frame, &cuts.into_iter().collect::<Vec<_>>()));
                assert!(heard.said == [filler(max)], "{framing:?} in pieces of {piece}");
            }
        }
    }
}

/// Lines whose reader counts the bytes that it looks at.
#[derive(Debug)]
struct Counting;

static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);

impl Codec for Counting {
    fn overhead_max(&self) -> usize {
        1
    }

    fn decode(
        &self,
        bytes: &[u8],
        scanned: &mut usize,
        _: usize,
    ) -> Result<Option<Cut>, FrameError> {
        let new = &bytes[*scanned..];
        let found = new.iter().position(|byte| *byte == b'\n');
        LOOKED_AT.fetch_add(found.map_or(new.len(), |at| at + 1), Ordering::Relaxed);
        let payload_len = found.map(|at| *scanned + at);
        *scanned = bytes.len();
        Ok(payload_len.map(|payload_len| Cut { header_len: 0, payload_len, trailer_len: 1 }))
    }

    fn encode(&self, _: &[u8], envelope: &mut Envelope) -> Result<(), SendError> {
        envelope.put_trailer(b"\n");
        Ok(())
    }
}

#[test]
fn each_byte_is_looked_at_once_however_it_arrives() {
    let mut stage = Stage::new(Framing::custom(&Counting), 200_000, Builder::new());
    let said = [filler(50_000), filler(3), filler(0), filler(21_000), filler(100_000)];
    let bytes: Vec<u8> = said.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect();
    for piece in [7, 1_000, 19_999, 70_000, 200_000] {
        LOOKED_AT.store(0, Ordering::Relaxed);
        let cuts: Vec<usize> = (piece..bytes.len()).step_by(piece).collect();
        assert!(stage.tell(&bytes, &cuts).said == said);
        assert_eq!(LOOKED_AT.load(Ordering::Relaxed), bytes.len(), "in pieces of {piece}");
    }
}

/// A reactor at each end, and a connection between them.
struct Pair {
    server: Stage,
    client: Reactor<SimNet>,
    here: ConnId,
    there: ConnId,
}

impl Pair {
    fn new(framing: Framing, max: usize) -> Pair {
        let mut server = Stage::new(framing, max, Builder::new().shared_len_min(64));
        let mut client = Builder::new().build_on(server.world.host(CLIENT)).expect("usable");
        let options = ConnectOptions::new().framing(framing).frame_len_max(max);
        let there = client.connect_with(&server.addr, &options).expect("there is room");
        for _ in 0..100 {
            server.world.advance(Duration::from_millis(1));
            client.tick(Wait::No).expect("it works").events.for_each(drop);
            for event in server.reactor.tick(Wait::No).expect("it works").events {
                if let Event::Connected { conn, .. } = event {
                    return Pair { server, client, here: conn, there };
                }
            }
        }
        panic!("they never met");
    }

    /// What the client has received by now.
    fn received(&mut self) -> Vec<Vec<u8>> {
        self.server.reactor.flush();
        let mut said = Vec::new();
        for _ in 0..10 {
            self.server.world.advance(Duration::from_millis(1));
            for event in self.client.tick(Wait::No).expect("it works").events {
                match event {
                    Event::Message { conn, payload } if conn == self.there => {
                        said.push(payload.to_vec());
                    }
                    Event::Disconnected { reason, .. } => panic!("{reason}"),
                    _ => {}
                }
            }
        }
        said
    }
}

#[test]
fn what_is_sent_in_any_way_comes_out_as_it_was_or_is_refused() {
    const MAX: usize = 250;
    let mut chance = Chance(4);
    for (framing, twin) in all() {
        let mut pair = Pair::new(framing, MAX);
        let mut expected = Vec::new();
        let mut refused = 0;
        for round in 0..400 {
            let payload = match round % 3 {
                // Any bytes, and then such as fit the framing.
                0 => (0..chance.below(9)).map(|_| chance.byte()).collect(),
                _ => chance.payload(twin, if round % 7 == 0 { MAX } else { 20 }),
            };
            let frame = match twin {
                Twin::Raw | Twin::Telepathy if payload.is_empty() => None,
                Twin::Raw => Some(payload.clone()),
                _ => twin.encode(&payload, MAX),
            };
            let mut outbox = pair.server.reactor.outbox();
            let before = outbox.queued(pair.here);
            let sent = match round % 5 {
                0 => outbox.send(pair.here, &payload).is_ok(),
                1 => outbox.send_with(pair.here, |w| w.put_slice(&payload)).is_ok(),
                2 => outbox.send_latest(pair.here, round as u32, &payload).is_ok(),
                3 => outbox.broadcast([pair.here], &payload).sent == 1,
                _ => outbox.broadcast_bytes([pair.here], &Bytes::from(payload.clone())).sent == 1,
            };
            let after = outbox.queued(pair.here);
            assert_eq!(sent, frame.is_some(), "{framing:?}: {payload:?}");
            assert_eq!(after - before, frame.map_or(0, |frame| frame.len()), "{framing:?}");
            if sent {
                expected.push(payload);
            } else {
                refused += 1;
            }
            if chance.below(10) == 0 {
                let received = pair.received();
                if matches!(twin, Twin::Raw) {
                    assert_eq!(received.concat(), expected.concat());
                } else {
                    assert_eq!(received, expected, "{framing:?}");
                }
                expected.clear();
            }
        }
        let takes_all =
            matches!(twin, Twin::Varint | Twin::Sealed | Twin::Length { strip: 1.., .. });
        assert!(refused > 0 || takes_all, "{framing:?} refused nothing");
    }
}

/// They count with the default header until the reactor knows better.
#[test]
fn other_threads_send_in_any_framing_and_the_count_comes_out_even() {
    let mut chance = Chance(6);
    for (framing, twin) in all() {
        let mut pair = Pair::new(framing, 250);
        let handle = pair.server.reactor.handle().expect("a waker");
        let mut expected = Vec::new();
        for _ in 0..100 {
            let payload = chance.payload(twin, 250);
            let is_empty_refused =
                matches!(twin, Twin::Raw | Twin::Telepathy) && payload.is_empty();
            let fits = matches!(twin, Twin::Raw) || twin.encode(&payload, 250).is_some();
            handle.send(pair.here, payload.clone()).expect("room");
            if fits && !is_empty_refused {
                expected.push(payload);
            }
        }
        pair.server.reactor.tick(Wait::No).expect("it works").events.for_each(drop);
        let received = pair.received();
        if matches!(twin, Twin::Raw) {
            assert_eq!(received.concat(), expected.concat());
        } else {
            assert_eq!(received, expected, "{framing:?}");
        }
        assert_eq!(pair.server.reactor.outbox().queued(pair.here), 0, "{framing:?}");
    }
}

#[test]
fn a_payload_above_the_limit_writes_nothing() {
    for (framing, _) in all() {
        let mut pair = Pair::new(framing, 100);
        let mut outbox = pair.server.reactor.outbox();
        let large = filler(101);
        assert_eq!(outbox.send(pair.here, &large), Err(SendError::TooLarge), "{framing:?}");
        let encoded = outbox.send_with(pair.here, |w| w.put_slice(&large));
        assert_eq!(encoded, Err(SendError::TooLarge));
        assert_eq!(
            outbox.broadcast([pair.here], &large).refused,
            [(pair.here, SendError::TooLarge)]
        );
        assert_eq!(outbox.queued(pair.here), 0);
    }
}

#[test]
fn the_presets_are_what_their_names_say() {
    // Seen by a peer without a framing.
    let wire = |framing, payload: &[u8]| {
        let mut stage = Stage::new(framing, 1_000, Builder::new());
        let mut peer = stage.world.raw_connect(CLIENT, &stage.addr);
        for _ in 0..9 {
            stage.world.advance(Duration::from_millis(1));
            let tick = stage.reactor.tick(Wait::No).expect("it works");
            let mut outbox = tick.outbox;
            for event in tick.events {
                if let Event::Connected { conn, .. } = event {
                    outbox.send(conn, payload).expect("it fits");
                }
            }
        }
        peer.read()
    };
    assert_eq!(wire(Framing::LengthPrefix, b"abc"), b"\0\0\0\x03abc");
    assert_eq!(wire(Framing::Telepathy, b"abc"), b"\0\0\0\x03abc");
    assert_eq!(wire(Framing::TELEPATHY_LE32, b"abc"), b"\x03\0\0\0abc");
    assert_eq!(wire(Framing::TELEPATHY_LE16, b"abc"), b"\x03\0abc");
    assert_eq!(wire(Framing::GODOT, b"abc"), b"\x03\0\0\0abc");
    assert_eq!(wire(Framing::PROTOBUF, &filler(300))[..3], *b"\xac\x02b");
    assert_eq!(Framing::NETTY, Framing::LengthPrefix);
    assert_eq!(Framing::TOKIO_UTIL, Framing::default());
}

#[test]
fn a_listener_whose_framing_cannot_work_does_not_listen() {
    let mut stage = Stage::new(Framing::Raw, 100, Builder::new());
    let narrow = ListenOptions::new().framing(Framing::LengthField(LengthField::new(1)));
    let told = stage.reactor.listen_with((SERVER, 7778), &narrow).expect_err("16,384 by default");
    assert!(told.to_string().contains("lower it to at most 255"), "{told}");
    let narrow = narrow.frame_len_max(255);
    stage.reactor.listen_with((SERVER, 7778), &narrow).expect("now it can");
    let connect = ConnectOptions::new().framing(Framing::Fixed(0));
    assert!(stage.reactor.connect_with((SERVER, 7778), &connect).is_err());
    assert_eq!(stage.reactor.connections(), 0);
}

/// What docs/wire.md shows, sent and received. The bytes are written as they stand there, and have to stand there.
#[test]
fn the_examples_in_the_docs_are_true() {
    let docs = include_str!("../docs/wire.md");
    let field = LengthField::new;
    let whole = field(2).offset(1).counts_itself(true).adjustment(-1);
    let mut examples = vec![
        (Framing::LengthPrefix, vec!["hi", ""], "00 00 00 02 68 69 | 00 00 00 00"),
        (Framing::TELEPATHY_LE32, vec!["hi"], "02 00 00 00 68 69"),
        (Framing::GODOT, vec!["hi"], "02 00 00 00 68 69"),
        (Framing::TELEPATHY_LE16, vec!["hi"], "02 00 68 69"),
        (Framing::LengthField(field(2)), vec!["hi"], "00 02 68 69"),
        (Framing::LengthField(field(3).little_endian()), vec!["hi"], "02 00 00 68 69"),
        (Framing::LengthField(field(2).counts_itself(true)), vec!["hi"], "00 04 68 69"),
        (Framing::LengthField(whole), vec!["hi"], "00 00 05 68 69"),
        (Framing::LengthField(field(1).adjustment(2).strip(3)), vec!["hi"], "02 00 00 68 69"),
        (Framing::LengthField(field(1).offset(1).strip(0)), vec!["k\x02hi"], "6b 02 68 69"),
        (Framing::Varint, vec!["hi"], "02 68 69"),
        (Framing::Fixed(3), vec!["abc", "def"], "61 62 63 | 64 65 66"),
    ];
    #[cfg(feature = "delimiter")]
    examples.extend([
        (Framing::Delimiter(tickwire::Delimiter::new(b"\0")), vec!["hi", ""], "68 69 00 | 00"),
        (
            Framing::Delimiter(tickwire::Delimiter::new(b"\r\n\r\n")),
            vec!["hi"],
            "68 69 0d 0a 0d 0a",
        ),
    ]);
    for (framing, payloads, shown) in examples {
        assert!(docs.contains(&format!("→   {shown}")), "{shown}");
        let mut frames = Vec::new();
        for payload in &payloads {
            let mut envelope = Envelope::new();
            framing.encode(payload.as_bytes(), &mut envelope).expect("it fits");
            let frame = [envelope.header(), payload.as_bytes(), envelope.trailer()].concat();
            let bytes: Vec<String> = frame.iter().map(|byte| format!("{byte:02x}")).collect();
            frames.push(bytes.join(" "));
            let cut = framing.decode(&frame, &mut 0, 100).expect("a frame").expect("whole");
            assert_eq!(&frame[cut.header_len..][..cut.payload_len], payload.as_bytes());
        }
        assert_eq!(frames.join(" | "), shown);
    }
    let refused = |framing: Framing, bytes: &[u8]| framing.decode(bytes, &mut 0, 16_384);
    let bad = |fault: BadFrame| Err(fault.into());
    let too_large = Err(FrameError::TooLarge { declared: 16_385 });
    assert_eq!(refused(Framing::LengthPrefix, b"\x00\x00\x40\x01"), too_large);
    assert_eq!(refused(Framing::Varint, b"\x81\x80\x01"), too_large);
    assert_eq!(refused(Framing::Telepathy, b"\0\0\0\0"), bad(BadFrame::Empty));
    assert_eq!(refused(Framing::Varint, b"\x81\x80\x00"), bad(BadFrame::VarintOverlong));
    for long in [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80"] {
        assert_eq!(refused(Framing::Varint, long), bad(BadFrame::VarintTooLong));
    }
    let strip = Framing::LengthField(field(2).counts_itself(true).strip(4));
    let small = BadFrame::LengthTooSmall { declared: 3, least: 4 };
    assert_eq!(refused(strip, b"\x00\x03"), bad(small));
}

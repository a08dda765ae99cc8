//! A stream gives the same events however it is cut.

use tickwire::sim::Faults;
use tickwire::{Builder, ConnId, DisconnectReason, Reactor};

use crate::harness::{Arena, MS, Seen, frame, frames, messages, payload};

/// The messages and the end of a connection.
fn story(seen: &[Seen], conn: ConnId) -> (Vec<Vec<u8>>, Option<DisconnectReason>) {
    let reason = seen.iter().find_map(|event| match *event {
        Seen::Disconnected(over, reason) if over == conn => Some(reason),
        _ => None,
    });
    (messages(seen, conn), reason)
}

/// Sends `bytes` in pieces, each of which is looked at before the next one arrives.
fn tell(arena: &mut Arena, bytes: &[u8], cuts: &[usize]) -> (Vec<Vec<u8>>, DisconnectReason) {
    let (mut peer, conn) = arena.meet();
    let mut seen = Vec::new();
    let mut from = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        peer.write(&bytes[from..cut]);
        from = cut;
        seen.extend(arena.tick());
    }
    peer.close();
    for _ in 0..100 {
        if let (said, Some(reason)) = story(&seen, conn) {
            return (said, reason);
        }
        seen.extend(arena.tick());
    }
    panic!("no end after {cuts:?}: {seen:?}");
}

/// Every way to cut `len` bytes.
fn all_cuts(len: usize) -> impl Iterator<Item = Vec<usize>> {
    (0_u32..1 << (len - 1))
        .map(move |ways| (1..len).filter(|at| ways >> (at - 1) & 1 == 1).collect())
}

#[test]
fn every_cut_of_a_short_stream_gives_the_same_events() {
    /// The bytes, the messages in them, and how it ends.
    type Story<'a> = (&'a [u8], &'a [&'a [u8]], DisconnectReason);
    let too_large = DisconnectReason::FrameTooLarge { declared: 1 << 30, limit: 16_384 };
    let streams: [Story<'_>; 3] = [
        (b"\0\0\0\0\0\0\0\x03abc", &[b"", b"abc"], DisconnectReason::ClosedByPeer),
        (b"\0\0\0\x01a\0\0\0\x09bc", &[b"a"], DisconnectReason::Truncated),
        (b"\0\0\0\x01a\x40\0\0\0\0\0\0\0", &[b"a"], too_large),
    ];
    for segments in [false, true] {
        let mut arena = Arena::new();
        for (bytes, said, reason) in streams {
            for cuts in all_cuts(bytes.len()) {
                arena.world.set_faults(Faults { recv_segments: segments, ..Faults::default() });
                let heard = tell(&mut arena, bytes, &cuts);
                assert_eq!(heard.0, said, "{cuts:?}");
                assert_eq!(heard.1, reason, "{cuts:?}");
            }
        }
    }
}

#[test]
fn every_cut_is_the_same_when_the_pieces_arrive_together() {
    let faults = Faults { recv_segments: true, ..Faults::default() };
    let mut arena = Arena::with(Reactor::builder(), faults);
    let bytes = b"\0\0\0\x02ab\0\0\0\0\0\0";
    for cuts in all_cuts(bytes.len()) {
        let (mut peer, conn) = arena.meet();
        peer.write_cut(bytes, &cuts);
        peer.close();
        let (seen, reason) = arena.until_over(conn);
        assert_eq!(messages(&seen, conn), [b"ab".to_vec(), Vec::new()], "{cuts:?}");
        assert_eq!(reason, DisconnectReason::Truncated, "{cuts:?}");
    }
}

#[test]
fn frames_around_every_internal_boundary_survive_a_cut_at_their_edges() {
    let builder = || Reactor::builder().frame_len_max(200_000).batch_memory(64 * 1024);
    for boundary in [128, 4 * 1024, 16 * 1024, 20 * 1024, 64 * 1024, 128 * 1024] {
        for len in boundary - 6..=boundary + 2 {
            let mut arena = Arena::with(builder(), Faults::default());
            let said = [payload(1, 3), payload(2, len), payload(3, 3)];
            let bytes = frames(&said);
            for cut in [boundary - 1, boundary, boundary + 1, len + 10, len + 11, len + 12] {
                let heard = tell(&mut arena, &bytes, &[cut]);
                assert_eq!(heard.0, said, "{len} bytes cut at {cut}");
                assert_eq!(heard.1, DisconnectReason::ClosedByPeer);
            }
        }
    }
}

#[test]
fn a_frame_across_twenty_kibibytes_byte_by_byte_around_the_edge() {
    let mut arena = Arena::with(Reactor::builder().frame_len_max(30_000), Faults::default());
    let said = [payload(1, 20_500), payload(2, 20_470), payload(3, 1)];
    let bytes = frames(&said);
    let cuts: Vec<usize> = (20_470..20_520).chain(bytes.len() - 40..bytes.len()).collect();
    assert_eq!(tell(&mut arena, &bytes, &cuts).0, said);
}

#[test]
fn a_stream_byte_by_byte_is_the_stream() {
    let said: Vec<Vec<u8>> = (0..30).map(|n| payload(n, n * 5)).collect();
    let bytes = frames(&said);
    let cuts: Vec<usize> = (1..bytes.len()).collect();
    let mut arena = Arena::new();
    assert_eq!(tell(&mut arena, &bytes, &cuts).0, said);
    // And with a reactor that takes a byte a tick.
    let mut arena = Arena::with(Reactor::builder().read_quantum(1), Faults::default());
    let (mut peer, conn) = arena.meet();
    peer.write(&bytes);
    let seen = arena.ticks(bytes.len() + 1);
    assert_eq!(messages(&seen, conn), said);
}

#[test]
fn a_large_frame_in_many_pieces_is_whole() {
    let builder = Reactor::builder().frame_len_max(1 << 20).send_queue_max(2 << 20);
    let faults = Faults { window: 4 << 20, ..Faults::default() };
    for piece in [1_448, 9_000, 65_536, 300_000] {
        let mut arena = Arena::with(builder.clone(), faults);
        let said = [payload(1, 1 << 20), payload(2, 100_000), payload(3, 0), payload(4, 1 << 20)];
        let bytes = frames(&said);
        let cuts: Vec<usize> = (piece..bytes.len()).step_by(piece).collect();
        let heard = tell(&mut arena, &bytes, &cuts);
        assert!(heard.0 == said, "in pieces of {piece}");
    }
}

#[test]
fn a_backlog_without_a_new_edge_is_all_delivered() {
    // It all arrives at once: one edge, and then the reactor has to remember for many ticks.
    const MESSAGES: usize = if cfg!(debug_assertions) { 2_000 } else { 32_000 };
    let settings: [fn() -> Builder; 4] = [
        || Reactor::builder(),
        || Reactor::builder().batch_memory(64 * 1024),
        || Reactor::builder().event_budget(50),
        || Reactor::builder().read_quantum(20_000).frame_quantum(13),
    ];
    for (nth, builder) in settings.into_iter().enumerate() {
        let faults = Faults { window: 128 << 20, bare_edges: true, ..Faults::default() };
        let mut arena = Arena::with(builder(), faults);
        let (mut peer, conn) = arena.meet();
        let part = payload(nth, 2_000);
        peer.write(&frame(&part).repeat(MESSAGES));
        let mut heard = 0;
        arena.world.advance(MS);
        for _ in 0..MESSAGES {
            for message in messages(&arena.server.tick(), conn) {
                assert!(message == part);
                heard += 1;
            }
            if heard == MESSAGES {
                break;
            }
        }
        assert_eq!(heard, MESSAGES, "setting {nth}");
    }
}

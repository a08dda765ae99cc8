//! The builder: arbitrary settings are refused with an error or make a reactor that works, and never panic.
//!
//! What is usable is said here a second time, in the words of the setters' docs. A reactor that was built tells a
//! short story: what one connection sends, another one in the same framing hears.

use std::collections::VecDeque;
use std::time::Duration;

use tickwire::{
    AcceptPolicy, Builder, ConnId, Delimiter, Event, Framing, Line, LineEnding, Rate, RatePolicy,
    Reactor, SendPolicy, Tick, Wait,
};

use super::framing::length_field;
use super::input::Input;
use super::socket::{ADDR, FakeNet};
use super::twin::{Sealed, Twin};

/// Settings as they were asked for, and whether they can work.
struct Settings {
    builder: Builder,
    is_usable: bool,
    /// Whether something may end or slow a connection that has done nothing wrong.
    is_harsh: bool,
    is_raw: bool,
}

pub fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    let Settings { builder, is_usable, is_harsh, is_raw } = draw(input);
    let built = builder.clone().build_on(FakeNet::new(VecDeque::new()));
    assert_eq!(built.is_ok(), is_usable, "{:?}: {builder:?}", built.err());
    if let Ok(reactor) = built {
        tell(reactor, is_harsh, is_raw, input);
    } else if let Err(error) = built {
        assert!(!error.to_string().is_empty());
    }
}

fn draw(input: &mut Input<'_>) -> Settings {
    let mut builder = Builder::new();
    if input.bool() {
        builder = builder.public_port();
    }
    let frame_len_max = size(input, 16_384);
    let (framing, overhead, framing_is_usable) = draw_framing(frame_len_max, input);
    let batch_memory = match size(input, 64 << 10) {
        1_048_577..=0x4000_0000 => 1 << 20, // it is really taken
        asked => asked,
    };
    let mut is_usable = framing_is_usable && (1..=1 << 30).contains(&frame_len_max);
    is_usable &= (64 << 10..=1 << 30).contains(&batch_memory);
    let mut quantum = |most: usize| {
        let given = size(input, 100);
        is_usable &= (1..=most).contains(&given);
        given
    };
    builder = builder
        .framing(framing)
        .frame_len_max(frame_len_max)
        .batch_memory(batch_memory)
        .read_quantum(quantum(1 << 30))
        .frame_quantum(quantum(u32::MAX as usize))
        .event_budget(quantum(u32::MAX as usize))
        .accept_budget(quantum(u32::MAX as usize))
        .connections_max(quantum(u32::MAX as usize / 2));
    let send_queue_max = size(input, 1 << 20);
    let frame_len = overhead.saturating_add(frame_len_max);
    is_usable &= (1..=2 << 30).contains(&send_queue_max) && send_queue_max >= frame_len;
    let buffered_max = size(input, 256 << 20);
    is_usable &= buffered_max - buffered_max / 4 >= send_queue_max;
    let send_policy = input.pick(&[SendPolicy::Error, SendPolicy::Disconnect]);
    builder = builder
        .send_queue_max(send_queue_max)
        .buffered_max(buffered_max)
        .send_policy(send_policy)
        .shared_len_min(size(input, 8_192))
        .connections_policy(input.pick(&[AcceptPolicy::Wait, AcceptPolicy::Close]));
    let mut is_harsh = send_policy == SendPolicy::Disconnect || buffered_max < 1 << 20;
    if input.bool() {
        let (low, high) = (size(input, 100), size(input, 1_000));
        is_usable &= low <= high && high <= send_queue_max;
        builder = builder.water_marks(low, high);
    }
    if input.bool() {
        let (bytes, policy) =
            (size(input, 100), input.pick(&[SendPolicy::Error, SendPolicy::Disconnect]));
        is_usable &= bytes <= send_queue_max;
        is_harsh = true;
        builder = builder.send_queue_soft(bytes, time(input), policy);
    }
    if input.bool() {
        let most = size(input, 4);
        is_usable &= most > 0;
        is_harsh |= most < 2;
        builder = builder.connections_per_address_max(most);
    }
    if input.bool() {
        let rate = |input: &mut Input<'_>| {
            let (per_second, burst) = (size(input, 10) as u32, size(input, 10) as u32);
            let is_fine = per_second > 0 && burst > 0;
            (Rate::per_second(per_second).burst(burst), is_fine)
        };
        let ((messages, some), (bytes, other)) = (rate(input), rate(input));
        is_usable &= some && other;
        is_harsh = true;
        builder = builder
            .message_rate(messages)
            .byte_rate(bytes)
            .rate_policy(input.pick(&[RatePolicy::Pause, RatePolicy::Disconnect]));
    }
    let mut timeout = |builder: Builder, set: fn(Builder, Option<Duration>) -> Builder| {
        if !input.bool() {
            return builder;
        }
        let time = input.bool().then(|| time(input));
        is_usable &= time != Some(Duration::ZERO);
        is_harsh |= time.is_some_and(|time| time < Duration::from_secs(1));
        set(builder, time)
    };
    builder = timeout(builder, |builder, time| builder.connect_timeout(time));
    builder = timeout(builder, |builder, time| builder.first_frame_timeout(time));
    builder = timeout(builder, |builder, time| builder.frame_timeout(time));
    builder = timeout(builder, |builder, time| builder.idle_timeout(time));
    builder = timeout(builder, |builder, time| builder.write_stall_timeout(time));
    builder = timeout(builder, |builder, time| builder.close_timeout(time));
    if input.bool() {
        let pace = time(input);
        is_usable &= pace >= Duration::from_millis(1);
        builder = builder.pace(pace);
    }
    builder = builder.phase_times(input.bool()).connection_stats(input.bool());
    Settings { builder, is_usable, is_harsh, is_raw: framing == Framing::Raw }
}

/// A number of any size, the usual one first.
fn size(input: &mut Input<'_>, usual: usize) -> usize {
    match input.below(12) {
        0..=4 => usual,
        5 => usual + 1,
        6 => input.len(),
        7 => 1 << input.below(usize::BITS as usize),
        8 => (1 << input.below(usize::BITS as usize)) - 1,
        9 => input.u32() as usize,
        10 => input.u64() as usize,
        _ => usize::MAX - input.len(),
    }
}

fn time(input: &mut Input<'_>) -> Duration {
    match input.below(5) {
        0 => Duration::from_millis(input.len() as u64),
        1 => Duration::from_nanos(input.u64()),
        2 => Duration::from_secs(input.u64()),
        3 => Duration::MAX,
        _ => Duration::ZERO,
    }
}

/// A framing, the most bytes that it puts around a payload, and whether it can tell payloads up to `max`.
fn draw_framing(max: usize, input: &mut Input<'_>) -> (Framing, usize, bool) {
    match input.below(9) {
        0 => (Framing::LengthPrefix, 4, true),
        1 => (Framing::Telepathy, 4, true),
        2 => {
            let (framing, twin) = length_field(input);
            let (strip, is_usable) = judge(twin, max);
            (framing, strip, is_usable)
        }
        3 => (Framing::Varint, 5, true),
        4 => {
            let len = size(input, 20);
            (Framing::Fixed(len), 0, (1..=max).contains(&len))
        }
        5 => {
            let (ending, keep) =
                (input.pick(&[LineEnding::Any, LineEnding::Lf, LineEnding::CrLf]), input.bool());
            let overhead = match (keep, ending) {
                (true, _) => 0,
                (false, LineEnding::Lf) => 1,
                (false, _) => 2,
            };
            (Framing::Line(Line::new(ending).keep(keep)), overhead, true)
        }
        6 => {
            let (keep, len) = (input.bool(), input.below(10));
            let delimiter = input.take(len);
            let framing = Framing::Delimiter(Delimiter::new(delimiter).keep(keep));
            let overhead = if keep { 0 } else { delimiter.len() };
            (framing, overhead, (1..=8).contains(&delimiter.len()))
        }
        7 => (Framing::Raw, 0, true),
        _ => (Framing::custom(&Sealed), 3, true),
    }
}

/// Whether a length field of this shape can tell payloads up to `max`.
fn judge(twin: Twin<'_>, max: usize) -> (usize, bool) {
    let Twin::Length { width, offset, strip, adjustment, .. } = twin else {
        panic!("a length field's twin")
    };
    let field_end = offset + width;
    let fits = field_end <= 32 && strip <= 32;
    let cuts_the_field = strip > offset && strip < field_end;
    // The payload of the least and of the largest value.
    let payload_of = |value: i128| field_end as i128 + value + adjustment - strip as i128;
    let header_left = field_end.saturating_sub(strip) as i128;
    let least = payload_of(0).max(header_left);
    let most = payload_of((1 << (8 * width)) - 1);
    let tells = least <= max as i128 && max as i128 <= most;
    (strip, fits && !cuts_the_field && tells)
}

/// One connection says something, and another one hears it.
fn tell(mut reactor: Reactor<FakeNet>, is_harsh: bool, is_raw: bool, input: &mut Input<'_>) {
    reactor.listen(ADDR).expect("what the builder takes, a listener takes");
    let net = reactor.net_mut();
    for _ in 0..2 {
        let socket = net.knock();
        net.sockets[socket].give_room(usize::MAX);
    }
    let payloads: Vec<_> = (0..input.below(5)).map(|_| input.some_bytes()).collect();
    let mut conns: Vec<ConnId> = Vec::new();
    let (mut accepted, mut heard) = (Vec::new(), Vec::new());
    let (mut is_over, mut is_said, mut is_complete, mut passed_on) = (false, false, false, 0);
    for _ in 0..2_000 {
        let net = reactor.net_mut();
        net.now += Duration::from_micros(100);
        // What leaves on the first is what comes in on the second.
        let said = net.sockets[0].sent[passed_on..].to_vec();
        passed_on += said.len();
        net.sockets[1].arrive(&said);
        let Tick { events, mut outbox, .. } = reactor.tick(Wait::No).expect("it works");
        for event in events {
            match event {
                Event::Connected { conn, peer, .. } => {
                    assert_eq!(FakeNet::client(&peer), conns.len());
                    conns.push(conn);
                }
                Event::Message { conn, payload } => {
                    assert_eq!(Some(&conn), conns.get(1), "nobody spoke to the first");
                    heard.push(payload.to_vec());
                }
                Event::Disconnected { reason, .. } => {
                    assert!(is_harsh, "ended by {reason:?}");
                    is_over = true;
                }
                Event::SendQueueHigh { .. } | Event::SendQueueLow { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        if let (&[first, _], false) = (&conns[..], is_said) {
            is_said = true;
            accepted
                .extend(payloads.iter().filter(|said| outbox.send(first, said).is_ok()).cloned());
        }
        // A raw stream has no messages, only bytes in pieces.
        is_complete = match is_raw {
            true => heard.concat() == accepted.concat(),
            false => heard == accepted,
        };
        if is_over || is_said && is_complete {
            break;
        }
    }
    match is_raw {
        true => assert!(accepted.concat().starts_with(&heard.concat()), "other bytes were heard"),
        false => assert!(accepted.starts_with(&heard), "other messages were heard than said"),
    }
    // A byte a tick takes its time.
    let takes_long = accepted.concat().len() > 300;
    let is_fine = is_complete || is_over || conns.len() < 2 || is_harsh || takes_long;
    assert!(is_fine, "{} of {} heard", heard.len(), accepted.len());
}

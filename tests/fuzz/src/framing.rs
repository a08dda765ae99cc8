//! Every framing against its naive twin, over arbitrary cuts: one target for each family.
//!
//! The input says which framing of the family, which limits and budgets, what is sent, what comes in and how it is
//! cut. What is sent has to be what the twin sends; what comes in (and what was sent comes in too) has to be heard as
//! the twin hears it when it sees all bytes at once.

use std::collections::VecDeque;

use bytes::Bytes;
use tickwire::{
    Builder, Codec, ConnId, Cut, Delimiter, DisconnectReason, Envelope, Event, FrameError, Framing,
    LengthField, Line, LineEnding, ListenOptions, Reactor, SendError, Tick, Wait,
};

use super::input::Input;
use super::socket::{ADDR, End, FakeNet, Mood};
use super::twin::{Sealed, Story, Twin};

// The families.

/// A length field of any shape.
pub fn length(data: &[u8]) {
    let input = &mut Input::new(data);
    let (framing, twin) = length_field(input);
    run(framing, twin, input);
}

/// The default, and all presets with a plain length before the payload.
pub fn prefix(data: &[u8]) {
    let input = &mut Input::new(data);
    let twin =
        |width, little| Twin::Length { width, little, offset: 0, strip: width, adjustment: 0 };
    let (framing, twin) = input.pick(&[
        (Framing::LengthPrefix, twin(4, false)),
        (Framing::Telepathy, Twin::Telepathy),
        (Framing::TELEPATHY_LE32, twin(4, true)),
        (Framing::TELEPATHY_LE16, twin(2, true)),
        (Framing::GODOT, twin(4, true)),
        (Framing::NETTY, twin(4, false)),
        (Framing::TOKIO_UTIL, twin(4, false)),
    ]);
    run(framing, twin, input);
}

/// Protobuf's delimited streams.
pub fn varint(data: &[u8]) {
    let input = &mut Input::new(data);
    let framing = input.pick(&[Framing::Varint, Framing::PROTOBUF]);
    run(framing, Twin::Varint, input);
}

/// Frames of one size.
pub fn fixed(data: &[u8]) {
    let input = &mut Input::new(data);
    let len = input.len();
    run(Framing::Fixed(len), Twin::Fixed(len), input);
}

/// Lines of text.
pub fn line(data: &[u8]) {
    let input = &mut Input::new(data);
    let ending = input.pick(&[LineEnding::Any, LineEnding::Lf, LineEnding::CrLf]);
    let keep = input.bool();
    run(Framing::Line(Line::new(ending).keep(keep)), Twin::Line { ending, keep }, input);
}

/// Messages that end with some bytes.
pub fn delimiter(data: &[u8]) {
    let input = &mut Input::new(data);
    let (keep, len) = (input.bool(), input.below(10));
    let delimiter = input.take(len);
    let framing = Framing::Delimiter(Delimiter::new(delimiter).keep(keep));
    run(framing, Twin::Delimiter { delimiter, keep }, input);
}

/// No framing.
pub fn raw(data: &[u8]) {
    run(Framing::Raw, Twin::Raw, &mut Input::new(data));
}

/// Framings of the user's: one that keeps the rules of [`Codec`], and one that keeps none.
pub fn custom(data: &[u8]) {
    let input = &mut Input::new(data);
    if input.bool() {
        return run(Framing::custom(&Sealed), Twin::Sealed, input);
    }
    let max = input.pick(&MAXES);
    let budgets = Budgets::draw(input);
    let pieces = draw_pieces(input);
    let moods = draw_moods(input);
    let bytes = input.take(budgets.stream_len_max);
    if let Some(mut stage) = Stage::new(Framing::custom(&Wild), max, budgets, moods) {
        stage.hear(bytes, &pieces); // that it ends, without a panic, is all that can be asked for
    }
}

/// A length field, and its twin. Many cannot work, and are refused.
pub(crate) fn length_field(input: &mut Input<'_>) -> (Framing, Twin<'static>) {
    let width = input.pick(&[1, 2, 3, 4, 8]);
    let shape = input.byte();
    let (little, counts_itself) = (shape & 1 > 0, shape & 2 > 0);
    let offset = if shape & 4 > 0 { input.below(40) } else { 0 };
    let strip = (shape & 8 > 0).then(|| input.below(40));
    let adjustment = match shape >> 4 & 3 {
        0 => 0,
        1 | 2 => i32::from(input.byte() as i8),
        _ => input.u32() as i32,
    };
    let mut field = LengthField::new(width)
        .offset(offset as u8)
        .counts_itself(counts_itself)
        .adjustment(adjustment);
    if little {
        field = field.little_endian();
    }
    if let Some(strip) = strip {
        field = field.strip(strip as u8);
    }
    let width = usize::from(width);
    let twin = Twin::Length {
        width,
        little,
        offset,
        strip: strip.unwrap_or(offset + width),
        adjustment: i128::from(adjustment) - if counts_itself { width as i128 } else { 0 },
    };
    (Framing::LengthField(field), twin)
}

// The one story that all of them tell.

const MAXES: [usize; 9] = [20, 250, 1, 2, 5, 64, 1_000, 16_384, 70_000];

fn run(framing: Framing, twin: Twin<'_>, input: &mut Input<'_>) {
    let max = input.pick(&MAXES);
    let budgets = Budgets::draw(input);
    let pieces = draw_pieces(input);
    let moods = draw_moods(input);
    let Some(mut stage) = Stage::new(framing, max, budgets, moods) else { return };
    let mut stream = Vec::new();
    let mut sent = Vec::new();
    while !input.is_empty() && stream.len() < budgets.stream_len_max {
        let act = input.byte();
        match act % 4 {
            0 => stream.extend(input.some_bytes()),
            1 => stream.extend(true_frame(twin, input)),
            _ => {
                let payload = draw_payload(twin, input);
                if let Some(frame) = stage.say(twin, max, &payload, act >> 2) {
                    stream.extend_from_slice(&frame);
                    sent.extend(frame);
                }
            }
        }
    }
    stage.flush();
    assert!(stage.reactor.net().sockets[0].sent == sent, "{framing:?}: other bytes were sent");
    stream.truncate(budgets.stream_len_max);
    decode_by_hand(framing, twin, max, &stream, &pieces);
    let heard = told(twin, stage.hear(&stream, &pieces));
    let expected = told(twin, twin.decode(&stream, max));
    assert!(heard == expected, "{framing:?}, at most {max}: {stream:?} in {pieces:?}: {heard:?}");
}

/// Pieces of a stream without frames have no meaning; everything else is compared as it is.
fn told(twin: Twin<'_>, mut story: Story) -> Story {
    if matches!(twin, Twin::Raw) {
        assert!(story.said.iter().all(|piece| !piece.is_empty()), "an empty piece of a raw stream");
        story.said = vec![story.said.concat()];
    }
    story
}

/// The lengths of the pieces that the stream comes in; what is left comes in one.
fn draw_pieces(input: &mut Input<'_>) -> Vec<usize> {
    (0..input.below(64)).map(|_| input.len().max(1)).collect()
}

fn draw_moods(input: &mut Input<'_>) -> VecDeque<Mood> {
    (0..input.below(32)).map(|_| Mood::draw(input)).collect()
}

fn draw_payload(twin: Twin<'_>, input: &mut Input<'_>) -> Vec<u8> {
    let mut payload = input.some_bytes();
    match twin {
        Twin::Fixed(len) if input.byte() > 0 => payload.resize(len, 7),
        Twin::Line { ending, keep: true } if input.bool() => {
            payload.extend_from_slice(if ending == LineEnding::Lf { b"\n" } else { b"\r\n" });
        }
        Twin::Delimiter { delimiter, keep: true } if input.bool() => {
            payload.extend_from_slice(delimiter);
        }
        _ => {}
    }
    payload
}

/// Bytes with a length field that tells the truth, which chance seldom writes.
fn true_frame(twin: Twin<'_>, input: &mut Input<'_>) -> Vec<u8> {
    let behind = input.some_bytes();
    let Twin::Length { width, little, offset, adjustment, .. } = twin else { return behind };
    let value = behind.len() as i128 - adjustment;
    let Ok(value) = u64::try_from(value) else { return behind };
    let mut field = value.to_le_bytes()[..width].to_vec();
    if !little {
        field.reverse();
    }
    [vec![b'o'; offset], field, behind].concat()
}

/// The codec without a reactor, which sees ever longer beginnings of each frame: the answer to each is the twin's, and
/// what it remembers of the shorter ones makes no difference.
fn decode_by_hand(framing: Framing, twin: Twin<'_>, max: usize, stream: &[u8], pieces: &[usize]) {
    let stream = &stream[..stream.len().min(3_000)];
    let (mut begin, mut end, mut scanned) = (0, 0, 0);
    for piece in pieces.iter().chain([&stream.len()]) {
        end = stream.len().min(end + piece);
        loop {
            let bytes = &stream[begin..end];
            let found = framing.decode(bytes, &mut scanned, max);
            if !matches!(twin, Twin::Raw) {
                compare(framing, twin, max, bytes, found);
            }
            match found {
                Ok(Some(cut)) => {
                    assert!((1..=bytes.len()).contains(&cut.frame_len()), "{framing:?}: {cut:?}");
                    begin += cut.frame_len();
                    scanned = 0;
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

fn compare(
    framing: Framing,
    twin: Twin<'_>,
    max: usize,
    bytes: &[u8],
    found: Result<Option<Cut>, FrameError>,
) {
    let found = found.map_err(|error| match error {
        FrameError::TooLarge { declared } => {
            DisconnectReason::FrameTooLarge { declared, limit: max as u32 }
        }
        FrameError::Bad(fault) => DisconnectReason::BadFrame(fault),
        other => panic!("an error that the target does not know: {other:?}"),
    });
    let found = found.map(|cut| {
        cut.map(|cut| (&bytes[cut.header_len..][..cut.payload_len], &bytes[cut.frame_len()..]))
    });
    assert!(found == twin.front(bytes, max), "{framing:?}, at most {max}: {bytes:?}: {found:?}");
}

// The stage.

/// How much a tick may bring.
#[derive(Clone, Copy)]
struct Budgets {
    read_quantum: usize,
    frame_quantum: usize,
    event_budget: usize,
    /// How many events the game fetches of each batch.
    fetched: usize,
    /// The smaller the budgets, the less can be told in reasonable time.
    stream_len_max: usize,
}

impl Budgets {
    fn draw(input: &mut Input<'_>) -> Budgets {
        let read_quantum = input.pick(&[128 << 10, 1, 7, 100, 4_096, 30_000]);
        let frame_quantum = input.pick(&[2_048, 1, 2, 30]);
        let event_budget = input.pick(&[16_384, 1, 3, 50]);
        let fetched = input.pick(&[usize::MAX, 1, 2, 10]);
        let least = read_quantum.min(100 * frame_quantum.min(event_budget).min(fetched));
        let stream_len_max = least.saturating_mul(200).min(150_000);
        Budgets { read_quantum, frame_quantum, event_budget, fetched, stream_len_max }
    }
}

/// A reactor with one client.
struct Stage {
    reactor: Reactor<FakeNet>,
    conn: ConnId,
    budgets: Budgets,
    max: usize,
    kind: u32,
    moods: usize,
}

impl Stage {
    /// `None` if the framing cannot work, which is the target `config`'s to judge.
    fn new(framing: Framing, max: usize, budgets: Budgets, moods: VecDeque<Mood>) -> Option<Stage> {
        let builder = Builder::new()
            .batch_memory(64 << 10)
            .read_quantum(budgets.read_quantum)
            .frame_quantum(budgets.frame_quantum)
            .event_budget(budgets.event_budget)
            .shared_len_min(64);
        let mut reactor = builder.build_on(FakeNet::new(VecDeque::new())).expect("usable");
        let options = ListenOptions::new().framing(framing).frame_len_max(max);
        reactor.listen_with(ADDR, &options).ok()?;
        let net = reactor.net_mut();
        net.knock();
        net.sockets[0].give_room(usize::MAX);
        let mut events = reactor.tick(Wait::No).expect("it works").events;
        let Some(Event::Connected { conn, .. }) = events.next() else {
            panic!("the client is accepted at once")
        };
        let count = moods.len();
        reactor.net_mut().moods = moods;
        Some(Stage { reactor, conn, budgets, max, kind: 0, moods: count })
    }

    /// Sends a message in one of the ways that there are. Returns the frame that has to leave for it.
    fn say(&mut self, twin: Twin<'_>, max: usize, payload: &[u8], way: u8) -> Option<Vec<u8>> {
        let frame = twin.encode(payload, max).filter(|_| payload.len() <= max);
        self.kind += 1;
        let conn = self.conn;
        let mut outbox = self.reactor.outbox();
        let before = outbox.queued(conn);
        let answer = match way % 5 {
            0 => outbox.send(conn, payload),
            1 => outbox.send_with(conn, |writer| writer.put_slice(payload)),
            2 => outbox.send_latest(conn, self.kind, payload),
            3 => refusal(outbox.broadcast([conn], payload).refused),
            _ => refusal(outbox.broadcast_bytes([conn], &Bytes::copy_from_slice(payload)).refused),
        };
        if answer == Err(SendError::Full) {
            return None; // by the queue's limit, which is another target's
        }
        assert_eq!(answer.is_ok(), frame.is_some(), "{payload:?}: {answer:?}");
        let after = outbox.queued(conn);
        assert_eq!(after - before, frame.as_ref().map_or(0, Vec::len), "{payload:?}");
        frame
    }

    /// Until all that was said has left.
    fn flush(&mut self) {
        for _ in 0..self.moods + 5 {
            if self.reactor.outbox().queued(self.conn) == 0 {
                return;
            }
            self.reactor.net_mut().now += RESEND_PAUSE;
            assert_eq!(self.reactor.tick(Wait::No).expect("it works").events.count(), 0);
        }
        panic!("it never leaves");
    }

    /// What the game hears of a stream that comes in such pieces, and then ends.
    fn hear(&mut self, stream: &[u8], pieces: &[usize]) -> Story {
        let mut pieces = pieces.iter().chain([&usize::MAX]);
        let mut rest = stream;
        let mut said = Vec::new();
        for _ in 0..4 * stream.len() + 64 + self.moods + 100 {
            let socket = &mut self.reactor.net_mut().sockets[0];
            if let Some(&piece) = pieces.next() {
                let (piece, behind) = rest.split_at(piece.min(rest.len()));
                socket.arrive(piece);
                rest = behind;
            } else {
                socket.end(End::Fin);
            }
            let Tick { events, .. } = self.reactor.tick(Wait::No).expect("it works");
            assert!(events.remaining() <= self.budgets.event_budget, "above the event budget");
            for event in events.take(self.budgets.fetched) {
                match event {
                    Event::Message { payload, .. } => {
                        assert!(payload.len() <= self.max, "above the limit");
                        said.push(payload.to_vec());
                    }
                    Event::Disconnected { reason, .. } => return Story { said, reason },
                    other => panic!("{other:?}"),
                }
            }
        }
        panic!("no end after {said:?}");
    }
}

fn refusal(refused: &[(ConnId, SendError)]) -> Result<(), SendError> {
    refused.first().map_or(Ok(()), |(_, error)| Err(*error))
}

/// As long as a connection rests at most after the system had no memory for it.
const RESEND_PAUSE: std::time::Duration = std::time::Duration::from_millis(11);

/// A codec that answers whatever the bytes tell it to.
#[derive(Debug)]
struct Wild;

impl Codec for Wild {
    fn overhead_max(&self) -> usize {
        8
    }

    fn decode(
        &self,
        bytes: &[u8],
        scanned: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        assert!(*scanned <= bytes.len(), "looked at {scanned} of {} bytes", bytes.len());
        let Some(&[kind, a, b, c]) = bytes.first_chunk() else { return Ok(None) };
        *scanned = if kind & 128 > 0 { usize::MAX } else { kind.into() };
        let cut = |header_len, payload_len, trailer_len| {
            Ok(Some(Cut { header_len, payload_len, trailer_len }))
        };
        let [small, other, last] = [a, b, c].map(usize::from);
        match kind % 10 {
            0 => Ok(None),
            1 => Err(FrameError::TooLarge { declared: u64::MAX }),
            2 => cut(usize::MAX, other, last),
            3 => cut(small, usize::MAX, last),
            4 => cut(small, other, usize::MAX),
            5 => cut(0, payload_len_max, small),
            6 => cut(0, 0, 0),
            7 => cut(usize::MAX / 2, usize::MAX / 2, 2),
            _ => cut(small % 5, other, last % 5),
        }
    }

    fn encode(&self, _: &[u8], _: &mut Envelope) -> Result<(), SendError> {
        Err(SendError::Malformed)
    }
}

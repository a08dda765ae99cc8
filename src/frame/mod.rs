//! Framing: where one message ends and the next begins. Pure arithmetic between bytes and numbers.
//!
//! Each framing is a [`Codec`] in a file of its own; [`Framing`] names them, and a [`Framer`], which only
//! [`Framing::check`] makes, is one that was found usable.

mod codec;
#[cfg(feature = "delimiter")]
mod delimiter;
mod find;
mod fixed;
mod length;
mod line;
mod raw;
mod varint;

pub use self::codec::{Codec, Custom, Cut, Envelope, FrameError};
#[cfg(feature = "delimiter")]
#[cfg_attr(docsrs, doc(cfg(feature = "delimiter")))]
pub use self::delimiter::Delimiter;
use self::fixed::Fixed;
pub(crate) use self::length::HEADER_LEN;
pub use self::length::LengthField;
use self::length::Prefix;
pub use self::line::{Line, LineEnding};
use self::raw::Raw;
use self::varint::Varint;
use crate::error::{DisconnectReason, Error, SendError};

/// How messages are cut out of the byte stream, and what is sent around them. For the whole reactor, a
/// listener, or one connect. `docs/wire.md` shows every one byte by byte.
///
/// Encoding mirrors decoding: what a connection sends in a framing, one that receives in the same framing
/// hands out unchanged; a payload for which that cannot be is refused ([`SendError`]) and writes nothing.
///
/// A framing error is final for its connection, and the events are the same however the bytes were cut on their way.
/// A stream that ends within a frame ends as [`Truncated`](DisconnectReason::Truncated).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// 4-byte big-endian length, then the payload. An empty frame is an empty message.
    ///
    /// ```text
    /// payloads AA and BB CC   →   00 00 00 01 AA 00 00 00 02 BB CC
    /// ```
    #[default]
    LengthPrefix,
    /// The same bytes with the manners of today's Telepathy: there are no empty messages. Sending one is refused
    /// ([`SendError::Empty`]), receiving one ends the connection ([`BadFrame::Empty`](crate::BadFrame::Empty)).
    Telepathy,
    /// A length field of another width, byte order or place.
    LengthField(LengthField),
    /// A varint of at most 5 bytes and 32 bits, in its shortest form, then the payload: protobuf's delimited streams.
    Varint,
    /// Payloads that all have this length, in bytes, and nothing around them.
    Fixed(usize),
    /// Lines of text.
    Line(Line),
    /// Messages that end with the same few bytes.
    #[cfg(feature = "delimiter")]
    #[cfg_attr(docsrs, doc(cfg(feature = "delimiter")))]
    Delimiter(Delimiter),
    /// No frames: bytes are handed out as they come, in pieces of no meaning, never empty and never above
    /// [`frame_len_max`](crate::Builder::frame_len_max).
    Raw,
    /// A framing of the user's. See [`Framing::custom`].
    Custom(Custom),
}

/// Presets: what other libraries and engines speak.
impl Framing {
    /// Telepathy in an older dialect: 4-byte little-endian length.
    pub const TELEPATHY_LE32: Framing = Framing::LengthField(LengthField::new(4).little_endian());

    /// Telepathy in its oldest dialect: 2-byte little-endian length, so at most 65,535 bytes of payload.
    pub const TELEPATHY_LE16: Framing = Framing::LengthField(LengthField::new(2).little_endian());

    /// Godot's `PacketPeerStream`: 4-byte little-endian length.
    pub const GODOT: Framing = Framing::LengthField(LengthField::new(4).little_endian());

    /// Netty's `LengthFieldPrepender(4)` and the decoder that goes with it,
    /// `LengthFieldBasedFrameDecoder(max, 0, 4, 0, 4)`: the default framing's bytes. Netty's limit counts the header,
    /// ours does not.
    pub const NETTY: Framing = Framing::LengthPrefix;

    /// tokio-util's `LengthDelimitedCodec` as it comes: the default framing's bytes. Its limit is 8 MiB of payload.
    pub const TOKIO_UTIL: Framing = Framing::LengthPrefix;

    /// Protobuf's delimited streams (`writeDelimitedTo`, prost's `encode_length_delimited`), and Netty's
    /// `ProtobufVarint32FrameDecoder`.
    pub const PROTOBUF: Framing = Framing::Varint;

    /// A framing of one's own, by its [`Codec`]: a constant, a `static`, or `Box::leak`.
    pub const fn custom(codec: &'static dyn Codec) -> Framing {
        Framing::Custom(Custom::new(codec))
    }

    /// The framing, if it can tell every payload up to this length.
    pub(crate) fn check(self, payload_len_max: usize) -> Result<Framer, Error> {
        match self {
            Framing::LengthField(field) => field.check(payload_len_max)?,
            #[cfg(feature = "delimiter")]
            Framing::Delimiter(delimiter) => delimiter.check()?,
            Framing::Fixed(len) if !(1..=payload_len_max).contains(&len) => {
                let problem = format!(
                    "frames of {len} bytes: choose 1 to `frame_len_max`, which is {payload_len_max}"
                );
                return Err(Error::Config { setting: "framing", problem });
            }
            Framing::Custom(codec) if codec.overhead_max() > OVERHEAD_CEILING => {
                let problem = format!(
                    "{} bytes around a payload: at most {OVERHEAD_CEILING}, hand them out instead",
                    codec.overhead_max()
                );
                return Err(Error::Config { setting: "framing", problem });
            }
            _ => {}
        }
        Ok(Framer { framing: self, payload_len_max: payload_len_max as u32 })
    }
}

/// Every framing is a codec too: for a codec of one's own that wraps one, for tests, and for streams that no reactor
/// reads. Nothing has checked then that the framing can work: with one that [`Builder::build`](crate::Builder::build)
/// would refuse, decoding may find nonsense and encoding may panic.
///
/// ```
/// use tickwire::{Codec, Framing};
///
/// let mut bytes: &[u8] = b"\0\0\0\x02hi\0\0\0\x05the";
/// let mut messages = Vec::new();
/// let mut scanned = 0;
/// while let Some(cut) = Framing::LengthPrefix.decode(bytes, &mut scanned, 1_000)? {
///     messages.push(&bytes[cut.header_len..][..cut.payload_len]);
///     bytes = &bytes[cut.frame_len()..];
///     scanned = 0;
/// }
/// assert_eq!((messages, bytes), (vec![&b"hi"[..]], &b"\0\0\0\x05the"[..]));
/// # Ok::<(), tickwire::FrameError>(())
/// ```
impl Codec for Framing {
    fn overhead_max(&self) -> usize {
        match self {
            Framing::LengthPrefix | Framing::Telepathy => HEADER_LEN,
            Framing::LengthField(field) => field.plan().overhead_max(),
            Framing::Varint => Varint.overhead_max(),
            Framing::Fixed(len) => Fixed(*len).overhead_max(),
            Framing::Line(line) => line.overhead_max(),
            #[cfg(feature = "delimiter")]
            Framing::Delimiter(delimiter) => delimiter.overhead_max(),
            Framing::Raw => Raw.overhead_max(),
            Framing::Custom(codec) => codec.overhead_max(),
        }
    }

    #[inline]
    fn decode(
        &self,
        bytes: &[u8],
        scanned: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        match self {
            Framing::LengthPrefix => PREFIX.decode(bytes, scanned, payload_len_max),
            Framing::Telepathy => TELEPATHY.decode(bytes, scanned, payload_len_max),
            Framing::LengthField(field) => field.plan().decode(bytes, scanned, payload_len_max),
            Framing::Varint => Varint.decode(bytes, scanned, payload_len_max),
            Framing::Fixed(len) => Fixed(*len).decode(bytes, scanned, payload_len_max),
            Framing::Line(line) => line.decode(bytes, scanned, payload_len_max),
            #[cfg(feature = "delimiter")]
            Framing::Delimiter(delimiter) => delimiter.decode(bytes, scanned, payload_len_max),
            Framing::Raw => Raw.decode(bytes, scanned, payload_len_max),
            Framing::Custom(codec) => codec.decode(bytes, scanned, payload_len_max),
        }
    }

    fn encode(&self, payload: &[u8], envelope: &mut Envelope) -> Result<(), SendError> {
        match self {
            Framing::LengthPrefix => PREFIX.encode(payload, envelope),
            Framing::Telepathy => TELEPATHY.encode(payload, envelope),
            Framing::LengthField(field) => field.plan().encode(payload, envelope),
            Framing::Varint => Varint.encode(payload, envelope),
            Framing::Fixed(len) => Fixed(*len).encode(payload, envelope),
            Framing::Line(line) => line.encode(payload, envelope),
            #[cfg(feature = "delimiter")]
            Framing::Delimiter(delimiter) => delimiter.encode(payload, envelope),
            Framing::Raw => Raw.encode(payload, envelope),
            Framing::Custom(codec) => codec.encode(payload, envelope),
        }
    }
}

const PREFIX: Prefix = Prefix { empty: true };
const TELEPATHY: Prefix = Prefix { empty: false };

/// A framing that can be used, and the largest payload of its connection.
///
/// Invariant: `payload_len_max ≤ PAYLOAD_LEN_CEILING`, and `check` has found nothing wrong with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Framer {
    framing: Framing,
    payload_len_max: u32,
}

/// What was found in some bytes.
pub(crate) struct Decoded {
    /// Bytes of the whole frames.
    pub(crate) consumed: usize,
    pub(crate) frames: usize,
    pub(crate) stop: Stop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// No whole frame is left.
    Incomplete,
    /// As many frames as were allowed; there may be more.
    Quantum,
    Bad(DisconnectReason),
}

impl Decoded {
    /// The same, but no more of this connection.
    pub(crate) fn but_bad(self, reason: DisconnectReason) -> Decoded {
        Decoded { stop: Stop::Bad(reason), ..self }
    }
}

/// The framers of a reactor, each once, so that a connection keeps a number only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Framers(Vec<Framer>);

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FramerId(u32);

impl Framers {
    pub(crate) fn add(&mut self, framer: Framer) -> FramerId {
        let known = self.0.iter().position(|known| *known == framer);
        let index = known.unwrap_or_else(|| {
            self.0.push(framer);
            self.0.len() - 1
        });
        FramerId(index as u32)
    }

    #[inline]
    pub(crate) fn get(&self, id: FramerId) -> &Framer {
        &self.0[id.0 as usize]
    }
}

impl Framer {
    pub(crate) fn payload_len_max(&self) -> usize {
        self.payload_len_max as usize
    }

    /// The most bytes that one frame has.
    pub(crate) fn frame_len_max(&self) -> usize {
        self.framing.overhead_max() + self.payload_len_max()
    }

    /// Cuts at most `frames_max` frames out of `bytes`; `frame` gets the place of each payload.
    ///
    /// `scanned` is how far an unfinished frame at the front has been looked at already; afterwards, how far
    /// the one that is left has been.
    #[inline]
    pub(crate) fn decode(
        &self,
        bytes: &[u8],
        frames_max: usize,
        scanned: &mut u32,
        frame: impl FnMut(usize, usize),
    ) -> Decoded {
        let job = Job { bytes, frames_max, scanned, payload_len_max: self.payload_len_max() };
        match &self.framing {
            Framing::LengthPrefix | Framing::Telepathy => {
                job.cut(&Prefix { empty: self.framing == Framing::LengthPrefix }, frame)
            }
            Framing::LengthField(field) => job.cut_apart(&field.plan(), frame),
            Framing::Varint => job.cut_apart(&Varint, frame),
            Framing::Fixed(len) => job.cut_apart(&Fixed(*len), frame),
            Framing::Line(line) => job.cut_apart(line, frame),
            #[cfg(feature = "delimiter")]
            Framing::Delimiter(delimiter) => job.cut_apart(delimiter, frame),
            Framing::Raw => job.cut_apart(&Raw, frame),
            Framing::Custom(codec) => job.cut_apart(codec, frame),
        }
    }

    /// The header, where it is the default one and nothing else stands around a payload of this length.
    #[inline]
    pub(crate) fn prefix(&self, payload_len: usize) -> Option<Result<[u8; HEADER_LEN], SendError>> {
        let prefix = match self.framing {
            Framing::LengthPrefix => PREFIX,
            Framing::Telepathy => TELEPATHY,
            _ => return None,
        };
        if payload_len > self.payload_len_max() {
            return Some(Err(SendError::TooLarge));
        }
        Some(prefix.header(payload_len))
    }

    /// What stands around a payload, or why it cannot be sent.
    pub(crate) fn encode(&self, payload: &[u8]) -> Result<Envelope, SendError> {
        if payload.len() > self.payload_len_max() {
            return Err(SendError::TooLarge);
        }
        let mut envelope = Envelope::default();
        self.framing.encode(payload, &mut envelope)?;
        Ok(envelope)
    }

    /// Bytes that will stand before the next payload; where they depend on it, as many as last time.
    #[inline]
    pub(crate) fn header_len(&self, last: usize) -> usize {
        match &self.framing {
            Framing::LengthPrefix | Framing::Telepathy => HEADER_LEN,
            Framing::LengthField(field) => field.plan().header_len(),
            Framing::Varint | Framing::Custom(_) => last,
            _ => 0,
        }
    }
}

/// Bytes to be cut into frames.
struct Job<'a> {
    bytes: &'a [u8],
    frames_max: usize,
    scanned: &'a mut u32,
    payload_len_max: usize,
}

impl Job<'_> {
    #[inline(always)]
    fn cut(self, codec: &impl Codec, mut frame: impl FnMut(usize, usize)) -> Decoded {
        let Job { bytes, frames_max, payload_len_max, .. } = self;
        let mut scanned = *self.scanned as usize;
        let mut consumed = 0;
        let mut frames = 0;
        let stop = loop {
            if frames == frames_max {
                break if consumed == bytes.len() { Stop::Incomplete } else { Stop::Quantum };
            }
            match codec.decode(&bytes[consumed..], &mut scanned, payload_len_max) {
                Ok(Some(cut)) => {
                    frame(consumed + cut.header_len, cut.payload_len);
                    consumed += cut.frame_len();
                    frames += 1;
                    scanned = 0;
                }
                Ok(None) => break Stop::Incomplete,
                Err(error) => break Stop::Bad(error.reason(payload_len_max)),
            }
        };
        *self.scanned = scanned as u32;
        Decoded { consumed, frames, stop }
    }

    /// In a function of its own, so that the way of the default framing stays short.
    #[inline(never)]
    fn cut_apart(self, codec: &impl Codec, frame: impl FnMut(usize, usize)) -> Decoded {
        self.cut(codec, frame)
    }
}

/// The largest payload that a builder accepts: 1 GiB keeps every sum of lengths within 32 bits.
pub(crate) const PAYLOAD_LEN_CEILING: usize = 1 << 30;

/// The most that may stand around a payload, for the same reason.
const OVERHEAD_CEILING: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::BadFrame;

    /// What the front of some bytes is: the payload's length, nothing yet, or the end.
    fn parse(
        framing: Framing,
        bytes: &[u8],
        max: usize,
    ) -> Result<Option<usize>, DisconnectReason> {
        let framer = framing.check(max).expect("usable");
        let mut found = None;
        let decoded = framer.decode(bytes, 1, &mut 0, |_, len| found = Some(len));
        match decoded.stop {
            Stop::Bad(reason) => Err(reason),
            _ => Ok(found),
        }
    }

    fn prefix(framing: Framing, len: usize, max: usize) -> Result<[u8; HEADER_LEN], SendError> {
        framing.check(max).expect("usable").prefix(len).expect("it has the default header")
    }

    #[test]
    fn the_wire_is_a_big_endian_length() {
        assert_eq!(prefix(Framing::LengthPrefix, 0x0102, 16_384), Ok([0, 0, 1, 2]));
        assert_eq!(parse(Framing::LengthPrefix, &[0, 0, 0, 2, 7, 7], 16_384), Ok(Some(2)));
    }

    #[test]
    fn every_header_round_trips_up_to_the_maximum() {
        for len in 0..=300 {
            match prefix(Framing::LengthPrefix, len, 299) {
                Ok(header) => {
                    let mut bytes = header.to_vec();
                    bytes.resize(HEADER_LEN + len, 0);
                    assert_eq!(parse(Framing::LengthPrefix, &bytes, 299), Ok(Some(len)));
                }
                Err(error) => assert_eq!((len, error), (300, SendError::TooLarge)),
            }
        }
    }

    #[test]
    fn a_frame_is_incomplete_until_its_last_byte() {
        let bytes = [0, 0, 0, 3, 1, 2, 3];
        for cut in 0..bytes.len() {
            assert_eq!(parse(Framing::LengthPrefix, &bytes[..cut], 3), Ok(None));
        }
        assert_eq!(parse(Framing::LengthPrefix, &bytes, 3), Ok(Some(3)));
    }

    #[test]
    fn a_too_large_frame_is_refused_on_its_header_alone() {
        for declared in [1_025u32, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
            let mut bytes = declared.to_be_bytes().to_vec();
            let bad = DisconnectReason::FrameTooLarge { declared: declared.into(), limit: 1_024 };
            assert_eq!(parse(Framing::LengthPrefix, &bytes, 1_024), Err(bad));
            bytes.resize(4 + 1_025, 0);
            assert_eq!(parse(Framing::LengthPrefix, &bytes, 1_024), Err(bad), "it is all there");
        }
    }

    #[test]
    fn only_telepathy_refuses_empty_frames() {
        let empty = [0; HEADER_LEN];
        assert_eq!(parse(Framing::LengthPrefix, &empty, 9), Ok(Some(0)));
        let bad = DisconnectReason::BadFrame(BadFrame::Empty);
        assert_eq!(parse(Framing::Telepathy, &empty, 9), Err(bad));
        assert_eq!(prefix(Framing::LengthPrefix, 0, 9), Ok(empty));
        assert_eq!(prefix(Framing::Telepathy, 0, 9), Err(SendError::Empty));
    }

    #[test]
    fn the_default_and_its_general_form_are_one() {
        let general = Framing::LengthField(LengthField::new(4));
        for len in [0, 1, 255, 256, 65_536] {
            let payload = vec![1; len];
            let [one, other] = [Framing::LengthPrefix, general].map(|framing| {
                *framing
                    .check(1 << 20)
                    .expect("usable")
                    .encode(&payload)
                    .expect("it fits")
                    .header()
                    .first_chunk::<4>()
                    .expect("four bytes")
            });
            assert_eq!(one, other);
            assert_eq!(Ok(one), prefix(Framing::LengthPrefix, len, 1 << 20));
        }
    }

    #[test]
    fn fixed_frames_are_of_a_usable_size() {
        assert!(Framing::Fixed(9).check(9).is_ok());
        for (len, max) in [(0, 9), (10, 9)] {
            let problem = Framing::Fixed(len).check(max).expect_err("unusable").to_string();
            assert!(problem.contains("choose 1 to `frame_len_max`"));
        }
    }

    #[test]
    fn the_same_framer_has_one_number() {
        let mut framers = Framers::default();
        let [one, other] = [Framing::Raw, Framing::Varint]
            .map(|framing| framers.add(framing.check(9).expect("usable")));
        assert_ne!(one, other);
        assert_eq!(framers.add(Framing::Raw.check(9).expect("usable")), one);
        assert_eq!(framers.get(other).framing, Framing::Varint);
        assert_ne!(framers.add(Framing::Raw.check(8).expect("usable")), one);
    }
}

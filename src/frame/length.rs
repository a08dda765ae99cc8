//! A length before the payload: the default, and the general form.

use super::codec::{Codec, Cut, Envelope, FrameError, HEADER_LEN_MAX};
use crate::error::{BadFrame, Error, SendError};

/// The default: 4 bytes, big-endian, then the payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix {
    /// Telepathy has no empty messages.
    pub(crate) empty: bool,
}

/// Bytes of the default header.
pub(crate) const HEADER_LEN: usize = 4;

impl Codec for Prefix {
    fn overhead_max(&self) -> usize {
        HEADER_LEN
    }

    #[inline]
    fn decode(
        &self,
        bytes: &[u8],
        _: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let declared = u32::from_be_bytes(*header);
        if u64::from(declared) > payload_len_max as u64 {
            return Err(FrameError::TooLarge { declared: declared.into() });
        }
        if declared == 0 && !self.empty {
            return Err(BadFrame::Empty.into());
        }
        let payload_len = declared as usize;
        let is_whole = bytes.len() - HEADER_LEN >= payload_len;
        Ok(is_whole.then_some(Cut { header_len: HEADER_LEN, payload_len, trailer_len: 0 }))
    }

    fn encode(&self, payload: &[u8], envelope: &mut Envelope) -> Result<(), SendError> {
        envelope.put_header(&self.header(payload.len())?);
        Ok(())
    }
}

impl Prefix {
    /// The header for a payload that is not above the largest one.
    #[inline]
    pub(crate) fn header(&self, payload_len: usize) -> Result<[u8; HEADER_LEN], SendError> {
        if payload_len == 0 && !self.empty {
            return Err(SendError::Empty);
        }
        let declared = u32::try_from(payload_len).expect("the largest payload is below 2^30");
        Ok(declared.to_be_bytes())
    }
}

/// A length field of any usual shape, at a fixed place near the front of each frame.
///
/// ```text
/// ├── offset ──┼── width ──┼── value + adjustment ──┤     a frame
/// ├────── strip ──────┼───────── payload ───────────┤     what is handed out of it
/// ```
///
/// The field's value is unsigned. It counts the bytes behind the field; `adjustment` corrects a protocol that counts
/// otherwise.
///
/// | The value counts | so set |
/// |---|---|
/// | what follows the field | nothing |
/// | the field and what follows it | [`counts_itself(true)`](Self::counts_itself) |
/// | the whole frame, of which `offset` bytes stand before the field | `counts_itself(true).adjustment(-offset)` |
/// | the payload alone, while `n` more bytes of header follow the field | `adjustment(n)`, and `strip` them or not |
///
/// By default all up to the end of the field is stripped, and what is sent there beside the field is zero. With a smaller
/// [`strip`](Self::strip) the payload begins with the rest of the header, as it is handed out and as it has to be sent:
/// the value that the sender wrote into it is checked, not repaired ([`SendError::Malformed`]).
///
/// ```
/// use tickwire::{Framing, LengthField, ListenOptions};
///
/// // A 2-byte little-endian length that counts itself, then a message number that the game wants to see.
/// let field = LengthField::new(2).little_endian().counts_itself(true);
/// let options = ListenOptions::new().framing(Framing::LengthField(field));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a length field does nothing until it is made a `Framing`"]
pub struct LengthField {
    width: u8,
    is_little: bool,
    counts_itself: bool,
    offset: u8,
    strip: Option<u8>,
    adjustment: i32,
}

impl LengthField {
    /// A field of 1, 2, 3, 4 or 8 bytes at the front, big-endian, that counts what follows it.
    pub const fn new(width: u8) -> LengthField {
        LengthField {
            width,
            is_little: false,
            counts_itself: false,
            offset: 0,
            strip: None,
            adjustment: 0,
        }
    }

    /// The least significant byte comes first. Default: the most significant one.
    pub const fn little_endian(mut self) -> LengthField {
        self.is_little = true;
        self
    }

    /// Bytes before the field; together with the field at most 32. Default 0.
    pub const fn offset(mut self, bytes: u8) -> LengthField {
        self.offset = bytes;
        self
    }

    /// Whether the value counts the bytes of the field too. Default `false`.
    pub const fn counts_itself(mut self, counts_itself: bool) -> LengthField {
        self.counts_itself = counts_itself;
        self
    }

    /// Added to the value, to make it the number of bytes behind the field. Default 0.
    pub const fn adjustment(mut self, bytes: i32) -> LengthField {
        self.adjustment = bytes;
        self
    }

    /// Bytes at the front of each frame that are not handed out, at most 32; not an end within the field.
    /// Default: all up to the end of the field.
    pub const fn strip(mut self, bytes: u8) -> LengthField {
        self.strip = Some(bytes);
        self
    }

    /// The numbers that decoding and encoding need, worked out.
    #[inline]
    pub(crate) fn plan(&self) -> Plan {
        let (offset, width) = (usize::from(self.offset), usize::from(self.width));
        let header_len = self.strip.map_or(offset + width, usize::from);
        let own = if self.counts_itself { i64::from(self.width) } else { 0 };
        let field_end = (offset + width) as i64;
        Plan {
            offset,
            width,
            is_little: self.is_little,
            header_len,
            payload_len_min: (offset + width).saturating_sub(header_len),
            bias: i64::from(self.adjustment) - own + field_end - header_len as i64,
        }
    }

    /// Whether payloads up to this length can be told with it.
    pub(crate) fn check(&self, payload_len_max: usize) -> Result<(), Error> {
        let refuse = |setting, problem| Err(Error::Config { setting, problem });
        if ![1, 2, 3, 4, 8].contains(&self.width) {
            let problem = format!("a length field of {} bytes: choose 1, 2, 3, 4 or 8", self.width);
            return refuse("framing", problem);
        }
        let plan = self.plan();
        let field = plan.offset..plan.offset + plan.width;
        if field.end > HEADER_LEN_MAX || plan.header_len > HEADER_LEN_MAX {
            let problem = format!(
                "a length field that ends at byte {}, with {} bytes stripped: at most {HEADER_LEN_MAX} each",
                field.end, plan.header_len
            );
            return refuse("framing", problem);
        }
        if plan.header_len > field.start && plan.header_len < field.end {
            let problem = format!(
                "{} bytes stripped cut the length field in two: choose at most {} or at least {}",
                plan.header_len, field.start, field.end
            );
            return refuse("framing", problem);
        }
        let least = plan.payload_len_least();
        if (payload_len_max as u64) < least {
            let problem = format!(
                "{payload_len_max} bytes are less than any frame with this length field has: raise it to at least {least}"
            );
            return refuse("frame_len_max", problem);
        }
        let most = plan.payload_len_most();
        if payload_len_max as i128 > most {
            let problem = format!(
                "a length field of {} bytes cannot announce {payload_len_max} bytes: lower it to at most {most}, or widen the field",
                self.width
            );
            return refuse("frame_len_max", problem);
        }
        Ok(())
    }
}

/// A length field, worked out: `payload length = value + bias`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    offset: usize,
    width: usize,
    is_little: bool,
    /// Bytes that are stripped.
    header_len: usize,
    /// What of the header remains in the payload.
    payload_len_min: usize,
    bias: i64,
}

impl Codec for Plan {
    fn overhead_max(&self) -> usize {
        self.header_len
    }

    #[inline]
    fn decode(
        &self,
        bytes: &[u8],
        _: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        let Some(value) = self.value(bytes, self.offset) else {
            return Ok(None);
        };
        let Some(payload_len) = value.checked_add_signed(self.bias) else {
            return Err(if self.bias < 0 {
                self.too_small(value)
            } else {
                FrameError::TooLarge { declared: u64::MAX }
            });
        };
        if payload_len < self.payload_len_min as u64 {
            return Err(self.too_small(value));
        }
        if payload_len > payload_len_max as u64 {
            return Err(FrameError::TooLarge { declared: payload_len });
        }
        let cut =
            Cut { header_len: self.header_len, payload_len: payload_len as usize, trailer_len: 0 };
        Ok((bytes.len() >= cut.frame_len()).then_some(cut))
    }

    fn encode(&self, payload: &[u8], envelope: &mut Envelope) -> Result<(), SendError> {
        let value = payload.len() as i64 - self.bias;
        if payload.len() < self.payload_len_min || value < 0 {
            return Err(SendError::Malformed);
        }
        let value = value as u64;
        if value > self.value_max() {
            return Err(SendError::TooLarge);
        }
        let field = if self.is_little { value.to_le_bytes() } else { value.to_be_bytes() };
        let field = if self.is_little { &field[..self.width] } else { &field[8 - self.width..] };
        let header = [0; HEADER_LEN_MAX];
        if self.header_len <= self.offset {
            envelope.put_header(&header[..self.header_len]);
            let told = self.value(payload, self.offset - self.header_len);
            return if told == Some(value) { Ok(()) } else { Err(SendError::Malformed) };
        }
        let behind = self.header_len - self.offset - self.width;
        envelope.put_header(&header[..self.offset]);
        envelope.put_header(field);
        envelope.put_header(&header[..behind]);
        Ok(())
    }
}

impl Plan {
    /// Bytes that are sent before a payload.
    pub(crate) fn header_len(&self) -> usize {
        self.header_len
    }

    /// The value of the field `at` some place in `bytes`, if all of it is there.
    #[inline]
    fn value(&self, bytes: &[u8], at: usize) -> Option<u64> {
        let field = bytes.get(at..)?;
        Some(match (self.width, self.is_little) {
            (1, _) => u64::from(*field.first()?),
            (2, false) => u64::from(u16::from_be_bytes(*field.first_chunk()?)),
            (2, true) => u64::from(u16::from_le_bytes(*field.first_chunk()?)),
            (3, false) => {
                let [a, b, c] = *field.first_chunk()?;
                u64::from(u32::from_be_bytes([0, a, b, c]))
            }
            (3, true) => {
                let [a, b, c] = *field.first_chunk()?;
                u64::from(u32::from_le_bytes([a, b, c, 0]))
            }
            (4, false) => u64::from(u32::from_be_bytes(*field.first_chunk()?)),
            (4, true) => u64::from(u32::from_le_bytes(*field.first_chunk()?)),
            (_, false) => u64::from_be_bytes(*field.first_chunk()?),
            (_, true) => u64::from_le_bytes(*field.first_chunk()?),
        })
    }

    fn value_max(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.width)
    }

    /// The shortest payload that the field can tell.
    fn payload_len_least(&self) -> u64 {
        (self.payload_len_min as u64).max(self.bias.max(0) as u64)
    }

    /// The longest payload that the field can tell.
    fn payload_len_most(&self) -> i128 {
        i128::from(self.value_max()) + i128::from(self.bias)
    }

    #[cold]
    fn too_small(&self, declared: u64) -> FrameError {
        let least = (self.payload_len_min as i64 - self.bias).max(0) as u64;
        BadFrame::LengthTooSmall { declared, least }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(field: LengthField, bytes: &[u8], max: usize) -> Result<Option<Cut>, FrameError> {
        field.plan().decode(bytes, &mut 0, max)
    }

    fn encode(field: LengthField, payload: &[u8]) -> Result<Vec<u8>, SendError> {
        let mut envelope = Envelope::default();
        field.plan().encode(payload, &mut envelope)?;
        Ok([envelope.header(), payload, envelope.trailer()].concat())
    }

    fn problem(field: LengthField, max: usize) -> String {
        field.check(max).expect_err("unusable").to_string()
    }

    #[test]
    fn every_width_and_order_reads_what_it_writes() {
        for width in [1, 2, 3, 4, 8] {
            let big = LengthField::new(width);
            for field in [big, big.little_endian()] {
                let frame = encode(field, &[7; 200]).expect("it fits");
                let cut = decode(field, &frame, 200).expect("a frame").expect("whole");
                assert_eq!((cut.header_len, cut.payload_len), (usize::from(width), 200));
            }
        }
        let three = LengthField::new(3);
        assert_eq!(encode(three, &[0; 0x0102]).expect("it fits")[..3], [0, 1, 2]);
        let three = three.little_endian();
        assert_eq!(encode(three, &[0; 0x0102]).expect("it fits")[..3], [2, 1, 0]);
    }

    #[test]
    fn a_field_counts_what_it_was_told_to() {
        let counts_itself = LengthField::new(2).counts_itself(true);
        assert_eq!(encode(counts_itself, b"ab"), Ok(b"\0\x04ab".to_vec()));
        let whole = LengthField::new(2).offset(1).counts_itself(true).adjustment(-1);
        assert_eq!(encode(whole, b"ab"), Ok(b"\0\0\x05ab".to_vec()));
        let payload_alone = LengthField::new(1).adjustment(2).strip(3);
        assert_eq!(encode(payload_alone, b"ab"), Ok(b"\x02\0\0ab".to_vec()));
        for field in [counts_itself, whole, payload_alone] {
            let frame = encode(field, b"ab").expect("it fits");
            let cut = decode(field, &frame, 9).expect("a frame").expect("whole");
            assert_eq!(frame[cut.header_len..][..cut.payload_len], *b"ab");
            assert_eq!(cut.frame_len(), frame.len());
        }
    }

    #[test]
    fn a_header_that_is_not_stripped_is_the_senders_to_write() {
        let field = LengthField::new(1).offset(1).strip(0);
        assert_eq!(encode(field, b"k\x02ab"), Ok(b"k\x02ab".to_vec()));
        assert_eq!(
            decode(field, b"k\x02ab", 9).map(|cut| cut.map(|cut| cut.payload_len)),
            Ok(Some(4))
        );
        for wrong in [&b"k\x03ab"[..], b"k\x01ab", b"k", b""] {
            assert_eq!(encode(field, wrong), Err(SendError::Malformed));
        }
    }

    #[test]
    fn a_value_that_leaves_no_room_for_the_header_is_bad() {
        let field = LengthField::new(4).counts_itself(true);
        for declared in 0..4 {
            let bad = BadFrame::LengthTooSmall { declared: declared.into(), least: 4 };
            assert_eq!(decode(field, &[0, 0, 0, declared], 9), Err(bad.into()));
        }
        let empty = Cut { header_len: 4, ..Cut::default() };
        assert_eq!(decode(field, &[0, 0, 0, 4], 9), Ok(Some(empty)));
        // More is stripped than the frame has.
        let field = LengthField::new(1).strip(3);
        let bad = BadFrame::LengthTooSmall { declared: 1, least: 2 };
        assert_eq!(decode(field, &[1, 0, 0, 0], 9), Err(bad.into()));
    }

    #[test]
    fn no_value_overflows_a_sum() {
        for adjustment in [i32::MIN, -1, 0, 1, i32::MAX] {
            for strip in [0, 8, 32] {
                let field = LengthField::new(8).adjustment(adjustment).strip(strip);
                for value in [0, 1, 31, 1 << 31, i64::MAX as u64, u64::MAX - 1, u64::MAX] {
                    let mut bytes = value.to_be_bytes().to_vec();
                    bytes.resize(64, 0);
                    let sum = i128::from(value) + i128::from(field.plan().bias);
                    match decode(field, &bytes, 100) {
                        Ok(cut) => {
                            let payload_len = cut.map_or(sum, |cut| cut.payload_len as i128);
                            assert!(payload_len == sum && sum <= 100);
                        }
                        Err(FrameError::TooLarge { declared }) => {
                            assert!(sum > 100);
                            assert_eq!(i128::from(declared), sum.min(u64::MAX.into()));
                        }
                        Err(FrameError::Bad(_)) => {
                            assert!(sum < field.plan().payload_len_min as i128);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_told_is_refused_with_what_to_change() {
        assert!(problem(LengthField::new(5), 100).contains("choose 1, 2, 3, 4 or 8"));
        assert!(LengthField::new(1).check(255).is_ok());
        assert!(problem(LengthField::new(1), 300).contains("lower it to at most 255"));
        let counts_itself = LengthField::new(1).counts_itself(true);
        assert!(problem(counts_itself, 255).contains("at most 254"));
        let unstripped = LengthField::new(2).strip(0);
        assert!(unstripped.check(65_537).is_ok());
        assert!(problem(unstripped, 65_538).contains("at most 65537"));
        assert!(problem(unstripped, 1).contains("at least 2"));
        assert!(problem(LengthField::new(4).strip(3), 100).contains("at most 0 or at least 4"));
        assert!(problem(LengthField::new(4).offset(29), 100).contains("at most 32"));
        assert!(problem(LengthField::new(4).strip(33), 100).contains("at most 32"));
        assert!(problem(LengthField::new(4).adjustment(200), 100).contains("at least 200"));
        assert!(LengthField::new(8).check(1 << 30).is_ok());
    }

    #[test]
    fn a_payload_that_the_field_cannot_tell_is_not_sent() {
        assert_eq!(encode(LengthField::new(1), &[0; 256]), Err(SendError::TooLarge));
        let field = LengthField::new(1).adjustment(3);
        assert_eq!(encode(field, b"ab"), Err(SendError::Malformed), "there are no such frames");
        assert_eq!(encode(field, b"abc"), Ok(b"\0abc".to_vec()));
    }
}

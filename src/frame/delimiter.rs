//! Frames that end with some bytes that stand nowhere else in them.

use super::codec::{Codec, Cut, Envelope, FrameError, TRAILER_LEN_MAX};
use super::find::find_byte;
use crate::error::{Error, SendError};

/// Each message ends with the same few bytes, such as `\0` or `\r\n\r\n`. Needs the feature `delimiter`.
///
/// ```
/// use tickwire::{Delimiter, Framing, ListenOptions};
///
/// // Flash's XMLSocket: a text, then a zero byte.
/// let options = ListenOptions::new().framing(Framing::Delimiter(Delimiter::new(b"\0")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a delimiter does nothing until it is made a `Framing`"]
pub struct Delimiter {
    bytes: [u8; TRAILER_LEN_MAX],
    len: u8,
    keep: bool,
}

impl Delimiter {
    /// Messages that end with these bytes, 1 to 8; they are not handed out, and are added to what is sent.
    ///
    /// Another number of bytes is refused where the framing is put to use ([`Error::Config`]).
    pub const fn new(delimiter: &[u8]) -> Delimiter {
        let mut bytes = [0; TRAILER_LEN_MAX];
        let mut at = 0;
        while at < delimiter.len() && at < TRAILER_LEN_MAX {
            bytes[at] = delimiter[at];
            at += 1;
        }
        let len = if delimiter.len() <= TRAILER_LEN_MAX { delimiter.len() as u8 } else { u8::MAX };
        Delimiter { bytes, len, keep: false }
    }

    /// Whether the delimiter is handed out with the message, and has to be part of what is sent. Default
    /// `false`.
    pub const fn keep(mut self, keep: bool) -> Delimiter {
        self.keep = keep;
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if (1..=TRAILER_LEN_MAX).contains(&usize::from(self.len)) {
            return Ok(());
        }
        let problem = format!("a delimiter of 0 bytes or too many: choose 1 to {TRAILER_LEN_MAX}");
        Err(Error::Config { setting: "framing", problem })
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Where the first delimiter ends whose last byte stands at `from` or behind. It is looked for by its
    /// last byte, so that no byte is scanned twice, however it arrives.
    #[inline]
    fn find_end(&self, bytes: &[u8], mut from: usize) -> Option<usize> {
        let delimiter = self.get();
        let last = *delimiter.last()?;
        loop {
            let end = from + find_byte(last, &bytes[from..])? + 1;
            if bytes[..end].ends_with(delimiter) {
                return Some(end);
            }
            from = end;
        }
    }
}

impl Codec for Delimiter {
    fn overhead_max(&self) -> usize {
        if self.keep { 0 } else { usize::from(self.len) }
    }

    #[inline]
    fn decode(
        &self,
        bytes: &[u8],
        scanned: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        // No frame that is taken reaches beyond this window.
        let window = payload_len_max + self.overhead_max();
        let seen = bytes.len().min(window);
        let Some(frame_len) = self.find_end(&bytes[..seen], (*scanned).min(seen)) else {
            *scanned = seen;
            return if seen < window {
                Ok(None)
            } else {
                Err(FrameError::endless(payload_len_max))
            };
        };
        let trailer_len = self.overhead_max();
        Ok(Some(Cut { header_len: 0, payload_len: frame_len - trailer_len, trailer_len }))
    }

    fn encode(&self, payload: &[u8], envelope: &mut Envelope) -> Result<(), SendError> {
        let delimiter = self.get();
        let found = self.find_end(payload, 0);
        let is_message = if self.keep {
            found == Some(payload.len())
        } else {
            // Nor may the end of the payload and the beginning of the delimiter make one.
            let tail = &payload[payload.len() - payload.len().min(delimiter.len() - 1)..];
            let mut seam = [0; 2 * TRAILER_LEN_MAX];
            let seam = &mut seam[..tail.len() + delimiter.len()];
            seam[..tail.len()].copy_from_slice(tail);
            seam[tail.len()..].copy_from_slice(delimiter);
            found.is_none() && self.find_end(seam, 0) == Some(seam.len())
        };
        if !is_message {
            return Err(SendError::Malformed);
        }
        if !self.keep {
            envelope.put_trailer(delimiter);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(delimiter: &[u8], bytes: &[u8], max: usize) -> Result<Option<usize>, FrameError> {
        let cut = Delimiter::new(delimiter).decode(bytes, &mut 0, max)?;
        Ok(cut.map(|cut| cut.payload_len))
    }

    #[test]
    fn the_first_delimiter_ends_the_frame() {
        assert_eq!(decode(b"\0", b"ab\0c\0", 9), Ok(Some(2)));
        assert_eq!(decode(b"\r\n\r\n", b"a\n\r\n\r\nb", 9), Ok(Some(2)));
        assert_eq!(decode(b"aa", b"baaa", 9), Ok(Some(1)));
        assert_eq!(decode(b"ab", b"aaab", 9), Ok(Some(2)));
        assert_eq!(decode(b"ab", b"ba", 9), Ok(None));
        assert_eq!(decode(b"ab", b"xyzab", 3), Ok(Some(3)));
        for long in [&b"wxyzab"[..], b"wxyza", b"wxyzz"] {
            assert_eq!(decode(b"ab", long, 3), Err(FrameError::TooLarge { declared: 4 }));
        }
        assert_eq!(decode(b"ab", b"wxya", 3), Ok(None), "it may be the delimiter's beginning");
    }

    #[test]
    fn what_was_scanned_is_not_looked_at_again() {
        let delimiter = Delimiter::new(b"ab");
        let mut scanned = 0;
        assert_eq!(delimiter.decode(b"xxa", &mut scanned, 9), Ok(None));
        assert_eq!(scanned, 3);
        let cut = delimiter.decode(b"xxab", &mut scanned, 9).expect("a frame").expect("whole");
        assert_eq!((cut.payload_len, cut.trailer_len), (2, 2));
    }

    /// What is sent comes out as it was, or is refused.
    #[test]
    fn short_payloads_come_back_or_are_refused() {
        for delimiter in [&b"a"[..], b"ab", b"aa", b"aba", b"aab"] {
            for keep in [false, true] {
                let framing = Delimiter::new(delimiter).keep(keep);
                let mut sent = 0;
                for bits in 0..128u32 {
                    let len = bits.checked_ilog2().unwrap_or(0);
                    let payload: Vec<u8> = (0..len)
                        .map(|bit| if bits >> bit & 1 == 1 { b'a' } else { b'b' })
                        .collect();
                    let mut envelope = Envelope::default();
                    if framing.encode(&payload, &mut envelope).is_err() {
                        continue;
                    }
                    sent += 1;
                    let wire = [&payload, envelope.trailer(), b"bbb"].concat();
                    let cut = framing.decode(&wire, &mut 0, 99).expect("a frame").expect("whole");
                    assert_eq!(wire[..cut.payload_len], payload);
                    assert_eq!(cut.trailer_len, envelope.trailer().len());
                }
                assert!(sent > 1, "{framing:?}");
            }
        }
    }

    #[test]
    fn a_delimiter_has_one_to_eight_bytes() {
        assert!(Delimiter::new(b"12345678").check().is_ok());
        for wrong in [&b""[..], b"123456789"] {
            let problem = Delimiter::new(wrong).check().expect_err("unusable").to_string();
            assert!(problem.contains("choose 1 to 8"));
        }
    }
}

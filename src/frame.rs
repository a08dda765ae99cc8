//! Framing: where one message ends and the next begins. Pure arithmetic between header and numbers.

use crate::error::{BadFrame, DisconnectReason, SendError};

/// How messages are cut out of the byte stream.
///
/// Both speak the bytes of today's Telepathy: a 4-byte big-endian payload length, then the payload.
///
/// ```text
/// payloads AA and BB CC   →   00 00 00 01 AA 00 00 00 02 BB CC
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// 4-byte big-endian length, then the payload. An empty frame is an empty message.
    #[default]
    LengthPrefix,
    /// The same bytes with Telepathy's manners: there are no empty messages. Sending one is refused
    /// ([`SendError::Empty`]), receiving one ends the connection ([`BadFrame::Empty`]).
    Telepathy,
}

/// Bytes of the header that stands before each payload.
pub(crate) const HEADER_LEN: usize = 4;

/// The largest payload that a builder accepts: 1 GiB keeps every sum of lengths within 32 bits.
pub(crate) const PAYLOAD_LEN_CEILING: usize = 1 << 30;

/// What stands at the front of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Not yet a whole frame.
    Incomplete,
    /// A whole frame: [`HEADER_LEN`] bytes of header, then this many of payload.
    Frame { payload_len: usize },
    /// No frame of this framing. Final: nothing behind it can be trusted.
    Bad(DisconnectReason),
}

impl Framing {
    /// Looks at the front of `bytes`. The declared length is judged on the header alone, before
    /// anything is reserved for it.
    #[inline]
    pub(crate) fn parse(self, bytes: &[u8], payload_len_max: usize) -> Parsed {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Parsed::Incomplete;
        };
        let declared = u32::from_be_bytes(*header);
        if u64::from(declared) > payload_len_max as u64 {
            return Parsed::Bad(DisconnectReason::FrameTooLarge {
                declared: u64::from(declared),
                limit: payload_len_max as u32,
            });
        }
        if declared == 0 && self == Framing::Telepathy {
            return Parsed::Bad(DisconnectReason::BadFrame(BadFrame::Empty));
        }
        let payload_len = declared as usize;
        if bytes.len() - HEADER_LEN < payload_len {
            return Parsed::Incomplete;
        }
        Parsed::Frame { payload_len }
    }

    /// The header for a payload of this length, or why there is none.
    #[inline]
    pub(crate) fn header(
        self,
        payload_len: usize,
        payload_len_max: usize,
    ) -> Result<[u8; HEADER_LEN], SendError> {
        if payload_len > payload_len_max {
            return Err(SendError::TooLarge);
        }
        if payload_len == 0 && self == Framing::Telepathy {
            return Err(SendError::Empty);
        }
        let declared =
            u32::try_from(payload_len).expect("the builder keeps the maximum below 2^30");
        Ok(declared.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_is_a_big_endian_length() {
        assert_eq!(Framing::LengthPrefix.header(0x0102, 16_384), Ok([0, 0, 1, 2]));
        assert_eq!(
            Framing::LengthPrefix.parse(&[0, 0, 0, 2, 7, 7], 16_384),
            Parsed::Frame { payload_len: 2 }
        );
    }

    #[test]
    fn every_header_round_trips_up_to_the_maximum() {
        for len in 0..=300 {
            match Framing::LengthPrefix.header(len, 299) {
                Ok(header) => {
                    let mut bytes = header.to_vec();
                    bytes.resize(HEADER_LEN + len, 0);
                    let parsed = Framing::LengthPrefix.parse(&bytes, 299);
                    assert_eq!(parsed, Parsed::Frame { payload_len: len });
                }
                Err(error) => assert_eq!((len, error), (300, SendError::TooLarge)),
            }
        }
    }

    #[test]
    fn a_frame_is_incomplete_until_its_last_byte() {
        let bytes = [0, 0, 0, 3, 1, 2, 3];
        for cut in 0..bytes.len() {
            assert_eq!(Framing::LengthPrefix.parse(&bytes[..cut], 3), Parsed::Incomplete);
        }
        assert_eq!(Framing::LengthPrefix.parse(&bytes, 3), Parsed::Frame { payload_len: 3 });
    }

    #[test]
    fn a_too_large_frame_is_refused_on_its_header_alone() {
        for declared in [1_025u32, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
            let mut bytes = declared.to_be_bytes().to_vec();
            let bad = Parsed::Bad(DisconnectReason::FrameTooLarge {
                declared: declared.into(),
                limit: 1_024,
            });
            assert_eq!(Framing::LengthPrefix.parse(&bytes, 1_024), bad);
            bytes.resize(4 + 1_025, 0);
            assert_eq!(Framing::LengthPrefix.parse(&bytes, 1_024), bad, "complete in the buffer");
        }
    }

    #[test]
    fn only_telepathy_refuses_empty_frames() {
        let empty = [0; HEADER_LEN];
        assert_eq!(Framing::LengthPrefix.parse(&empty, 9), Parsed::Frame { payload_len: 0 });
        assert_eq!(
            Framing::Telepathy.parse(&empty, 9),
            Parsed::Bad(DisconnectReason::BadFrame(BadFrame::Empty))
        );
        assert_eq!(Framing::LengthPrefix.header(0, 9), Ok(empty));
        assert_eq!(Framing::Telepathy.header(0, 9), Err(SendError::Empty));
    }
}

//! A varint before the payload, as protobuf's delimited streams have it.

use super::codec::{Codec, Cut, Envelope, FrameError};
use crate::error::{BadFrame, SendError};

/// Seven bits a byte, the least significant first; the high bit says that more follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Varint;

/// 32 bits, seven at a time.
const VARINT_LEN_MAX: usize = 5;

impl Codec for Varint {
    fn overhead_max(&self) -> usize {
        VARINT_LEN_MAX
    }

    #[inline]
    fn decode(
        &self,
        bytes: &[u8],
        _: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        let Some((header_len, declared)) = read(bytes)? else {
            return Ok(None);
        };
        if u64::from(declared) > payload_len_max as u64 {
            return Err(FrameError::TooLarge { declared: declared.into() });
        }
        let payload_len = declared as usize;
        let is_whole = bytes.len() - header_len >= payload_len;
        Ok(is_whole.then_some(Cut { header_len, payload_len, trailer_len: 0 }))
    }

    fn encode(&self, payload: &[u8], envelope: &mut Envelope) -> Result<(), SendError> {
        let mut rest = payload.len();
        while rest >= 0x80 {
            envelope.put_header(&[rest as u8 | 0x80]);
            rest >>= 7;
        }
        envelope.put_header(&[rest as u8]);
        Ok(())
    }
}

/// How many bytes the varint at the front has, and its value.
#[inline]
fn read(bytes: &[u8]) -> Result<Option<(usize, u32)>, BadFrame> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(VARINT_LEN_MAX).enumerate() {
        if index == VARINT_LEN_MAX - 1 && byte > 0x0f {
            return Err(BadFrame::VarintTooLong);
        }
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            if byte == 0 && index > 0 {
                return Err(BadFrame::VarintOverlong);
            }
            return Ok(Some((index + 1, value)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_one_form_and_is_read_back() {
        let edges = (0..32).flat_map(|bit| [(1u32 << bit) - 1, 1 << bit]).chain([u32::MAX]);
        for value in edges {
            let mut bytes = Vec::new();
            let mut rest = value;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
            assert_eq!(read(&bytes), Ok(Some((bytes.len(), value))));
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), Ok(None), "{value} cut after {cut}");
            }
            if bytes.len() < VARINT_LEN_MAX {
                *bytes.last_mut().expect("at least one") |= 0x80;
                bytes.push(0);
                assert_eq!(read(&bytes), Err(BadFrame::VarintOverlong));
            }
        }
    }

    #[test]
    fn what_needs_more_than_32_bits_is_too_long() {
        for last in [0x10, 0x7f, 0x80, 0xff] {
            assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, last]), Err(BadFrame::VarintTooLong));
        }
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(Some((5, u32::MAX))));
    }
}

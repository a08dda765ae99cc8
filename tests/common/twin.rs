//! The naive twin of every framing, which sees all bytes at once: what `tests/framing.rs` and the fuzz targets of
//! `tests/fuzz` hold the real ones against.

use tickwire::{
    BadFrame, Codec, Cut, DisconnectReason, Envelope, FrameError, LineEnding, SendError,
};

/// What a connection has said, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) said: Vec<Vec<u8>>,
    pub(crate) reason: DisconnectReason,
}

// The twins: no cleverness, all bytes at once.

/// What stands at the front of some bytes: payload and rest, or the end.
pub(crate) type Front<'a> = Result<Option<(&'a [u8], &'a [u8])>, DisconnectReason>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Twin<'a> {
    Length { width: usize, little: bool, offset: usize, strip: usize, adjustment: i128 },
    Telepathy,
    Varint,
    Fixed(usize),
    Line { ending: LineEnding, keep: bool },
    Delimiter { delimiter: &'a [u8], keep: bool },
    Raw,
    Sealed,
}

impl Twin<'_> {
    pub(crate) fn decode(self, mut bytes: &[u8], max: usize) -> Story {
        let mut said = Vec::new();
        loop {
            match self.front(bytes, max) {
                Ok(Some((payload, rest))) => {
                    said.push(payload.to_vec());
                    bytes = rest;
                }
                Ok(None) if bytes.is_empty() => {
                    return Story { said, reason: DisconnectReason::ClosedByPeer };
                }
                Ok(None) => return Story { said, reason: DisconnectReason::Truncated },
                Err(reason) => return Story { said, reason },
            }
        }
    }

    pub(crate) fn front<'b>(self, bytes: &'b [u8], max: usize) -> Front<'b> {
        let too_large =
            |declared| Err(DisconnectReason::FrameTooLarge { declared, limit: max as u32 });
        let bad = |fault| Err(DisconnectReason::BadFrame(fault));
        match self {
            Twin::Telepathy => {
                let plain =
                    Twin::Length { width: 4, little: false, offset: 0, strip: 4, adjustment: 0 };
                match plain.front(bytes, max) {
                    Ok(Some(([], _))) => bad(BadFrame::Empty),
                    other => other,
                }
            }
            Twin::Length { width, little, offset, strip, adjustment } => {
                if bytes.len() < offset + width {
                    return Ok(None);
                }
                let mut field = bytes[offset..offset + width].to_vec();
                if little {
                    field.reverse();
                }
                let value = field.iter().fold(0i128, |sum, byte| 256 * sum + i128::from(*byte));
                let frame_len = (offset + width) as i128 + value + adjustment;
                let frame_len_min = strip.max(offset + width) as i128;
                if frame_len < frame_len_min {
                    let least = frame_len_min - (offset + width) as i128 - adjustment;
                    let (declared, least) = (value as u64, least.max(0) as u64);
                    return bad(BadFrame::LengthTooSmall { declared, least });
                }
                let payload_len = frame_len - strip as i128;
                if payload_len > max as i128 {
                    return too_large(u64::try_from(payload_len).unwrap_or(u64::MAX));
                }
                if (bytes.len() as i128) < frame_len {
                    return Ok(None);
                }
                let (frame, rest) = bytes.split_at(frame_len as usize);
                Ok(Some((&frame[strip..], rest)))
            }
            Twin::Varint => {
                let mut value = 0u64;
                for (index, byte) in bytes.iter().enumerate() {
                    value += u64::from(byte & 127) << (7 * index);
                    if index == 4 && (*byte > 127 || value > u64::from(u32::MAX)) {
                        return bad(BadFrame::VarintTooLong);
                    }
                    if *byte < 128 {
                        if *byte == 0 && index > 0 {
                            return bad(BadFrame::VarintOverlong);
                        }
                        if value > max as u64 {
                            return too_large(value);
                        }
                        let rest = &bytes[index + 1..];
                        return Ok(rest.split_at_checked(value as usize));
                    }
                }
                Ok(None)
            }
            Twin::Fixed(len) => Ok(bytes.split_at_checked(len)),
            Twin::Line { ending, keep } => {
                let overhead = match ending {
                    _ if keep => 0,
                    LineEnding::Lf => 1,
                    _ => 2,
                };
                let seen = &bytes[..bytes.len().min(max + overhead)];
                let Some(at) = seen.iter().position(|byte| *byte == b'\n') else {
                    return if seen.len() < max + overhead {
                        Ok(None)
                    } else {
                        too_large(max as u64 + 1)
                    };
                };
                let (line, rest) = bytes.split_at(at + 1);
                let with_return = line.ends_with(b"\r\n");
                if ending == LineEnding::CrLf && !with_return {
                    return bad(BadFrame::LoneLineFeed);
                }
                let stripped = match ending {
                    _ if keep => line.len(),
                    LineEnding::Any | LineEnding::CrLf if with_return => line.len() - 2,
                    _ => line.len() - 1,
                };
                if stripped > max {
                    return too_large(max as u64 + 1);
                }
                Ok(Some((&line[..stripped], rest)))
            }
            Twin::Delimiter { delimiter, keep } => {
                let overhead = if keep { 0 } else { delimiter.len() };
                let seen = &bytes[..bytes.len().min(max + overhead)];
                match seen.windows(delimiter.len()).position(|window| window == delimiter) {
                    Some(at) => {
                        let end = at + delimiter.len();
                        Ok(Some((&bytes[..end - overhead], &bytes[end..])))
                    }
                    None if seen.len() < max + overhead => Ok(None),
                    None => too_large(max as u64 + 1),
                }
            }
            Twin::Raw => Ok((!bytes.is_empty()).then_some((bytes, &[]))),
            Twin::Sealed => {
                let (len, header_len) = match *bytes {
                    [first, ..] if first < 0x80 => (usize::from(first), 1),
                    [first, second, ..] => {
                        (usize::from(first & 0x7f) * 256 + usize::from(second), 2)
                    }
                    _ => return Ok(None),
                };
                if len > max {
                    return too_large(len as u64);
                }
                match bytes[header_len..].split_at_checked(len) {
                    Some((payload, [SEAL, rest @ ..])) => Ok(Some((payload, rest))),
                    Some((_, [_, ..])) => bad(BadFrame::Codec("no seal")),
                    _ => Ok(None),
                }
            }
        }
    }

    /// The frame of a payload, if there is one.
    pub(crate) fn encode(self, payload: &[u8], max: usize) -> Option<Vec<u8>> {
        let frame = match self {
            Twin::Telepathy => [&(payload.len() as u32).to_be_bytes()[..], payload].concat(),
            Twin::Length { width, little, offset, strip, adjustment } => {
                let frame_len = (strip + payload.len()) as i128;
                let value = frame_len - (offset + width) as i128 - adjustment;
                let mut field = u64::try_from(value).ok()?.to_le_bytes()[..width].to_vec();
                if !little {
                    field.reverse();
                }
                let mut frame = vec![0; strip];
                frame.extend_from_slice(payload);
                if strip >= offset + width {
                    frame[offset..offset + width].copy_from_slice(&field);
                }
                frame
            }
            Twin::Varint => {
                let mut frame = Vec::new();
                let mut rest = payload.len();
                loop {
                    let more = if rest > 127 { 128 } else { 0 };
                    frame.push((rest % 128) as u8 + more);
                    rest /= 128;
                    if rest == 0 {
                        break;
                    }
                }
                frame.extend_from_slice(payload);
                frame
            }
            Twin::Line { ending, keep: false } => {
                let ending: &[u8] = if ending == LineEnding::CrLf { b"\r\n" } else { b"\n" };
                [payload, ending].concat()
            }
            Twin::Delimiter { delimiter, keep: false } => [payload, delimiter].concat(),
            Twin::Sealed => {
                let len = payload.len();
                let header = if len < 0x80 {
                    vec![len as u8]
                } else {
                    vec![(len >> 8) as u8 | 0x80, len as u8]
                };
                [&header[..], payload, &[SEAL]].concat()
            }
            Twin::Fixed(_) | Twin::Line { .. } | Twin::Delimiter { .. } | Twin::Raw => {
                payload.to_vec()
            }
        };
        // What does not come back cannot be sent.
        let story = self.decode(&frame, max);
        let comes_back = story.said == [payload] && story.reason == DisconnectReason::ClosedByPeer;
        comes_back.then_some(frame)
    }
}

/// A framing of the user's: a length in one byte or two, and a seal behind the payload.
#[derive(Debug)]
pub(crate) struct Sealed;

pub(crate) const SEAL: u8 = 0xee;

impl Codec for Sealed {
    fn overhead_max(&self) -> usize {
        3
    }

    fn decode(
        &self,
        bytes: &[u8],
        _: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        let (payload_len, header_len) = match *bytes {
            [first, ..] if first < 0x80 => (usize::from(first), 1),
            [first, second, ..] => (usize::from(first & 0x7f) << 8 | usize::from(second), 2),
            _ => return Ok(None),
        };
        if payload_len > payload_len_max {
            return Err(FrameError::TooLarge { declared: payload_len as u64 });
        }
        match bytes.get(header_len + payload_len) {
            Some(&SEAL) => Ok(Some(Cut { header_len, payload_len, trailer_len: 1 })),
            Some(_) => Err(BadFrame::Codec("no seal").into()),
            None => Ok(None),
        }
    }

    fn encode(&self, payload: &[u8], envelope: &mut Envelope) -> Result<(), SendError> {
        match payload.len() {
            len @ ..0x80 => envelope.put_header(&[len as u8]),
            len @ ..0x8000 => envelope.put_header(&[(len >> 8) as u8 | 0x80, len as u8]),
            _ => return Err(SendError::TooLarge),
        }
        envelope.put_trailer(&[SEAL]);
        Ok(())
    }
}

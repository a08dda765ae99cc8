//! The bytes that clients send: a stream that repeats after a while, so that it need never be built again and is
//! checked by comparing memory. Every message of it is different, and every client starts at another one; a
//! message that is lost, doubled, out of order or another client's shows at once.

use crate::plan::Prefix;

/// About how long the stream is before it repeats.
const PERIOD: usize = 192 * 1024;

pub struct Wire {
    /// The period twice, so that any piece of up to a period is contiguous.
    bytes: Vec<u8>,
    period: usize,
    frame_len: usize,
}

impl Wire {
    /// Messages of `size` bytes, each a pack of `pack` smaller ones unless that is 1, by turns from `actors` actors.
    pub fn new(prefix: Prefix, size: usize, actors: u64, pack: u64) -> Wire {
        let mut bytes = Vec::new();
        let mut number = 0;
        let mut frames = 0;
        while bytes.len() < PERIOD || number % actors != 0 || frames < 8 {
            if pack == 1 {
                prefix.write(size, &mut bytes);
                payload(number % actors, number / actors, size, &mut bytes);
                number += 1;
            } else {
                prefix.write((4 + size) * pack as usize, &mut bytes);
                for _ in 0..pack {
                    Prefix::Be32.write(size, &mut bytes);
                    payload(number % actors, number / actors, size, &mut bytes);
                    number += 1;
                }
            }
            frames += 1;
        }
        let period = bytes.len();
        bytes.extend_from_within(..);
        Wire { bytes, period, frame_len: period / frames }
    }

    /// The length of a message on the wire.
    pub fn frame_len(&self) -> u64 {
        self.frame_len as u64
    }

    /// Where client `index` starts: at a message of its own, as far as there are enough.
    pub fn start(&self, index: usize) -> u64 {
        let frames = self.period / self.frame_len;
        (index * 7 % frames * self.frame_len) as u64
    }

    /// At most `most` bytes of the stream from `position` on, and at most a period.
    pub fn at(&self, position: u64, most: usize) -> &[u8] {
        let from = (position % self.period as u64) as usize;
        &self.bytes[from..from + most.min(self.period)]
    }

    /// Whether `bytes` are the stream's from `position` on.
    pub fn is(&self, mut position: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let piece = self.at(position, bytes.len());
            let (these, rest) = bytes.split_at(piece.len());
            if these != piece {
                return false;
            }
            position += piece.len() as u64;
            bytes = rest;
        }
        true
    }
}

impl Prefix {
    pub fn write(self, mut len: usize, into: &mut Vec<u8>) {
        match self {
            Prefix::Be32 => into.extend_from_slice(&(len as u32).to_be_bytes()),
            Prefix::Varint => {
                while len >= 0x80 {
                    into.push(len as u8 | 0x80);
                    len >>= 7;
                }
                into.push(len as u8);
            }
        }
    }
}

/// An actor's number and its message's, as far as they fit, and bytes that depend on both.
fn payload(actor: u64, number: u64, size: usize, into: &mut Vec<u8>) {
    let from = into.len();
    into.extend_from_slice(&(actor as u32).to_be_bytes());
    into.extend_from_slice(&(number as u32).to_be_bytes());
    let mut state = (actor << 32 | number).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while into.len() < from + size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        into.push(state as u8);
    }
    into.truncate(from + size);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_equals_itself_wherever_it_is_cut() {
        let wire = Wire::new(Prefix::Be32, 100, 1, 1);
        let period = wire.period as u64;
        for from in [0, 1, 103, 104, period - 1, period, period + 5] {
            let mut bytes = wire.at(from, 5000).to_vec();
            assert!(wire.is(from, &bytes));
            bytes[4999] ^= 1;
            assert!(!wire.is(from, &bytes));
        }
        let twice: Vec<u8> =
            wire.at(0, wire.period).iter().chain(wire.at(0, wire.period)).copied().collect();
        assert!(wire.is(0, &twice));
    }

    #[test]
    fn a_lost_or_doubled_message_is_noticed() {
        let wire = Wire::new(Prefix::Varint, 16, 10, 1);
        let frame = wire.frame_len();
        assert_eq!(frame, 17);
        assert!(!wire.is(0, wire.at(frame, 17)));
        assert!(!wire.is(frame, wire.at(0, 17)));
        assert!(!wire.is(wire.start(0), wire.at(wire.start(1), 17)));
    }

    #[test]
    fn a_pack_is_one_message_of_many() {
        let wire = Wire::new(Prefix::Be32, 8, 5, 50);
        assert_eq!(wire.frame_len(), 4 + 50 * 12);
        assert_eq!(&wire.at(0, 8)[..], &[0, 0, 2, 88, 0, 0, 0, 8]);
    }
}

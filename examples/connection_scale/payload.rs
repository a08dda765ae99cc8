//! What the clients send: who, which, when, and a fill that depends on all three, so that an echo
//! that is wrong in any byte, or comes to the wrong client or in the wrong order, is noticed.

/// The bytes that no message can do without.
pub(crate) const LEN_MIN: usize = 16;

const CLIENT: std::ops::Range<usize> = 0..4;
const SEQUENCE: std::ops::Range<usize> = 4..8;
const SENT: std::ops::Range<usize> = 8..16;
const FILL: std::ops::RangeFrom<usize> = 16..;

/// Makes `payload` the message number `sequence` of `client`, sent at `sent` (nanoseconds of the
/// caller's clock).
pub(crate) fn make(payload: &mut [u8], client: u32, sequence: u32, sent: u64) {
    payload[CLIENT].copy_from_slice(&client.to_be_bytes());
    payload[SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
    payload[SENT].copy_from_slice(&sent.to_be_bytes());
    let mut state = seed(client, sequence, sent);
    for chunk in payload[FILL].chunks_mut(8) {
        chunk.copy_from_slice(&random(&mut state).to_be_bytes()[..chunk.len()]);
    }
}

/// When the message was sent, if this is message number `sequence` of `client`, `len` bytes long,
/// in every byte.
pub(crate) fn check(payload: &[u8], len: usize, client: u32, sequence: u32) -> Option<u64> {
    if payload.len() != len
        || payload[CLIENT] != client.to_be_bytes()
        || payload[SEQUENCE] != sequence.to_be_bytes()
    {
        return None;
    }
    let sent = u64::from_be_bytes(payload[SENT].try_into().ok()?);
    let mut state = seed(client, sequence, sent);
    let right = |chunk: &[u8]| *chunk == random(&mut state).to_be_bytes()[..chunk.len()];
    payload[FILL].chunks(8).all(right).then_some(sent)
}

fn seed(client: u32, sequence: u32, sent: u64) -> u64 {
    (u64::from(client) << 32 | u64::from(sequence)) ^ sent.rotate_left(17)
}

/// The next number of a SplitMix64 sequence (Steele, Lea and Flood, 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_right_and_says_when_it_was_sent() {
        for len in [LEN_MIN, 17, 24, 100, 16_384] {
            let mut payload = vec![0; len];
            make(&mut payload, 7, 9, 1_234);
            assert_eq!(check(&payload, len, 7, 9), Some(1_234));
        }
    }

    #[test]
    fn any_wrong_byte_any_other_place_and_any_other_length_is_noticed() {
        let mut payload = vec![0; 101];
        make(&mut payload, 7, 9, 1_234);
        for at in 0..payload.len() {
            // In a message without a fill, the time of sending is the one thing that cannot be checked.
            payload[at] ^= 0x20;
            assert_eq!(check(&payload, 101, 7, 9), None, "byte {at}");
            payload[at] ^= 0x20;
        }
        assert_eq!(check(&payload, 101, 8, 9), None);
        assert_eq!(check(&payload, 101, 7, 10), None);
        assert_eq!(check(&payload[..100], 101, 7, 9), None);
        assert_eq!(check(&[], 101, 7, 9), None);
    }
}

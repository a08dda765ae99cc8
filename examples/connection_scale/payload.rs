//! What the clients send: who, which, when, and a fill that depends on all three, so that an echo
//! that is wrong in any byte, or comes to the wrong client or in the wrong order, is noticed.

/// Bytes of one message.
pub(crate) const LEN: usize = 100;

const CLIENT: std::ops::Range<usize> = 0..4;
const SEQUENCE: std::ops::Range<usize> = 4..8;
const SENT: std::ops::Range<usize> = 8..16;
const FILL: std::ops::RangeFrom<usize> = 16..;

/// The message number `sequence` of `client`, sent at `sent` (nanoseconds of the caller's clock).
pub(crate) fn make(client: u32, sequence: u32, sent: u64) -> [u8; LEN] {
    let mut payload = [0; LEN];
    payload[CLIENT].copy_from_slice(&client.to_be_bytes());
    payload[SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
    payload[SENT].copy_from_slice(&sent.to_be_bytes());
    let mut state = (u64::from(client) << 32 | u64::from(sequence)) ^ sent.rotate_left(17);
    for chunk in payload[FILL].chunks_mut(8) {
        chunk.copy_from_slice(&random(&mut state).to_be_bytes()[..chunk.len()]);
    }
    payload
}

/// When the message was sent, if this is message number `sequence` of `client` in every byte.
pub(crate) fn check(payload: &[u8], client: u32, sequence: u32) -> Option<u64> {
    let sent = u64::from_be_bytes(payload.get(SENT)?.try_into().ok()?);
    (payload == make(client, sequence, sent)).then_some(sent)
}

/// The next number of a SplitMix64 sequence (Steele, Lea and Flood, 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

//! Looking for a byte.

/// Where `byte` stands first.
#[cfg(feature = "delimiter")]
#[inline]
pub(super) fn find_byte(byte: u8, bytes: &[u8]) -> Option<usize> {
    memchr::memchr(byte, bytes)
}

/// Where `byte` stands first: eight bytes at a time, which is as far as plain integers go.
#[cfg(not(feature = "delimiter"))]
#[inline]
pub(super) fn find_byte(byte: u8, bytes: &[u8]) -> Option<usize> {
    find_by_words(byte, bytes)
}

/// A word minus one in each byte, where it borrows into the high bit, has a zero byte; so it is xor-ed with
/// the byte that is looked for. Which of the eight it is, is looked up then.
#[cfg(any(test, not(feature = "delimiter")))]
fn find_by_words(byte: u8, bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let pattern = ONES * u64::from(byte);
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    for (index, word) in words.enumerate() {
        let word = word.try_into().expect("chunks of eight bytes");
        let zeroed = u64::from_le_bytes(word) ^ pattern;
        let found = zeroed.wrapping_sub(ONES) & !zeroed & (ONES << 7);
        if found != 0 {
            return Some(8 * index + found.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|&other| other == byte)?;
    Some(bytes.len() - rest.len() + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_stands() {
        for needle in [0, 1, b'\n', 0x7f, 0x80, 0x81, 0xff] {
            for len in 0..40 {
                for at in 0..=len {
                    // Neighbours that differ by one bit are what the trick might trip over.
                    for other in [needle ^ 1, needle ^ 0x80, needle.wrapping_sub(1)] {
                        let mut bytes = vec![other; len];
                        bytes[at..].fill(needle);
                        let expected = (at < len).then_some(at);
                        assert_eq!(find_by_words(needle, &bytes), expected);
                        assert_eq!(find_byte(needle, &bytes), expected);
                    }
                }
            }
        }
    }
}

//! The one source of chance.

use std::time::Duration;

/// A small seeded generator of random numbers (SplitMix64). Not for secrets.
///
/// The same seed gives the same numbers on every machine, which is all that a simulation asks of it.
///
/// ```
/// # use tickwire::sim::Rng;
/// let (mut one, mut other) = (Rng::new(7), Rng::new(7));
/// assert_eq!(one.below(1_000), other.below(1_000));
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that will always give the numbers of this seed.
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `limit`, or 0 where there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        // The bias of the remainder is far below what a test could notice.
        (self.next_u64() % (limit as u64).max(1)) as usize
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below((most - least).saturating_add(1))
    }

    /// Whether something happens that does so `per_mille` times out of 1,000.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        // What never happens draws no number, so a calm world runs at full speed.
        per_mille > 0 && self.next_u64() % 1_000 < u64::from(per_mille)
    }

    /// A time from `least` to `most`.
    pub fn duration(&mut self, least: Duration, most: Duration) -> Duration {
        if most <= least {
            return least;
        }
        let span = (most - least).as_nanos() as u64;
        least + Duration::from_nanos(self.next_u64() % (span + 1))
    }

    /// One of `choices`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}

/// Spreads every bit of `bits` over the whole word.
pub(super) fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The reference implementation's first numbers for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_keep_their_bounds_and_reach_both() {
        let mut rng = Rng::new(1);
        let drawn: Vec<usize> = (0..1_000).map(|_| rng.between(3, 5)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&5)));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.between(7, 7), 7);
    }

    #[test]
    fn chance_is_per_mille() {
        let mut rng = Rng::new(2);
        let hits = (0..10_000).filter(|_| rng.chance(250)).count();
        assert!((2_300..2_700).contains(&hits), "{hits} of 10,000");
        assert!(!rng.chance(0));
        assert!(rng.chance(1_000));
    }
}

//! Where the received bytes of a batch lie.

/// One reactor-wide buffer that receives fill from front to back.
///
/// Invariant: `used ≤ buf.len()`. Positions are counted on from batch to batch (modulo 2^32), so
/// that they stay right when the arena [slides](Arena::slide): position `base` is `buf[0]`.
#[derive(Debug)]
pub(crate) struct Arena {
    buf: Vec<u8>,
    used: usize,
    base: u32,
}

impl Arena {
    /// An arena of this many bytes; the system provides them as they are touched.
    pub(crate) fn new(len: usize) -> Arena {
        Arena { buf: vec![0; len], used: 0, base: 0 }
    }

    /// Bytes that can still be filled.
    pub(crate) fn room(&self) -> usize {
        self.buf.len() - self.used
    }

    /// Bytes that are kept.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The bytes that can be filled.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        &mut self.buf[self.used..]
    }

    /// Keeps the first `len` bytes of the spare ones.
    pub(crate) fn commit(&mut self, len: usize) {
        debug_assert!(len <= self.room());
        self.used += len;
    }

    /// The position of the first spare byte.
    pub(crate) fn position(&self) -> u32 {
        self.base.wrapping_add(self.used as u32)
    }

    /// Kept bytes by position.
    #[inline]
    pub(crate) fn get(&self, position: u32, len: u32) -> &[u8] {
        let start = position.wrapping_sub(self.base) as usize;
        debug_assert!(start + len as usize <= self.used);
        &self.buf[start..start + len as usize]
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.base = self.base.wrapping_add(self.used as u32);
        self.used = 0;
    }

    /// Forgets what stands before `position` and, once that is over half of the arena, moves the
    /// rest to the front. Returns how many bytes it moved.
    pub(crate) fn slide(&mut self, position: u32) -> usize {
        let dead = position.wrapping_sub(self.base) as usize;
        debug_assert!(dead <= self.used);
        if dead <= self.buf.len() / 2 {
            return 0;
        }
        self.buf.copy_within(dead..self.used, 0);
        self.used -= dead;
        self.base = position;
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(arena: &mut Arena, bytes: &[u8]) -> u32 {
        let position = arena.position();
        arena.spare()[..bytes.len()].copy_from_slice(bytes);
        arena.commit(bytes.len());
        position
    }

    #[test]
    fn positions_survive_a_slide_and_the_wrap_of_32_bits() {
        let mut arena = Arena::new(8);
        arena.base = u32::MAX - 2;
        let dead = fill(&mut arena, &[1, 2, 3]);
        let live = fill(&mut arena, &[4, 5, 6, 7]);
        assert_eq!(arena.get(dead, 3), [1, 2, 3]);
        assert_eq!(arena.slide(live), 0, "not worth it below half");
        assert_eq!(arena.room(), 1);
        let last = live.wrapping_add(2);
        assert_eq!(arena.slide(last), 2);
        assert_eq!(arena.room(), 6);
        assert_eq!(arena.get(last, 2), [6, 7]);
        assert_eq!(fill(&mut arena, &[8]), last.wrapping_add(2));
        assert_eq!(arena.get(last, 3), [6, 7, 8]);
        arena.clear();
        assert_eq!(arena.room(), 8);
        assert_eq!(arena.position(), last.wrapping_add(3));
    }
}

//! Memory that is lent and taken back.

/// Things that were given back and may be lent again. They are kept as long as they are in use from
/// time to time, so that a steady load allocates nothing; see [`trim`](Shelf::trim).
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    free: Vec<T>,
    /// The fewest free things since the last trim: that many nobody has needed.
    idle: usize,
}

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf { free: Vec::new(), idle: 0 }
    }
}

impl<T> Shelf<T> {
    /// The one that was given back last.
    pub(crate) fn take(&mut self) -> Option<T> {
        let taken = self.free.pop();
        self.idle = self.idle.min(self.free.len());
        taken
    }

    pub(crate) fn put(&mut self, thing: T) {
        self.free.push(thing);
    }

    /// Frees half of what nobody has needed since the last trim, so that memory follows the load down,
    /// but not each dip of it.
    pub(crate) fn trim(&mut self) -> impl Iterator<Item = T> {
        let excess = self.idle.div_ceil(2);
        self.idle = self.free.len() - excess;
        self.free.drain(..excess)
    }
}

/// Buffers on shelves by size, each a power of two.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    classes: [Shelf<Vec<u8>>; CLASSES],
    bytes: usize,
    /// Buffers that were lent and not taken back.
    lent: usize,
}

impl Pool {
    /// A buffer of at least `capacity` bytes; the last one given back of its class, or a new one.
    /// What it holds is of no meaning.
    pub(crate) fn take(&mut self, capacity: usize) -> Vec<u8> {
        self.lent += 1;
        let capacity = capacity.next_power_of_two().max(BUFFER_LEN_MIN);
        let Some(class) = self.classes.get_mut(class_of(capacity)) else {
            return Vec::with_capacity(capacity); // larger than any limit allows to be kept
        };
        match class.take() {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(capacity),
        }
    }

    /// Takes a buffer back. One that never had memory, or outgrew every class, is dropped.
    pub(crate) fn put(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            debug_assert!(self.lent > 0, "a buffer of another pool");
            self.lent -= 1;
        }
        if (BUFFER_LEN_MIN..BUFFER_LEN_END).contains(&buffer.capacity()) {
            self.bytes += buffer.capacity();
            self.classes[class_of(buffer.capacity())].put(buffer);
        }
    }

    /// As [`Shelf::trim`], for every size.
    pub(crate) fn trim(&mut self) {
        for class in &mut self.classes {
            self.bytes -= class.trim().map(|buffer| buffer.capacity()).sum::<usize>();
        }
    }

    /// Buffers that are out.
    pub(crate) fn lent(&self) -> usize {
        self.lent
    }

    /// Bytes that lie here unused.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The smallest buffer. A connection stuck in a header or a small frame costs no more.
pub(crate) const BUFFER_LEN_MIN: usize = 128;

/// Classes from 2^7 to 2^31 bytes.
const CLASSES: usize = 25;

/// What no class holds any more.
const BUFFER_LEN_END: usize = BUFFER_LEN_MIN.saturating_mul(1 << CLASSES);

/// The class of the largest power of two within `capacity`.
fn class_of(capacity: usize) -> usize {
    (capacity.ilog2() - BUFFER_LEN_MIN.ilog2()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let mut pool = Pool::default();
        assert_eq!(pool.take(1).capacity(), 128);
        assert_eq!(pool.take(128).capacity(), 128);
        assert_eq!(pool.take(129).capacity(), 256);
        assert_eq!(pool.take(70_000).capacity(), 131_072);
    }

    #[test]
    fn a_buffer_given_back_is_lent_again() {
        let mut pool = Pool::default();
        let buffer = pool.take(1_000);
        let address = buffer.as_ptr();
        pool.put(buffer);
        assert_eq!(pool.bytes(), 1_024);
        let again = pool.take(600);
        assert_eq!(again.as_ptr(), address);
        assert_eq!(pool.bytes(), 0);
    }

    #[test]
    fn what_no_class_holds_is_lent_and_not_kept() {
        let mut pool = Pool::default();
        let buffer = pool.take((1 << 31) + 1); // never written, so it takes no memory
        assert!(buffer.capacity() > 1 << 31);
        pool.put(buffer);
        assert_eq!(pool.bytes(), 0);
    }

    #[test]
    fn an_odd_capacity_serves_the_class_below() {
        let mut pool = Pool::default();
        let mut buffer = pool.take(1);
        buffer.reserve_exact(1_500); // as an encoder may make it grow
        pool.put(buffer);
        assert_eq!(pool.lent(), 0);
        assert!(pool.take(1_024).capacity() >= 1_500);
    }

    #[test]
    fn what_is_not_needed_goes_half_by_half() {
        let mut pool = Pool::default();
        let lent: Vec<_> = (0..100).map(|_| pool.take(128)).collect();
        lent.into_iter().for_each(|buffer| pool.put(buffer));
        pool.trim(); // the first trim only begins to count
        assert_eq!(pool.bytes(), 100 * 128);
        pool.trim();
        assert_eq!(pool.bytes(), 50 * 128);
        let busy: Vec<_> = (0..50).map(|_| pool.take(128)).collect();
        busy.into_iter().for_each(|buffer| pool.put(buffer));
        pool.trim();
        assert_eq!(pool.bytes(), 50 * 128, "all were needed");
        for _ in 0..10 {
            pool.trim();
        }
        assert_eq!(pool.bytes(), 0);
    }
}

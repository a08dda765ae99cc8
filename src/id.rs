//! Names for connections and listeners that can never reach a stranger.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

/// Names one connection, for the whole life of its reactor.
///
/// An id is a slot number together with the slot's generation, so an id kept after its connection
/// ended is recognised as stale and never reaches the connection that took the slot over.
/// `Option<ConnId>` is as small as `ConnId`. Ids of different reactors may be equal.
///
/// ```
/// # use tickwire::ConnId;
/// let id = ConnId::from_bits((7 << 32) | 3).expect("generation 7 of slot 3");
/// assert_eq!(ConnId::from_bits(id.to_bits()), Some(id));
/// assert_eq!(id.to_string(), "3v7");
/// assert_eq!(ConnId::from_bits(3), None, "a generation starts at 1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(NonZeroU64);

impl ConnId {
    pub(crate) fn new(slot: u32, generation: NonZeroU32) -> ConnId {
        let bits = NonZeroU64::from(generation).get() << 32 | u64::from(slot);
        ConnId(NonZeroU64::new(bits).expect("the generation is not zero"))
    }

    pub(crate) fn slot(self) -> u32 {
        self.0.get() as u32
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    /// The id as a plain number (generation in the upper half, slot in the lower), for logs,
    /// foreign languages and databases of this process's lifetime.
    pub fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// The id that [`to_bits`](Self::to_bits) gave, or `None` where no id has these bits.
    ///
    /// Bits that were made up are harmless: such an id answers *stale* unless it happens to name a
    /// live connection.
    pub fn from_bits(bits: u64) -> Option<ConnId> {
        NonZeroU32::new((bits >> 32) as u32).map(|generation| ConnId::new(bits as u32, generation))
    }
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.slot(), self.generation())
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnId({self})")
    }
}

/// Names one listener of a reactor; never used again after the listener was closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(NonZeroU32);

impl ListenerId {
    pub(crate) fn new(index: u32) -> ListenerId {
        ListenerId(NonZeroU32::MIN.checked_add(index).expect("fewer than 2^32 listeners"))
    }

    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListenerId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_round_trip_at_the_edges() {
        for (slot, generation) in [(0, 1), (u32::MAX, 1), (0, u32::MAX), (u32::MAX, u32::MAX)] {
            let id = ConnId::new(slot, NonZeroU32::new(generation).expect("not zero"));
            assert_eq!((id.slot(), id.generation()), (slot, generation));
            assert_eq!(ConnId::from_bits(id.to_bits()), Some(id));
        }
    }

    #[test]
    fn an_optional_id_costs_nothing() {
        assert_eq!(size_of::<Option<ConnId>>(), size_of::<u64>());
    }
}

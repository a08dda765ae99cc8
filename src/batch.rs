//! What a tick has to tell, as ranges: the game borrows the bytes when it asks.

use crate::id::ConnId;

/// One event that waits to be fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) id: ConnId,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The connection exists.
    Connected,
    /// A message whose payload lies in the arena, by position.
    InArena { start: u32, len: u32 },
    /// A message whose payload lies in the connection's ring, counted from the ring's first byte.
    InRing { start: u32, len: u32 },
    /// Its send queue has risen above the high water mark.
    SendQueueHigh,
    /// Its send queue has fallen to the low water mark.
    SendQueueLow,
    /// The connection is over, or never came about; its stage says why.
    Ended,
}

/// The events of a tick in order, and how far the game has fetched them. Fetching is acknowledging:
/// what was not fetched comes first next tick.
///
/// Invariant: `fetched ≤ records.len()`. Records are numbered on from batch to batch; `first` is the
/// number of `records[0]`.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    records: Vec<Record>,
    fetched: usize,
    first: u64,
}

impl Batch {
    /// Appends a record and returns its number.
    #[inline]
    pub(crate) fn push(&mut self, id: ConnId, what: What) -> u64 {
        self.records.push(Record { id, what });
        self.first + self.records.len() as u64 - 1
    }

    /// Records not yet fetched.
    pub(crate) fn remaining(&self) -> usize {
        self.records.len() - self.fetched
    }

    /// The number of the next record to be pushed.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// Whether all records before this number have been fetched.
    pub(crate) fn fetched_up_to(&self, number: u64) -> bool {
        number <= self.first + self.fetched as u64
    }

    /// The records, and the cursor that the game moves along them.
    pub(crate) fn cursor(&mut self) -> (&[Record], &mut usize) {
        (&self.records, &mut self.fetched)
    }

    /// Where the first unfetched payload in the arena begins.
    pub(crate) fn arena_start(&self) -> Option<u32> {
        self.records[self.fetched..].iter().find_map(|record| match record.what {
            What::InArena { start, .. } => Some(start),
            _ => None,
        })
    }

    /// Forgets what was fetched; at once if that is all, else when it is over half, so that a game
    /// that breaks out early does not pay for moving the rest each time.
    pub(crate) fn release(&mut self) {
        if self.fetched > self.records.len() / 2 {
            self.records.drain(..self.fetched);
            self.first += self.fetched as u64;
            self.fetched = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_when_records_are_released() {
        let id = ConnId::from_bits(1 << 32).expect("an id");
        let mut batch = Batch::default();
        for number in 0..4 {
            assert_eq!(batch.push(id, What::InArena { start: number, len: 0 }), u64::from(number));
        }
        *batch.cursor().1 = 3;
        assert!(batch.fetched_up_to(3) && !batch.fetched_up_to(4));
        batch.release();
        assert_eq!(batch.remaining(), 1);
        assert_eq!(batch.arena_start(), Some(3));
        assert_eq!(batch.push(id, What::Ended), 4);
        assert!(batch.fetched_up_to(3) && !batch.fetched_up_to(4));
        *batch.cursor().1 = 2;
        batch.release();
        assert_eq!(batch.remaining(), 0);
        assert!(batch.fetched_up_to(5));
        assert_eq!(batch.next_number(), 5);
    }

    #[test]
    fn a_record_stays_small() {
        assert!(size_of::<Record>() <= 24);
    }
}

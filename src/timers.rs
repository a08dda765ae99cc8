//! Deadlines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::id::ConnId;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// An outgoing connection should have come about.
    Connect,
    /// An orderly end should be done.
    Close,
    /// A send that failed for want of memory may be tried again.
    Resend,
}

/// Deadlines of connections, the earliest first.
///
/// Nothing is ever removed early: a deadline of a connection that has moved on is dropped by its
/// reader when it comes up. A tick in which nothing is due looks at one entry, however many
/// connections there are.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, ConnId, Due)>>,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, id: ConnId, due: Due) {
        self.heap.push(Reverse((at, id, due)));
    }

    /// When the next deadline is.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes out a deadline that has passed.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(ConnId, Due)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, id, due))| (id, due))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn deadlines_come_up_in_order_and_not_early() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let id = |slot| ConnId::from_bits((1u64 << 32) | slot).expect("an id");
        let mut timers = Timers::default();
        timers.set(at(30), id(3), Due::Close);
        timers.set(at(10), id(1), Due::Connect);
        timers.set(at(20), id(2), Due::Close);
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.pop(at(9)), None);
        assert_eq!(timers.pop(at(25)), Some((id(1), Due::Connect)));
        assert_eq!(timers.pop(at(25)), Some((id(2), Due::Close)));
        assert_eq!(timers.pop(at(25)), None);
        assert_eq!(timers.pop(at(30)), Some((id(3), Due::Close)));
        assert_eq!(timers.next(), None);
    }
}

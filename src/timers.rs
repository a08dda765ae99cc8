//! Deadlines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::id::ConnId;

/// A moment, in milliseconds of the reactor's clock, modulo 2^32: small, since every connection holds
/// a few. Moments can be told apart up to [`TIMEOUT_MAX`] from each other. There is none at 0, for which the next stands in,
/// so that having no moment takes no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(NonZeroU32);

impl Default for Moment {
    fn default() -> Moment {
        Moment::at(0)
    }
}

/// A length of time, in milliseconds, at most [`TIMEOUT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(u32);

/// The longest timeout: half of what a [`Moment`] can count, some 24 days.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

impl Moment {
    fn at(millis: u32) -> Moment {
        Moment(NonZeroU32::new(millis).unwrap_or(NonZeroU32::MIN))
    }

    pub(crate) fn after(self, span: Span) -> Moment {
        Moment::at(self.0.get().wrapping_add(span.0))
    }

    /// Whether this moment is before `other`.
    pub(crate) fn is_before(self, other: Moment) -> bool {
        (self.since(other) as i32) < 0
    }

    /// The earlier of two.
    pub(crate) fn min(self, other: Moment) -> Moment {
        if other.is_before(self) { other } else { self }
    }

    /// Milliseconds since `earlier`.
    pub(crate) fn since(self, earlier: Moment) -> u32 {
        self.0.get().wrapping_sub(earlier.0.get())
    }
}

impl Span {
    /// Rounded up, as no deadline may come early, and cut at [`TIMEOUT_MAX`].
    pub(crate) fn new(time: Duration) -> Span {
        let millis = time.min(TIMEOUT_MAX).as_nanos().div_ceil(1_000_000);
        Span(u32::try_from(millis).expect("it was cut"))
    }
}

/// The earliest of some deadlines.
pub(crate) fn earliest<T, const N: usize>(
    deadlines: [Option<(Moment, T)>; N],
) -> Option<(Moment, T)> {
    let earlier = |first: (Moment, T), next: (Moment, T)| {
        if next.0.is_before(first.0) { next } else { first }
    };
    deadlines.into_iter().flatten().reduce(earlier)
}

/// Deadlines of connections, the earliest first.
///
/// A connection stands in here at its earliest deadline or before: when it comes up, its reader looks what is really
/// due and puts it back. So a deadline that moves with every message costs nothing, and a tick in which nothing is
/// due looks at one entry, however many connections there are. An entry that an earlier one has made obsolete is dropped, or
/// used again, by its reader too, who also [sweeps](Timers::sweep) when the entries of those who are gone become many.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, ConnId)>>,
    start: Instant,
    /// Milliseconds since the start, rounded down.
    now: u64,
}

impl Timers {
    pub(crate) fn new(start: Instant) -> Timers {
        Timers { heap: BinaryHeap::new(), start, now: 0 }
    }

    pub(crate) fn set_now(&mut self, now: Instant) {
        let millis = now.saturating_duration_since(self.start).as_millis();
        self.now = u64::try_from(millis).expect("five hundred million years");
    }

    /// The present moment, rounded down: for what has passed.
    pub(crate) fn now(&self) -> Moment {
        Moment::at(self.now as u32)
    }

    /// The present moment, rounded up: for what begins.
    pub(crate) fn begin(&self) -> Moment {
        Moment::at((self.now as u32).wrapping_add(1))
    }

    pub(crate) fn set(&mut self, at: Moment, id: ConnId) {
        let from_now = i64::from(at.0.get().wrapping_sub(self.now as u32) as i32);
        self.heap.push(Reverse((self.now.saturating_add_signed(from_now), id)));
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Drops the entries that mean nothing any more.
    pub(crate) fn sweep(&mut self, mut is_meant: impl FnMut(Moment, ConnId) -> bool) {
        self.heap.retain(|Reverse((at, id))| is_meant(Moment::at(*at as u32), *id));
    }

    /// When somebody should look again.
    pub(crate) fn next(&self) -> Option<Instant> {
        let Reverse((at, _)) = self.heap.peek()?;
        self.start.checked_add(Duration::from_millis(*at))
    }

    /// Takes out an entry that has come up.
    pub(crate) fn pop(&mut self) -> Option<(Moment, ConnId)> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > self.now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, id))| (Moment::at(at as u32), id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Span {
        Span::new(Duration::from_millis(millis))
    }

    fn id(slot: u64) -> ConnId {
        ConnId::from_bits((1u64 << 32) | slot).expect("an id")
    }

    #[test]
    fn deadlines_come_up_in_order_and_not_early() {
        let start = Instant::now();
        let mut timers = Timers::new(start);
        timers.set_now(start + Duration::from_millis(1));
        let now = timers.now();
        for millis in [30, 10, 20] {
            timers.set(now.after(ms(millis - 1)), id(millis));
        }
        assert_eq!(timers.next(), Some(start + Duration::from_millis(10)));
        let mut due = Vec::new();
        for millis in 1..40 {
            timers.set_now(start + Duration::from_millis(millis));
            while let Some((_, id)) = timers.pop() {
                due.push((millis, id));
            }
        }
        assert_eq!(due, [(10, id(10)), (20, id(20)), (30, id(30))]);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_sweep_leaves_what_is_meant() {
        let start = Instant::now();
        let mut timers = Timers::new(start);
        let now = timers.now();
        for millis in [30, 10, 20] {
            timers.set(now.after(ms(millis)), id(millis));
        }
        timers.sweep(|at, of| of != id(20) && at != now.after(ms(10)));
        assert_eq!(timers.len(), 1);
        timers.set_now(start + Duration::from_millis(100));
        assert_eq!(timers.pop(), Some((now.after(ms(30)), id(30))));
    }

    #[test]
    fn moments_keep_their_order_across_the_wrap() {
        let before = Moment::at(u32::MAX - 5);
        let after = before.after(ms(10));
        assert_eq!(after, Moment::at(4));
        assert!(before.is_before(after) && !after.is_before(before) && !before.is_before(before));
        assert_eq!(after.since(before), 10);
        assert_eq!(earliest([Some((after, 1)), None, Some((before, 2))]), Some((before, 2)));
        // As in a server that has been up for 49 days.
        let start = Instant::now();
        let mut timers = Timers::new(start);
        let up = Duration::from_millis(u64::from(u32::MAX) - 5);
        timers.set_now(start + up);
        let at = timers.now().after(ms(10));
        timers.set(at, id(1));
        assert_eq!(timers.next(), Some(start + up + Duration::from_millis(10)));
        timers.set_now(start + up + Duration::from_millis(10));
        assert_eq!(timers.pop(), Some((at, id(1))));
    }

    #[test]
    fn having_no_moment_takes_no_room() {
        assert_eq!(size_of::<Option<Moment>>(), 4);
    }

    #[test]
    fn spans_are_rounded_up_and_cut() {
        assert_eq!(Span::new(Duration::from_micros(1)), ms(1));
        assert_eq!(Span::new(Duration::ZERO), Span(0));
        assert_eq!(Span::new(Duration::MAX), Span::new(TIMEOUT_MAX));
    }
}

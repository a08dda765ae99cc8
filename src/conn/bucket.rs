//! Token buckets: how much a connection may still bring.

use crate::config::{Limits, Rate};
use crate::timers::{Moment, Span};

/// The buckets of one connection; there are none where no rate is set.
#[derive(Debug)]
pub(crate) struct Throttle {
    messages: Bucket,
    bytes: Bucket,
}

/// Invariant: `level ≤ burst`, counted in thousandths of a token, of which `per_second` come each
/// millisecond.
#[derive(Debug)]
struct Bucket {
    level: u64,
    filled: Moment,
}

impl Throttle {
    /// Full buckets, if there is any rate to keep.
    pub(crate) fn new(limits: &Limits, now: Moment) -> Option<Throttle> {
        let bucket = |rate: Option<Rate>| Bucket {
            level: rate.map_or(0, |rate| u64::from(rate.burst) * TOKEN),
            filled: now,
        };
        let is_limited = limits.message_rate.is_some() || limits.byte_rate.is_some();
        is_limited.then(|| {
            let (messages, bytes) = (bucket(limits.message_rate), bucket(limits.byte_rate));
            Throttle { messages, bytes }
        })
    }

    /// How many messages and bytes may come now.
    pub(crate) fn allowance(&mut self, limits: &Limits, now: Moment) -> (usize, usize) {
        let messages = self.messages.available(limits.message_rate, now);
        (messages, self.bytes.available(limits.byte_rate, now))
    }

    /// Takes what has come. Returns whether it was within the rates.
    pub(crate) fn take(&mut self, limits: &Limits, messages: usize, bytes: usize) -> bool {
        let within = self.messages.take(limits.message_rate, messages);
        self.bytes.take(limits.byte_rate, bytes) && within
    }

    /// Until when the connection has to rest to be allowed a message and a good piece of a receive.
    pub(crate) fn rest(&self, limits: &Limits) -> Option<Moment> {
        let messages = limits.message_rate.map(|rate| self.messages.ready(rate, 1));
        let bytes = limits.byte_rate.map(|rate| self.bytes.ready(rate, PIECE_LEN));
        let later = |one: Moment, other| if one.is_before(other) { other } else { one };
        messages.into_iter().chain(bytes).reduce(later)
    }
}

impl Bucket {
    fn available(&mut self, rate: Option<Rate>, now: Moment) -> usize {
        let Some(rate) = rate else {
            return usize::MAX;
        };
        let fresh = u64::from(now.since(self.filled)) * u64::from(rate.per_second);
        self.level = (self.level + fresh).min(u64::from(rate.burst) * TOKEN);
        self.filled = now;
        usize::try_from(self.level / TOKEN).unwrap_or(usize::MAX)
    }

    fn take(&mut self, rate: Option<Rate>, count: usize) -> bool {
        let wanted = count as u64 * TOKEN;
        let is_enough = rate.is_none() || wanted <= self.level;
        self.level = self.level.saturating_sub(wanted);
        is_enough
    }

    /// When there will be so many tokens, or a full bucket.
    fn ready(&self, rate: Rate, wanted: u32) -> Moment {
        let wanted = u64::from(wanted.min(rate.burst)) * TOKEN;
        let missing = wanted.saturating_sub(self.level);
        let millis = missing.div_ceil(u64::from(rate.per_second));
        self.filled.after(Span::new(std::time::Duration::from_millis(millis)))
    }
}

/// Levels are counted in thousandths.
const TOKEN: u64 = 1_000;

/// Bytes that a connection under a byte rate waits for, as receives of single bytes would cost more than they bring.
const PIECE_LEN: u32 = 1_024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Builder;

    fn limits(messages: Rate, bytes: Option<Rate>) -> Limits {
        Builder::new().message_rate(messages).byte_rate(bytes).check().expect("usable")
    }

    fn ms(millis: u64) -> Span {
        Span::new(Duration::from_millis(millis))
    }

    #[test]
    fn tokens_come_at_the_rate_and_up_to_the_burst() {
        let limits = limits(Rate::per_second(10).burst(5), None);
        let mut now = Moment::default();
        let mut throttle = Throttle::new(&limits, now).expect("a rate is set");
        assert_eq!(throttle.allowance(&limits, now), (5, usize::MAX));
        assert!(throttle.take(&limits, 5, 9_999));
        assert_eq!(throttle.allowance(&limits, now).0, 0);
        assert_eq!(throttle.rest(&limits), Some(now.after(ms(100))));
        now = now.after(ms(99));
        assert_eq!(throttle.allowance(&limits, now).0, 0);
        now = now.after(ms(1));
        assert_eq!(throttle.allowance(&limits, now).0, 1);
        assert!(!throttle.take(&limits, 2, 0), "one too many");
        now = now.after(ms(10_000));
        assert_eq!(throttle.allowance(&limits, now).0, 5);
    }

    #[test]
    fn a_bucket_that_holds_less_than_a_piece_is_enough_when_full() {
        let limits = limits(Rate::per_second(1_000), Some(Rate::per_second(100).burst(10)));
        let now = Moment::default();
        let mut throttle = Throttle::new(&limits, now).expect("a rate is set");
        assert_eq!(throttle.allowance(&limits, now).1, 10);
        throttle.take(&limits, 1, 10);
        assert_eq!(throttle.rest(&limits), Some(now.after(ms(100))));
    }

    #[test]
    fn without_a_rate_there_is_no_throttle() {
        let limits = Builder::new().check().expect("usable");
        assert!(Throttle::new(&limits, Moment::default()).is_none());
    }
}

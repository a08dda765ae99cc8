//! How much a connection may bring per second.

use crate::error::Error;

/// A rate with a burst: a token bucket. So many tokens come per second, up to the size of the burst, and each message, or
/// each byte, takes one. The burst has to cover what a tick may bring, or a server of 60 ticks a second allows 60 bursts a
/// second and no more.
///
/// ```
/// use tickwire::{Builder, Rate, RatePolicy};
///
/// // 30 messages a second, and up to 60 at once after a pause.
/// let builder = Builder::new()
///     .message_rate(Rate::per_second(30).burst(60))
///     .rate_policy(RatePolicy::Disconnect);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    pub(crate) per_second: u32,
    pub(crate) burst: u32,
}

impl Rate {
    /// So many per second, at least 1, and as many at once.
    pub fn per_second(per_second: u32) -> Rate {
        Rate { per_second, burst: per_second }
    }

    /// So many at once after a pause, at least 1.
    pub fn burst(mut self, burst: u32) -> Rate {
        self.burst = burst;
        self
    }

    pub(crate) fn check(&self, setting: &'static str) -> Result<(), Error> {
        if self.per_second > 0 && self.burst > 0 {
            return Ok(());
        }
        let problem = "0 would stop everybody: choose at least 1 per second and at once".to_owned();
        Err(Error::Config { setting, problem })
    }
}

/// What happens to a connection that brings more than its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RatePolicy {
    /// It is read no faster; TCP slows the peer down. Nothing is lost.
    #[default]
    Pause,
    /// It ends with [`RateLimit`](crate::DisconnectReason::RateLimit).
    Disconnect,
}

//! What PASS means, and when a row means anything: one place for the help page, the table and the
//! JSON.

use crate::load::DRAIN_MAX;

/// A row whose load came later than this (milliseconds, 99th percentile) was not the load that was
/// asked for.
pub(crate) const LATE_MAX: f64 = 10.0;

/// Nor was one of which less than this share was sent in time.
pub(crate) const SENT_MIN: f64 = 0.99;

pub(crate) fn pass() -> String {
    format!(
        "PASS: all clients were connected and served, none was disconnected, every message came,\n\
         right in every byte and in its order, at the latest {} s after the last send.",
        DRAIN_MAX.as_secs()
    )
}

pub(crate) fn meaning() -> String {
    format!(
        "The load generator tells how much later than planned it sent. Where that is more than\n\
         {LATE_MAX} ms (p99), or less than {} % was sent in time, the row was not the load that was\n\
         asked for: its CPU and round trips mean nothing. It is marked, and passes all the same.",
        SENT_MIN * 100.0
    )
}

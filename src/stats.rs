//! Counters, and what a tick has cost.

use std::fmt;

use crate::error::{DisconnectReason, SendError};

/// What a reactor has done since it was built, and what it holds. Plain numbers; reading them costs
/// nothing. Counters wrap around after 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls of [`tick`](crate::Reactor::tick).
    pub ticks: u64,
    /// Looks at the poller.
    pub polls: u64,
    /// Connections at this moment, incoming and outgoing, until their last event was fetched.
    pub connections: usize,
    /// Clients accepted.
    pub accepted: u64,
    /// Accepts that failed: clients that were gone, and shortages of descriptors or memory.
    pub accept_failures: u64,
    /// Clients that were accepted and closed: not admitted, or no room.
    pub turned_away: u64,
    /// Outgoing connections begun.
    pub connects: u64,
    /// Connections, incoming and outgoing, that are over.
    pub ended: u64,
    /// Why connections ended; connects that failed are not in here.
    pub ends: Ends,
    /// Looks at the poller that found nothing to do.
    pub idle_wakes: u64,
    /// Receive calls.
    pub receives: u64,
    /// Bytes received, headers included.
    pub bytes_received: u64,
    /// Messages put into a batch.
    pub messages_received: u64,
    /// Send calls.
    pub sends: u64,
    /// Bytes sent, headers included.
    pub bytes_sent: u64,
    /// Messages queued.
    pub messages_sent: u64,
    /// Messages refused.
    pub messages_refused: u64,
    /// Why they were.
    pub refusals: Refusals,
    /// Messages that a newer one of their kind replaced before they left.
    pub messages_superseded: u64,
    /// Bytes that wait to be sent, on all connections.
    pub bytes_queued: usize,
    /// Bytes of frames that are not complete, or wait for their turn, on all connections.
    pub bytes_unfinished: usize,
    /// Received bytes that were copied a second time: frames that had not arrived whole.
    pub bytes_moved: u64,
    /// Bytes of the batch memory that are in use.
    pub bytes_in_batch: usize,
    /// Bytes of buffers that lie unused in the pools.
    pub bytes_pooled: usize,
    /// Buffers that connections hold; one with nothing unfinished and nothing to send holds none.
    pub buffers_held: usize,
}

/// How many messages were refused for which reason; see [`SendError`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is the count of the error of that name")]
pub struct Refusals {
    pub stale: u64,
    pub closing: u64,
    pub full: u64,
    pub too_large: u64,
    pub empty: u64,
    pub malformed: u64,
}

impl Refusals {
    pub(crate) fn count(&mut self, error: SendError) {
        *match error {
            SendError::Stale => &mut self.stale,
            SendError::Closing => &mut self.closing,
            SendError::Full => &mut self.full,
            SendError::TooLarge => &mut self.too_large,
            SendError::Empty => &mut self.empty,
            SendError::Malformed => &mut self.malformed,
        } += 1;
    }

    pub(crate) fn total(&self) -> u64 {
        self.rows().iter().map(|(_, count)| count).sum()
    }

    fn rows(&self) -> [(&'static str, u64); 6] {
        [
            ("stale id", self.stale),
            ("closing", self.closing),
            ("queue full", self.full),
            ("too large", self.too_large),
            ("empty", self.empty),
            ("malformed", self.malformed),
        ]
    }
}

/// How many connections ended for which reason; see [`DisconnectReason`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is the count of the reason of that name")]
pub struct Ends {
    pub closed_by_peer: u64,
    pub reset: u64,
    pub timed_out: u64,
    pub io: u64,
    pub closed_by_us: u64,
    pub close_deadline: u64,
    pub kicked: u64,
    pub frame_too_large: u64,
    pub bad_frame: u64,
    pub truncated: u64,
    pub idle: u64,
    pub first_frame: u64,
    pub frame_deadline: u64,
    pub write_stall: u64,
    pub send_queue_full: u64,
    pub memory_limit: u64,
    pub rate_limit: u64,
    pub shutdown: u64,
}

impl Ends {
    pub(crate) fn count(&mut self, reason: DisconnectReason) {
        *match reason {
            DisconnectReason::ClosedByPeer => &mut self.closed_by_peer,
            DisconnectReason::Reset => &mut self.reset,
            DisconnectReason::TimedOut => &mut self.timed_out,
            DisconnectReason::Io(_) => &mut self.io,
            DisconnectReason::ClosedByUs => &mut self.closed_by_us,
            DisconnectReason::CloseDeadline => &mut self.close_deadline,
            DisconnectReason::Kicked => &mut self.kicked,
            DisconnectReason::FrameTooLarge { .. } => &mut self.frame_too_large,
            DisconnectReason::BadFrame(_) => &mut self.bad_frame,
            DisconnectReason::Truncated => &mut self.truncated,
            DisconnectReason::Idle => &mut self.idle,
            DisconnectReason::FirstFrame => &mut self.first_frame,
            DisconnectReason::FrameDeadline => &mut self.frame_deadline,
            DisconnectReason::WriteStall => &mut self.write_stall,
            DisconnectReason::SendQueueFull => &mut self.send_queue_full,
            DisconnectReason::MemoryLimit => &mut self.memory_limit,
            DisconnectReason::RateLimit => &mut self.rate_limit,
            DisconnectReason::Shutdown => &mut self.shutdown,
        } += 1;
    }

    fn rows(&self) -> [(&'static str, u64); 18] {
        [
            ("closed by peer", self.closed_by_peer),
            ("reset", self.reset),
            ("timed out", self.timed_out),
            ("network error", self.io),
            ("closed by us", self.closed_by_us),
            ("close deadline", self.close_deadline),
            ("kicked", self.kicked),
            ("frame too large", self.frame_too_large),
            ("bad frame", self.bad_frame),
            ("truncated", self.truncated),
            ("idle", self.idle),
            ("first frame", self.first_frame),
            ("frame deadline", self.frame_deadline),
            ("write stall", self.write_stall),
            ("send queue full", self.send_queue_full),
            ("memory limit", self.memory_limit),
            ("rate limit", self.rate_limit),
            ("shutdown", self.shutdown),
        ]
    }
}

/// What one connection has done; see [`Builder::connection_stats`](crate::Builder::connection_stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnStats {
    /// Bytes received, headers included.
    pub bytes_received: u64,
    /// Messages put into a batch.
    pub messages_received: u64,
    /// Bytes sent, headers included.
    pub bytes_sent: u64,
    /// Messages queued.
    pub messages_sent: u64,
    /// Messages refused.
    pub messages_refused: u64,
    /// The most bytes that have waited in its send queue.
    pub queue_peak: usize,
}

/// As an aligned table: a line for each number, and for each reason why a message was refused or a connection has ended.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            ("ticks", self.ticks),
            ("polls", self.polls),
            ("idle wakes", self.idle_wakes),
            ("connections", self.connections as u64),
            ("accepted", self.accepted),
            ("accept failures", self.accept_failures),
            ("turned away", self.turned_away),
            ("connects", self.connects),
            ("ended", self.ended),
            ("receives", self.receives),
            ("bytes received", self.bytes_received),
            ("bytes moved", self.bytes_moved),
            ("messages received", self.messages_received),
            ("sends", self.sends),
            ("bytes sent", self.bytes_sent),
            ("messages sent", self.messages_sent),
            ("messages refused", self.messages_refused),
            ("messages superseded", self.messages_superseded),
            ("bytes queued", self.bytes_queued as u64),
            ("bytes unfinished", self.bytes_unfinished as u64),
            ("bytes in batch", self.bytes_in_batch as u64),
            ("bytes pooled", self.bytes_pooled as u64),
            ("buffers held", self.buffers_held as u64),
        ];
        for (name, number) in numbers {
            writeln!(f, "{name:<24}{number:>20}")?;
        }
        for (reason, count) in self.refusals.rows().into_iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "  refused: {reason:<13}{count:>20}")?;
        }
        for (reason, count) in self.ends.rows().into_iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "  ended: {reason:<15}{count:>20}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_leaves_out_reasons_that_did_not_occur() {
        let mut stats = Stats { ticks: 12, bytes_received: u64::MAX, ..Stats::default() };
        stats.ends.count(DisconnectReason::Kicked);
        stats.refusals.count(SendError::TooLarge);
        assert_eq!(stats.refusals.total(), 1);
        stats.ends.count(DisconnectReason::FrameTooLarge { declared: 9, limit: 1 });
        let table = stats.to_string();
        let widths: Vec<usize> = table.lines().map(str::len).collect();
        assert!(widths.iter().all(|width| *width == 44), "{table}");
        assert!(table.contains("kicked") && table.contains("frame too large"), "{table}");
        assert!(!table.contains("shutdown"), "{table}");
    }
}

//! Counters.

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
    /// Outgoing connections begun.
    pub connects: u64,
    /// Connections, incoming and outgoing, that are over.
    pub ended: u64,
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
    /// Received bytes that were copied a second time: frames that had not arrived whole.
    pub bytes_moved: u64,
    /// Bytes of buffers that lie unused in the pools.
    pub bytes_pooled: usize,
}

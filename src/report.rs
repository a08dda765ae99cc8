//! What a tick has cost.

use std::time::{Duration, Instant};

/// What a tick has cost, so that a game can fit it into its frame.
///
/// Counts are those since the last tick returned, so what [`flush`](crate::Reactor::flush) did in between is in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TickReport {
    /// Events that can be fetched now, those carried over included.
    pub events: usize,
    /// Events among them that the game left unfetched before.
    pub carried_over: usize,
    /// The most events that a batch holds: [`Builder::event_budget`](crate::Builder::event_budget).
    pub event_budget: usize,
    /// Bytes of the batch memory that are in use.
    pub memory_used: usize,
    /// All of it: [`Builder::batch_memory`](crate::Builder::batch_memory).
    pub memory: usize,
    /// Connections that have more to be read, because a quantum, the budget or the memory was used up. While there
    /// are any, [`Wait::Event`](crate::Wait::Event) does not wait.
    pub unserved: usize,
    /// Looks at the sockets.
    pub passes: u64,
    /// Clients accepted.
    pub accepted: u64,
    /// Receive calls.
    pub receives: u64,
    /// Bytes received, headers included.
    pub bytes_received: u64,
    /// Messages put into the batch.
    pub messages_received: u64,
    /// Send calls.
    pub sends: u64,
    /// Bytes sent, headers included.
    pub bytes_sent: u64,
    /// How long it took, if [`Builder::phase_times`](crate::Builder::phase_times) is set.
    pub times: Option<PhaseTimes>,
}

/// How long the phases of a tick took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaseTimes {
    /// Sending what was queued, and carrying out closes and kicks.
    pub send: Duration,
    /// Waiting: for the poller, and for the next look.
    pub wait: Duration,
    /// Accepting clients and finishing connects.
    pub admit: Duration,
    /// Receiving, cutting into messages, and deadlines.
    pub read: Duration,
}

impl PhaseTimes {
    /// All of it but the waiting: what the tick took from the game's frame.
    pub fn busy(&self) -> Duration {
        self.send + self.admit + self.read
    }
}

/// The counts that a report is about. Read in every tick, so they are no more than these.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) passes: u64,
    pub(crate) accepted: u64,
    pub(crate) receives: u64,
    pub(crate) bytes_received: u64,
    pub(crate) messages_received: u64,
    pub(crate) sends: u64,
    pub(crate) bytes_sent: u64,
}

impl TickReport {
    /// What has changed between two readings.
    pub(crate) fn between(before: &Reading, after: &Reading) -> TickReport {
        TickReport {
            passes: after.passes.wrapping_sub(before.passes),
            accepted: after.accepted.wrapping_sub(before.accepted),
            receives: after.receives.wrapping_sub(before.receives),
            bytes_received: after.bytes_received.wrapping_sub(before.bytes_received),
            messages_received: after.messages_received.wrapping_sub(before.messages_received),
            sends: after.sends.wrapping_sub(before.sends),
            bytes_sent: after.bytes_sent.wrapping_sub(before.bytes_sent),
            ..TickReport::default()
        }
    }
}

/// A stopwatch for the phases of one tick.
#[derive(Debug)]
pub(crate) struct Laps {
    last: Instant,
    pub(crate) times: PhaseTimes,
}

/// The phases that a stopwatch tells apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    Send,
    Wait,
    Admit,
    Read,
}

impl Laps {
    pub(crate) fn start(now: Instant) -> Laps {
        Laps { last: now, times: PhaseTimes::default() }
    }

    /// Ends a phase. The next one begins.
    pub(crate) fn lap(&mut self, phase: Phase, now: Instant) {
        let time = now.saturating_duration_since(std::mem::replace(&mut self.last, now));
        *match phase {
            Phase::Send => &mut self.times.send,
            Phase::Wait => &mut self.times.wait,
            Phase::Admit => &mut self.times.admit,
            Phase::Read => &mut self.times.read,
        } += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laps_of_one_phase_add_up() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut laps = Laps::start(start);
        laps.lap(Phase::Send, at(1));
        laps.lap(Phase::Wait, at(11));
        laps.lap(Phase::Send, at(13));
        laps.lap(Phase::Read, at(13));
        let ms = Duration::from_millis;
        assert_eq!((laps.times.send, laps.times.wait, laps.times.read), (ms(3), ms(10), ms(0)));
        assert_eq!(laps.times.busy(), ms(3));
    }
}

//! What the clients have seen, and whether that is what they should have seen.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::load::{DRAIN_MAX, GREETING_MAX};
use crate::timings::Timings;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Clients that the server has greeted.
    pub(crate) connected: usize,
    pub(crate) sent: u64,
    /// Messages that are to come: one for each that was sent, or, in a broadcast, for each receiver.
    pub(crate) awaited: u64,
    /// Messages that came, right or wrong.
    pub(crate) received: u64,
    wrong: Fault,
    unconnected: Fault,
    ungreeted: Fault,
    lost: Fault,
    refused: Fault,
    /// Round-trip times.
    pub(crate) trips: Timings,
    /// How much later than it should have each burst left.
    pub(crate) late: Timings,
}

/// Something that must not happen: how often it did, and why it did the first time.
#[derive(Default, Serialize, Deserialize)]
struct Fault {
    count: u64,
    first: String,
}

impl Fault {
    fn add(&mut self, reason: impl Display) {
        if self.count == 0 {
            self.first = reason.to_string();
        }
        self.count += 1;
    }

    fn merge(&mut self, other: Fault) {
        if self.count == 0 {
            self.first = other.first;
        }
        self.count += other.count;
    }
}

impl Tally {
    pub(crate) fn connect_failed(&mut self, reason: impl Display) {
        self.unconnected.add(reason);
    }

    pub(crate) fn ungreeted(&mut self, clients: usize) {
        self.ungreeted.count += clients as u64;
    }

    pub(crate) fn lost(&mut self, reason: impl Display) {
        self.lost.add(reason);
    }

    pub(crate) fn refused(&mut self, reason: impl Display) {
        self.refused.add(reason);
    }

    pub(crate) fn wrong(&mut self) {
        self.wrong.count += 1;
    }

    /// The clients that did not come about.
    pub(crate) fn unconnected(&self) -> usize {
        (self.unconnected.count + self.ungreeted.count) as usize
    }

    /// Adds what another process has counted.
    pub(crate) fn merge(&mut self, other: Tally) {
        self.connected += other.connected;
        self.sent += other.sent;
        self.awaited += other.awaited;
        self.received += other.received;
        self.wrong.merge(other.wrong);
        self.unconnected.merge(other.unconnected);
        self.ungreeted.merge(other.ungreeted);
        self.lost.merge(other.lost);
        self.refused.merge(other.refused);
        self.trips.add(&other.trips);
        self.late.add(&other.late);
    }

    /// For each criterion that was not met, how often, and a line.
    pub(crate) fn faults(&self) -> Vec<(u64, String)> {
        let Tally { wrong, unconnected, ungreeted, lost, refused, .. } = self;
        let missing = self.awaited.saturating_sub(self.received);
        let faults = [
            (unconnected.count, format!("clients did not connect: {}", unconnected.first)),
            (
                ungreeted.count,
                format!("clients were not served within {} s", GREETING_MAX.as_secs()),
            ),
            (lost.count, format!("clients were disconnected: {}", lost.first)),
            (refused.count, format!("messages could not be sent: {}", refused.first)),
            (wrong.count, "messages were wrong or out of order".to_owned()),
            (
                missing,
                format!("messages were missing {} s after the last send", DRAIN_MAX.as_secs()),
            ),
        ];
        let happened = faults.into_iter().filter(|fault| fault.0 > 0);
        happened.map(|(count, text)| (count, format!("{count} {text}"))).collect()
    }
}

#[cfg(test)]
impl Tally {
    /// Of clients that have each of so many messages back.
    pub(crate) fn all_right(connected: usize, messages: u64) -> Tally {
        let (sent, awaited, received) = (messages, messages, messages);
        Tally { connected, sent, awaited, received, ..Tally::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_wrong_is_no_fault() {
        assert_eq!(Tally::all_right(3, 5).faults(), []);
    }

    #[test]
    fn faults_of_several_processes_add_up_and_the_first_reason_stays() {
        let mut sum = Tally { awaited: 10, received: 9, ..Tally::default() };
        let mut other = Tally { awaited: 10, received: 8, ..Tally::default() };
        other.lost("reset");
        other.lost("idle");
        sum.merge(other);
        sum.lost("kicked");
        let faults = sum.faults();
        assert_eq!(faults[0], (3, "3 clients were disconnected: reset".to_owned()));
        assert_eq!(faults[1].0, 3, "{faults:?}");
        assert!(faults[1].1.starts_with("3 messages were missing"));
        assert_eq!(faults.len(), 2);
    }
}

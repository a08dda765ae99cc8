//! What the clients have seen, and whether that is what they should have seen.

use std::fmt::Display;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::load::DRAIN_MAX;

pub(crate) struct Tally {
    clients: usize,
    pub(crate) connected: usize,
    pub(crate) sent: u64,
    /// Echoes that came, right or wrong.
    pub(crate) echoed: u64,
    wrong: u64,
    connects_failed: Fault,
    lost: Fault,
    refused: Fault,
    /// Round-trip times, in microseconds.
    trips: Histogram<u64>,
    /// The most that a message left later than it should have.
    pub(crate) late_max: Duration,
}

/// Something that must not happen: how often it did, and why it did the first time.
#[derive(Default)]
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
}

impl Tally {
    pub(crate) fn new(clients: usize) -> Tally {
        /// A minute: far above all that can come before the drain ends.
        const TRIP_MAX: u64 = 60_000_000;
        Tally {
            clients,
            connected: 0,
            sent: 0,
            echoed: 0,
            wrong: 0,
            connects_failed: Fault::default(),
            lost: Fault::default(),
            refused: Fault::default(),
            trips: Histogram::new_with_max(TRIP_MAX, 3).expect("these bounds are possible"),
            late_max: Duration::ZERO,
        }
    }

    pub(crate) fn connect_failed(&mut self, reason: impl Display) {
        self.connects_failed.add(reason);
    }

    pub(crate) fn lost(&mut self, reason: impl Display) {
        self.lost.add(reason);
    }

    pub(crate) fn refused(&mut self, reason: impl Display) {
        self.refused.add(reason);
    }

    pub(crate) fn right(&mut self, trip: Duration) {
        self.echoed += 1;
        self.trips.saturating_record(trip.as_micros() as u64);
    }

    pub(crate) fn wrong(&mut self) {
        self.echoed += 1;
        self.wrong += 1;
    }

    /// The clients whose connect has an outcome.
    pub(crate) fn answered(&self) -> usize {
        self.connected + self.connects_failed.count as usize
    }

    pub(crate) fn all_connected(&self) -> bool {
        self.connected == self.clients
    }

    /// A quantile of the round-trip times, if there are any.
    pub(crate) fn trip(&self, quantile: f64) -> Option<Duration> {
        let trips = (!self.trips.is_empty()).then_some(&self.trips)?;
        Some(Duration::from_micros(trips.value_at_quantile(quantile)))
    }

    /// A line for each criterion that was not met.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let missing = self.sent.saturating_sub(self.echoed);
        let mut note = |count: u64, text: String| {
            if count > 0 {
                faults.push(format!("{count} {text}"));
            }
        };
        let Tally { connects_failed, lost, refused, .. } = self;
        note(connects_failed.count, format!("clients did not connect: {}", connects_failed.first));
        note(lost.count, format!("clients were disconnected: {}", lost.first));
        note(refused.count, format!("messages could not be sent: {}", refused.first));
        note(self.wrong, "echoes were wrong or out of order".to_owned());
        note(missing, format!("echoes were missing {} s after the last send", DRAIN_MAX.as_secs()));
        faults
    }
}

//! When which client sends: plain arithmetic, so that it can be tested.

use std::time::Duration;

use crate::scenario::{Arrival, Scenario};

/// The bursts of the clients of one process, in the order of their time.
pub(crate) struct Schedule {
    period: u64,
    /// Clients that send, in this process.
    senders: u64,
    arrival: Arrival,
    place: Place,
}

/// Where the clients of a process stand among all: its client `i` has the number
/// `i * processes + index`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) index: usize,
    pub(crate) processes: usize,
    /// Clients of all processes.
    pub(crate) clients: usize,
}

impl Place {
    /// How many of the clients belong to this process.
    pub(crate) fn share(&self) -> usize {
        self.clients.saturating_sub(self.index).div_ceil(self.processes)
    }

    pub(crate) fn number(&self, local: usize) -> usize {
        local * self.processes + self.index
    }
}

impl Schedule {
    pub(crate) fn new(scenario: &Scenario, place: Place, senders: usize) -> Schedule {
        let period = (f64::from(scenario.burst) * 1e9 / scenario.rate) as u64;
        Schedule { period, senders: senders as u64, arrival: scenario.arrival, place }
    }

    /// Burst number `burst` of this process: which of its clients sends, and when.
    pub(crate) fn burst(&self, burst: u64) -> Option<(usize, Duration)> {
        let round = burst.checked_div(self.senders)?;
        let client = (burst % self.senders) as usize;
        let within = match self.arrival {
            Arrival::Together => 0,
            Arrival::Spread => {
                let share = self.place.number(client) as f64 / self.place.clients as f64;
                (self.period as f64 * share) as u64
            }
        };
        Some((client, Duration::from_nanos(round * self.period + within)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    fn schedule(arrival: Arrival, index: usize, processes: usize, clients: usize) -> Schedule {
        let scenario =
            Scenario { rate: 20.0, burst: 2, arrival, ..args::Options::default().scenario };
        let place = Place { index, processes, clients };
        Schedule::new(&scenario, place, place.share())
    }

    #[test]
    fn a_period_is_spread_over_all_clients_of_all_processes() {
        let mut due = Vec::new();
        for index in 0..3 {
            let schedule = schedule(Arrival::Spread, index, 3, 10);
            let share = schedule.senders;
            due.extend((0..share * 2).map(|burst| schedule.burst(burst).expect("a sender").1));
        }
        due.sort();
        let wanted: Vec<_> = (0..20).map(|at| Duration::from_millis(at * 10)).collect();
        assert_eq!(due, wanted, "a tenth of a second, over ten clients, twice");
    }

    #[test]
    fn together_means_at_the_same_moment() {
        let schedule = schedule(Arrival::Together, 0, 1, 4);
        let due: Vec<_> = (0..8).filter_map(|burst| schedule.burst(burst)).collect();
        assert!(due[..4].iter().all(|burst| burst.1 == Duration::ZERO), "{due:?}");
        assert!(due[4..].iter().all(|burst| burst.1 == Duration::from_millis(100)), "{due:?}");
        assert_eq!(due.iter().map(|burst| burst.0).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn who_has_no_sender_has_no_burst() {
        assert_eq!(schedule(Arrival::Spread, 2, 3, 2).burst(0), None);
    }

    #[test]
    fn shares_add_up_and_numbers_are_all_different() {
        for (processes, clients) in [(1, 1), (3, 10), (3, 2), (7, 1_000)] {
            let mut numbers = Vec::new();
            for index in 0..processes {
                let place = Place { index, processes, clients };
                numbers.extend((0..place.share()).map(|local| place.number(local)));
            }
            numbers.sort();
            assert_eq!(numbers, (0..clients).collect::<Vec<_>>());
        }
    }
}

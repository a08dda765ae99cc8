//! A row in figures: what the table, the JSON and the chart show.

use serde::Serialize;

use crate::criteria::{LATE_MAX, SENT_MIN};
use crate::row::{End, Row};
use crate::scenario::{Kind, Scenario};
use crate::timings::Quantiles;

/// What the system does not tell, or what was not measured, is absent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) clients: usize,
    pub(crate) connected: usize,
    pub(crate) connects_per_second: f64,
    pub(crate) seconds: Option<f64>,
    pub(crate) messages_per_second: Option<f64>,
    pub(crate) bandwidth_bytes_per_second: Option<f64>,
    /// Of one core: 100 is a core fully used.
    pub(crate) server_cpu_percent: Option<f64>,
    pub(crate) server_cpu_us_per_message: Option<f64>,
    pub(crate) server_memory_bytes: Option<u64>,
    pub(crate) server_memory_bytes_per_client: Option<f64>,
    /// By how much less was free on the whole machine: both ends, the system's part included.
    pub(crate) machine_memory_bytes_per_client: Option<f64>,
    pub(crate) rtt_ms: Option<Quantiles>,
    pub(crate) load_late_ms: Option<Quantiles>,
    pub(crate) load_cpu_percent: Option<f64>,
    /// What was sent of what was to be sent.
    pub(crate) load_sent_percent: Option<f64>,
    /// Whether the load was the one that was asked for.
    pub(crate) meaningful: bool,
    pub(crate) errors: u64,
    pub(crate) faults: Vec<String>,
    pub(crate) result: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Outcome {
    Pass,
    Fail,
    /// Ended early by Ctrl-C.
    Stopped,
    /// There was no memory for as many clients as were asked for.
    Short,
}

impl Figures {
    pub(crate) fn of(row: &Row, scenario: &Scenario) -> Figures {
        let measured = row.measured.as_ref();
        let seconds = measured.map(|it| it.time.as_secs_f64());
        let per_second = |count: Option<u64>| Some(count? as f64 / seconds?);
        let per_client = |bytes: i64| bytes as f64 / row.connected as f64;
        let server_cpu = measured.and_then(|it| it.server_cpu);
        let faults = row.tally.faults();
        let load_late_ms = row.tally.late.quantiles();
        let share = measured.and_then(|it| sent_share(it.sent, row.connected, scenario));
        Figures {
            clients: row.clients,
            connected: row.connected,
            connects_per_second: row.connected as f64 / row.connecting.as_secs_f64(),
            seconds,
            messages_per_second: per_second(measured.map(|it| it.received)),
            bandwidth_bytes_per_second: per_second(
                measured.map(|it| (it.sent + it.received) * scenario.size as u64),
            ),
            server_cpu_percent: percent(server_cpu, seconds),
            server_cpu_us_per_message: measured
                .filter(|it| it.received > 0)
                .and_then(|it| Some(server_cpu?.as_secs_f64() * 1e6 / it.received as f64)),
            server_memory_bytes: measured.and_then(|it| Some(it.server_memory?.1)),
            server_memory_bytes_per_client: measured
                .and_then(|it| it.server_memory)
                .map(|(before, after)| per_client(after as i64 - before as i64)),
            machine_memory_bytes_per_client: measured
                .and_then(|it| it.available)
                .map(|(before, after)| per_client(before as i64 - after as i64)),
            rtt_ms: row.tally.trips.quantiles(),
            load_cpu_percent: percent(measured.and_then(|it| it.load_cpu), seconds),
            load_sent_percent: share.map(|share| share * 100.0),
            meaningful: measured.is_some()
                && load_late_ms.as_ref().is_none_or(|late| late.p99 <= LATE_MAX)
                && share.is_none_or(|share| share >= SENT_MIN),
            load_late_ms,
            errors: faults.iter().map(|fault| fault.0).sum(),
            result: outcome(row.end, faults.is_empty() && row.connected == row.clients),
            faults: faults.into_iter().map(|fault| fault.1).collect(),
        }
    }
}

fn outcome(end: End, is_right: bool) -> Outcome {
    match (end, is_right) {
        (End::Whole, true) => Outcome::Pass,
        (End::Stopped, _) => Outcome::Stopped,
        (End::MemoryLow, _) => Outcome::Short,
        (End::Whole, false) => Outcome::Fail,
    }
}

fn percent(cpu: Option<std::time::Duration>, seconds: Option<f64>) -> Option<f64> {
    Some(cpu?.as_secs_f64() / seconds? * 100.0)
}

/// Nothing, where nothing was to be sent.
fn sent_share(sent: u64, clients: usize, scenario: &Scenario) -> Option<f64> {
    let senders = match scenario.kind {
        Kind::Echo => clients as f64,
        Kind::Broadcast => 1.0,
        Kind::Idle => return None,
    };
    Some((sent as f64 / (senders * scenario.rate * scenario.secs as f64)).min(1.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::Options;
    use crate::row::Measured;
    use crate::tally::Tally;

    /// Ten clients that sent 28 messages a second for 15 s.
    fn row() -> Row {
        let mut tally = Tally::all_right(10, 4_200);
        tally.late.record(Duration::from_micros(30));
        tally.trips.record(Duration::from_millis(2));
        let measured = Measured {
            time: Duration::from_secs(15),
            server_cpu: Some(Duration::from_millis(42)),
            load_cpu: Some(Duration::from_secs(3)),
            server_memory: Some((1_000_000, 1_005_000)),
            available: Some((50_000_000, 49_900_000)),
            sent: 4_200,
            received: 4_200,
        };
        Row {
            clients: 10,
            connected: 10,
            connecting: Duration::from_millis(5),
            measured: Some(measured),
            tally,
            end: End::Whole,
        }
    }

    fn figures(row: &Row) -> Figures {
        Figures::of(row, &Options::default().scenario)
    }

    #[test]
    fn the_arithmetic_is_right() {
        let found = figures(&row());
        assert_eq!(found.messages_per_second, Some(280.0));
        assert_eq!(found.bandwidth_bytes_per_second, Some(56_000.0), "both directions");
        assert!((found.server_cpu_percent.expect("it is known") - 0.28).abs() < 1e-9);
        assert_eq!(found.server_cpu_us_per_message, Some(10.0));
        assert_eq!(found.server_memory_bytes_per_client, Some(500.0));
        assert_eq!(found.machine_memory_bytes_per_client, Some(10_000.0));
        assert_eq!(found.load_cpu_percent, Some(20.0));
        assert_eq!(found.load_sent_percent, Some(100.0));
        assert_eq!((found.errors, found.result), (0, Outcome::Pass));
        assert!(found.meaningful);
    }

    #[test]
    fn a_late_load_means_nothing_and_passes() {
        let mut row = row();
        row.tally.late.record(Duration::from_millis(11));
        let found = figures(&row);
        assert!(!found.meaningful);
        assert_eq!(found.result, Outcome::Pass);
    }

    #[test]
    fn a_load_that_was_not_sent_means_nothing() {
        let mut row = row();
        row.measured.as_mut().expect("it was").sent = 4_100;
        assert!(!figures(&row).meaningful);
    }

    #[test]
    fn faults_and_missing_clients_fail() {
        let mut wrong = row();
        wrong.tally.wrong();
        assert_eq!((figures(&wrong).errors, figures(&wrong).result), (1, Outcome::Fail));
        let missing = Row { clients: 11, ..row() };
        assert_eq!(figures(&missing).result, Outcome::Fail);
    }

    #[test]
    fn what_ended_early_says_why() {
        assert_eq!(figures(&Row { end: End::Stopped, ..row() }).result, Outcome::Stopped);
        assert_eq!(figures(&Row { end: End::MemoryLow, ..row() }).result, Outcome::Short);
    }

    #[test]
    fn a_row_that_did_not_connect_has_no_figures() {
        let found = figures(&Row { measured: None, connected: 0, ..row() });
        assert_eq!(found.messages_per_second, None);
        assert!(!found.meaningful);
    }
}

//! The cells of a row, the same for the terminal and for the page.

use crate::compare::Measured;
use crate::plan::{Drive, Figure, Outcome};
use crate::tally::{Column, Spread};

/// The heads of the cells; which they are depends on what is measured.
pub fn heads(measured: &Measured) -> [&'static str; 8] {
    match measured.row.load.drive {
        Drive::Idle => [
            "server",
            "accepted/s",
            "CPU us each",
            "rate : epoll",
            "CPU : epoll",
            "bytes each",
            "idle CPU %",
            "errors",
        ],
        _ => [
            "server",
            "messages/s",
            "CPU us each",
            "rate : epoll",
            "CPU : epoll",
            "p50 us",
            "p99 us",
            "errors",
        ],
    }
}

pub fn cells(measured: &Measured, column: &Column) -> [String; 8] {
    let reference = measured.reference();
    let is_reference = column.serve == measured.row.reference;
    let ratio = |of: Figure| match reference {
        Some(_) if is_reference => "1".to_owned(),
        Some(reference) => {
            column.ratio(reference, of).map_or(none(), |spread| format!("{:.2}", spread.median))
        }
        None => none(),
    };
    let median = |of: Figure| column.spread(of).map_or(none(), |spread| count(spread.median));
    let (sixth, seventh) = match measured.row.load.drive {
        Drive::Idle => (
            median(|outcome| outcome.per_client),
            column
                .spread(|outcome| outcome.idle_cpu * 100.0)
                .map_or(none(), |spread| format!("{:.2}", spread.median)),
        ),
        _ => (
            median(|outcome| outcome.latency.p50 as f64),
            median(|outcome| outcome.latency.p99 as f64),
        ),
    };
    [
        column.serve.name().to_string(),
        range(column.spread(Outcome::rate), count),
        range(column.spread(Outcome::cpu_each), micros),
        ratio(Outcome::rate),
        ratio(Outcome::cpu_each),
        sixth,
        seventh,
        column.errors().to_string(),
    ]
}

/// A median, with its ends.
fn range(spread: Option<Spread>, write: fn(f64) -> String) -> String {
    let Some(spread) = spread.filter(|spread| spread.median.is_finite()) else { return none() };
    format!("{} ({}–{})", write(spread.median), write(spread.min), write(spread.max))
}

fn none() -> String {
    "–".to_owned()
}

/// Three digits, and what they count.
fn count(value: f64) -> String {
    match value {
        1e6.. => format!("{:.2} M", value / 1e6),
        1e5.. => format!("{:.0} k", value / 1e3),
        1e4.. => format!("{:.1} k", value / 1e3),
        _ => format!("{value:.0}"),
    }
}

fn micros(value: f64) -> String {
    match value {
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(count(28_012.3), "28.0 k");
        assert_eq!(count(3_214_000.0), "3.21 M");
        assert_eq!(count(741.2), "741");
        assert_eq!(micros(0.0912), "0.091");
        assert_eq!(micros(7.812), "7.81");
    }
}

//! Many durations and their quantiles. Between processes they travel as pairs of a value and how
//! often it came.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub(crate) struct Timings(Histogram<u64>);

/// In milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Default for Timings {
    fn default() -> Timings {
        /// Microseconds of a minute: far above all that can come before the drain ends.
        const MAX: u64 = 60_000_000;
        Timings(Histogram::new_with_max(MAX, 3).expect("these bounds are possible"))
    }
}

impl Timings {
    pub(crate) fn record(&mut self, time: Duration) {
        self.0.saturating_record(time.as_micros() as u64);
    }

    pub(crate) fn add(&mut self, other: &Timings) {
        self.0.add(&other.0).expect("the bounds are the same");
    }

    /// Nothing, if nothing was recorded.
    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        let millis = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        (!self.0.is_empty()).then(|| Quantiles {
            p50: millis(0.5),
            p99: millis(0.99),
            p999: millis(0.999),
            max: millis(1.0),
        })
    }
}

impl From<Vec<(u64, u64)>> for Timings {
    fn from(pairs: Vec<(u64, u64)>) -> Timings {
        let mut timings = Timings::default();
        for (value, count) in pairs {
            timings.0.saturating_record_n(value, count);
        }
        timings
    }
}

impl From<Timings> for Vec<(u64, u64)> {
    fn from(timings: Timings) -> Vec<(u64, u64)> {
        let recorded = timings.0.iter_recorded();
        recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_survive_the_way_between_processes_and_being_added_up() {
        let mut timings = Timings::default();
        assert!(timings.quantiles().is_none());
        (1..=1_000).for_each(|count| timings.record(Duration::from_micros(count * 10)));
        let text = serde_json::to_string(&timings).expect("it is plain data");
        let mut sum: Timings = serde_json::from_str(&text).expect("it is ours");
        sum.add(&timings);
        let quantiles = sum.quantiles().expect("there is something");
        for (found, wanted) in [
            (quantiles.p50, 5.0),
            (quantiles.p99, 9.9),
            (quantiles.p999, 9.99),
            (quantiles.max, 10.0),
        ] {
            assert!((found / wanted - 1.0).abs() < 0.002, "{quantiles:?}");
        }
    }
}

//! What the runs of a row come to: medians, and ratios taken within each run.

use crate::plan::{Outcome, Serve};

/// One server's outcomes in one row, by run.
pub struct Column {
    pub serve: Serve,
    pub outcomes: Vec<Option<Outcome>>,
}

/// The middle, and the ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Column {
    pub fn spread(&self, of: impl Fn(&Outcome) -> f64) -> Option<Spread> {
        spread(self.outcomes.iter().flatten().map(of).collect())
    }

    /// The median of what this server's figure is, divided by the other's of the same run.
    pub fn ratio(&self, to: &Column, of: impl Fn(&Outcome) -> f64) -> Option<Spread> {
        let pairs = self.outcomes.iter().zip(&to.outcomes);
        let ratios = pairs.filter_map(|(this, that)| Some(of(this.as_ref()?) / of(that.as_ref()?)));
        spread(ratios.filter(|ratio| ratio.is_finite()).collect())
    }

    /// Whatever went wrong, in all runs.
    pub fn errors(&self) -> u64 {
        self.outcomes.iter().flatten().map(Outcome::errors).sum()
    }
}

fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let (&min, &max) = (values.first()?, values.last()?);
    let middle = values.len() / 2;
    let median = match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    };
    Some(Spread { median, min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(
            spread(vec![4.0, 1.0, 2.0, 3.0]),
            Some(Spread { median: 2.5, min: 1.0, max: 4.0 })
        );
        assert_eq!(spread(vec![5.0]), Some(Spread { median: 5.0, min: 5.0, max: 5.0 }));
        assert_eq!(spread(vec![]), None);
    }
}

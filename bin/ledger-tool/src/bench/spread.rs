//! Median and range of repeated measurements.

use serde::{Serialize, Serializer};

/// Median and range of several values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Returns the spread of values; all zeros without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (values.first(), values.last()) else {
            return Self::default();
        };
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Self { median, min: *min, max: *max }
    }

    /// Returns the spread of milliseconds, in seconds.
    pub fn of_seconds(milliseconds: &[u64]) -> Self {
        Self::of(milliseconds.iter().map(|ms| seconds(*ms)))
    }

    /// Returns the spread of ratios of values of the same round.
    pub fn of_ratios(values: &[u64], others: &[u64]) -> Self {
        let pairs = values.iter().zip(others);
        Self::of(pairs.map(|(value, other)| seconds(*value) / seconds(*other)))
    }

    /// Serializes seconds as milliseconds.
    pub fn in_milliseconds<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { median, min, max } = *self;
        Self { median: median * 1e3, min: min * 1e3, max: max * 1e3 }.serialize(serializer)
    }

    /// Returns text such as "1.20 [1.10–1.35]".
    pub fn text(&self) -> String {
        format!("{:.2} [{:.2}–{:.2}]", self.median, self.min, self.max)
    }
}

/// Returns seconds. Less than a millisecond counts as one.
#[allow(clippy::cast_precision_loss)] // a span of time, for people
fn seconds(milliseconds: u64) -> f64 {
    milliseconds.max(1) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges_are_computed() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of([]), Spread::default());
        assert_eq!(Spread::of_seconds(&[1500, 500]).text(), "1.00 [0.50–1.50]");
    }

    #[test]
    fn ratios_compare_values_of_the_same_round() {
        // A slow second round slows both down: that is not the variant's fault.
        let ratios = Spread::of_ratios(&[100, 1000], &[200, 2000]);
        assert_eq!(ratios, Spread { median: 0.5, min: 0.5, max: 0.5 });
        assert_eq!(Spread::of_ratios(&[0], &[0]), Spread { median: 1.0, min: 1.0, max: 1.0 });
    }
}

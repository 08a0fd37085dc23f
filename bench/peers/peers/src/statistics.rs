//! Medians, spreads, and ratios of what ran in the same round.

use std::collections::BTreeMap;
use std::fmt;

/// One figure for each round in which it was measured.
pub type ByRound = BTreeMap<u32, f64>;

/// The middle and the ends of several measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// The spread of some values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { median, min, max })
    }
}

/// With two decimals, or as many as the format asks for.
impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let decimals = formatter.precision().unwrap_or(2);
        let Self { median, min, max } = self;
        write!(formatter, "{median:.decimals$} [{min:.decimals$}–{max:.decimals$}]")
    }
}

/// Ratios of two figures, of those rounds in which both were measured.
///
/// The machine's speed drifts over minutes. What ran a few seconds apart has met the same speed,
/// so the ratio of a pair is steadier than the ratio of two medians.
pub fn ratios(of: &ByRound, to: &ByRound) -> ByRound {
    of.iter().filter_map(|(round, of)| Some((*round, of / to.get(round)?))).collect()
}

/// Round by round, the figure that `choose` picks, of the rounds in which all were measured.
pub fn combine(all: &[&ByRound], choose: impl Fn(f64, f64) -> f64) -> ByRound {
    let Some((first, others)) = all.split_first() else {
        return ByRound::new();
    };
    let figure = |round: &u32, value: &f64| {
        others.iter().try_fold(*value, |value, other| Some(choose(value, *other.get(round)?)))
    };
    first.iter().filter_map(|(round, value)| Some((*round, figure(round, value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0]), Some(Spread { median: 3.0, min: 3.0, max: 3.0 }));
        assert_eq!(spread(&[9.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 9.0 }));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 9.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
        assert_eq!(spread(&[4.0, 1.25]).unwrap().to_string(), "2.62 [1.25–4.00]");
        assert_eq!(format!("{:.1}", spread(&[4.0, 1.5]).unwrap()), "2.8 [1.5–4.0]");
    }

    #[test]
    fn ratios_pair_what_ran_in_the_same_round() {
        let of = ByRound::from([(0, 1.0), (1, 3.0), (3, 5.0)]);
        let to = ByRound::from([(0, 2.0), (2, 7.0), (3, 5.0)]);
        assert_eq!(ratios(&of, &to), ByRound::from([(0, 0.5), (3, 1.0)]));
    }

    #[test]
    fn combining_needs_all_in_a_round() {
        let one = ByRound::from([(0, 1.0), (1, 3.0), (2, 5.0)]);
        let other = ByRound::from([(0, 2.0), (1, 2.0)]);
        assert_eq!(combine(&[&one, &other], f64::max), ByRound::from([(0, 2.0), (1, 3.0)]));
        assert_eq!(combine(&[&one, &other], f64::min), ByRound::from([(0, 1.0), (1, 2.0)]));
        assert_eq!(combine(&[], f64::min), ByRound::new());
    }
}

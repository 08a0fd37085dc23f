//! Cadence: when a job may start that nobody asked for.
//!
//! Beside a validator that writes an incremental archive every 40 seconds there would be no end of
//! jobs, and each of them writes a whole state.

use std::str::FromStr;

/// Seconds of a day.
pub const DAY_S: u64 = 24 * 60 * 60;

/// A part of each day, UTC. It may span midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First second of the day.
    from_s: u64,
    /// Second of the day at which it ends. Not greater than `from_s` if it spans midnight.
    to_s: u64,
}

/// The configured cadence of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cadence {
    /// Least number of slots from the newest result to the next one; 0 for any.
    pub min_slots: u64,
    /// Parts of the day in which jobs start; empty for all of it.
    pub windows: Vec<Window>,
    /// Most bytes written in a day; 0 for no limit.
    pub bytes_per_day: u64,
}

/// The numbers that the cadence is judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Slot of the newest result on disk.
    pub newest: Option<u64>,
    /// Bytes written today for the target.
    pub written_bytes: u64,
    /// Bytes that the next job will write, as far as is known: those of the newest result.
    pub expected_bytes: u64,
    /// Time in seconds since 1970, UTC.
    pub unix_s: u64,
}

/// Reason why no job starts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Archives of a slot below this one are too close to the newest result.
    Slots {
        /// First slot that is far enough away.
        from: u64,
    },
    /// The day's budget is used up.
    Budget {
        /// Seconds until the next day.
        seconds: u64,
    },
    /// No window is open.
    Window {
        /// Seconds until the next one opens.
        seconds: u64,
    },
}

impl Hold {
    /// Returns the seconds after which the hold ends by itself.
    pub fn seconds(&self) -> Option<u64> {
        match *self {
            Self::Slots { .. } => None,
            Self::Budget { seconds } | Self::Window { seconds } => Some(seconds),
        }
    }
}

impl Cadence {
    /// Returns the reason why no job for this slot may start now, if there is one.
    ///
    /// A job for a slot that is on disk already only checks the result, so its distance does not
    /// matter. A job that writes more than the whole budget starts on a day on which nothing has
    /// been written; otherwise it never would.
    pub fn hold(&self, slot: u64, usage: &Usage) -> Option<Hold> {
        let Usage { newest, written_bytes, expected_bytes, unix_s } = *usage;
        if let Some(newest) = newest
            && slot > newest
            && slot - newest < self.min_slots
        {
            return Some(Hold::Slots { from: newest.saturating_add(self.min_slots) });
        }
        let second = unix_s % DAY_S;
        let planned_bytes = written_bytes.saturating_add(expected_bytes);
        if self.bytes_per_day > 0
            && written_bytes > 0
            && (written_bytes >= self.bytes_per_day || planned_bytes > self.bytes_per_day)
        {
            return Some(Hold::Budget { seconds: DAY_S - second });
        }
        let seconds = self.windows.iter().map(|window| window.opens_in(second)).min()?;
        (seconds > 0).then_some(Hold::Window { seconds })
    }
}

impl Window {
    /// Returns the seconds until the window opens, at a second of the day; 0 while it is open.
    fn opens_in(&self, second: u64) -> u64 {
        let Self { from_s, to_s } = *self;
        let is_open = if from_s < to_s {
            (from_s..to_s).contains(&second)
        } else {
            second >= from_s || second < to_s
        };
        if is_open { 0 } else { (from_s + DAY_S - second) % DAY_S }
    }

    /// Parses windows separated by commas, such as "02:00-05:00,22:30-00:30".
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let windows = text.split(',').map(str::trim).filter(|window| !window.is_empty());
        windows.map(str::parse).collect()
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let second = |text: &str| {
            let (hours, minutes) = text.trim().split_once(':')?;
            let number = |text: &str| (text.len() == 2).then(|| text.parse::<u64>().ok()).flatten();
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let is_time = (hours < 24 && minutes < 60) || (hours == 24 && minutes == 0);
            is_time.then_some((hours * 60 + minutes) * 60)
        };
        let window = || {
            let (from, to) = text.split_once('-')?;
            let (from_s, to_s) = (second(from)?, second(to)?);
            (from_s != to_s && from_s < DAY_S).then_some(Self { from_s, to_s })
        };
        window().ok_or_else(|| {
            format!("\"{text}\" is no part of a day, such as 02:00-05:00 or 22:30-00:30 (UTC)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 20_000 * DAY_S + DAY_S / 2;

    fn at(unix_s: u64) -> Usage {
        Usage { unix_s, ..Usage::default() }
    }

    #[test]
    fn states_keep_their_distance_and_a_check_of_one_does_not_count() {
        let cadence = Cadence { min_slots: 100, ..Cadence::default() };
        let usage = Usage { newest: Some(1000), ..at(NOON) };
        assert_eq!(cadence.hold(1001, &usage), Some(Hold::Slots { from: 1100 }));
        assert_eq!(cadence.hold(1099, &usage), Some(Hold::Slots { from: 1100 }));
        assert_eq!(cadence.hold(1100, &usage), None);
        assert_eq!(cadence.hold(1000, &usage), None, "it is only checked");
        assert_eq!(cadence.hold(5, &at(NOON)), None, "the first one");
        assert_eq!(Cadence::default().hold(1001, &usage), None);
        assert_eq!(Hold::Slots { from: 1 }.seconds(), None);
    }

    #[test]
    fn jobs_start_inside_of_windows_only() {
        let windows = Window::parse_all("02:00-05:00, 14:00-15:00").unwrap();
        let cadence = Cadence { windows, ..Cadence::default() };
        let hold = |second| cadence.hold(1, &at(20_000 * DAY_S + second));
        let wait = |seconds| Some(Hold::Window { seconds });
        assert_eq!(hold(2 * 3600), None);
        assert_eq!(hold(5 * 3600 - 1), None);
        assert_eq!(hold(5 * 3600), wait(9 * 3600));
        assert_eq!(hold(14 * 3600 + 59), None);
        assert_eq!(hold(23 * 3600), wait(3 * 3600), "until the next day");
        let midnight =
            Cadence { windows: Window::parse_all("23:00-01:00").unwrap(), ..Cadence::default() };
        let hold = |second| midnight.hold(1, &at(20_000 * DAY_S + second));
        assert_eq!((hold(23 * 3600), hold(0), hold(3599)), (None, None, None));
        assert_eq!(hold(3600), wait(22 * 3600));
    }

    #[test]
    fn the_budget_of_a_day_holds_jobs_until_the_next() {
        let cadence = Cadence { bytes_per_day: 1000, ..Cadence::default() };
        let hold = |written_bytes, expected_bytes| {
            cadence.hold(1, &Usage { written_bytes, expected_bytes, ..at(NOON) })
        };
        let until_tomorrow = Hold::Budget { seconds: DAY_S / 2 };
        let tomorrow = Some(until_tomorrow);
        assert_eq!(hold(0, 5000), None, "larger than the budget, but the first of the day");
        assert_eq!(hold(400, 600), None);
        assert_eq!(hold(400, 601), tomorrow);
        assert_eq!(hold(1000, 0), tomorrow);
        assert_eq!(until_tomorrow.seconds(), Some(DAY_S / 2));
    }

    #[test]
    fn what_is_no_part_of_a_day_is_refused() {
        assert_eq!(Window::parse_all(" ").unwrap(), []);
        assert_eq!(Window::parse_all("00:00-24:00").unwrap().len(), 1);
        for text in ["2-5", "02:00", "02:00-02:00", "25:00-26:00", "02:60-03:00", "24:00-01:00"] {
            let error = Window::parse_all(text).unwrap_err();
            assert!(error.contains(text) && error.contains("02:00-05:00"), "{error}");
        }
    }
}

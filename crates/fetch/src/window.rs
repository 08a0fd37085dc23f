//! What is to be received, what has arrived, and what is passed on next: a plain state machine, under
//! the lock that all links share.

use std::collections::BTreeMap;

/// Consecutive bytes of the archive that one link receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset behind the last byte.
    pub end: u64,
}

/// An archive on its way. At most `most` bytes are given out and not yet passed on, so there is
/// memory for all of them, and links never wait for each other's.
#[derive(Debug)]
pub struct Window<T> {
    /// Length of the archive.
    total: u64,
    /// Most bytes that are given out and not passed on.
    most: u64,
    run: u64,
    /// Offset behind the last run.
    given: u64,
    /// Offset behind the last chunk passed on.
    passed: u64,
    /// Chunks that have arrived, by their offsets, with the offsets behind them.
    arrived: BTreeMap<u64, (u64, T)>,
}

impl<T> Window<T> {
    /// Creates the window of an archive whose bytes before `begin` have arrived already.
    pub fn new(begin: u64, total: u64, most: u64, run: u64) -> Self {
        Self { total, most, run, given: begin, passed: begin, arrived: BTreeMap::new() }
    }

    /// Gives out the next bytes to receive; `None` if there are none, or if the window is full.
    pub fn give(&mut self) -> Option<Run> {
        let end = (self.given + self.run).min(self.total).min(self.passed + self.most);
        let run = Run { first: self.given, end };
        // A short run because of the window would cost a request for a few bytes.
        let is_short = end < self.total && end < self.given + self.run;
        if end <= self.given || (is_short && self.given > self.passed) {
            return None;
        }
        self.given = end;
        Some(run)
    }

    /// A chunk has arrived.
    pub fn arrive(&mut self, first: u64, end: u64, chunk: T) {
        self.arrived.insert(first, (end, chunk));
    }

    /// Passes on the next chunk in the order of the archive, if it has arrived.
    pub fn pass(&mut self) -> Option<T> {
        let (end, chunk) = self.arrived.remove(&self.passed)?;
        self.passed = end;
        Some(chunk)
    }

    /// Returns whether nothing is left to be given out.
    pub fn is_given(&self) -> bool {
        self.given >= self.total
    }

    /// Returns whether everything was passed on.
    pub fn is_passed(&self) -> bool {
        self.passed >= self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_run_is_only_given_if_nothing_else_is_under_way() {
        let mut window = Window::new(10, 100, 30, 20);
        assert_eq!(window.give(), Some(Run { first: 10, end: 30 }));
        assert_eq!(window.give(), None);
        window.arrive(10, 30, 'a');
        assert_eq!(window.pass(), Some('a'));
        assert_eq!(window.give(), Some(Run { first: 30, end: 50 }));
        // A window that is smaller than a run.
        let mut window = Window::<()>::new(0, 100, 5, 20);
        assert_eq!(window.give(), Some(Run { first: 0, end: 5 }));
        assert_eq!(window.give(), None);
    }

    proptest! {
        /// Whatever the order of arrivals, every byte is passed on once, in order, the window is kept,
        /// and there is always a step to take.
        #[test]
        fn every_byte_is_passed_on_once(
            total in 0_u64..500,
            begin in 0_u64..100,
            window in 1_u64..100,
            run in 1_u64..100,
            chunk in 1_u64..40,
            choices in prop::collection::vec(0_usize..1000, 0..200),
        ) {
            let begin = begin.min(total);
            let mut machine = Window::new(begin, total, window, run);
            // Runs under way: what is left of each.
            let mut links: Vec<Run> = Vec::new();
            let mut passed = begin;
            let mut choices = choices.into_iter().chain(std::iter::repeat(0));
            while !machine.is_passed() {
                let choice = choices.next().unwrap();
                if choice % 3 == 0 && let Some(run) = machine.give() {
                    prop_assert!(run.end <= passed + window);
                    links.push(run);
                } else if choice % 3 == 1 && let Some((first, end)) = machine.pass() {
                    prop_assert_eq!(first, passed);
                    passed = end;
                } else if !links.is_empty() {
                    let index = choice % links.len();
                    let first = links[index].first;
                    let end = links[index].end.min(first + chunk);
                    machine.arrive(first, end, (first, end));
                    links[index].first = end;
                    links.retain(|run| run.first < run.end);
                } else if let Some((first, end)) = machine.pass() {
                    prop_assert_eq!(first, passed);
                    passed = end;
                } else {
                    let run = machine.give();
                    prop_assert!(run.is_some(), "nothing can be done");
                    links.extend(run);
                }
            }
            prop_assert_eq!(passed, total);
            prop_assert!(machine.is_given() && machine.give().is_none());
        }
    }
}

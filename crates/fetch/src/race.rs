//! Which of several servers is the fastest: a plain state machine, to which the clock is passed.

use std::time::Duration;

/// Rules of a race, and of leaving its winner later. All of them are guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contest {
    /// Longest time of the race, unless nobody has sent anything by then.
    pub time: Duration,
    /// Most bytes that each server sends in the race. Who has sent them first has won.
    pub bytes: u64,
    /// Time spent waiting for bytes after which a rate is known.
    pub judged_after: Duration,
    /// Time that beginning anew costs besides the bytes.
    pub restart: Duration,
    /// Shortest time between two measurements of another server. It doubles each time.
    pub measure_every: Duration,
    /// Most measurements of other servers while one archive is received.
    pub measurements: u32,
}

impl Default for Contest {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(3),
            // At 1 Gbit/s an eighth of a second: connections far away take some round trips to become
            // fast.
            bytes: 16 << 20,
            judged_after: Duration::from_secs(10),
            restart: Duration::from_secs(5),
            measure_every: Duration::from_secs(30),
            measurements: 5,
        }
    }
}

/// A race. Times are counted from its start.
#[derive(Debug)]
pub struct Race {
    contest: Contest,
    runners: Vec<Runner>,
    end: Option<End>,
}

/// The end of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// This server is the fastest.
    Won(usize),
    /// No server sends the archive.
    Lost,
}

#[derive(Clone, Debug, Default)]
struct Runner {
    bytes: u64,
    first: Option<Duration>,
    last: Duration,
    failed: bool,
}

impl Race {
    /// Starts a race of so many servers.
    pub fn new(servers: usize, contest: Contest) -> Self {
        Self { contest, runners: vec![Runner::default(); servers], end: None }
    }

    /// A server has sent so many bytes more; `all`: that was all that it is asked for.
    pub fn received(&mut self, server: usize, bytes: u64, all: bool, now: Duration) {
        let Some(runner) = self.runners.get_mut(server).filter(|_| self.end.is_none()) else {
            return;
        };
        runner.first.get_or_insert(now);
        runner.last = now;
        runner.bytes = runner.bytes.saturating_add(bytes);
        if all || runner.bytes >= self.contest.bytes {
            self.end = Some(End::Won(server));
        }
    }

    /// A server sends nothing more, and what it has sent does not count.
    pub fn failed(&mut self, server: usize) {
        if let Some(runner) = self.runners.get_mut(server).filter(|_| self.end.is_none()) {
            runner.failed = true;
        }
    }

    /// Returns whether a server has failed before the end.
    pub fn has_failed(&self, server: usize) -> bool {
        self.runners.get(server).is_none_or(|runner| runner.failed)
    }

    /// Returns the end of the race, if it has ended. That does not change any more.
    pub fn end(&mut self, now: Duration) -> Option<End> {
        if self.end.is_none() {
            let running = self.runners.iter().enumerate().filter(|(_, runner)| !runner.failed);
            // The first of several with as many bytes.
            let best = running.rev().max_by_key(|(_, runner)| runner.bytes);
            self.end = match best {
                None => Some(End::Lost),
                Some((server, runner)) if runner.bytes > 0 && now >= self.contest.time => {
                    Some(End::Won(server))
                }
                Some(_) => None,
            };
        }
        self.end
    }

    /// Returns the rate of a server in bytes per second, from its first bytes on; `None` if it has
    /// sent none, or has failed. `now` is the end of the race.
    pub fn rate(&self, server: usize, now: Duration) -> Option<u64> {
        let runner = self.runners.get(server).filter(|runner| !runner.failed)?;
        Some(rate(runner.bytes, now.max(runner.last).checked_sub(runner.first?)?))
    }
}

/// Returns bytes per second.
pub fn rate(bytes: u64, time: Duration) -> u64 {
    let micros = time.as_micros().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn contest() -> Contest {
        Contest { time: 100 * MS, bytes: 1000, ..Contest::default() }
    }

    #[test]
    fn who_has_sent_all_first_has_won() {
        let mut race = Race::new(2, contest());
        race.received(0, 900, false, MS);
        race.received(1, 1000, false, 2 * MS);
        race.received(0, 500, false, 3 * MS);
        assert_eq!(race.end(3 * MS), Some(End::Won(1)));
        // A small archive.
        let mut race = Race::new(2, contest());
        race.received(1, 3, true, MS);
        assert_eq!(race.end(MS), Some(End::Won(1)));
    }

    #[test]
    fn time_ends_a_race_only_if_somebody_has_sent_something() {
        let mut race = Race::new(3, contest());
        race.received(1, 20, false, MS);
        race.received(2, 10, false, MS);
        assert_eq!(race.end(99 * MS), None);
        assert_eq!(race.end(100 * MS), Some(End::Won(1)));
        assert_eq!((race.rate(0, 101 * MS), race.rate(2, 101 * MS)), (None, Some(100)));
        let mut race = Race::new(2, contest());
        race.failed(0);
        assert!(race.has_failed(0) && !race.has_failed(1));
        assert_eq!(race.end(500 * MS), None);
        race.received(1, 1, false, 501 * MS);
        assert_eq!(race.end(501 * MS), Some(End::Won(1)));
        let mut race = Race::new(1, contest());
        race.failed(0);
        assert_eq!(race.end(MS), Some(End::Lost));
        assert_eq!(Race::new(0, contest()).end(MS), Some(End::Lost));
    }

    proptest! {
        /// The winner never changes, has not failed, and nobody had sent more.
        #[test]
        fn a_race_has_one_winner_who_has_sent_most(
            servers in 1_usize..6,
            events in prop::collection::vec((0_usize..6, 0_u64..400, 0_u64..10), 0..80),
        ) {
            let mut race = Race::new(servers, contest());
            let mut sent = vec![Some(0_u64); servers];
            let (mut now, mut known) = (Duration::ZERO, None);
            for (server, bytes, wait) in events {
                now += MS * u32::try_from(wait).unwrap();
                let server = server % servers;
                if bytes < 20 {
                    race.failed(server);
                    if known.is_none() {
                        sent[server] = None;
                    }
                } else if let (Some(all), None) = (&mut sent[server], known) {
                    *all += bytes;
                    race.received(server, bytes, false, now);
                }
                let end = race.end(now);
                if known.is_some() {
                    prop_assert_eq!(end, known);
                }
                known = end;
                match end {
                    Some(End::Won(winner)) => {
                        let most = sent.iter().flatten().max().copied();
                        prop_assert_eq!(sent[winner], most);
                        prop_assert!(most > Some(0));
                    }
                    Some(End::Lost) => prop_assert!(sent.iter().all(Option::is_none)),
                    None => prop_assert!(sent.iter().flatten().all(|sent| *sent < 1000)),
                }
            }
        }
    }
}

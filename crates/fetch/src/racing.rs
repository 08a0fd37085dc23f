//! A race of several servers, each of which has an archive of the same name.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use unsnap_arena::PAGE_BYTES;

use crate::{
    Address, FetchError, FetchOptions, Remote,
    probe::{ask, connect},
    race::{Contest, End, Race},
    remote::{Answered, Begun, HEAD, HEAD_BYTES, answered},
    watch::{Rival, watch},
};

/// Most servers that run in one race: they share the line.
pub const RUNNERS_MAX: usize = 4;

/// Interval at which a race looks whether it has ended.
const CHECK: Duration = Duration::from_millis(20);

/// Longest time after the end in which the others are waited for. They look ten times a second.
const LINGER: Duration = Duration::from_millis(300);

/// Bytes that are received at once. A guess.
const STEP_BYTES: usize = 256 << 10;

/// A server in a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrant {
    /// Address of the archive.
    pub address: Address,
    /// How to fetch it.
    pub options: FetchOptions,
}

/// The end of a race that somebody has won.
pub struct Raced {
    /// Index of the winner.
    pub winner: usize,
    /// What the winner has sent.
    pub start: HeadStart,
    /// Rates in bytes per second; `None` for who has sent nothing by then.
    pub rates: Vec<Option<u64>>,
    /// Who has failed.
    pub failed: Vec<bool>,
}

/// The beginning of an archive that was received in a race, and the servers that have lost it.
pub struct HeadStart {
    begun: Begun,
    rivals: Vec<Rival>,
    contest: Contest,
}

impl HeadStart {
    /// Returns the number of other servers to which the run can go if the winner becomes slow: those that
    /// had sent their first bytes when the race ended.
    pub fn rivals(&self) -> usize {
        self.rivals.len()
    }
}

/// What the runners share.
struct Field {
    race: Mutex<Race>,
    started: Instant,
    /// The race was called off.
    is_off: AtomicBool,
}

impl Field {
    fn end(&self) -> Option<End> {
        let now = self.started.elapsed();
        self.race.lock().unwrap_or_else(PoisonError::into_inner).end(now)
    }

    fn received(&self, server: usize, bytes: u64, all: bool) {
        let now = self.started.elapsed();
        self.race.lock().unwrap_or_else(PoisonError::into_inner).received(server, bytes, all, now);
    }

    /// A server sends nothing more. Returns whether it has lost the race by that.
    fn failed(&self, server: usize) -> bool {
        let now = self.started.elapsed();
        let mut race = self.race.lock().unwrap_or_else(PoisonError::into_inner);
        race.failed(server);
        !matches!(race.end(now), Some(End::Won(_)))
    }

    fn is_over(&self) -> bool {
        self.is_off.load(Ordering::Relaxed) || self.end().is_some()
    }
}

/// Ends the runners, however the race ends.
struct FieldGuard<'a>(&'a Field);

impl Drop for FieldGuard<'_> {
    fn drop(&mut self) {
        self.0.is_off.store(true, Ordering::Relaxed);
    }
}

impl Remote {
    /// Lets the first few of these servers send the beginning of the archive at the same time, and
    /// keeps what the fastest has sent.
    ///
    /// # Errors
    ///
    /// The first server's error, if all of them fail.
    pub fn race(
        entrants: &[Entrant],
        contest: Contest,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Raced, FetchError> {
        let entrants = &entrants[..entrants.len().min(RUNNERS_MAX)];
        let field = Arc::new(Field {
            race: Mutex::new(Race::new(entrants.len(), contest)),
            started: Instant::now(),
            is_off: AtomicBool::new(false),
        });
        let _guard = FieldGuard(&field);
        let (tell, told) = channel();
        for (index, entrant) in entrants.iter().enumerate() {
            start(index, entrant.clone(), &field, contest, tell.clone())?;
        }
        drop(tell);
        let mut beginnings: Vec<Option<Begun>> = entrants.iter().map(|_| None).collect();
        let (winner, ended) = follow(&field, &told, &mut beginnings, cancelled)?;
        let race = field.race.lock().unwrap_or_else(PoisonError::into_inner);
        let rates: Vec<_> = (0..entrants.len()).map(|index| race.rate(index, ended)).collect();
        let failed = (0..entrants.len()).map(|index| race.has_failed(index)).collect();
        drop(race);
        let mut begun = None;
        let mut rivals = Vec::new();
        for (index, (beginning, rate)) in beginnings.into_iter().zip(&rates).enumerate() {
            match beginning {
                Some(beginning) if index == winner => begun = Some(beginning),
                Some(Begun { site, has_ranges, identity, .. }) => {
                    rivals.push(Rival { site, has_ranges, bytes: identity.bytes, rate: *rate });
                }
                None => {}
            }
        }
        let start = HeadStart { begun: begun.ok_or_else(vanished)?, rivals, contest };
        Ok(Raced { winner, start, rates, failed })
    }

    /// Goes on with what the winner of a race has sent. While the archive is received, the others are
    /// remembered: the transfer fails ([`FetchError::Outpaced`]) when beginning anew there pays.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub fn open_raced(start: HeadStart, options: &FetchOptions) -> Result<Self, FetchError> {
        let HeadStart { begun, rivals, contest } = start;
        let came = (begun.site.head.len() + begun.early.len()) as u64;
        let remote = Self::go_on(begun, options)?;
        if came < remote.identity.bytes && !rivals.is_empty() {
            watch(&remote, came, rivals, contest, options)?;
        }
        Ok(remote)
    }
}

/// Waits for the end of the race, and a moment for what the others have received. Returns the winner,
/// and when it had won.
fn follow(
    field: &Field,
    told: &Receiver<(usize, Result<Begun, FetchError>)>,
    beginnings: &mut [Option<Begun>],
    cancelled: &dyn Fn() -> bool,
) -> Result<(usize, Duration), FetchError> {
    let (mut won, mut first_error, mut running) = (None, None, beginnings.len());
    loop {
        if cancelled() {
            return Err(FetchError::Cancelled);
        }
        let now = field.started.elapsed();
        if let Some(End::Won(winner)) = field.end() {
            let (winner, ended) = *won.get_or_insert((winner, now));
            let waits = running > 0 && now < ended + LINGER;
            if beginnings[winner].is_some() && !waits {
                return Ok((winner, ended));
            }
        } else if running == 0 {
            return Err(first_error.unwrap_or_else(vanished));
        }
        match told.recv_timeout(CHECK) {
            Ok((index, result)) => {
                running -= 1;
                match result {
                    Ok(begun) => beginnings[index] = Some(begun),
                    Err(error) => {
                        tracing::info!(%error, "a peer takes no part in the race");
                        first_error.get_or_insert(error);
                    }
                }
            }
            // Somebody has panicked.
            Err(RecvTimeoutError::Disconnected) if running > 0 => return Err(vanished()),
            Err(_) => {}
        }
    }
}

fn vanished() -> FetchError {
    FetchError::Thread { reason: "a server of a race has vanished".to_owned() }
}

/// Starts a runner.
fn start(
    index: usize,
    entrant: Entrant,
    field: &Arc<Field>,
    contest: Contest,
    tell: Sender<(usize, Result<Begun, FetchError>)>,
) -> Result<(), FetchError> {
    let field = Arc::clone(field);
    let work = move || {
        let begun = run(index, &entrant, &field, contest);
        if begun.is_err() {
            field.failed(index);
        }
        // Nobody waits for one that is late.
        let _ = tell.send((index, begun));
    };
    let started = thread::Builder::new().name("unsnap-race".to_owned()).spawn(work);
    started.map(drop).map_err(|error| FetchError::Thread { reason: error.to_string() })
}

/// Receives the beginning of the archive, until the race has ended.
fn run(
    index: usize,
    entrant: &Entrant,
    field: &Field,
    contest: Contest,
) -> Result<Begun, FetchError> {
    let over = || field.is_over();
    let Answered { mut site, body, mut connection, .. } =
        answered(&entrant.address, &entrant.options, HEAD, &over)?;
    let total = body.identity.bytes;
    let head_bytes = usize::try_from(body.bytes.min(HEAD_BYTES)).unwrap_or_default();
    let mut head = vec![0; head_bytes];
    let mut filled = 0;
    while filled < head_bytes {
        let into = &mut head[filled..];
        filled += connection.receive(into, filled as u64, &site.patience, &over)?;
    }
    site.head = head;
    let pages = contest.bytes - contest.bytes % PAGE_BYTES as u64;
    let most = total.min(pages.max(head_bytes as u64));
    let has_ranges = body.is_part();
    if has_ranges && most > head_bytes as u64 {
        if !body.keeps {
            connection = connect(&site, &over)?;
        }
        ask(&site, &body.identity, &mut connection, head_bytes as u64..most, &over)?;
    }
    let more = usize::try_from(most).unwrap_or(usize::MAX) - head_bytes;
    field.received(index, head_bytes as u64, more == 0);
    let (mut early, mut is_intact) = (Vec::new(), true);
    while early.len() < more && is_intact && !field.is_over() {
        let filled = early.len();
        early.resize((filled + STEP_BYTES).min(more), 0);
        let at = (head_bytes + filled) as u64;
        match connection.receive(&mut early[filled..], at, &site.patience, &over) {
            Ok(count) => {
                early.truncate(filled + count);
                field.received(index, count as u64, early.len() == more);
            }
            Err(error) => {
                early.truncate(filled);
                // What has come counts if this server has just won.
                if field.failed(index) {
                    return Err(error);
                }
                is_intact = matches!(error, FetchError::Cancelled);
            }
        }
    }
    let keeps = if has_ranges { early.len() == more && body.keeps } else { true };
    if total > (head_bytes + early.len()) as u64 {
        // Later bytes begin with a page.
        let rest = early.split_off(early.len() - early.len() % PAGE_BYTES);
        if !has_ranges {
            connection.give_back(rest);
        }
    }
    let connection = (keeps && is_intact).then_some(connection);
    Ok(Begun { site, identity: body.identity, has_ranges, early, connection })
}

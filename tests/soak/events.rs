//! What may happen, and how often.

use std::env;

use unsnap_testkit::random::Random;

/// Something that happens to a machine. After each the validator is brought up again if it is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The validator writes a full archive.
    Full,
    /// The validator writes an incremental archive.
    Incremental,
    /// The validator writes a storage anew.
    Shrink,
    /// The validator removes a storage.
    Delete,
    /// `agave-validator exit`.
    Exit,
    /// SIGTERM.
    Stop,
    /// SIGKILL.
    Kill,
    /// The validator aborts.
    Abort,
    /// The validator is killed while it writes its bank, so that the directory is incomplete.
    TornBank,
    /// The validator panics in its next start, by a bug of its own.
    FailingStart,
    /// It does so again and again.
    FailingStarts,
    /// The front end, or what has become of it, is killed at a random moment of the start.
    KillStarting,
    /// It is sent SIGTERM.
    StopStarting,
    /// It is sent SIGUSR1, the signal of log rotations, while it prepares.
    RotateStarting,
    /// Two starts at once.
    TwoStarts,
    /// The next start is one without the front end.
    PlainStart,
    /// An archive is cut.
    CutArchive,
    /// Renamed archives are removed.
    RemoveBad,
    /// A state is prepared beside the running validator.
    PrepareBeside,
    /// A byte of a storage in `run` changes while no validator runs.
    FlipRun,
    /// A byte of a storage that lies ready changes.
    FlipReady,
    /// The disk is filled by somebody else.
    FillDisk,
    /// The disk is filled up to `min-free`, but for less than a state, and a newer full archive comes.
    CrowdDisk,
    /// The disk has room again.
    FreeDisk,
    /// `unpackd` is started, or stopped.
    Service,
    /// `unpackd` is killed, and started again.
    KillService,
    /// The configuration of `unpackd` changes, for the better or the worse.
    Reconfigure,
    /// Nothing happens until `unpackd` has nothing to do.
    Settle,
}

/// How often each of them happens.
const WEIGHTS: [(Event, u64); 28] = [
    (Event::Full, 6),
    (Event::Incremental, 16),
    (Event::Shrink, 8),
    (Event::Delete, 5),
    (Event::Exit, 7),
    (Event::Stop, 7),
    (Event::Kill, 12),
    (Event::Abort, 4),
    (Event::TornBank, 3),
    (Event::FailingStart, 4),
    (Event::FailingStarts, 2),
    (Event::KillStarting, 10),
    (Event::StopStarting, 5),
    (Event::RotateStarting, 1),
    (Event::TwoStarts, 5),
    (Event::PlainStart, 3),
    (Event::CutArchive, 6),
    (Event::RemoveBad, 2),
    (Event::PrepareBeside, 10),
    (Event::FlipRun, 3),
    (Event::FlipReady, 3),
    (Event::FillDisk, 3),
    (Event::CrowdDisk, 2),
    (Event::FreeDisk, 4),
    (Event::Service, 4),
    (Event::KillService, 4),
    (Event::Reconfigure, 3),
    (Event::Settle, 4),
];

/// How often an event happens that is asked for.
const ASKED_FOR: u64 = 12;

/// The events that may happen.
#[derive(Clone, Debug)]
pub struct Choice(Vec<(Event, u64)>);

impl Choice {
    /// All events. Those of `UNSNAP_SOAK_WITH=<event>,<event>` happen more often, so that a few show
    /// what they do.
    pub fn new() -> Self {
        let with = env::var("UNSNAP_SOAK_WITH").unwrap_or_default();
        let weight = |(event, weight): (Event, u64)| {
            let is_asked_for = with.split(',').any(|name| name == format!("{event:?}"));
            (event, if is_asked_for { weight.max(ASKED_FOR) } else { weight })
        };
        Self(WEIGHTS.into_iter().map(weight).collect())
    }

    /// Returns one of them.
    pub fn pick(&self, random: &mut Random) -> Event {
        let mut at = random.below(self.0.iter().map(|(_, weight)| weight).sum());
        for (event, weight) in &self.0 {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return *event,
            }
        }
        unreachable!("the number is below the sum")
    }
}

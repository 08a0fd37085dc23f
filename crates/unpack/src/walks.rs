//! The walks of a run: one for each archive, at the same time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use unsnap_commit::{Checkpoints, Journal, Manifest, Origin};
use unsnap_decode::Decoded;
use unsnap_failure::{Failure, Family};
use unsnap_fit::Watch;
use unsnap_pass::{Archive, BankCheck, Handles, PassError, Tap, Walk};
use unsnap_state::{StateNames, StatePlaces};
use unsnap_tarstream::Walker;

use crate::{
    Options, UnpackError,
    creating::Creation,
    places::{BegunPlaces, Places, Spread},
    resume::Beginning,
    storages::{AccountsVerification, StorageCheck},
    walk::{Content, Entries, Hooks, Met, Record, VersionFile, Walked},
};

/// The prepared walks of a run.
pub(crate) struct Walks<'a> {
    options: &'a Options,
    handles: &'a Handles,
    /// Number of threads that decode the first archive.
    decode_threads: usize,
    /// Beginning of the first archive's walk. Others cannot be resumed.
    beginning: Beginning,
    /// Checkpoints of the first archive's walk.
    pub checkpoints: Option<&'a mut Checkpoints>,
    /// Listener to the first archive's stream.
    tap: Option<&'a mut dyn Tap>,
}

impl<'a> Walks<'a> {
    pub fn new(
        options: &'a Options,
        handles: &'a Handles,
        decode_threads: usize,
        beginning: Beginning,
        tap: Option<&'a mut dyn Tap>,
    ) -> Self {
        Self { options, handles, decode_threads, beginning, checkpoints: None, tap }
    }

    /// Takes the journal and the origin, which recording the progress needs.
    pub fn take_journal(&mut self) -> (Option<Journal>, Option<Origin>) {
        (self.beginning.journal.take(), self.beginning.origin.take())
    }

    /// Walks all archives to their ends and passes every payload to the assemblers of `creation`,
    /// if files are written. If a walk fails, calls `stop` to end the others and returns its error.
    pub fn run(
        self,
        decoded: &mut [Decoded],
        creation: &mut Option<Creation>,
        mut manifest: Option<&mut Manifest>,
        watch: Option<&Watch>,
        stop: &(dyn Fn() + Sync),
        verification: Option<&AccountsVerification>,
    ) -> Result<Vec<Walked>, UnpackError> {
        let Self { options, handles, decode_threads, beginning, mut checkpoints, mut tap } = self;
        let Handles { progress, cancel } = handles;
        let (archives, source) = (options.archives(), options.source());
        let (limits, tuning) = (&options.pass.limits, &options.pass.tuning);
        let names: Vec<String> = archives.iter().map(Archive::display_name).collect();
        let spread = creation.as_ref().and_then(|creation| creation.spread.clone());
        let mut assemblers = creation.as_mut().map(|creation| creation.assemblers.iter_mut());
        let Beginning { decode, header_offset, rules, places, met, .. } = beginning;
        let mut begun = Some((rules, places, met));
        let mut walks = Vec::with_capacity(archives.len());
        for (index, decoded) in decoded.iter_mut().enumerate() {
            let (archive, is_first) = (&archives[index], index == 0);
            let header_offset = if is_first { header_offset } else { 0 };
            let (rules, places, met) = begun.take().unwrap_or_else(|| {
                let names = StateNames::new(index, archives.len());
                let places = BegunPlaces::State { names, storages: Vec::new() };
                (options.rules(index), places, Met::default())
            });
            let places = match (places, &spread) {
                (BegunPlaces::State { names, storages }, Some(spread)) => {
                    Places::State(StatePlaces::new(names, storages, Arc::clone(spread)))
                }
                (BegunPlaces::Tree(tree), _) => Places::Tree(tree),
                // Nothing is written.
                (BegunPlaces::State { .. }, None) => Places::Tree(Spread::default()),
            };
            let checked_name = archive.snapshot_name().filter(|_| source.checks_content());
            let (storages, placements) = match verification {
                Some(verification) => {
                    let (storages, placements) = verification.stream();
                    (storages, Some(placements))
                }
                None if source.checks_content() => {
                    let threads = if is_first { decode_threads } else { 1 };
                    (StorageCheck::structure(threads)?, None)
                }
                None => (StorageCheck::Nothing, None),
            };
            let name = &names[index];
            let bank = BankCheck::new(name.clone(), checked_name);
            let version = VersionFile::default();
            let walk = Walk {
                archive: name,
                decoded,
                walker: Walker::resume(limits.tar, header_offset, met.entries),
                skip: if is_first { header_offset - decode.raw_offset } else { 0 },
                progress,
                cancel,
            };
            let entries = Entries {
                archive: name,
                rules,
                places,
                met,
                content: Content { version, bank, storages, placements },
                record: Record {
                    checkpoints: if is_first { checkpoints.take() } else { None },
                    manifest: if is_first { manifest.take() } else { None },
                },
                files: assemblers.as_mut().and_then(Iterator::next),
                progress,
                watch,
                // A shorter borrow of the same value.
                tap: tap.take().filter(|_| is_first).map(|tap| tap as &mut dyn Tap),
                hooks: Hooks {
                    stop_after: tuning.stop_after_bytes,
                    compromised: tuning.compromised.clone().filter(|_| is_first),
                },
            };
            walks.push((walk, entries));
        }
        side_by_side(walks, options.resumes(), stop)
    }
}

/// Keeps the first error. An error that only follows from another walk's failure is replaced by the
/// cause, which that walk may report a moment later.
fn keep_cause(kept: &mut Option<UnpackError>, error: UnpackError) {
    match kept {
        Some(first) if !first.is_consequence() || error.is_consequence() => {}
        _ => *kept = Some(error),
    }
}

/// Walks each archive on a thread of its own, the first on this one. With `resumes`, a walk that fails
/// waits for the files before, unless its archive is bad. `stop` ends all walks.
fn side_by_side(
    walks: Vec<(Walk<'_>, Entries<'_>)>,
    resumes: bool,
    stop: &(dyn Fn() + Sync),
) -> Result<Vec<Walked>, UnpackError> {
    let first_error: Mutex<Option<UnpackError>> = Mutex::new(None);
    let fail = |error| {
        keep_cause(&mut first_error.lock().unwrap_or_else(PoisonError::into_inner), error);
        stop();
    };
    let one = |(walk, mut entries): (Walk<'_>, Entries<'_>)| {
        let walked = walk.run(&mut entries);
        let walked = entries.settle_checks().and(walked);
        if let Err(error) = walked {
            let settles = resumes && error.family() != Family::BadArchive;
            let settled = if settles { entries.settle() } else { Ok(()) };
            fail(error);
            let _ = settled.map_err(fail);
            return None;
        }
        entries.finish().map_err(fail).ok()
    };
    let mut walks = walks.into_iter();
    let walked = thread::scope(|scope| {
        let first = walks.next();
        let started: Vec<_> = walks
            .map(|walk| {
                let thread = thread::Builder::new().name("unsnap-walk-1".to_owned());
                thread
                    .spawn_scoped(scope, || one(walk))
                    .map_err(|error| fail(PassError::thread(error).into()))
            })
            .collect();
        let first = first.and_then(one);
        let others = started.into_iter().map(|started| match started {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(()) => None,
        });
        std::iter::once(first).chain(others).collect::<Option<Vec<_>>>()
    });
    match (walked, first_error.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        (Some(walked), None) => Ok(walked),
        (_, Some(error)) => Err(error),
        // Cannot happen: a walk that did not reach the end has returned an error.
        (None, None) => Err(UnpackError::CANCELLED),
    }
}

#[cfg(test)]
mod tests {
    use unsnap_commit::CommitError;
    use unsnap_create::CreateError;

    use super::*;

    /// The creators report an error to the walk that asks first. The other walk may return first.
    #[test]
    fn a_cause_is_kept_in_any_order() {
        let consequence = || UnpackError::from(CreateError::consequence());
        let cause = || {
            let path = "here".into();
            UnpackError::Commit(CommitError::NotClean { path, reason: "is the cause" })
        };
        for errors in
            [vec![consequence(), cause(), UnpackError::CANCELLED], vec![cause(), consequence()]]
        {
            let mut kept = None;
            for error in errors {
                keep_cause(&mut kept, error);
            }
            assert!(
                matches!(kept, Some(UnpackError::Commit(CommitError::NotClean { .. }))),
                "{kept:?}"
            );
        }
        let mut kept = None;
        keep_cause(&mut kept, consequence());
        keep_cause(&mut kept, consequence());
        assert!(kept.is_some());
    }
}

//! The walks of a run: one for each archive, side by side.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use unsnap_create::Assembler;
use unsnap_decode::Decoded;
use unsnap_tarstream::Walker;

use crate::{
    CancelToken, Config, Error, Progress,
    bank::BankCheck,
    checkpoints::{Checkpoints, Origin},
    content::{AccountsVerification, ContentCheck},
    journal::Journal,
    manifest::Manifest,
    pipeline::no_thread,
    places::{Places, Spread, StatePlaces},
    resume::Beginning,
    stages::{Creation, archive_name, layout},
    tap::Tap,
    walk::{Met, Walk, Walked},
    watch::Watch,
};

/// The walks of a run, made ready.
pub(crate) struct Walks<'a> {
    config: &'a Config,
    progress: &'a Progress,
    cancel: &'a CancelToken,
    /// Where the first archive's begins; of others there is nothing to resume.
    beginning: Beginning,
    /// What is recorded of the first archive's.
    pub checkpoints: Option<Checkpoints>,
    /// Listens to the first archive.
    tap: Option<&'a mut dyn Tap>,
}

impl<'a> Walks<'a> {
    pub fn new(
        config: &'a Config,
        progress: &'a Progress,
        cancel: &'a CancelToken,
        beginning: Beginning,
        tap: Option<&'a mut dyn Tap>,
    ) -> Self {
        Self { config, progress, cancel, beginning, checkpoints: None, tap }
    }

    /// Takes out what is needed to write down how far they are.
    pub fn take_journal(&mut self) -> (Option<Journal>, Option<Origin>) {
        (self.beginning.journal.take(), self.beginning.origin.take())
    }

    /// Walks all archives to their ends, and hands every payload on to the assemblers of `creation`,
    /// or to nobody in a dry run. If one fails the others are stopped, by `stop`, and its error is the
    /// one that is told.
    pub fn run(
        self,
        decoded: &mut [Decoded],
        creation: &mut Option<Creation>,
        mut manifest: Option<&mut Manifest>,
        watch: Option<&Watch>,
        stop: &(dyn Fn() + Sync),
        verification: Option<&AccountsVerification>,
    ) -> Result<Vec<Walked>, Error> {
        let Self { config, progress, cancel, beginning, mut checkpoints, mut tap } = self;
        let archives = config.archives();
        let names: Vec<String> = archives.iter().map(|archive| archive.display_name()).collect();
        let spread = creation.as_ref().and_then(|creation| creation.spread.clone());
        let mut assemblers = creation.as_mut().map(|creation| creation.assemblers.iter_mut());
        let Beginning { decode, header_offset, layout: begun, spread: tree, met, .. } = beginning;
        let mut begun = Some((begun, tree, met));
        let mut walks = Vec::with_capacity(archives.len());
        for (index, decoded) in decoded.iter_mut().enumerate() {
            let first = begun.take();
            let header_offset = if index == 0 { header_offset } else { 0 };
            let (layout, tree, met) = first.unwrap_or_else(|| {
                (layout(config, archives[index]), Spread::default(), Met::default())
            });
            let places = match &spread {
                Some(spread) => {
                    Places::State(StatePlaces::new(index, archives.len(), Arc::clone(spread)))
                }
                None => Places::Tree(tree),
            };
            let name = archive_name(archives[index]).filter(|_| config.checks_content());
            let (content, placements) = match verification {
                Some(verification) => {
                    let (content, placements) = verification.stream();
                    (content, Some(placements))
                }
                None if config.checks_content() => (ContentCheck::Structure(None), None),
                None => (ContentCheck::Nothing, None),
            };
            let walk = Walk {
                archive: &names[index],
                decoded,
                walker: Walker::resume(config.limits.tar, header_offset, met.entries),
                layout,
                places,
                bank: BankCheck::new(names[index].clone(), name),
                content,
                placements,
                met,
                skip: if index == 0 { header_offset - decode.raw_offset } else { 0 },
                checkpoints: if index == 0 { checkpoints.take() } else { None },
                manifest: if index == 0 { manifest.take() } else { None },
                progress,
                cancel,
                stop_after: config.tuning.stop_after_bytes,
                compromised: config.tuning.compromised.clone().filter(|_| index == 0),
                watch,
                // A shorter borrow of the same.
                tap: tap.take().filter(|_| index == 0).map(|tap| tap as &mut dyn Tap),
            };
            walks.push((walk, assemblers.as_mut().and_then(Iterator::next)));
        }
        side_by_side(walks, stop)
    }
}

/// Keeps the first error, but one that only says that another walk has met something: that walk may
/// tell it a moment later.
fn keep_cause(kept: &mut Option<Error>, error: Error) {
    let is_consequence =
        |error: &Error| matches!(error, Error::Create(error) if error.is_consequence());
    match kept {
        Some(first) if !is_consequence(first) || is_consequence(&error) => {}
        _ => *kept = Some(error),
    }
}

/// Walks each archive by a thread of its own, the first by this one. `stop`: ends all of them.
fn side_by_side(
    walks: Vec<(Walk<'_>, Option<&mut Assembler>)>,
    stop: &(dyn Fn() + Sync),
) -> Result<Vec<Walked>, Error> {
    let first_error: Mutex<Option<Error>> = Mutex::new(None);
    let fail = |error| {
        keep_cause(&mut first_error.lock().unwrap_or_else(PoisonError::into_inner), error);
        stop();
    };
    let one =
        |(walk, files): (Walk<'_>, Option<&mut Assembler>)| walk.run(files).map_err(fail).ok();
    let mut walks = walks.into_iter();
    let walked = thread::scope(|scope| {
        let first = walks.next();
        let started: Vec<_> = walks
            .map(|walk| {
                let thread = thread::Builder::new().name("unsnap-walk-1".to_owned());
                thread.spawn_scoped(scope, || one(walk)).map_err(|error| fail(no_thread(&error)))
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
        // Cannot happen: who has not walked to the end has said why.
        (None, None) => Err(Error::Cancelled),
    }
}

#[cfg(test)]
mod tests {
    use unsnap_create::CreateError;

    use super::*;

    /// The creators tell what went wrong to the walk that asks first. The other may be the first to
    /// say that something did.
    #[test]
    fn a_cause_is_kept_whoever_comes_first() {
        let consequence = || Error::Create(CreateError::consequence());
        let cause = || Error::NotClean { path: "here".into(), reason: "is the cause" };
        for errors in [vec![consequence(), cause(), Error::Cancelled], vec![cause(), consequence()]]
        {
            let mut kept = None;
            for error in errors {
                keep_cause(&mut kept, error);
            }
            assert!(matches!(kept, Some(Error::NotClean { .. })), "{kept:?}");
        }
        let mut kept = None;
        keep_cause(&mut kept, consequence());
        keep_cause(&mut kept, consequence());
        assert!(kept.is_some());
    }
}

//! A check of the archives that a validator is about to unpack.

use unsnap_failure::{Failure, Family};
use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;
use unsnap_unpack::{CheckOutputs, Options, Source, Unpacker, Verify};

use crate::{
    Candidates, FastbootError, FileIdentity, Pair, Request,
    bad_archives::BadArchives,
    blamed,
    prepare::{archives, suspect},
    request::Work,
};

/// Checks the newest archives to the end, with their accounts, and writes nothing. Bad ones are
/// renamed, and the next best ones checked, until a pair is good.
///
/// For a validator that is to unpack them because validators have ended early with the state that
/// they hold. Returns that error, or that of the first bad archive, or why they cannot be checked.
pub fn check_newest(
    request: &Request,
    calls: &Syscalls,
    progress: &Progress,
    cancel: &CancelToken,
) -> FastbootError {
    let work = Work { request, calls, progress, cancel };
    work.check_newest().unwrap_or_else(|error| error)
}

impl Work<'_> {
    fn check_newest(&self) -> Result<FastbootError, FastbootError> {
        let (places, _lock) = self.request.places.settle_locked()?;
        let mut candidates = Candidates::find(&places.search_dirs())?;
        let mut bad = BadArchives::new(&self.request.known_bad, places.search_dirs());
        for path in bad.paths() {
            candidates.set_aside(path);
        }
        while let Some(pair) = candidates.best() {
            let files = FileIdentity::of_all(pair.archives().map(|archive| &*archive.path));
            match self.check(&pair) {
                Ok(()) => {
                    bad.rename(self.calls);
                    return Ok(bad.into_first_error().unwrap_or_else(|| suspect(&pair)));
                }
                Err(error) if error.family() == Family::BadArchive => {
                    let archive = blamed(&pair, &error).path.clone();
                    tracing::warn!(archive = %archive.display(), %error, "the archive is bad");
                    candidates.set_aside(&archive);
                    bad.add(archive, &files, error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(bad.into_first_error().unwrap_or_else(|| FastbootError::NoArchive {
            full: places.full_archives.clone(),
            incremental: places.incremental_archives.clone(),
        }))
    }

    fn check(&self, pair: &Pair) -> Result<(), FastbootError> {
        let verify = match self.request.verify {
            Verify::None | Verify::Structure => Verify::Accounts { memory_bytes: None },
            asked @ Verify::Accounts { .. } => asked,
        };
        let source = Source::pair(archives(pair)?, verify);
        let options = Options::check(source, CheckOutputs::default());
        let options = options.with_pass(self.request.pass.clone());
        Unpacker::new(options).with_handles(self.handles()).run()?;
        Ok(())
    }
}

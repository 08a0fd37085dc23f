//! Preparation of a state from the newest good pair of archives.

use std::path::{Path, PathBuf};

use unsnap_failure::{Code, Failure, Family, Remedy};
use unsnap_lookup::Reader;
use unsnap_pass::{Archive, PassError, on_a_thread_of_its_own};
use unsnap_source::DigestKind;
use unsnap_state::State;
use unsnap_unpack::{Options, Report, Room, TeeTo, UnpackError, Unpacker, Upon, Verify};

use crate::{
    Attempts, Candidate, FastbootError, FileIdentity, Outcome, Pair, Places, Prepared,
    bad_archives::BadArchives,
    base, blamed,
    clear::enough_to_clear,
    cluster::Cluster,
    removal::{Removal, Remover},
    request::Work,
    returned_space::await_space,
};

/// The site of a new state: the validator's own directories, or those of a ready state.
pub(crate) trait Site {
    /// Returns the directories that the new state goes to.
    fn target(&self) -> &Places;

    /// Returns the checks of the archives.
    fn verify(&self) -> Verify;

    /// Returns whether an interrupted run is continued.
    fn resumes(&self) -> bool;

    /// Returns the outcome if a state as new as a pair of archives exists already. Bad archives are
    /// renamed first, so that a validator does not choose them over that state.
    fn existing(
        &mut self,
        pair: &Pair,
        bad: &mut BadArchives,
    ) -> Result<Option<Outcome>, FastbootError>;

    /// Gets ready to unpack a pair whose bank files match their names. Touches no state.
    fn begin(&mut self) -> Result<(), FastbootError>;

    /// Returns the old files that can be cleared for the new state.
    fn to_clear(&self) -> Result<Vec<PathBuf>, FastbootError>;

    /// Moves old states aside: those in the way of the new one, or with `all` those that take its
    /// space.
    fn clear(&mut self, all: bool) -> Result<Removal, FastbootError>;

    /// Starts to remove files that were moved aside.
    fn start_removal(&self, removal: Removal) -> Remover;

    /// Brings the state of a slot, which is complete and durable in the target, to its place.
    /// Returns its directory there, and what was moved aside for it.
    fn finish(
        &mut self,
        slot: u64,
        report: &mut Report,
    ) -> Result<(PathBuf, Removal), FastbootError>;
}

/// Returns the archives of a pair.
pub(crate) fn archives(pair: &Pair) -> Result<unsnap_unpack::Pair<Archive>, PassError> {
    let incremental = pair.incremental().map(Candidate::archive);
    Ok(unsnap_unpack::Pair::new(pair.full().archive(), incremental)?)
}

impl Work<'_> {
    /// Tries the pairs of archives in `places`, best first, until a state as new as one of them
    /// exists or has been unpacked.
    pub fn prepare_newest(
        &self,
        places: &Places,
        site: &mut impl Site,
    ) -> Result<Outcome, FastbootError> {
        let mut candidates = self.candidates(&places.search_dirs())?;
        let mut bad = BadArchives::new(&self.request.known_bad, places.search_dirs());
        for path in bad.paths() {
            candidates.set_aside(path);
        }
        let mut offer_failed = None;
        while let Some(pair) = candidates.best() {
            // Checked for every pair: an archive may prove bad after old states have been cleared.
            if let Some(outcome) = site.existing(&pair, &mut bad)? {
                return Ok(outcome);
            }
            let files = FileIdentity::of_all(pair.archives().map(|archive| &*archive.path));
            if self.is_suspect(places, &pair) && self.prove(pair.archives()).is_ok() {
                // The validator unpacks them itself, if it does not choose bad ones.
                bad.rename(self.calls);
                return Err(suspect(&pair));
            }
            let raced = candidates.race(&pair, &|| self.cancel.is_cancelled());
            let (pair, result) = match raced {
                Ok(pair) => {
                    let prepared = self.unpack_or_reuse(places, site, &pair, &mut bad);
                    (pair, prepared)
                }
                // Each of its servers has failed, and the archive is out of the choice.
                Err(error)
                    if self.request.offered.is_optional && error.family() != Family::Cancelled =>
                {
                    tracing::warn!(%error, "an archive on servers is left out");
                    offer_failed = Some(error);
                    continue;
                }
                Err(error) => (pair, Err(error)),
            };
            match result {
                Ok(prepared) => return Ok(Outcome::Prepared(Box::new(prepared))),
                Err(error) if candidates.go_elsewhere(&pair, &error) => {}
                Err(error)
                    if error.family() == Family::BadArchive && self.request.pair.is_none() =>
                {
                    let archive = blamed(&pair, &error).path.clone();
                    tracing::warn!(
                        archive = %archive.display(), %error,
                        "the archive is bad; trying the next best pair"
                    );
                    candidates.set_aside(&archive);
                    bad.add(archive, &files, error);
                }
                // Those in the directories may be older.
                Err(error)
                    if error.code() == Code::Network
                        && self.request.offered.is_optional
                        && candidates.decline() =>
                {
                    tracing::warn!(%error, "the archives on servers are left out");
                    offer_failed = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(offer_failed.or(bad.into_first_error()).unwrap_or_else(|| FastbootError::NoArchive {
            full: places.full_archives.clone(),
            incremental: places.incremental_archives.clone(),
        }))
    }

    /// Returns whether archives were chosen whose state has ended validators.
    fn is_suspect(&self, places: &Places, pair: &Pair) -> bool {
        let is_chosen = self.request.pair.is_none() && !self.request.replace;
        is_chosen && Attempts::read(self.calls, &places.snapshots).has_suspect_archives(pair)
    }

    /// Unpacks a pair whose bank files match the names of its archives. Of a pair whose full archive
    /// an earlier state was made from, only the incremental archive is unpacked.
    fn unpack_or_reuse(
        &self,
        places: &Places,
        site: &mut impl Site,
        pair: &Pair,
        bad: &mut BadArchives,
    ) -> Result<Prepared, FastbootError> {
        // Without its full archive a validator does not start from a state: that has to come, too.
        let base = base::find(*self, places, pair).filter(|_| pair.full().offered.is_none());
        let checks = site.verify().file_by_file();
        let upon = base.zip(checks).zip(archives(pair).ok());
        let upon = upon.and_then(|(((_, base), checks), pair)| Upon::new(&pair, base, checks));
        if let (Some(upon), Some(incremental)) = (upon, pair.incremental()) {
            self.prove([incremental])?;
            match self.unpack(site, pair, Some(upon), bad) {
                Err(FastbootError::Unpack(UnpackError::NotLinked { reason })) => {
                    tracing::warn!(
                        reason,
                        "the storages of an earlier state cannot be used; unpacking the full archive"
                    );
                }
                result => return result,
            }
        }
        self.prove(pair.archives())?;
        self.unpack(site, pair, None, bad)
    }

    /// Checks the bank files of archives against their names, and their cluster against the ledger's.
    /// The last archive is the newest, of which the state is made.
    pub fn prove<'c>(
        &self,
        archives: impl IntoIterator<Item = &'c Candidate>,
    ) -> Result<(), FastbootError> {
        let handles = self.handles();
        let cluster = Cluster::of(self.calls, &self.request.places.ledger, &self.request.cluster)?;
        let mut newest = None;
        for candidate in archives {
            let archives = &candidate.archive().into();
            let options = &self.request.pass;
            let facts =
                on_a_thread_of_its_own(|| Reader { archives, options, handles: &handles }.prove())?;
            cluster.refuse_other(&candidate.path, facts.genesis_unix_s)?;
            tracing::info!(
                slot = facts.slot, bank = %facts.hash,
                "the bank file matches the archive's name"
            );
            newest = Some((&candidate.path, facts));
        }
        newest.map_or(Ok(()), |(path, facts)| cluster.refuse_version(path, &facts))
    }

    fn unpack(
        &self,
        site: &mut impl Site,
        pair: &Pair,
        upon: Option<Upon>,
        bad: &mut BadArchives,
    ) -> Result<Prepared, FastbootError> {
        let Self { request, calls, .. } = *self;
        site.begin()?;
        let slot = pair.slot();
        let state = State {
            directory: site.target().state(slot),
            accounts: site.target().accounts_paths()?,
            format: request.format,
            shadow: request.shadow,
        };
        let digest = Some(DigestKind::Xxh3);
        let checks = site.verify().file_by_file().filter(|_| site.resumes());
        let mut options = match (upon, checks) {
            (Some(upon), _) => Options::for_state_upon(upon, state, digest),
            (None, Some(checks)) => {
                Options::for_resumable_state(archives(pair)?, checks, state, digest)
            }
            (None, None) => Options::for_state(archives(pair)?, site.verify(), state, digest),
        };
        (options.pass, options.preflight) = (request.pass.clone(), request.preflight);
        options.min_free = request.min_free;
        options.files.clone_from(&request.files);
        options.tee = tee(pair, &options);
        let unpacker = Unpacker::new(options).with_handles(self.handles());
        let mut remover: Option<Remover> = None;
        let staged = unpacker.stage(|room| {
            if let Room::WhenCleared(shortage) = &room {
                enough_to_clear(calls, &site.to_clear()?, shortage)?;
            }
            let removal = site.clear(matches!(room, Room::WhenCleared(_)))?;
            let started = site.start_removal(removal);
            match room {
                Room::Beside => remover = Some(started),
                // Removed files cannot be restored, but a validator would remove them as well.
                Room::WhenCleared(shortage) => {
                    tracing::warn!(
                        "old states are removed before the new one is unpacked: {shortage}"
                    );
                    started.finish(self.progress);
                    await_space(*self, &request.places, &shortage)?;
                }
            }
            if self.cancel.is_cancelled() { Err(FastbootError::CANCELLED) } else { Ok(()) }
        })?;
        // Renamed before the state appears, so that the validator cannot choose them over it.
        let set_aside = bad.rename(calls);
        let mut report = staged.publish()?;
        let (directory, replaced) = site.finish(slot, &mut report)?;
        if let Some(remover) = remover {
            remover.finish(self.progress);
        }
        site.start_removal(replaced).finish(self.progress);
        Ok(Prepared { slot, directory, report, set_aside })
    }
}

/// Returns where archives from servers are kept: a validator that has a state starts only with its
/// archives in their directories.
fn tee(pair: &Pair, options: &Options) -> Option<TeeTo> {
    let is_remote = |archive: &Archive| matches!(archive, Archive::Remote(_));
    options.archives().iter().any(is_remote).then(|| {
        let directory =
            |candidate: &Candidate| candidate.path.parent().unwrap_or(Path::new(".")).to_owned();
        let full = directory(pair.full());
        let incremental = pair.incremental().map_or_else(|| full.clone(), directory);
        // Upon an earlier state, only the incremental archive is received.
        let first = if options.archives().len() == 1 { incremental.clone() } else { full };
        TeeTo { first, second: incremental, is_required: true }
    })
}

/// Returns the error for archives whose state has ended validators. Older ones are not tried: a
/// validator would not choose them.
pub(crate) fn suspect(pair: &Pair) -> FastbootError {
    let reason = format!(
        "validators have ended early with the state of slot {}, which the newest archives hold",
        pair.slot()
    );
    let remedy = Remedy::advice("wait for newer archives, or make the state anew (--replace)");
    FastbootError::request(reason, Some(remedy))
}

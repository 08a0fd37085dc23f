//! Fastboot targets: the local state that a validator starts from.
//!
//! The service never works in a validator's directories under the ledger's lock: a validator that
//! starts meanwhile could not take it, and would die. A job prepares the state beside the
//! validator's, whether one runs or not. The state is then adopted by renames while no validator
//! runs, and only these need the lock.

use std::{
    num::NonZeroU32,
    path::Path,
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_failure::Remedy;
use unsnap_fastboot::{
    Attempts, Candidates, FastbootError, FileIdentity, LedgerLock, Outcome, Pair, Places, Prepared,
    Request, StateName, marked_states,
};
use unsnap_pass::{PassError, Progress};
use unsnap_ring::Syscalls;

use super::work::{Adopted, Product, Work};
use crate::config::{Target, TargetKind, Unpacking};

/// Prepares the newest state beside the validator's, and adopts it if no validator runs.
///
/// With `beside` false it is refused while a validator runs. After an error in adopting, the state
/// stays ready, and `products` holds it: that is a success. The next scan adopts it.
pub fn prepare(
    work: &Work,
    places: &Places,
    beside: bool,
    products: &mut Vec<Product>,
) -> Result<(), FastbootError> {
    let calls = Syscalls::default();
    if !beside {
        refuse_running(places)?;
    }
    refuse_given_up(&calls, places, &work.pair)?;
    let adoption = Adoption::of(work);
    let Some(request) = adoption.request() else { return Ok(()) };
    let request = Request {
        replace: work.submitted,
        pair: Some(work.pair.clone()),
        known_bad: work.known_bad.clone(),
        ..request
    };
    let outcome = unsnap_fastboot::prepare_beside(&request, &calls, &work.progress, &work.cancel)?;
    let archive = work.pair.archives().last().map(|archive| archive.name.to_string());
    products.push(match outcome {
        Outcome::Prepared(prepared) => {
            let Prepared { directory, report, .. } = *prepared;
            Product { path: directory, report: Some(Box::new(report)), archive, adopted: None }
        }
        Outcome::Ready { slot, .. } | Outcome::Adopted { slot, .. } => {
            Product { path: places.state(slot), report: None, archive, adopted: None }
        }
    });
    match adoption.carry_out() {
        Ok(AdoptionEnd::Adopted(adopted)) => products.push(Product {
            path: adopted.to.clone(),
            report: None,
            archive: None,
            adopted: Some(adopted),
        }),
        Ok(AdoptionEnd::Unwanted | AdoptionEnd::NotWhole) => {}
        // A validator runs, as a rule: the state waits for its end.
        Err(error) if error.is_in_the_way() => {}
        Err(error) => tracing::warn!(
            target = work.target.name, %error,
            "the state is ready, but cannot be adopted yet; the next scan tries again"
        ),
    }
    Ok(())
}

/// Refuses archives whose state validators have ended with: see [`Attempts`].
fn refuse_given_up(calls: &Syscalls, places: &Places, pair: &Pair) -> Result<(), FastbootError> {
    let attempts = Attempts::read(calls, &places.snapshots);
    let file = |path: &Path| FileIdentity::of(path).ok();
    if attempts.refused(slice::from_ref(pair), file).is_empty() {
        return Ok(());
    }
    let reason = format!("validators have ended early with the state of slot {}", pair.slot());
    let remedy = Remedy::advice("newer archives or `validator --replace` try again");
    Err(PassError::Request { reason, remedy: Some(remedy) }.into())
}

/// Fails with [`FastbootError::Running`] if a validator runs or is being started. A lock that is free is held for
/// microseconds.
fn refuse_running(places: &Places) -> Result<(), FastbootError> {
    LedgerLock::take_beside(places).map(drop)
}

/// An order to adopt a target's ready state.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Target of the state.
    pub target: Target,
    /// Options for reading archives, of which adopting uses none.
    pub unpacking: Arc<Unpacking>,
    /// Most files of older states removed per second.
    pub removal_files_per_second: NonZeroU32,
}

/// What became of an order to adopt.
#[derive(Debug)]
pub enum AdoptionEnd {
    /// It was adopted.
    Adopted(Adopted),
    /// No ready state is wanted now.
    Unwanted,
    /// The ready state is wanted, but is not whole.
    NotWhole,
}

impl Adoption {
    fn of(work: &Work) -> Self {
        Self {
            target: work.target.clone(),
            unpacking: Arc::clone(&work.unpacking),
            removal_files_per_second: work.removal_files_per_second,
        }
    }

    /// Adopts the ready state if that is wanted: see [`is_adoptable`]. Fails with an error that
    /// [is in the way](FastbootError::is_in_the_way) if a validator runs or another unsnap is at
    /// work; nothing is changed then.
    pub fn carry_out(&self) -> Result<AdoptionEnd, FastbootError> {
        let Some(request) = self.request().filter(|_| is_adoptable(&self.target)) else {
            return Ok(AdoptionEnd::Unwanted);
        };
        // Seen before the ready state is examined: that looks at each of some 430,000 files.
        refuse_running(&request.places)?;
        let since = Instant::now();
        match unsnap_fastboot::adopt_ready(&request, &Syscalls::default(), &Progress::default())? {
            Some(Outcome::Adopted { slot, directory, ledger_locked_us, .. }) => {
                Ok(AdoptionEnd::Adopted(Adopted {
                    slot,
                    from: request.places.beside().state(slot),
                    to: directory,
                    took: since.elapsed(),
                    ledger_locked: Duration::from_micros(ledger_locked_us),
                }))
            }
            _ => Ok(AdoptionEnd::NotWhole),
        }
    }

    /// Returns the request without archives; `None` for a target that is no state.
    fn request(&self) -> Option<Request> {
        let TargetKind::Fastboot { places, format, shadow, max_behind, .. } = &self.target.kind
        else {
            return None;
        };
        Some(Request {
            verify: self.unpacking.verify,
            min_free: self.unpacking.min_free,
            pass: self.unpacking.pass.clone(),
            format: *format,
            shadow: *shadow,
            max_behind: *max_behind,
            removal_files_per_second: self.removal_files_per_second,
            ..Request::new(places.clone())
        })
    }
}

/// Returns whether a target has a ready state that is newer than the validator's own, not too old, and
/// not one that validators have ended with. It may still prove not to be whole.
pub fn is_adoptable(target: &Target) -> bool {
    let TargetKind::Fastboot { places, max_behind, .. } = &target.kind else { return false };
    let calls = Syscalls::default();
    let newest = |places: &Places| {
        let states = marked_states(&calls, places).unwrap_or_default();
        states.first().map(|(slot, _)| *slot)
    };
    let Some(ready) = newest(&places.beside()) else { return false };
    if newest(places).is_some_and(|own| own >= ready) {
        return false;
    }
    // Without archives, the library refuses to adopt.
    let Ok(candidates) = Candidates::find(&places.search_dirs()) else { return true };
    let newest = candidates.best().map_or(0, |pair| pair.slot());
    let name = StateName::of_slot(ready, candidates.pairs());
    newest.saturating_sub(ready) <= *max_behind
        && !Attempts::read(&calls, &places.snapshots).is_suspect(&name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use unsnap_state::Format;

    use super::*;

    fn mark(places: &Places, slot: u64) {
        fs::create_dir_all(places.state(slot)).unwrap();
        fs::write(places.state(slot).join("fastboot_version"), "3.0.0").unwrap();
    }

    #[test]
    fn a_ready_state_is_adoptable_if_it_is_newer_and_neither_too_old_nor_given_up() {
        let scratch = tempfile::tempdir().unwrap();
        let places = Places::new(scratch.path());
        let archive = |slot: u64| {
            let name = crate::testing::archive(slot, None).name.to_string();
            fs::write(scratch.path().join(name), "").unwrap();
        };
        let at_most = |max_behind| Target {
            name: "t".to_owned(),
            kind: TargetKind::Fastboot {
                places: places.clone(),
                format: Format::V3,
                shadow: true,
                beside: true,
                max_behind,
            },
            keep: 1,
        };
        assert!(!is_adoptable(&at_most(u64::MAX)), "nothing is ready");
        mark(&places.beside(), 39);
        archive(39);
        assert!(is_adoptable(&at_most(0)));
        archive(47);
        assert!(!is_adoptable(&at_most(7)));
        assert!(is_adoptable(&at_most(8)) && is_adoptable(&at_most(u64::MAX)));

        let candidates = Candidates::find(&places.search_dirs()).unwrap();
        let mut attempts = Attempts::default();
        for (slot, adoptable) in [(47, true), (39, false)] {
            let pair = candidates.pairs().find(|pair| pair.slot() == slot).unwrap();
            attempts.suspect(StateName::of(&pair), Some(&pair));
            attempts.write(&Syscalls::default(), scratch.path()).unwrap();
            assert_eq!(is_adoptable(&at_most(8)), adoptable, "{slot}");
            let refused = refuse_given_up(&Syscalls::default(), &places, &pair);
            assert!(refused.unwrap_err().to_string().contains(&format!("slot {slot}")));
        }
        fs::remove_file(scratch.path().join(unsnap_fastboot::ATTEMPTS_FILE)).unwrap();
        assert!(is_adoptable(&at_most(8)));
        mark(&places, 39);
        assert!(!is_adoptable(&at_most(8)), "the validator's own is as new");
    }
}

//! Fastboot targets: the local state that a validator starts from.
//!
//! The service never works in a validator's directories under the ledger's lock: a validator that
//! starts meanwhile could not take it, and would die. A job prepares the state beside the
//! validator's, whether one runs or not. The state is then adopted by renames while no validator
//! runs, and only these need the lock.

use std::{num::NonZeroU32, sync::Arc, time::Instant};

use unsnap_fastboot::{
    FastbootError, LedgerLock, Outcome, Places, Prepared, Request, is_starting, marked_states,
};
use unsnap_pass::Progress;
use unsnap_ring::Syscalls;
use unsnap_unpack::PreflightMode;

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
        Ok(Some(adopted)) => products.push(Product {
            path: adopted.to.clone(),
            report: None,
            archive: None,
            adopted: Some(adopted),
        }),
        Ok(None) => {}
        // A validator runs, as a rule: the state waits for its end.
        Err(error) if error.is_in_the_way() => {}
        Err(error) => tracing::warn!(
            target = work.target.name, %error,
            "the state is ready, but cannot be adopted yet; the next scan tries again"
        ),
    }
    Ok(())
}

/// Fails with [`FastbootError::Running`] if a validator runs. A lock that is free is held for
/// microseconds.
fn refuse_running(places: &Places) -> Result<(), FastbootError> {
    if is_starting(places) {
        let holder = Some("it is being started".to_owned());
        return Err(FastbootError::Running { ledger: places.ledger.clone(), holder });
    }
    LedgerLock::take(&places.ledger).map(drop)
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

impl Adoption {
    fn of(work: &Work) -> Self {
        Self {
            target: work.target.clone(),
            unpacking: Arc::clone(&work.unpacking),
            removal_files_per_second: work.removal_files_per_second,
        }
    }

    /// Adopts the ready state if it is newer than the validator's own. Returns `None` if there is
    /// nothing to adopt. Fails with an error that [is in the way](FastbootError::is_in_the_way) if a
    /// validator runs or another unsnap is at work; nothing is changed then.
    pub fn carry_out(&self) -> Result<Option<Adopted>, FastbootError> {
        let Some(request) = self.request().filter(|request| has_newer(&request.places)) else {
            return Ok(None);
        };
        // Seen before the ready state is examined: that looks at each of some 430,000 files.
        refuse_running(&request.places)?;
        let since = Instant::now();
        match unsnap_fastboot::adopt_ready(&request, &Syscalls::default(), &Progress::default())? {
            Some(Outcome::Adopted { slot, directory, .. }) => Ok(Some(Adopted {
                slot,
                from: request.places.beside().state(slot),
                to: directory,
                took: since.elapsed(),
            })),
            _ => Ok(None),
        }
    }

    /// Returns the request without archives; `None` for a target that is no state.
    fn request(&self) -> Option<Request> {
        let TargetKind::Fastboot { places, format, shadow, .. } = &self.target.kind else {
            return None;
        };
        Some(Request {
            places: places.clone(),
            verify: self.unpacking.verify,
            preflight: PreflightMode::default(),
            min_free: self.unpacking.min_free,
            pass: self.unpacking.pass.clone(),
            files: None,
            format: *format,
            shadow: *shadow,
            replace: false,
            pair: None,
            known_bad: Vec::new(),
            suspects: Vec::new(),
            max_behind: 0,
            removal_files_per_second: self.removal_files_per_second,
        })
    }
}

/// Returns whether a ready state is marked that is newer than the validator's own. It may still
/// prove not to be whole.
pub fn has_newer(places: &Places) -> bool {
    let newest = |places: &Places| {
        let states = marked_states(&Syscalls::default(), places).unwrap_or_default();
        states.first().map(|(slot, _)| *slot)
    };
    let ready = newest(&places.beside());
    ready.is_some() && ready > newest(places)
}

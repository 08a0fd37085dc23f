//! Fastboot targets: the local state that a validator starts from.

use unsnap_fastboot::{
    FastbootError, LedgerLock, Outcome, Places, Prepared, Request, marked_states,
};
use unsnap_ring::Syscalls;
use unsnap_state::Format;
use unsnap_unpack::PreflightMode;

use super::work::{Product, Work};

pub fn request(work: &Work, places: &Places, format: Format, shadow: bool) -> Request {
    Request {
        places: places.clone(),
        verify: work.unpacking.verify,
        preflight: PreflightMode::default(),
        min_free: work.unpacking.min_free,
        pass: work.unpacking.pass.clone(),
        files: None,
        format,
        shadow,
        replace: work.submitted,
        pair: Some(work.pair.clone()),
        known_bad: work.known_bad.clone(),
        removal_files_per_second: work.removal_files_per_second,
    }
}

/// Prepares the state in the validator's directories. If a validator is running and `beside` is
/// set, prepares it beside them instead.
pub fn prepare(
    request: &Request,
    work: &Work,
    beside: bool,
    products: &mut Vec<Product>,
) -> Result<(), FastbootError> {
    let calls = Syscalls::default();
    let in_place = unsnap_fastboot::prepare(request, &calls, &work.progress, &work.cancel);
    let outcome = match in_place {
        Err(FastbootError::Running { .. }) if beside => {
            unsnap_fastboot::prepare_beside(request, &calls, &work.progress, &work.cancel)?
        }
        outcome => outcome?,
    };
    let (path, report) = match outcome {
        Outcome::Prepared(prepared) => {
            let Prepared { directory, report, .. } = *prepared;
            (directory, Some(Box::new(report)))
        }
        Outcome::Adopted { directory, .. } => (directory, None),
        Outcome::Ready { slot, .. } => (request.places.state(slot), None),
    };
    products.push(Product { path, report });
    Ok(())
}

/// Returns whether a state prepared beside the validator could be adopted now: it is newer than the
/// present one, and no validator is running. The ledger's lock is taken only if there is such a
/// state, and only for a moment.
pub fn is_adoptable(places: &Places) -> bool {
    let newest = |places: &Places| {
        let states = marked_states(&Syscalls::default(), places).unwrap_or_default();
        states.first().map(|(slot, _)| *slot)
    };
    let ready = newest(&places.beside());
    ready.is_some() && ready > newest(places) && LedgerLock::take(&places.ledger).is_ok()
}

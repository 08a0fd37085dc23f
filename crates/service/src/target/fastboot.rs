//! The state that a validator starts from.

use unsnap_fastboot::{LedgerLock, Outcome, Places, Prepared, Request, marked_states};
use unsnap_ring::Syscalls;
use unsnap_unpack::{Error, FastbootFormat};

use super::{Product, Work};

pub fn request(work: &Work, places: &Places, format: FastbootFormat, shadow: bool) -> Request {
    Request {
        places: places.clone(),
        config: (*work.config).clone(),
        format,
        shadow,
        replace: work.submitted,
        pair: Some(work.pair.clone()),
        known_bad: work.known_bad.clone(),
    }
}

/// Prepares where the validator looks; while one is running beside it, if that is wanted.
pub fn prepare(
    request: &Request,
    work: &Work,
    beside: bool,
    products: &mut Vec<Product>,
) -> Result<(), Error> {
    let calls = Syscalls::default();
    let in_place = unsnap_fastboot::prepare(request, &calls, &work.progress, &work.cancel);
    let outcome = match in_place {
        Err(Error::Running { .. }) if beside => {
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

/// Whether a state that lies ready could take its place now: it is newer than what is there, and no
/// validator is running. The lock is held for a moment only, and only if there is such a state.
pub fn is_adoptable(places: &Places) -> bool {
    let newest = |places: &Places| {
        let states = marked_states(&Syscalls::default(), places).unwrap_or_default();
        states.first().map(|(slot, _)| *slot)
    };
    let ready = newest(&places.beside());
    ready.is_some() && ready > newest(places) && LedgerLock::take(&places.ledger).is_ok()
}

//! The state that a validator starts from.

use unsnap_fastboot::{Outcome, Places, Prepared, Request};
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

pub fn prepare(
    request: &Request,
    calls: &Syscalls,
    work: &Work,
    products: &mut Vec<Product>,
) -> Result<(), Error> {
    match unsnap_fastboot::prepare(request, calls, &work.progress, &work.cancel)? {
        Outcome::Prepared(prepared) => {
            let Prepared { directory, report, .. } = *prepared;
            products.push(Product { path: directory, report: Some(Box::new(report)) });
        }
        Outcome::Ready { slot, .. } => {
            products.push(Product { path: request.places.state(slot), report: None });
        }
    }
    Ok(())
}

//! A thread that watches a transfer, and measures other servers when it is slow.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    FetchError, FetchOptions, Remote,
    course::{Course, Step},
    domain, head,
    identity::Body,
    link::Shared,
    probe::{connect, receive},
    race::{Contest, rate},
    site::Site,
};

/// A server that has lost a race.
pub struct Rival {
    /// The server.
    pub site: Site,
    /// Whether it answers ranges.
    pub has_ranges: bool,
    /// Length of its archive.
    pub bytes: u64,
    /// Its rate in the race.
    pub rate: Option<u64>,
}

/// Starts the thread, which ends with the transfer. `came` bytes have come in the race.
pub fn watch(
    remote: &Remote,
    came: u64,
    rivals: Vec<Rival>,
    contest: Contest,
    options: &FetchOptions,
) -> Result<(), FetchError> {
    let (shared, site) = (Arc::clone(&remote.shared), Arc::clone(&remote.site));
    let rates = rivals.iter().map(|rival| rival.rate).collect();
    let confined = options.confined;
    // All links wait at the same time.
    let links =
        if remote.has_ranges() { u32::try_from(options.links).unwrap_or(1).max(1) } else { 1 };
    let mut course = Course::new(remote.identity.bytes, came, rates, contest);
    let work = move || {
        if confined {
            let ports: Vec<_> =
                rivals.iter().map(|rival| rival.site.route.port(&rival.site.address)).collect();
            domain::confine(&ports);
        }
        let started = Instant::now();
        while !is_over(&shared) {
            let (bytes, waited) = shared.received();
            let mut step = course.step(bytes, waited / links, started.elapsed());
            if let Step::Measure(index) = step {
                let rival = &rivals[index];
                let measured = measure(rival, contest, &|| is_over(&shared));
                tracing::info!(
                    address = %rival.site.address, rate = ?measured,
                    "the transfer is slow: another peer was measured"
                );
                step = course.measured(index, measured, started.elapsed());
            }
            if let Step::Leave { rival, rate, rival_rate } = step {
                let (address, other) = (site.address.clone(), rivals[rival].site.address.clone());
                shared.fail(FetchError::Outpaced { address, rate, other, other_rate: rival_rate });
                return;
            }
            drop(shared.wait(shared.lock()));
        }
    };
    let started = thread::Builder::new().name("unsnap-rivals".to_owned()).spawn(work);
    started.map(drop).map_err(|error| FetchError::Thread { reason: error.to_string() })
}

fn is_over(shared: &Shared) -> bool {
    let state = shared.lock();
    let is_passed = state.transfer.as_ref().is_some_and(|transfer| transfer.window.is_passed());
    state.is_over || state.failed.is_some() || is_passed
}

/// Returns the rate of a server over one connection; `None` if it does not send the archive.
fn measure(rival: &Rival, contest: Contest, cancelled: &dyn Fn() -> bool) -> Option<u64> {
    let Rival { site, bytes, .. } = rival;
    let receive = || {
        let mut connection = connect(site, cancelled)?;
        let last = rival.has_ranges.then(|| contest.bytes.clamp(1, *bytes) - 1);
        let (headers, proxy) = (&site.headers, site.route.proxy.as_ref());
        let request = head::request(&site.address, (0, last), None, headers, proxy);
        let head = connection.ask(&request, &site.patience, cancelled)?;
        let body = Body::of(head, &site.address, 0, last)?;
        let most = body.bytes.min(contest.bytes);
        let started = Instant::now();
        let received = receive(site, &mut connection, most, contest.time, cancelled)?;
        Ok(rate(received, started.elapsed().max(Duration::from_micros(1))))
    };
    receive().map_err(|error: FetchError| tracing::info!(%error, "a peer cannot be measured")).ok()
}

//! Storages of a full archive that an earlier state has already, so that a newer incremental archive
//! costs the incremental archive.

use std::sync::Arc;

use unsnap_ring::Syscalls;
use unsnap_state::{
    Base, BaseShadow, ORIGIN_BYTES_MAX, ORIGIN_FILE, Origin, SHADOW_DIRECTORY, SHADOW_LIST,
};

use crate::{
    Attempts, FastbootError, Pair, Places,
    files::{failed, read_small},
    request::Work,
    states::marked_states,
    survey::Shadow,
};

/// Finds the storages of a pair's full archive in an older state, the ready one or the one in place,
/// whose directories are returned with them. `None` if
/// there are none, or if they are not to be used: all storages are to be unpacked, or accounts are
/// to be verified, or a validator has ended early with that state.
pub(crate) fn find(work: Work<'_>, own: &Places, pair: &Pair) -> Option<(Places, Arc<Base>)> {
    let Work { request, calls, .. } = work;
    request.verify.file_by_file().filter(|_| !request.replace)?;
    pair.incremental()?;
    let attempts = Attempts::read(calls, &own.snapshots);
    [own.beside(), own.clone()].into_iter().find_map(|places| {
        let (slot, base) = base_in(calls, &places, pair).unwrap_or_else(|error| {
            tracing::debug!(%error, "the storages of an earlier state cannot be used");
            None
        })?;
        // One of the same archives that is not good enough is not trusted.
        if slot >= pair.slot() {
            return None;
        }
        if attempts.has_failed(slot) {
            tracing::info!(slot, "not building on a state with which a validator has ended early");
            return None;
        }
        Some((places, Arc::new(base)))
    })
}

/// Returns the base that the state in these directories is, with the slot of the state.
fn base_in(
    calls: &Syscalls,
    places: &Places,
    pair: &Pair,
) -> Result<Option<(u64, Base)>, FastbootError> {
    let mut found: Option<(u64, Origin)> = None;
    let mut shadows = Vec::with_capacity(places.accounts.len());
    for (shadow, path) in Shadow::all(calls, places)?.into_iter().zip(&places.accounts) {
        let (Some(directory), Some(list)) = (shadow.directory, shadow.list) else {
            return Ok(None);
        };
        let path = path.join(SHADOW_DIRECTORY);
        let at = |errno| failed("read the origin in", &path, errno);
        let origin = read_small(calls, &directory, ORIGIN_FILE, ORIGIN_BYTES_MAX).map_err(at)?;
        let Some(origin) = origin.and_then(|bytes| Origin::decode(&bytes)) else {
            return Ok(None);
        };
        let written = calls.lstatat(&directory, SHADOW_LIST).map_err(at)?;
        let one = (list.slot, origin);
        if found.as_ref().is_some_and(|other| *other != one) {
            return Ok(None);
        }
        found = Some(one);
        shadows.push(BaseShadow { directory, list, written: (&written).into() });
    }
    let Some((slot, origin)) = found.filter(|(_, origin)| origin.full == pair.full().name) else {
        return Ok(None);
    };
    // One that was withdrawn has no mark any more.
    let is_marked = marked_states(calls, places)?.iter().any(|(marked, _)| *marked == slot);
    Ok(is_marked.then(|| (slot, Base::new(origin, shadows))))
}

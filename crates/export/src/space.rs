//! Check for space before anything is read.

use unsnap_commit::Target;
use unsnap_fit::{FileSystem, FitError, Resource, Shortage};
use unsnap_pass::Archive;
use unsnap_table::TableKind;

use crate::{ExportError, ExportQuery};

/// Refuses to begin if the tables do not fit for certain. All accounts with their data take about as
/// much as the archives, since neither can compress the keys. Filters make the size unknown, and so
/// does an archive whose size is: then only a full disk ends the run.
pub(crate) fn check(
    target: &Target,
    archives: &[Archive],
    query: &ExportQuery,
) -> Result<(), ExportError> {
    let Some(needed) = estimate(archives, query) else { return Ok(()) };
    for system in FileSystem::of(&target.calls, target.staging.directories()?)? {
        let free = system.free()?;
        let Some(available) = free.bytes.filter(|bytes| *bytes < needed) else { continue };
        let shortage = Shortage {
            resource: Resource::Bytes,
            file_system: system.name(),
            needed: Some(needed),
            exact: false,
            tar_bytes: None,
            announced: None,
            available,
            min_free: free.min_free,
            device: system.device,
            unpacking: false,
            others: Vec::new(),
        };
        return Err(FitError::NoSpace(Box::new(shortage)).into());
    }
    Ok(())
}

/// Returns the size of the tables in bytes, if it can be estimated.
fn estimate(archives: &[Archive], query: &ExportQuery) -> Option<u64> {
    let has_data = query.tables.contains(&TableKind::Accounts) && query.columns.data;
    if !query.filter.is_all() || !has_data || query.data_prefix.is_some() {
        return None;
    }
    let size = |archive: &Archive| match archive {
        Archive::File(path) => {
            let size = rustix::fs::stat(path).ok()?.st_size;
            u64::try_from(size).ok()
        }
        _ => None,
    };
    archives.iter().map(size).sum()
}

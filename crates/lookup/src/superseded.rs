//! Records that are not the newest version of an existing account.

use std::num::NonZeroUsize;

use unsnap_failure::{Knob, Remedy};
use unsnap_pass::{Archive, Handles, Options, PassError};
use unsnap_verify::accounts::{AccountsError, entries::Place};

use crate::{
    LookupError,
    records::Storage,
    versions::{Remember, Versions, newest},
};

/// The superseded records of an archive.
#[derive(Clone, Debug)]
pub struct Superseded {
    /// In order.
    places: Vec<Place>,
    /// Digest of the archive in which they were found; `None` for a stream.
    digest: Option<String>,
}

impl Superseded {
    /// Returns whether the record at an offset of a storage is superseded.
    pub fn contains(&self, storage: Storage, position: u64) -> bool {
        self.places.binary_search(&Place::new(storage.number, position)).is_ok()
    }

    /// Fails if a later pass over the archive has found another digest.
    pub fn check_unchanged(
        &self,
        archive: &Archive,
        digest: Option<&str>,
    ) -> Result<(), LookupError> {
        match archive {
            Archive::File(path) if self.digest.as_deref() != digest => {
                Err(LookupError::Changed { path: path.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// Returns for each archive the records that are not the newest version, over all archives, of an
/// existing account. Takes a pass over each archive, and remembers a part of each record: in
/// `memory_bytes_max`, then in an unnamed temporary file.
///
/// # Errors
///
/// A request for streams is refused: they allow one pass only, and the caller needs another.
pub fn superseded(
    archives: &[Archive],
    memory_bytes_max: usize,
    threads: NonZeroUsize,
    options: &Options,
    handles: &Handles,
) -> Result<Vec<Superseded>, LookupError> {
    if archives.iter().any(Archive::is_stream) {
        let reason =
            "finding the newest versions takes two passes, and a stream or an address allows one";
        let remedy = Remedy::Set(Knob::Newest, "give a file, or go without {}");
        return Err(PassError::request_with(reason, remedy).into());
    }
    let mut versions = Versions::new(memory_bytes_max);
    let mut found = Vec::new();
    for (side, archive) in (0..).zip(archives) {
        let remember = Remember { archive, options, side, seed: None, threads, handles };
        let digest = remember.all(&mut versions, &mut ())?.digest;
        found.push(Superseded { places: Vec::new(), digest });
    }
    let name = archives.last().map(Archive::display_name).unwrap_or_default();
    let limit = memory_bytes_max / size_of::<Place>();
    let mut count = 0;
    versions.each(&name, |account| -> Result<(), LookupError> {
        let mut account = account.to_vec();
        account.sort_unstable_by_key(|version| version.slot);
        let exists = newest(&name, &account)?.is_some_and(|newest| newest.lamports > 0);
        let older = account.len() - usize::from(exists);
        for version in &account[..older] {
            found[usize::from(version.side)].places.push(version.place);
        }
        count += older;
        if count > limit {
            let error = AccountsError::PartitionTooLarge { entries: count, limit };
            return Err(LookupError::accounts(&name, error));
        }
        Ok(())
    })?;
    for superseded in &mut found {
        superseded.places.sort_unstable();
    }
    Ok(found)
}

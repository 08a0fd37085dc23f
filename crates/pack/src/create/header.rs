//! Tar headers as validators write them (`agave-snapshots` 4.2.2, `archive.rs`): GNU format.
//! Headers of storages have a name, a size and a time of 0, and nothing else; no header names an
//! owner.

use tar::{EntryType, Header};
use unsnap_layout::Role;

use super::content::Entry;
use crate::PackError;

/// Size of a header in bytes. Everything in a tar is padded to a multiple of it.
pub const BLOCK_BYTES: usize = 512;

/// Returns the header of an entry. Its name has been admitted, and is far shorter than 100 bytes.
pub fn header(entry: &Entry) -> Result<Header, PackError> {
    let mut header = Header::new_gnu();
    header.set_path(&entry.name).map_err(|error| PackError::BadDirectory {
        path: entry.name.clone().into(),
        reason: error.to_string(),
    })?;
    match entry.role {
        Some(Role::Storage { .. }) => {}
        role => {
            let (mode, kind) = match role {
                Some(_) => (0o100_644, EntryType::Regular),
                None => (0o040_755, EntryType::Directory),
            };
            header.set_mode(mode);
            header.set_uid(0);
            header.set_gid(0);
            header.set_entry_type(kind);
        }
    }
    header.set_size(entry.size);
    header.set_mtime(0);
    header.set_cksum();
    Ok(header)
}

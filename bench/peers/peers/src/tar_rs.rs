//! The plainest unpacker there is in Rust: the tar crate over the zstd crate.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use tar::Archive;
use zstd::stream::read::Decoder;

/// Bytes read at a time.
pub const READ_BYTES: usize = 1 << 20;

/// Unpacks `archive` into the existing directory `output`.
pub fn unpack(archive: &Path, output: &Path) -> Result<()> {
    let file = File::open(archive).with_context(|| format!("cannot open {}", archive.display()))?;
    let decoder = Decoder::with_buffer(BufReader::with_capacity(READ_BYTES, file))?;
    let mut archive = Archive::new(decoder);
    // Headers of snapshot archives leave these out.
    archive.set_preserve_permissions(false);
    archive.set_preserve_ownerships(false);
    archive.set_preserve_mtime(false);
    archive.unpack(output).with_context(|| format!("cannot unpack into {}", output.display()))
}

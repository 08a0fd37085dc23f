//! The files of an archive: [`write_manifest`], [`expected_files`].

use crate::framing::{PIECE_BYTES, batches, cut};
use crate::image::{Scratch, StorageEntry, TarImage};
use crate::ordered::ordered;
use crate::spec::{ArchiveSpec, Error};
use crate::tree;
use std::io::Write;

/// Writes a line `<blake3> <size> <path>` for every file of the archive, in its order. Directories
/// are not listed.
pub fn write_manifest(spec: &ArchiveSpec, output: &mut impl Write) -> Result<(), Error> {
    let image = TarImage::new(spec)?;
    for (path, bytes) in head_files(&image)? {
        writeln!(output, "{} {} {path}", blake3::hash(&bytes).to_hex(), bytes.len())?;
    }
    // Small files are batched, so that a job is worth its overhead.
    let jobs = batches(image.entries().iter().map(|entry| entry.storage.size));
    let lines = |(piece, scratch): &mut (Vec<u8>, Scratch), job: u64| {
        let entries = &image.entries()[jobs[crate::length(job)].clone()];
        let line = |entry: &StorageEntry| {
            let mut hasher = blake3::Hasher::new();
            for range in cut(entry.contents(), PIECE_BYTES) {
                piece.resize(crate::length(range.end - range.start), 0);
                image.fill(range.start, piece, scratch);
                hasher.update(piece);
            }
            let hash = hasher.finalize().to_hex();
            format!("{hash} {} {}\n", entry.storage.size, entry.path())
        };
        entries.iter().map(line).collect::<String>()
    };
    let count = jobs.len() as u64;
    ordered(spec.thread_count(), count, Default::default, lines, |lines| {
        output.write_all(lines.as_bytes())
    })?;
    Ok(output.flush()?)
}

/// Returns the files of an archive with their paths, in its order. Each file must fit in memory.
pub fn expected_files(
    spec: &ArchiveSpec,
) -> Result<impl Iterator<Item = (String, Vec<u8>)>, Error> {
    let image = TarImage::new(spec)?;
    let head = head_files(&image)?;
    let mut scratch = Scratch::default();
    let accounts = (0..image.entries().len()).map(move |index| {
        let entry = image.entries()[index];
        let mut bytes = vec![0; crate::length(entry.storage.size)];
        image.fill(entry.contents().start, &mut bytes, &mut scratch);
        (entry.path(), bytes)
    });
    Ok(head.into_iter().chain(accounts))
}

/// Returns the files before the account files, taken from the tar bytes themselves because they are
/// few.
fn head_files(image: &TarImage) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let entries = tree::reference_entries(image.head())?;
    let files = entries.into_iter().filter(|entry| entry.kind == tree::Kind::File);
    Ok(files.map(|entry| (entry.path, entry.bytes)).collect())
}

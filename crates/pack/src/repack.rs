//! Repacking of an archive into frames that are faster to unpack. The tar stream stays the same.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde::Serialize;
use unsnap_arena::Slice;
use unsnap_failure::Remedy;
use unsnap_layout::{ArchiveName, Compression};
use unsnap_pass::{Archive, Handles, PassError, Passing, Tap};
use unsnap_ring::Syscalls;
use unsnap_source::{DigestKind, Hasher};
use unsnap_unpack::{Options, Report, UnpackError, Unpacker};

use crate::{
    PackError,
    frames::{Framer, RawFrame},
    output::Output,
    pack::{PackOptions, PackReport, pack},
};

/// Report of repacking an archive.
#[derive(Clone, Debug, Serialize)]
pub struct RepackReport {
    /// Report of writing the new archive.
    #[serde(flatten)]
    pub pack: PackReport,
    /// XXH3 of the tar stream, which is the same in both archives, since every frame was decoded
    /// again and compared. `zstd -dc ARCHIVE | xxhsum -H2` prints it.
    pub raw_digest: String,
    /// Report of reading the old archive, as by `unpack --dry-run`.
    pub archive: Report,
}

/// Writes the tar stream of an archive into frames that begin with its entries.
///
/// `read` holds the archive, the options for reading it and its checks; its destination must be
/// [`Destination::Nowhere`](unsnap_unpack::Destination::Nowhere). `output` is the new archive, or
/// the directory in which it gets the same name. The new archive gets its name when it is proven,
/// compressed and durable.
pub fn repack(
    read: &Options,
    output: &Path,
    options: &PackOptions,
    calls: &Syscalls,
    handles: &Handles,
) -> Result<RepackReport, PackError> {
    options.check()?;
    let path = output_path(&read.archives()[0], output)?;
    let unfinished = handles.cancel.unfinished();
    let output = Output::create(calls, unfinished, &path, options.replace, options.direct_io)?;
    let mut read = read.clone();
    // Frames refer to the segments that they consist of until they have been written.
    read.pass.tuning.decode.held_bytes = options.held_bytes();
    let unpacker = Unpacker::new(read).with_handles(handles.clone());
    let wrote = |bytes| handles.progress.count_written(bytes);
    let ((archive, digest), report) = pack(
        options,
        output,
        wrote,
        |take| {
            let framer = Framer::new(options.frame_bytes, take);
            let mut digesting = Digesting { framer, hasher: DigestKind::Xxh3.hasher() };
            let report = unpacker.tap(&mut digesting)?;
            let Digesting { framer, hasher } = digesting;
            match framer.finish() {
                ControlFlow::Continue(()) => Ok((report, hasher.digest())),
                ControlFlow::Break(()) => Err(UnpackError::CANCELLED.into()),
            }
        },
        |_| Ok(()),
    )?;
    Ok(RepackReport { pack: report, raw_digest: digest.to_string(), archive })
}

/// Digests the stream and passes it on to the framer.
struct Digesting<F> {
    framer: Framer<F>,
    hasher: Hasher,
}

impl<F: FnMut(RawFrame) -> ControlFlow<()> + Send> Tap for Digesting<F> {
    fn take(&mut self, what: Passing<'_>, bytes: Slice) -> ControlFlow<()> {
        self.hasher.update(&bytes);
        self.framer.take(what, bytes)
    }
}

/// Returns the path of the new archive. Its name must have the slots and the hash of the old one.
fn output_path(archive: &Archive, output: &Path) -> Result<PathBuf, PackError> {
    let refuse =
        |reason: String, advice: &str| Err(PackError::request(reason, Remedy::advice(advice)));
    let name_of = |path: &Path| ArchiveName::parse(path.file_name()?.to_str()?).ok();
    let old = match archive {
        Archive::File(path) | Archive::Unpublished { name: path, .. } => name_of(path),
        Archive::Stdin | Archive::Remote(_) => None,
    };
    let archive = archive.display_name();
    if output.is_dir() {
        return match old {
            Some(name) => Ok(output.join(name.with_compression(Compression::Zstd).to_string())),
            None => refuse(
                format!("{archive} does not have a snapshot's name for the new archive"),
                "give a file name",
            ),
        };
    }
    let new = name_of(output);
    match (old, new) {
        (Some(old), Some(new)) if new == old.with_compression(Compression::Zstd) => {}
        (None, None) if output.extension().is_some_and(|extension| extension == "zst") => {}
        (_, None) if output.extension().is_none() && !output.exists() => {
            return Err(PassError::no_directory(output).into());
        }
        (Some(_), None) if output.extension().is_none() => {
            return refuse(
                format!("{} is neither a directory nor a snapshot's name", output.display()),
                "give a directory, or the archive's name in one",
            );
        }
        (Some(old), _) => {
            return refuse(
                format!("the name {} does not match that of {archive}", output.display()),
                if old.compression() == Compression::Zstd {
                    "give the same name in another directory, or a directory"
                } else {
                    "give the same name with .tar.zst, or a directory"
                },
            );
        }
        (None, Some(_)) => {
            return refuse(
                format!("{archive} does not have a snapshot's name, but the new archive would"),
                "rename the old archive first, or give another name",
            );
        }
        (None, None) => {
            return refuse(
                format!("{} does not end in .zst", output.display()),
                "the new archive is compressed by zstd",
            );
        }
    }
    Ok(output.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use unsnap_index::side_car_path;
    use unsnap_pass::LayoutKind;
    use unsnap_testkit::{archive::write_archive, spec::ArchiveSpec};
    use unsnap_unpack::{CheckOutputs, Single, Verify};

    use super::*;

    const FULL: &str = "snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar";

    fn named(archive: &str, output: &str) -> Result<PathBuf, PackError> {
        output_path(&Archive::File(archive.into()), Path::new(output))
    }

    #[test]
    fn the_name_keeps_what_it_says() {
        let (zst, lz4) = (format!("{FULL}.zst"), format!("{FULL}.lz4"));
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().to_str().unwrap();
        for archive in [&zst, &lz4] {
            assert_eq!(named(archive, directory).unwrap(), scratch.path().join(&zst));
            let there = format!("elsewhere/{zst}");
            assert_eq!(named(archive, &there).unwrap(), Path::new(&there));
            for other in ["other.tar.zst", &lz4, &zst.replace("39", "40")] {
                assert!(named(archive, other).is_err(), "{other}");
            }
        }
        assert!(named("any.tar", "any.tar.zst").is_ok());
        assert!(output_path(&Archive::Stdin, Path::new("any.tar.zst")).is_ok());
        for refused in [directory, &zst, "any.tar.lz4"] {
            assert!(named("any.tar", refused).is_err(), "{refused}");
        }
    }

    /// An index left beside the name of the new archive would describe another one.
    #[test]
    fn repacking_removes_a_stale_index() {
        let scratch = tempfile::tempdir().unwrap();
        let (old, new) = (scratch.path().join("old.tar.zst"), scratch.path().join("new.tar.zst"));
        let spec = ArchiveSpec { total_bytes: 100_000, ..ArchiveSpec::default() };
        write_archive(&spec, &mut File::create(&old).unwrap()).unwrap();
        let index = side_car_path(&new);
        for replaced in [false, true] {
            fs::write(&index, "an index of another archive").unwrap();
            let archive = Archive::File(old.clone());
            let source = Single::new(archive, LayoutKind::Any, Verify::None);
            let options = PackOptions { replace: replaced, ..PackOptions::default() };
            let (calls, handles) = (Syscalls::default(), Handles::default());
            let read = Options::check(source.unwrap(), CheckOutputs::default());
            repack(&read, &new, &options, &calls, &handles).unwrap();
            assert!(new.exists() && !index.exists(), "replaced: {replaced}");
        }
    }
}

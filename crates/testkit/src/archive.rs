//! Generation of whole archives: [`write_archive`].

use crate::framing::{Counter, Maker};
use crate::image::TarImage;
use crate::spec::{ArchiveSpec, Compression, Error, Frames};
use std::io::Write;
use std::time::{Duration, Instant};

/// Totals of a generated archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The canonical file name.
    pub name: String,
    /// Number of account files. The archive also has `version`, the status cache and the bank file.
    pub account_files: u64,
    /// Length of the tar stream in bytes.
    pub raw_bytes: u64,
    /// Length of the archive in bytes.
    pub compressed_bytes: u64,
    /// Number of frames that hold data, without skippable ones. 0 without compression.
    pub frames: u64,
    /// Time that the generation took.
    pub elapsed: Duration,
}

impl Summary {
    /// Returns the compression ratio: raw bytes per compressed byte.
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    pub fn ratio(&self) -> f64 {
        self.raw_bytes as f64 / self.compressed_bytes.max(1) as f64
    }

    /// Returns the raw throughput in units of 10^9 bytes per second.
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    pub fn gigabytes_per_second(&self) -> f64 {
        self.raw_bytes as f64 / 1e9 / self.elapsed.as_secs_f64()
    }
}

/// Generates an archive.
pub fn write_archive(spec: &ArchiveSpec, output: &mut impl Write) -> Result<Summary, Error> {
    if !zstd::compression_level_range().contains(&spec.level) {
        return Err(Error::Level { level: spec.level });
    }
    let started = Instant::now();
    let image = TarImage::new(spec)?;
    let maker = Maker::new(spec, &image);
    let mut output = Counter::new(output);
    let frames = match (spec.compression, spec.frames) {
        (Compression::None, _) => maker.uncompressed(&mut output)?,
        (Compression::Zstd, Frames::One) => maker.zstd_one(&mut output)?,
        (Compression::Zstd, Frames::Sized(bytes)) => maker.zstd_sized(bytes, &mut output)?,
        (Compression::Zstd, Frames::Firedancer) => maker.zstd_firedancer(&mut output)?,
        (Compression::Lz4, Frames::One) => maker.lz4_one(&mut output)?,
        (Compression::Lz4, Frames::Sized(bytes)) => maker.lz4_sized(bytes, &mut output)?,
        (Compression::Lz4, Frames::Firedancer) => return Err(Error::FiredancerNeedsZstd),
    };
    output.flush()?;
    Ok(Summary {
        name: spec.name(),
        account_files: image.entries().len() as u64,
        raw_bytes: image.length(),
        compressed_bytes: output.bytes(),
        frames,
        elapsed: started.elapsed(),
    })
}

#[cfg(feature = "harness")]
pub use crate::manifest::{expected_files, write_manifest};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use crate::spec::FileSizes;
    use crate::tree;
    use std::num::NonZeroUsize;

    fn made(spec: &ArchiveSpec) -> (Summary, Vec<u8>) {
        let mut archive = Vec::new();
        let summary = write_archive(spec, &mut archive).unwrap();
        assert_eq!(summary.compressed_bytes, archive.len() as u64);
        (summary, archive)
    }

    /// Returns every kind of archive, with files of all sizes and frames of odd lengths.
    fn specs() -> Vec<ArchiveSpec> {
        let base = ArchiveSpec { total_bytes: 12_000_000, ..ArchiveSpec::default() };
        let frames = [Frames::One, Frames::Sized(1_000_001), Frames::AGAVE, Frames::Firedancer];
        let zstd = frames.map(|frames| ArchiveSpec { frames, ..base.clone() });
        let lz4 = [Frames::One, Frames::Sized(5_000_000)].map(|frames| ArchiveSpec {
            frames,
            compression: Compression::Lz4,
            ..base.clone()
        });
        let other = [
            ArchiveSpec { compression: Compression::None, ..base.clone() },
            ArchiveSpec { content: Content::Huffman, checksum: true, level: 3, ..base.clone() },
            ArchiveSpec { content: Content::Mainnet, ..base.clone() },
            ArchiveSpec { file_sizes: FileSizes::Fixed(8192), ..base.clone() },
            ArchiveSpec {
                file_sizes: FileSizes::Fixed(40_000_000),
                files: Some(1),
                frames: Frames::Firedancer,
                ..base.clone()
            },
            ArchiveSpec { base_slot: Some(base.slot - 1000), seed: 7, ..base },
        ];
        zstd.into_iter().chain(lz4).chain(other).collect()
    }

    #[test]
    fn all_archives_hold_the_expected_files() {
        for spec in specs() {
            let (summary, archive) = made(&spec);
            let files = tree::files(tree::reference_entries(&archive).unwrap());
            assert_eq!(files.len() as u64, summary.account_files + 3, "{spec:?}");
            assert!(files == expected_files(&spec).unwrap().collect(), "{spec:?}");
        }
    }

    #[test]
    fn threads_do_not_change_the_bytes() {
        for spec in specs() {
            let with = |threads| {
                made(&ArchiveSpec { threads: NonZeroUsize::new(threads), ..spec.clone() })
            };
            let (_, one) = with(1);
            for threads in [2, 5] {
                assert!(with(threads).1 == one, "{threads} threads: {spec:?}");
            }
        }
    }

    #[test]
    fn frame_headers_are_those_of_validators() {
        let with = |frames| {
            let spec = ArchiveSpec { total_bytes: 50_000_000, frames, ..ArchiveSpec::default() };
            made(&spec)
        };
        let (one, archive) = with(Frames::One);
        assert_eq!(archive[..6], [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x48]);
        assert_eq!(one.frames, 1);
        let (agave, archive) = with(Frames::AGAVE);
        assert_eq!(archive[..10], [0x28, 0xB5, 0x2F, 0xFD, 0x80, 0x48, 0, 0, 0, 2]);
        assert_eq!(agave.frames, 2);
        let (firedancer, archive) = with(Frames::Firedancer);
        assert_eq!(archive[..10], [0x28, 0xB5, 0x2F, 0xFD, 0x60, 0x00, 0x01, 0x01, 0x10, 0x00]);
        assert_eq!(firedancer.frames, 8 + 2 * firedancer.account_files + 1);
    }

    #[test]
    fn even_the_smallest_archive_is_one_unsized_frame() {
        let spec = ArchiveSpec { total_bytes: 136, ..ArchiveSpec::default() };
        assert_eq!(made(&spec).1[..6], [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x48]);
    }

    #[test]
    fn frames_are_counted() {
        for spec in specs().iter().filter(|spec| spec.compression == Compression::Zstd) {
            let (summary, archive) = made(spec);
            assert_eq!(summary.frames, crate::compress::zstd_frame_count(&archive), "{spec:?}");
        }
    }

    #[test]
    fn manifests_list_the_expected_files() {
        let spec = ArchiveSpec { total_bytes: 10_000_000, ..ArchiveSpec::default() };
        let mut manifest = Vec::new();
        write_manifest(&spec, &mut manifest).unwrap();
        let expected: Vec<String> = expected_files(&spec)
            .unwrap()
            .map(|(path, bytes)| format!("{} {} {path}", blake3::hash(&bytes), bytes.len()))
            .collect();
        let manifest = String::from_utf8(manifest).unwrap();
        assert!(manifest.lines().eq(&expected));
    }

    #[test]
    fn bank_files_match_the_name() {
        let spec = ArchiveSpec { seed: 5, ..ArchiveSpec::default() };
        let slot = spec.slot;
        let bank_path = format!("snapshots/{slot}/{slot}");
        let (_, bank) =
            expected_files(&spec).unwrap().find(|(path, _)| *path == bank_path).unwrap();
        let tail = bank.len() - 33;
        let hash = blake3::hash(&bank[tail - 2048..tail]);
        let hash = bs58::encode(hash.as_bytes()).into_string();
        assert_eq!(spec.name(), format!("snapshot-{slot}-{hash}.tar.zst"));
    }

    #[test]
    fn errors_of_the_output_are_passed_on() {
        let mut full: &mut [u8] = &mut [0; 100];
        let error = write_archive(&ArchiveSpec::default(), &mut full).unwrap_err();
        assert!(matches!(error, Error::Write(_)), "{error}");
    }

    #[test]
    fn impossible_archives_are_refused() {
        let base = ArchiveSpec::default();
        let lz4 = ArchiveSpec { compression: Compression::Lz4, ..base.clone() };
        let refused = [
            ArchiveSpec { frames: Frames::Firedancer, ..lz4 },
            ArchiveSpec { level: 1000, ..base.clone() },
            ArchiveSpec { base_slot: Some(base.slot), ..base },
        ];
        for spec in refused {
            assert!(write_archive(&spec, &mut Vec::new()).is_err(), "{spec:?}");
        }
    }
}

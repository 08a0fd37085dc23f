//! The account files of an archive: number, lengths and order.

use crate::content::RECORD_BYTES_MIN;
use crate::random::Random;
use crate::spec::{ArchiveSpec, Error, FileSizes};

/// One account file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Its slot. Every storage has its own.
    pub slot: u64,
    /// Its id, which also determines its content.
    pub id: u32,
    /// Its length in bytes.
    pub size: u64,
}

/// Returns the account files of an archive in the order of the archive.
///
/// Slots are consecutive and end at the snapshot's. Lengths do not depend on slots. The order takes
/// four slots from the low end, then one from the high end, and so on. This is the order of Agave
/// up to 4.4, which intends to mix four small storages with a large one but applies the pattern to
/// positions that are not sorted by size, so that sizes are in effect scrambled.
pub fn storages(spec: &ArchiveSpec) -> Result<Vec<Storage>, Error> {
    if let Some(base_slot) = spec.base_slot.filter(|base| *base >= spec.slot) {
        return Err(Error::BaseSlot { base_slot, slot: spec.slot });
    }
    let sizes = sizes(spec)?;
    let first_slot = spec.slot + 1 - sizes.len() as u64;
    let by_slot: Vec<Storage> = (first_slot..)
        .zip(0..)
        .zip(sizes)
        .map(|((slot, id), size)| Storage { slot, id, size })
        .collect();
    Ok(four_to_one(&by_slot))
}

/// Takes four from the front, one from the back, and so on until all are taken.
fn four_to_one(items: &[Storage]) -> Vec<Storage> {
    let mut rest = items;
    let mut order = Vec::with_capacity(items.len());
    while !rest.is_empty() {
        let (front, after) = rest.split_at(rest.len().min(4));
        order.extend_from_slice(front);
        rest = after;
        if let Some((back, before)) = rest.split_last() {
            order.push(*back);
            rest = before;
        }
    }
    order
}

fn sizes(spec: &ArchiveSpec) -> Result<Vec<u64>, Error> {
    let files = match (spec.files, spec.file_sizes) {
        (Some(files), _) => files,
        (None, FileSizes::Mainnet) => (spec.total_bytes / MAINNET_MEAN_BYTES).max(1),
        (None, FileSizes::Fixed(bytes)) => spec.total_bytes / bytes.max(1),
    };
    let slots = spec.base_slot.map_or(spec.slot.saturating_add(1), |base| spec.slot - base);
    // Ids are limited to half of the 32-bit range.
    if files > slots.min(u64::from(u32::MAX / 2)) {
        return Err(Error::TooManyFiles { files, slots });
    }
    if files == 0 {
        return Err(Error::NoFiles);
    }
    let sizes = match spec.file_sizes {
        FileSizes::Fixed(bytes) => vec![bytes; crate::length(files)],
        FileSizes::Mainnet => mainnet_sizes(spec.seed, files, spec.total_bytes)?,
    };
    match sizes.iter().find(|size| !(RECORD_BYTES_MIN..FILE_BYTES_END).contains(*size)) {
        Some(&bytes) => Err(Error::FileSize { bytes }),
        None => Ok(sizes),
    }
}

/// Returns lengths drawn from the distribution and scaled to the total.
fn mainnet_sizes(seed: u64, files: u64, total_bytes: u64) -> Result<Vec<u64>, Error> {
    if total_bytes / RECORD_BYTES_MIN < files {
        return Err(Error::TotalTooSmall { files, total_bytes });
    }
    let mut random = Random::of(&[seed, u64::from_le_bytes(*b"sizes   ")]);
    let drawn: Vec<u64> = (0..files).map(|_| mainnet_size(&mut random)).collect();
    let sum: u64 = drawn.iter().sum();
    let spare = u128::from(total_bytes - files * RECORD_BYTES_MIN);
    let mut sizes: Vec<u64> = drawn
        .iter()
        .map(|&size| {
            let part = u128::from(size) * spare / u128::from(sum);
            RECORD_BYTES_MIN + u64::try_from(part).expect("a part is below the total")
        })
        .collect();
    // Rounding loses less than a byte per file.
    let missing = total_bytes - sizes.iter().sum::<u64>();
    sizes.iter_mut().take(crate::length(missing)).for_each(|size| *size += 1);
    Ok(sizes)
}

/// Returns a length between two neighbouring quantiles, evenly distributed.
fn mainnet_size(random: &mut Random) -> u64 {
    let share = random.below(1000);
    let upper = MAINNET_QUANTILES.partition_point(|&(quantile, _)| quantile <= share);
    let (_, low) = MAINNET_QUANTILES[upper - 1];
    let (_, high) = MAINNET_QUANTILES[upper];
    low + random.below(high - low)
}

/// Mean of the distribution below, and of archives measured before: 6.0 GB in 8277 files.
const MAINNET_MEAN_BYTES: u64 = 725_000;

/// Files shorter than a given size, per mille. A guess: known are only the mean, and that most
/// files are small while a few take most of the space.
const MAINNET_QUANTILES: [(u64, u64); 10] = [
    (0, 300),
    (100, 20_000),
    (250, 60_000),
    (500, 200_000),
    (750, 600_000),
    (900, 1_550_000),
    (970, 3_500_000),
    (995, 8_000_000),
    (999, 24_000_000),
    (1000, 64_000_000),
];

/// First size that eleven octal digits cannot express.
const FILE_BYTES_END: u64 = 1 << 33;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn spec(total_bytes: u64, file_sizes: FileSizes) -> ArchiveSpec {
        ArchiveSpec { total_bytes, file_sizes, ..ArchiveSpec::default() }
    }

    #[test]
    fn mainnet_archives_have_the_measured_number_of_files() {
        let storages = storages(&spec(6_000_000_000, FileSizes::Mainnet)).unwrap();
        assert!((8200..8400).contains(&storages.len()), "{}", storages.len());
        assert_eq!(storages.iter().map(|storage| storage.size).sum::<u64>(), 6_000_000_000);
        let large = storages.iter().filter(|storage| storage.size > 2_000_000).count();
        assert!((500..800).contains(&large), "{large}");
    }

    #[test]
    fn drawn_sizes_have_the_stated_mean() {
        let mut random = Random::new(0);
        let draws = 200_000;
        let mean = (0..draws).map(|_| mainnet_size(&mut random)).sum::<u64>() / draws;
        assert!(mean.abs_diff(MAINNET_MEAN_BYTES) < 15_000, "{mean}");
    }

    #[test]
    fn fixed_sizes_are_fixed() {
        let storages = storages(&spec(1_640_000_000, FileSizes::Fixed(8192))).unwrap();
        assert_eq!(storages.len(), 200_195);
        assert!(storages.iter().all(|storage| storage.size == 8192));
    }

    #[test]
    fn the_number_of_files_can_be_given() {
        let tight = ArchiveSpec { files: Some(10), ..spec(1360, FileSizes::Mainnet) };
        assert!(storages(&tight).unwrap().iter().all(|storage| storage.size == 136));
        let odd = ArchiveSpec { files: Some(7), ..spec(1_000_003, FileSizes::Mainnet) };
        assert_eq!(storages(&odd).unwrap().iter().map(|s| s.size).sum::<u64>(), 1_000_003);
        let fixed = ArchiveSpec { files: Some(7), ..spec(0, FileSizes::Fixed(500)) };
        assert_eq!(storages(&fixed).unwrap().len(), 7);
    }

    #[test]
    fn slots_and_ids_are_unique_and_above_the_base() {
        let spec = ArchiveSpec {
            slot: 1050,
            base_slot: Some(1000),
            ..spec(50_000, FileSizes::Fixed(1000))
        };
        let storages = storages(&spec).unwrap();
        let slots: BTreeSet<u64> = storages.iter().map(|storage| storage.slot).collect();
        let ids: BTreeSet<u32> = storages.iter().map(|storage| storage.id).collect();
        assert_eq!(slots, (1001..=1050).collect());
        assert_eq!(ids.len(), 50);
        let order: Vec<u64> = storages.iter().map(|storage| storage.slot - 1000).take(7).collect();
        assert_eq!(order, [1, 2, 3, 4, 50, 5, 6]);
    }

    #[test]
    fn impossible_plans_are_refused() {
        let base = ArchiveSpec::default();
        let refused = [
            ArchiveSpec { slot: 5, base_slot: Some(5), ..base.clone() },
            ArchiveSpec { slot: 5, files: Some(7), ..base.clone() },
            ArchiveSpec { slot: 5, base_slot: Some(3), files: Some(3), ..base.clone() },
            ArchiveSpec { files: Some(10), ..spec(1359, FileSizes::Mainnet) },
            spec(1000, FileSizes::Fixed(135)),
            spec(1000, FileSizes::Fixed(0)),
            spec(1000, FileSizes::Fixed(1001)),
            spec(1 << 33, FileSizes::Fixed(1 << 33)),
            ArchiveSpec { files: Some(0), ..base },
        ];
        for spec in refused {
            assert!(storages(&spec).is_err(), "{spec:?}");
        }
    }
}

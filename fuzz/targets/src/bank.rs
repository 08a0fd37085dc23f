//! Target for bank files.

use unsnap_layout::{ArchiveHash, ArchiveName, BankError, BankFacts, BankReader};

use crate::{INPUT_BYTES_MAX, pieces::pieces, text::assert_safe};

/// Takes a length of pieces and a bank file. The result is the same in pieces of any size, the slot
/// is where the walk by [`second_reading`] finds it, and the only hash it proves in a name is that
/// of 2048 bytes near its end.
pub fn bank(data: &[u8]) {
    let Some((&by, file)) = data.split_first() else { return };
    if file.len() > INPUT_BYTES_MAX {
        return;
    }
    let whole = read([file].into_iter(), file.len());
    let in_pieces = read(pieces(file, by), file.len());
    match (&whole, &in_pieces) {
        (Ok(facts), Ok(again)) => assert_eq!(facts, again),
        (Err(error), Err(again)) => assert_eq!(error, again),
        _ => panic!("{whole:?} in one piece, {in_pieces:?} in pieces"),
    }
    let slot = second_reading(file);
    match whole {
        Ok(facts) => {
            assert_eq!(Some(facts.slot), slot);
            let _ = facts.epoch();
            prove(file, &facts);
        }
        Err(error) => {
            assert_safe(&error.to_string());
            // After the slot only the epoch schedule can be wrong.
            let beyond = matches!(
                error,
                BankError::NoSlotsInEpoch { .. }
                    | BankError::BadTag { .. }
                    | BankError::TooShort { .. }
            );
            assert!(slot.is_none() || beyond, "{error}");
        }
    }
}

fn read<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    file_bytes: usize,
) -> Result<BankFacts, BankError> {
    let mut reader = BankReader::new(file_bytes as u64);
    for piece in pieces {
        reader.push(piece)?;
    }
    reader.finish()
}

fn prove(file: &[u8], facts: &BankFacts) {
    let name = |hash| ArchiveName::parse(&format!("snapshot-{}-{hash}.tar.zst", facts.slot));
    for behind in [33, 1, 0] {
        let Some(end) = file.len().checked_sub(behind).filter(|end| *end >= 2048) else { continue };
        let lattice_hash = &file[end - 2048..end];
        let hash = ArchiveHash::new(*blake3::hash(lattice_hash).as_bytes());
        let name = name(hash).expect("a slot and a hash make a name");
        if let Ok(proof) = facts.prove(&name) {
            // The bytes of another form of the tail may be equal.
            assert_eq!(proof.lattice_hash[..], *lattice_hash);
        }
    }
    let other = name(ArchiveHash::new([7; 32])).expect("a slot and a hash make a name");
    let error = facts.prove(&other).expect_err("nothing hashes to this");
    assert_safe(&error.to_string());
}

/// Returns the slot, if there is one, by walking the fields before it.
fn second_reading(file: &[u8]) -> Option<u64> {
    let mut at = Some(0_usize);
    let mut skip = |bytes: u64| -> Option<usize> {
        let from = at?;
        at = from.checked_add(usize::try_from(bytes).ok()?).filter(|at| *at <= file.len());
        at.map(|_| from)
    };
    let number = |from: usize| Some(u64::from_le_bytes(*file.get(from..)?.first_chunk()?));
    let flag = |from: usize| file.get(from).filter(|tag| **tag <= 1).map(|tag| u64::from(*tag));
    skip(8)?;
    let last_hash = flag(skip(1)?)?;
    skip(last_hash * 32)?;
    for (before, size) in [(0, 56_u64), (8, 16), (72, 16)] {
        skip(before)?;
        let count = number(skip(8)?)?;
        skip(count.checked_mul(size)?)?;
    }
    skip(40)?;
    let hashes_per_tick = flag(skip(1)?)?;
    skip(hashes_per_tick * 8)?;
    skip(48)?;
    number(skip(8)?)
}

//! Use of unsnap inside a validator: it takes every file as soon as it is complete, open and
//! readable, while others are still being unpacked.
//!
//! ```sh
//! cargo run --release -p unsnap-unpack --example consume -- <full archive> [<incremental archive>]
//! ```
//!
//! Agave's own unpacker calls its consumer with the open file, its path and its size, in the order
//! in which files become complete; that consumer builds the accounts' index meanwhile. Here it counts
//! the accounts of each storage.
#![allow(clippy::print_stdout)] // a program for people
#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{fs::File, os::unix::fs::FileExt, path::PathBuf, sync::mpsc::sync_channel, thread};

use unsnap_pass::Archive;
use unsnap_source::DigestKind;
use unsnap_state::Format;
use unsnap_unpack::{
    AccountsPaths, FileSink, FinishedFile, Options, Pair, Staged, State, UnpackError, Unpacker,
    Verify,
};

/// Most open files that wait for the consumer. Unpacking waits when there are more.
const WAITING_MAX: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let archives: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [full, rest @ ..] = archives.as_slice() else {
        return Err("give the archive of a full snapshot, and of an incremental one upon it".into());
    };
    let scratch = tempfile::tempdir()?;
    std::fs::create_dir_all(scratch.path().join("ledger/snapshots"))?;
    std::fs::create_dir_all(scratch.path().join("accounts"))?;

    let (sender, finished) = sync_channel(WAITING_MAX);
    let incremental = rest.first().cloned().map(Archive::File);
    let pair = Pair::new(Archive::File(full.clone()), incremental)?;
    let state = State {
        directory: scratch.path().join("ledger/snapshots/state"),
        accounts: AccountsPaths::one(scratch.path().join("accounts")),
        format: Format::V3,
        shadow: false,
    };
    let mut options = Options::for_state(pair, Verify::Structure, state, Some(DigestKind::Xxh3));
    options.files = Some(FileSink::open_files(sender));

    let consumer = thread::spawn(move || {
        let (mut storages, mut accounts, mut bytes) = (0_u64, 0_u64, 0_u64);
        // Ends with the run, which drops the sender.
        for FinishedFile { destination, bytes: size, file, .. } in finished {
            // The first destination receives the bank file and other small files.
            if let (1.., Some(file)) = (destination, file) {
                storages += 1;
                accounts += count_accounts(&File::from(file), size)?;
                bytes += size;
            }
        }
        Ok::<_, std::io::Error>((storages, accounts, bytes))
    });
    // Nothing is there before, so there is nothing to clear away.
    let staged = Unpacker::new(options).stage(|_| Ok::<(), UnpackError>(()));
    let report = staged.and_then(Staged::publish);
    let (storages, accounts, bytes) = consumer.join().map_err(|_| "the consumer panicked")??;
    let report = report?;
    println!("{accounts} accounts in {storages} storages of {bytes} bytes, slot {:?}", report.slot);
    Ok(())
}

/// Counts the records of a storage by their lengths.
fn count_accounts(file: &File, size: u64) -> std::io::Result<u64> {
    const HEADER_BYTES: u64 = 136;
    let (mut offset, mut accounts) = (0, 0);
    while offset + HEADER_BYTES <= size {
        let mut length = [0; 8];
        file.read_exact_at(&mut length, offset + 8)?;
        let record = HEADER_BYTES.saturating_add(u64::from_le_bytes(length));
        offset = offset.saturating_add(record.next_multiple_of(8));
        accounts += 1;
    }
    Ok(accounts)
}

//! Accounts of a snapshot, streamed into a closure in the order of the archive. Nothing is written, and
//! all checks of an unpacking run are made.
//!
//! ```sh
//! cargo run --release -p unsnap-lookup --example accounts -- <archive>
//! ```
//!
//! What was seen is worth something only if the run succeeds: until its end the archive may prove bad.
#![allow(clippy::print_stdout)] // a program for people

use std::ops::ControlFlow;

use unsnap_lookup::{Batch, Records, checked};
use unsnap_pass::{Archive, Handles, Options};
use unsnap_unpack::DigestUse;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let archive = std::env::args_os().nth(1).ok_or("give an archive")?;
    let archive = Archive::File(archive.into());
    let (mut accounts, mut lamports, mut largest) = (0_u64, 0_u128, (0, [0; 32]));
    let mut records = Records::new(|batch: Batch| {
        // Old versions are among them: an account counts once for each storage that has it.
        batch.each(|_offset, account, data| {
            accounts += 1;
            lamports += u128::from(account.lamports);
            if data.len() > largest.0 {
                largest = (data.len(), account.pubkey);
            }
        });
        // `Break` would end the run.
        ControlFlow::Continue(())
    });
    let (options, handles) = (Options::default(), Handles::default());
    let report = checked(&archive, DigestUse::None, &options, &handles).tap(&mut records)?;
    drop(records);
    println!("{accounts} versions of accounts with {lamports} lamports, slot {:?}", report.slot);
    println!("the largest has {} bytes: {:02x?}", largest.0, largest.1);
    Ok(())
}

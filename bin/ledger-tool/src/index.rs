//! `ledger-tool index`

use std::path::Path;

use anyhow::Context;
use indicatif::{BinaryBytes, HumanCount};
use serde::Serialize;
use unsnap_pack::write_side_car;
use unsnap_unpack::{Index, Syscalls, Unpacker};

use crate::{cli::IndexMakeArgs, printer::Printer, progress::Display, settings, signals::Signals};

/// What was made.
#[derive(Serialize)]
struct Made {
    archive: String,
    index: String,
    index_bytes: u64,
    archive_bytes: u64,
    bytes_decoded: u64,
    frames: u64,
    entries: u64,
    digest: String,
}

pub fn run(args: &IndexMakeArgs, printer: &Printer) -> anyhow::Result<()> {
    let unpacker = Unpacker::new(settings::reading(&args.archive, &args.io)?);
    Signals::catch()?.cancel(unpacker.cancel_token()).context("cannot watch for signals")?;
    let display = Display::start_doing("indexing", printer, unpacker.progress());
    // By a confined thread: this one is to write beside the archive.
    let made = unpacker.index();
    drop(display);
    let made = write(&made?, &args.archive)?;
    printer.report(args.format, &made, summary)
}

fn write(index: &Index, archive: &Path) -> anyhow::Result<Made> {
    let (path, index_bytes) = write_side_car(&Syscalls::default(), archive, index)?;
    Ok(Made {
        archive: archive.display().to_string(),
        index: path.display().to_string(),
        index_bytes,
        archive_bytes: index.identity.archive_bytes,
        bytes_decoded: index.frames.raw_bytes(),
        frames: index.frames.frames().len() as u64,
        entries: index.entries.entries().len() as u64,
        digest: index.digest().to_string(),
    })
}

fn summary(made: &Made) -> String {
    format!(
        "indexed {} entries in {} frame(s), {} from {}\n  {}, {}\n  digest of the archive: {}\n",
        HumanCount(made.entries),
        HumanCount(made.frames),
        BinaryBytes(made.bytes_decoded),
        BinaryBytes(made.archive_bytes),
        made.index,
        BinaryBytes(made.index_bytes),
        made.digest,
    )
}

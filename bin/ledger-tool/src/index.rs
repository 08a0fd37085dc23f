//! `ledger-tool index`

use std::path::PathBuf;

use anyhow::Context;
use indicatif::BinaryBytes;
use serde::Serialize;
use unsnap_index::Index;
use unsnap_lookup::Reader;
use unsnap_pack::SideCarFile;
use unsnap_pass::{Archive, Handles, on_a_thread_of_its_own};
use unsnap_ring::Syscalls;
use unsnap_tarstream::MemberKind;

use crate::{
    cli::IndexMakeArgs,
    printer::Printer,
    progress::Display,
    settings::{self, RequestError},
    signals::Signals,
    summary::count,
};

/// The report.
#[derive(Serialize)]
struct Made {
    archive: String,
    index: String,
    index_bytes: u64,
    archive_bytes: u64,
    bytes_decoded: u64,
    frames: u64,
    entries: u64,
    /// Entries that are regular files.
    files: u64,
    digest: String,
}

pub fn run(args: &IndexMakeArgs, printer: &Printer) -> anyhow::Result<()> {
    let options = settings::reading(&args.io)?;
    let (archive, _) = settings::archives(&args.archive, None, &args.fetch, &args.io)?;
    if archive == Archive::Stdin {
        let reason = "a stream has no index: give a file or an address";
        return Err(RequestError(reason.to_owned()).into());
    }
    let handles = Handles::default();
    Signals::catch()?.cancel(handles.cancel.clone()).context("cannot watch for signals")?;
    let unfinished = handles.cancel.unfinished();
    // An index belongs beside its archive, wherever that is going to be kept.
    let beside = match &archive {
        Archive::Remote(remote) => PathBuf::from(remote.address.file_name()),
        _ => args.archive.clone(),
    };
    let beside = match (&args.output, beside.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => beside,
    };
    if beside.file_name().is_none() {
        let reason = "the address names no file".to_owned();
        return Err(RequestError(reason).into());
    }
    let side_car = SideCarFile::begin(&Syscalls::default(), unfinished, &beside)?;
    let (name, archives) = (archive.display_name(), archive.into());
    let display = Display::start_doing("indexing", printer, handles.progress.clone());
    // By a confined thread: this one writes beside the archive.
    let reader = Reader { archives: &archives, options: &options, handles: &handles };
    let made = on_a_thread_of_its_own(|| reader.index());
    drop(display);
    let made = write(&made?, name, side_car)?;
    let done = |made: &Made| format!("wrote {} and durable", made.index);
    printer.report_done(args.format, &made, summary, done)
}

fn write(index: &Index, archive: String, side_car: SideCarFile) -> anyhow::Result<Made> {
    let (path, index_bytes) = side_car.write(index)?;
    let entries = index.entries.entries();
    Ok(Made {
        archive,
        index: path.display().to_string(),
        index_bytes,
        archive_bytes: index.identity.archive_bytes,
        bytes_decoded: index.frames.raw_bytes(),
        frames: index.frames.frames().len() as u64,
        entries: entries.len() as u64,
        files: entries.iter().filter(|entry| entry.kind == MemberKind::Regular).count() as u64,
        digest: index.digest().to_string(),
    })
}

fn summary(made: &Made) -> String {
    format!(
        "indexed {} ({}) in {}: {} decoded from {}\n  {}, {}\n  digest of the archive: {}\n",
        count(made.entries, "entry"),
        count(made.files, "file"),
        count(made.frames, "frame"),
        BinaryBytes(made.bytes_decoded),
        BinaryBytes(made.archive_bytes),
        made.index,
        BinaryBytes(made.index_bytes),
        made.digest,
    )
}

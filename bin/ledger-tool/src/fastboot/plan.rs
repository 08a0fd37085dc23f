//! Text of `ledger-tool fastboot prepare --dry-run`.

use std::fmt::Write;

use indicatif::BinaryBytes;
use unsnap_fastboot::{Action, DryRun, Files, Space, What};
use unsnap_unpack::ReusedReport;

use crate::summary::count;

/// Tells of storages that are linked instead of unpacked.
pub fn linked(ReusedReport { archive, files, bytes }: &ReusedReport) -> String {
    format!("{}, {} of {archive}", count(*files, "storage"), BinaryBytes(*bytes))
}

/// Says what would be done.
pub fn text(plan: &DryRun) -> String {
    let slot = plan.slot;
    let mut text = match plan.action {
        Action::Prepare => format!("would prepare the state of slot {slot}\n"),
        Action::Adopt => format!("would adopt the state of slot {slot} that is ready beside\n"),
        Action::Nothing => {
            format!("would prepare nothing: the state of slot {slot} is new enough\n")
        }
    };
    for archive in &plan.archives {
        let _ = writeln!(text, "  archive: {}", archive.display());
    }
    for archive in &plan.set_aside {
        let _ = writeln!(text, "  would set aside, since it is bad: {}", archive.display());
    }
    if let Some(written) = &plan.written {
        let about = if written.bytes_exact { "" } else { "about " };
        let bytes = written.bytes_needed.filter(|_| written.skipped.is_none());
        let bytes = bytes.map_or("an unknown number of bytes".to_owned(), |bytes| {
            format!("{about}{}", BinaryBytes(bytes))
        });
        let files =
            written.inodes_needed.map_or("an unknown number of files".to_owned(), |files| {
                format!("{about}{}", count(files, "file"))
            });
        let _ = writeln!(text, "  would write: {bytes} in {files}");
    }
    if let Some(reused) = &plan.reused {
        let _ = writeln!(text, "  would link from the earlier state: {}", linked(reused));
    }
    if plan.clears_first {
        text.push_str("  would clear before it writes, since both do not fit\n");
    }
    for files in &plan.cleared {
        let _ = writeln!(text, "  would clear: {}", what(files));
    }
    for files in &plan.kept {
        let _ = writeln!(text, "  would keep: {}", what(files));
    }
    text.extend(plan.space.iter().map(space));
    text
}

fn what(files: &Files) -> String {
    let Files { what, slot, path, bytes, .. } = files;
    let (bytes, path) = (BinaryBytes(*bytes), path.display());
    match (what, slot) {
        (What::Ready, Some(slot)) => format!("the ready state of slot {slot}, {bytes}, in {path}"),
        (_, Some(slot)) => format!("the state of slot {slot}, {bytes}, in {path}"),
        (What::Ready, None) => format!("storages of the ready state, {bytes}, in {path}"),
        (What::Shadow, None) => {
            format!("storages that only the shadow keeps, {bytes}, in {path}")
        }
        (What::Leftover, None) => format!("what an earlier run left, {bytes}, in {path}"),
        (What::State | What::Storages, None) => format!("storages, {bytes}, in {path}"),
    }
}

fn space(space: &Space) -> String {
    let directories: Vec<_> =
        space.directories.iter().map(|path| path.display().to_string()).collect();
    let bytes = |bytes: Option<u64>| {
        bytes.map_or("unknown".to_owned(), |bytes| BinaryBytes(bytes).to_string())
    };
    let kept = match space.min_free_bytes {
        0 => String::new(),
        kept => format!(", min-free is {}", BinaryBytes(kept)),
    };
    format!(
        "  free on the file system of {}: {} now, {} afterwards{kept}\n",
        directories.join(" and "),
        bytes(space.free_bytes),
        bytes(space.free_after_bytes),
    )
}

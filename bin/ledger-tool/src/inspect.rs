//! `ledger-tool inspect`

use std::fmt::Write;

use indicatif::{BinaryBytes, HumanCount};
use unsnap_lookup::{
    BankInspection, FrameFacts, Inspection, OwnerTotals, Reader, StorageFacts, WhatToInspect,
};
use unsnap_pass::Handles;

use crate::{
    cli::InspectArgs,
    printer::Printer,
    progress::Display,
    settings,
    signals::Signals,
    summary::{count, seconds},
};

/// Columns of the longest bar of a histogram.
const BAR_COLUMNS: u64 = 40;

pub fn run(args: &InspectArgs, printer: &Printer) -> anyhow::Result<()> {
    let mut options = settings::reading(&args.io)?;
    options.io.index = args.index.index_use();
    let (archive, _) = settings::archives(&args.archive, None, &args.fetch, &args.io)?;
    let (archives, handles) = (archive.into(), Handles::default());
    let reader = Reader { archives: &archives, options: &options, handles: &handles };
    let signals = Signals::catch()?;
    let Handles { progress, cancel } = handles.clone();
    let owners = args.owners.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let what = WhatToInspect { storages: args.storages, owners, frames: args.frames };
    let mut display = None;
    let inspected = reader.inspect(what, || {
        display = Display::start_doing("inspecting", printer, progress);
        signals.cancel(cancel).map(drop)
    });
    drop(display);
    let mut inspected = inspected?;
    printer.report(args.format, &inspected, text)?;
    // Everything that is known has been printed, also about a damaged archive; the exit code says that something is wrong.
    inspected.mismatch.take().map_or(Ok(()), |error| Err(error.into()))
}

fn text(found: &Inspection) -> String {
    let mut text = format!("{}\n", found.archive);
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "  {label:<14} {value}");
    };
    let name = match (found.kind, found.slot, found.base_slot) {
        (Some(kind), Some(slot), Some(base)) => {
            format!("{kind} snapshot of slot {slot}, building on slot {base}")
        }
        (Some(kind), Some(slot), None) => format!("{kind} snapshot of slot {slot}"),
        _ => "not a snapshot's".to_owned(),
    };
    line("name", name);
    line("size", format!("{} ({} bytes)", BinaryBytes(found.archive_bytes), found.archive_bytes));
    let header = found.window_bytes.map_or_else(String::new, |window| {
        let checksum = if found.checksum == Some(true) { "with" } else { "without" };
        format!(", window {}, {checksum} checksums", BinaryBytes(window))
    });
    line("compression", format!("{}{header}", found.compression));
    line("frames", frames(&found.frames));
    if let Some(sizes) = frame_sizes(&found.frames) {
        line("", sizes);
    }
    if let Some(damage) = &found.frames.damage {
        let what = if damage.is_cut { "CUT" } else { "DAMAGED" };
        line("", format!("{what} at byte {}", damage.offset));
    }
    line("producer", format!("probably {}", found.producer.guess));
    for evidence in &found.producer.evidence {
        line("", evidence.clone());
    }
    if let Some(bank) = &found.bank {
        bank_lines(bank, &mut line);
    }
    if found.bank_is_bad {
        line("bank file", "BAD: see the error".to_owned());
    }
    if found.bank_not_reached {
        line("bank file", "NOT REACHED: the damage comes before its end".to_owned());
    }
    if let Some(damage) = &found.damage {
        let begun = count(damage.entries, "entry");
        let last =
            damage.last_entry.as_ref().map_or(String::new(), |path| format!(", up to {path}"));
        line("DAMAGED", format!("{begun} read{last}: see the error"));
        if found.storages.is_some() || found.owners.is_some() {
            line("", "only what comes before the damage is counted below".to_owned());
        }
    }
    if let Some(storages) = &found.storages {
        storage_lines(storages, &mut line);
    }
    if let Some(owners) = &found.owners {
        owner_lines(owners, &mut line);
    }
    let index = if found.index { ", with its index" } else { "" };
    line(
        "examined",
        format!(
            "{} decoded, in {}{index}",
            BinaryBytes(found.bytes_decoded),
            seconds(found.elapsed_ms),
        ),
    );
    for missing in &found.not_looked_at {
        line("not examined", missing.clone());
    }
    text
}

fn frames(frames: &FrameFacts) -> String {
    let skippable = match frames.skippable_frames {
        0 => String::new(),
        number => format!(", and {}", count(number, "skippable frame")),
    };
    let seen = HumanCount(frames.frames);
    match (frames.complete, frames.estimated_frames) {
        (true, _) => format!("{seen}{skippable} (by {})", frames.source),
        (false, Some(all)) => {
            format!("about {} (estimated from the first {seen}{skippable})", HumanCount(all))
        }
        (false, None) if frames.source == "pass" => "not examined".to_owned(),
        (false, None) => "none ends in the part that was examined".to_owned(),
    }
}

fn frame_sizes(frames: &FrameFacts) -> Option<String> {
    if frames.frames == 0 {
        return None;
    }
    let bytes = frames.bytes;
    let declared = frames.frames - frames.undeclared;
    let raw = match declared {
        0 => "they do not declare their decoded sizes".to_owned(),
        _ => format!(
            "decoded {} to {}, on average {}",
            BinaryBytes(frames.raw_bytes.smallest),
            BinaryBytes(frames.raw_bytes.largest),
            BinaryBytes(frames.raw_bytes.sum / declared)
        ),
    };
    let mean = BinaryBytes(bytes.sum / frames.frames);
    let (smallest, largest) = (BinaryBytes(bytes.smallest), BinaryBytes(bytes.largest));
    Some(format!("of {smallest} to {largest}, on average {mean}; {raw}"))
}

fn bank_lines(bank: &BankInspection, line: &mut impl FnMut(&str, String)) {
    line("slot", format!("{}, epoch {}, parent {}", bank.slot, bank.epoch, bank.parent_slot));
    line("bank hash", bank.hash.clone());
    line("parent hash", bank.parent_hash.clone());
    if let Some(id) = &bank.block_id {
        line("block id", id.clone());
    }
    line("capitalization", format!("{} lamports", HumanCount(bank.capitalization)));
    line(
        "since genesis",
        format!(
            "{} blocks, {} transactions",
            HumanCount(bank.block_height),
            HumanCount(bank.transaction_count)
        ),
    );
    line("bank file", format!("{}", BinaryBytes(bank.bytes)));
    line(
        "hash check",
        match bank.hash_check.as_str() {
            "matches" => "the bank file matches the archive's name".to_owned(),
            "no name" => "none: the name is not a snapshot's".to_owned(),
            problem => format!("FAILED: {problem}"),
        },
    );
}

fn storage_lines(storages: &StorageFacts, line: &mut impl FnMut(&str, String)) {
    line(
        "storages",
        format!(
            "{}, {}, of slots {} to {}",
            HumanCount(storages.count),
            BinaryBytes(storages.bytes),
            storages.lowest_slot,
            storages.highest_slot
        ),
    );
    let most = storages.sizes.iter().map(|class| class.count).max().unwrap_or(0);
    for class in &storages.sizes {
        let columns = (class.count * BAR_COLUMNS).div_ceil(most.max(1));
        let bar = "█".repeat(usize::try_from(columns).unwrap_or(0));
        let from = BinaryBytes(class.from_bytes).to_string();
        let count = HumanCount(class.count).to_string();
        line("", format!("{from:>12} {count:>9} {bar}"));
    }
}

fn owner_lines(owners: &[OwnerTotals], line: &mut impl FnMut(&str, String)) {
    line("owners", "by bytes of data, over all records (older versions included)".to_owned());
    for totals in owners {
        let owner = totals.owner.as_deref().unwrap_or("all others");
        let data = BinaryBytes(totals.data_bytes).to_string();
        let records = HumanCount(totals.records).to_string();
        line("", format!("{owner:<44} {records:>13} records {data:>12}"));
    }
}

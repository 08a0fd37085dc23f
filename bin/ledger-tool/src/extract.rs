//! `ledger-tool extract`

use std::{
    fmt::Write as _,
    io::{self, BufWriter, Write as _},
};

use anyhow::Context;
use indicatif::{BinaryBytes, HumanCount};
use serde::Serialize;
use unsnap_index::ReadOptions;
use unsnap_layout::ArchiveHash;
use unsnap_lookup::{Account, AccountsFound, ExtractTo, Extracted, LookupError, Reader, Selection};
use unsnap_pass::{Archives, Handles, LayoutKind, Resources};

use crate::{
    cli::{ExtractArgs, ExtractFormat, Layout, Pubkey, ReportFormat},
    exit::OutputFailed,
    printer::{Printer, last},
    progress::Display,
    settings::{self, RequestError},
    signals::Signals,
    summary::{count, seconds},
};

/// Bytes gathered before they are written to standard output. A guess.
const OUTPUT_BYTES: usize = 1 << 20;

pub fn run(args: &ExtractArgs, printer: &Printer) -> anyhow::Result<()> {
    let mut options = settings::reading(&args.io)?;
    options.io.index = args.index.index_use();
    let (archive, incremental) =
        settings::archives(&args.archive, args.incremental.as_ref(), &args.fetch, &args.io)?;
    let archives = Archives::new(archive, incremental)?;
    let handles = Handles::default();
    let reader = Reader { archives: &archives, options: &options, handles: &handles };
    let what = Selection::new(&args.entry, args.slot.clone())?;
    let to_output = args.output.as_deref().is_some_and(|output| output.as_os_str() == "-");
    if args.account.is_empty() && args.entry.is_empty() && args.slot.is_empty() {
        let reason = "nothing to extract: give --entry, --slot or --account";
        return Err(RequestError(reason.to_owned()).into());
    }
    if args.format == ExtractFormat::Raw && args.account.len() != 1 {
        return Err(RequestError(
            "--format raw prints a single account: give one --account".to_owned(),
        )
        .into());
    }
    if args.account.is_empty() {
        entries(args, reader, &what, to_output, printer)
    } else {
        accounts(args, reader, &what, printer)
    }
}

fn options(args: &ExtractArgs, resources: Resources) -> ReadOptions {
    let defaults = ReadOptions::default();
    ReadOptions {
        coalesce_gap: args.coalesce_gap,
        threads: resources.threads(),
        memory_bytes: resources.memory_budget.unwrap_or(defaults.memory_bytes),
    }
}

fn entries(
    args: &ExtractArgs,
    reader: Reader<'_>,
    what: &Selection,
    to_output: bool,
    printer: &Printer,
) -> anyhow::Result<()> {
    let how = options(args, reader.options.resources);
    let layout = if args.any_layout() { LayoutKind::Any } else { LayoutKind::Snapshot };
    let signals = Signals::catch()?;
    let Handles { progress, cancel } = reader.handles.clone();
    let mut display = None;
    // The other threads are started once this one is confined, and so are confined like it.
    let confined = || {
        display = Display::start_doing("extracting", printer, progress);
        signals.cancel(cancel).map(drop)
    };
    if to_output {
        let mut output = BufWriter::with_capacity(OUTPUT_BYTES, io::stdout().lock());
        let to = ExtractTo::Stream(&mut output);
        let extracted = reader.extract(what, layout, to, how, confined);
        drop(display);
        extracted?;
        return output.flush().map_err(|error| OutputFailed::new(error).into());
    }
    let to = ExtractTo::Directory(args.output.clone().unwrap_or_default());
    let extracted = reader.extract(what, layout, to, how, confined);
    drop(display);
    let extracted = extracted?;
    let format = match args.format {
        ExtractFormat::Json => ReportFormat::Json,
        ExtractFormat::Text | ExtractFormat::Raw => ReportFormat::Text,
    };
    let output = args.output.clone().unwrap_or_default();
    let done = |_: &Extracted| format!("extracted to {} and durable", output.display());
    printer.report_done(format, &extracted, summary, done)
}

fn summary(extracted: &Extracted) -> String {
    let mut text = format!(
        "extracted {}, {}, in {}\n",
        count(extracted.entries, "entry"),
        BinaryBytes(extracted.bytes),
        seconds(extracted.elapsed_ms),
    );
    match extracted.reads {
        Some(reads) => {
            let _ = writeln!(
                text,
                "  by the index: {} decoded, {} read in {}",
                count(reads.frames, "frame"),
                BinaryBytes(reads.bytes_read),
                count(reads.reads, "read"),
            );
            if reads.reads_saved > 0 {
                let _ = writeln!(
                    text,
                    "  {} saved by reading over {} of gaps",
                    count(reads.reads_saved, "read"),
                    BinaryBytes(reads.extra_bytes),
                );
            }
        }
        None => text.push_str(
            "  the archive was read from its beginning; an index avoids that (ledger-tool index)\n",
        ),
    }
    text
}

fn accounts(
    args: &ExtractArgs,
    reader: Reader<'_>,
    what: &Selection,
    printer: &Printer,
) -> anyhow::Result<()> {
    let how = options(args, reader.options.resources);
    let archive = reader.archives.as_slice()[0].display_name();
    let signals = Signals::catch()?;
    let Handles { progress, cancel } = reader.handles.clone();
    let keys: Vec<[u8; 32]> = args.account.iter().map(|Pubkey(key)| *key).collect();
    let mut display = None;
    let found = reader.accounts(&keys, what, how, || {
        display = Display::start_doing("searching", printer, progress);
        signals.cancel(cancel).map(drop)
    });
    drop(display);
    let AccountsFound { accounts, .. } = found?;
    let found: Vec<&Account> = accounts.iter().flatten().collect();
    match args.format {
        ExtractFormat::Text => {
            last(&found.iter().map(|account| text(account)).collect::<String>())?;
        }
        ExtractFormat::Json => {
            let shown: Vec<Shown> = found.iter().map(|account| Shown::of(account)).collect();
            let json = serde_json::to_string_pretty(&shown).context("cannot write the accounts")?;
            last(&format!("{json}\n"))?;
        }
        ExtractFormat::Raw => {
            let mut output = io::stdout().lock();
            for account in found {
                output.write_all(&account.data).map_err(OutputFailed::new)?;
            }
            output.flush().map_err(OutputFailed::new)?;
        }
    }
    let missing = keys.iter().zip(&accounts).filter(|(_, account)| account.is_none());
    let missing: Vec<String> = missing.map(|(key, _)| base58(*key)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // The accounts found have been printed.
    let what = format!("there is no account {}", missing.join(", "));
    Err(LookupError::NotFound { archive, what }.into())
}

/// An account, as JSON shows it.
#[derive(Serialize)]
struct Shown {
    pubkey: String,
    lamports: u64,
    owner: String,
    executable: bool,
    rent_epoch: u64,
    slot: u64,
    storage: String,
    offset: u64,
    data_bytes: u64,
    /// In hexadecimal.
    data: String,
}

impl Shown {
    fn of(account: &Account) -> Self {
        Self {
            pubkey: base58(account.pubkey),
            lamports: account.lamports,
            owner: base58(account.owner),
            executable: account.executable,
            rent_epoch: account.rent_epoch,
            slot: account.slot,
            storage: format!("accounts/{}.{}", account.slot, account.storage),
            offset: account.offset,
            data_bytes: account.data.len() as u64,
            data: hexadecimal(&account.data),
        }
    }
}

/// Bytes of an account's data in text output.
const TEXT_DATA_BYTES: usize = 64;

fn text(account: &Account) -> String {
    let shown = &account.data[..account.data.len().min(TEXT_DATA_BYTES)];
    let closed = if account.lamports == 0 { " (closed account)" } else { "" };
    let more = if shown.len() < account.data.len() { "…" } else { "" };
    format!(
        "account {}\n  lamports: {}{closed}\n  owner: {}\n  executable: {}\n  data: {} bytes {}{more}\n  \
         in accounts/{}.{} at byte {}\n",
        base58(account.pubkey),
        HumanCount(account.lamports),
        base58(account.owner),
        if account.executable { "yes" } else { "no" },
        HumanCount(account.data.len() as u64),
        hexadecimal(shown),
        account.slot,
        account.storage,
        account.offset,
    )
}

fn base58(key: [u8; 32]) -> String {
    ArchiveHash::new(key).to_string()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl ExtractArgs {
    /// Whether any tar is accepted, and not only a snapshot.
    pub fn any_layout(&self) -> bool {
        self.layout == Layout::Any
    }
}

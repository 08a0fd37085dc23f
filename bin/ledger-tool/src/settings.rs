//! From the command line to options of the libraries: defaults < file < flags.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread,
};

use anyhow::Context;
use rustix::io::Errno;
use unsnap_cli::args::{FetchArgs, IoArgs, ReportFormat};
pub use unsnap_cli::settings::{RequestError, local_archive, parse_size, reading};
use unsnap_cli::settings::{offered, peers};
use unsnap_cli::validator::{OwnPlaces, Told, refuse_missing};
use unsnap_export::{AccountColumns, ExportQuery, KeyForm, TableKind};
use unsnap_failure::Remedy;
use unsnap_fastboot::{ExpectedCluster, Offered, Places, Request};
use unsnap_lookup::{AccountFilter, AccountsQuery, DiffOptions, MEMORY_BYTES, Memcmp};
use unsnap_pack::PackOptions;
use unsnap_pass::{Archive, Archives, LayoutKind, PassError};
use unsnap_source::{DigestKind, SourceError};
use unsnap_unpack::{
    CheckOutputs, DigestUse, FileByFile, Options, Pair, Reserve, Single, Source, TeeTo, Tree,
    Verify,
};

use crate::cli::{
    AccountsArgs, AccountsFormat, DiffArgs, DigestArg, ExportArgs, FilterArgs, FrameArgs, Keys,
    Layout, PlacesArgs, PrepareArgs, Pubkey, RepackArgs, Table, TableFormat, UnpackArgs,
    VerifyArgs, parse_pubkey,
};

/// Checks that a file or directory exists, before anything else about it is judged.
pub fn present(path: &Path) -> Result<(), PassError> {
    std::fs::metadata(path).map(drop).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        PassError::Source(SourceError::Open { path: path.to_owned(), errno })
    })
}

/// Checks that archives exist, before their names are judged.
pub fn all_present<'a>(archives: impl IntoIterator<Item = &'a Archive>) -> Result<(), PassError> {
    archives.into_iter().try_for_each(|archive| match archive {
        Archive::File(path) | Archive::Unpublished { path, .. } => present(path),
        // Whether a server has it, it says when it is asked.
        Archive::Stdin | Archive::Remote(_) => Ok(()),
    })
}

/// Returns the archive with this name, and the incremental one that builds on it.
pub fn archives(
    archive: &Path,
    incremental: Option<&PathBuf>,
    fetch: &FetchArgs,
    io: &IoArgs,
) -> Result<(Archive, Option<Archive>), PassError> {
    let open = |path: &Path| unsnap_cli::settings::archive(path, fetch, !io.no_sandbox);
    let archive = open(archive)?;
    let incremental = match incremental {
        // Standard input is not meant by "-" here.
        Some(path) if path.as_os_str() == "-" => Some(Archive::File(path.clone())),
        Some(path) => Some(open(path)?),
        None => None,
    };
    Ok((archive, incremental))
}

/// Returns the options of `verify`.
pub fn verifying(args: &VerifyArgs) -> anyhow::Result<Options> {
    let (archive, incremental) =
        archives(&args.archive, args.incremental.as_ref(), &args.fetch, &args.io)?;
    all_present(std::iter::once(&archive).chain(&incremental))?;
    let verify = args.verify.verify(args.verify_memory);
    let source = source(archive, incremental, LayoutKind::Snapshot, verify)?;
    Ok(Options::check(source, CheckOutputs::default()).with_pass(reading(&args.io)?))
}

/// Returns the source of an archive and, if it is given, the incremental one that builds on it,
/// which has the layout of a snapshot.
fn source(
    archive: Archive,
    incremental: Option<Archive>,
    layout: LayoutKind,
    verify: Verify,
) -> Result<Source, PassError> {
    match incremental {
        None => Ok(Single::new(archive, layout, verify)?.into()),
        Some(_) => Ok(Source::pair(Pair::new(archive, incremental)?, verify)),
    }
}

/// Returns the request of `fastboot prepare`.
pub fn preparing(args: &PrepareArgs) -> anyhow::Result<Request> {
    let mut pass = reading(&args.io)?;
    pass.neighbour = args.neighbour.limits();
    // In place, no validator runs that could need the space.
    let min_free = if args.beside { Reserve::AUTO } else { Reserve::NONE };
    let (places, cluster) = places_and_cluster(&args.places)?;
    Ok(Request {
        cluster,
        verify: args.state.verify(),
        preflight: args.state.preflight.mode(),
        min_free: args.state.preflight.min_free.unwrap_or(min_free),
        pass,
        format: args.state.fastboot_format.format(),
        shadow: !args.no_shadow,
        offered: Offered {
            archives: offered(&args.offered, &args.fetch, !args.io.no_sandbox)?,
            peers: peers(&args.peers, &args.fetch, !args.io.no_sandbox)?,
            is_optional: false,
        },
        replace: args.replace,
        removal_files_per_second: args.removal.removal_files_per_second,
        ..Request::new(places)
    })
}

/// Returns the validator's directories. Those that were named must exist, except accounts paths.
/// Those of a validator's command line must exist, except its default accounts path.
pub fn places(args: &PlacesArgs) -> anyhow::Result<Places> {
    Ok(places_and_cluster(args)?.0)
}

/// Returns the same, and what that command line expects of its cluster.
fn places_and_cluster(args: &PlacesArgs) -> anyhow::Result<(Places, ExpectedCluster)> {
    let own = OwnPlaces {
        ledger: args.ledger.as_deref(),
        snapshots: args.snapshots.as_deref(),
        full_archives: args.full_snapshot_archive_path.as_deref(),
        incremental_archives: args.incremental_snapshot_archive_path.as_deref(),
        accounts: &args.accounts,
    };
    let named = [own.ledger, own.snapshots, own.full_archives, own.incremental_archives];
    named.into_iter().flatten().try_for_each(present)?;
    let told = Told { own, lines: args.source.lines()? };
    let places = told.places()?;
    if !told.lines.is_empty() {
        refuse_missing(&places)?;
    }
    Ok((places, told.cluster()))
}

/// Returns the options of `repack` for reading.
pub fn repacking(args: &RepackArgs) -> anyhow::Result<Options> {
    all_present([&local_archive(&args.archive)])?;
    let source = Single::new(local_archive(&args.archive), layout(args.layout), Verify::default())?;
    Ok(Options::check(source, CheckOutputs::default()).with_pass(reading(&args.io)?))
}

/// Returns the options for writing an archive.
pub fn packing(args: &FrameArgs) -> PackOptions {
    let default = PackOptions::default();
    let frame_bytes = args.frame_size.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let threads = args.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    PackOptions {
        frame_bytes: frame_bytes.unwrap_or(default.frame_bytes),
        level: args.level,
        checksums: args.checksums,
        seek_table: args.seek_table,
        threads: threads.unwrap_or(default.threads),
        replace: args.force,
        direct_io: default.direct_io,
    }
}

/// Returns the snapshots that `diff` compares, and how.
pub fn comparing(args: &DiffArgs) -> anyhow::Result<([Archives; 2], DiffOptions)> {
    let archives = [local_archive(&args.before), local_archive(&args.after)];
    if archives == [Archive::Stdin, Archive::Stdin] {
        let reason = "standard input can be one of the archives, not both".to_owned();
        return Err(RequestError(reason).into());
    }
    let [before, after] = archives;
    let snapshots = [
        snapshot(before, args.before_incremental.as_ref())?,
        snapshot(after, args.after_incremental.as_ref())?,
    ];
    let options = DiffOptions { memory_bytes_max: memory(args.memory), threads: cores() };
    Ok((snapshots, options))
}

/// Returns an archive that exists and, if it is named, the incremental one that builds on it.
pub fn snapshot(archive: Archive, incremental: Option<&PathBuf>) -> Result<Archives, PassError> {
    let incremental = incremental.cloned().map(Archive::File);
    present_pair(archive, incremental)
}

/// Returns an archive and, if it is given, the incremental one that builds on it. Both must exist.
pub fn present_pair(archive: Archive, incremental: Option<Archive>) -> Result<Archives, PassError> {
    all_present(std::iter::once(&archive).chain(&incremental))?;
    Ok(Archives::new(archive, incremental)?)
}

/// Returns the query of `accounts`.
pub fn listing(args: &AccountsArgs) -> anyhow::Result<AccountsQuery> {
    Ok(AccountsQuery {
        filter: filter(&args.filter)?,
        newest: args.newest,
        format: match args.format {
            AccountsFormat::Text => unsnap_lookup::AccountsFormat::Text,
            AccountsFormat::Csv => unsnap_lookup::AccountsFormat::Csv,
            AccountsFormat::Json => unsnap_lookup::AccountsFormat::Json,
            AccountsFormat::JsonLines => unsnap_lookup::AccountsFormat::JsonLines,
        },
        with_data: args.with_data,
        limit: args.limit,
        memory_bytes_max: memory(args.memory),
        threads: cores(),
    })
}

/// Returns the query of `export`.
pub fn exporting(args: &ExportArgs) -> anyhow::Result<ExportQuery> {
    match (args.format, args.output.as_os_str() == "-") {
        (TableFormat::Parquet, false) => {}
        (TableFormat::Parquet, true) => {
            let reason =
                "Parquet files need a directory: only --format arrow goes to standard output";
            return Err(RequestError(reason.to_owned()).into());
        }
        (TableFormat::Arrow, false) => {
            let reason = "--format arrow goes to standard output only: --output -";
            return Err(RequestError(reason.to_owned()).into());
        }
        (TableFormat::Arrow, true) => {
            if args.table.len() != 1 {
                let reason = "a stream holds one table: name one with --table";
                return Err(RequestError(reason.to_owned()).into());
            }
            if args.check || args.report == ReportFormat::Json {
                let reason = "--check and --report have no meaning with --output -: nothing can be \
                              read again, and standard output holds the rows";
                return Err(RequestError(reason.to_owned()).into());
            }
        }
    }
    let (columns, tuning) = (&args.columns, &args.tuning);
    let default = ExportQuery::all(&args.output);
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let threads = tuning.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    Ok(ExportQuery {
        filter: filter(&args.filter)?,
        newest: args.newest,
        tables: args.table.iter().map(|table| table_kind(*table)).collect(),
        columns: AccountColumns {
            keys: match columns.keys {
                Keys::Binary => KeyForm::Binary,
                Keys::Base58 => KeyForm::Base58,
            },
            data: !columns.no_data,
            provenance: columns.provenance,
        },
        data_prefix: columns.data_prefix.map(bytes),
        check: args.check,
        rows_memory_bytes: tuning.rows_memory.map_or(default.rows_memory_bytes, bytes),
        newest_memory_bytes: memory(tuning.memory),
        row_group_bytes: tuning.row_group_size.map(bytes),
        file_bytes: tuning.file_size,
        threads: threads.unwrap_or(default.threads),
        ..default
    })
}

pub fn table_kind(table: Table) -> TableKind {
    match table {
        Table::Accounts => TableKind::Accounts,
        Table::TokenAccounts => TableKind::TokenAccounts,
        Table::Mints => TableKind::Mints,
        Table::Stakes => TableKind::Stakes,
        Table::Votes => TableKind::Votes,
    }
}

/// Most addresses in a file: they take a gigabyte of memory.
const PUBKEYS_MAX: usize = 20_000_000;

/// Returns the filter of `accounts` and `export`.
fn filter(args: &FilterArgs) -> anyhow::Result<AccountFilter> {
    let pubkeys = args.pubkeys.as_ref().map(|path| pubkeys(path)).transpose()?;
    let memcmp = args
        .memcmp
        .iter()
        .map(|memcmp| Memcmp { offset: memcmp.offset, bytes: memcmp.bytes.clone() });
    Ok(AccountFilter {
        owners: args.owner.iter().map(|owner| owner.0).collect(),
        pubkeys,
        data_len: args.data_size.clone().unwrap_or(0..=u64::MAX),
        memcmp: memcmp.collect(),
        slots: args.slot.clone(),
    })
}

/// Reads a list of addresses. Empty lines and those that begin with `#` are left out.
fn pubkeys(path: &Path) -> anyhow::Result<HashSet<[u8; 32]>> {
    present(path)?;
    let file =
        std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut pubkeys = HashSet::new();
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.with_context(|| format!("cannot read {}", path.display()))?;
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let Ok(Pubkey(pubkey)) = parse_pubkey(text) else {
            let reason = format!("{}, line {number}: not an address in base58", path.display());
            return Err(RequestError(reason).into());
        };
        pubkeys.insert(pubkey);
        if pubkeys.len() > PUBKEYS_MAX {
            let reason = format!("{}: more than {PUBKEYS_MAX} addresses", path.display());
            return Err(RequestError(reason).into());
        }
    }
    Ok(pubkeys)
}

/// Returns the memory for the newest versions.
pub fn memory(bytes: Option<u64>) -> usize {
    bytes.map_or(MEMORY_BYTES, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn layout(layout: Layout) -> LayoutKind {
    match layout {
        Layout::Snapshot => LayoutKind::Snapshot,
        Layout::Any => LayoutKind::Any,
    }
}

/// Returns the options of `unpack`.
pub fn unpacking(
    args: &UnpackArgs,
    (archive, incremental): (Archive, Option<Archive>),
    manifest: Option<PathBuf>,
) -> anyhow::Result<Options> {
    let layout = layout(args.layout);
    if layout == LayoutKind::Any && !args.accounts.is_empty() {
        let reason =
            "--accounts has no meaning with --layout any: only a snapshot has account files";
        return Err(RequestError(reason.to_owned()).into());
    }
    if layout == LayoutKind::Any && incremental.is_some() {
        let reason =
            "--incremental has no meaning with --layout any: only snapshots build on others";
        return Err(RequestError(reason.to_owned()).into());
    }
    let verify = args.verify.verify(args.verify_memory);
    let digest = match (args.expect_digest, args.digest) {
        (Some(expected), _) => DigestUse::Expect(expected),
        (None, DigestArg::Xxh3) => DigestUse::Report(DigestKind::Xxh3),
        (None, DigestArg::Blake3) => DigestUse::Report(DigestKind::Blake3),
        (None, DigestArg::None) => DigestUse::None,
    };
    let mut options = match &args.output {
        Some(output) if !args.dry_run => {
            if incremental.is_some() {
                let reason = "a full and an incremental archive are unpacked together into a \
                              validator's state only, not into a tree";
                let hint = "use `ledger-tool fastboot prepare`, or check the pair with --dry-run";
                return Err(PassError::request_with(reason, Remedy::advice(hint)).into());
            }
            let tree = Tree { output: output.clone(), accounts: args.accounts.clone(), manifest };
            if args.resume {
                let Some(checks) = verify.file_by_file() else {
                    let reason = "accounts cannot be verified in a run that resumes";
                    return Err(PassError::request(reason).into());
                };
                Options::for_resumable_tree(FileByFile::new(archive, layout, checks), tree, digest)
            } else {
                Options::for_tree(Single::new(archive, layout, verify)?, tree, digest)
            }
        }
        _ => {
            let source = source(archive, incremental, layout, verify)?;
            Options::check(source, CheckOutputs { digest, manifest })
        }
    };
    options.preflight = args.preflight.mode();
    options.min_free = args.preflight.min_free.unwrap_or_default();
    options.tee = args.tee.clone().map(TeeTo::directory);
    options.pass = reading(&args.io)?;
    options.pass.tuning.checkpoint_bytes = args.checkpoint_every;
    options.pass.io.index = args.index.index_use();
    options.pass.neighbour = args.neighbour.limits();
    Ok(options)
}

//! Checking of an existing export: that it is what its manifest, its archives and their bank say.

use std::{
    collections::BTreeSet, num::NonZeroUsize, os::fd::OwnedFd, path::PathBuf, thread, time::Instant,
};

use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use serde::Serialize;
use unsnap_layout::ArchiveHash;
use unsnap_lookup::{AccountFilter, MEMORY_BYTES};
use unsnap_pass::{Archive, Archives, Handles, Options, PassError, Phase, millis};
use unsnap_source::SourceError;
use unsnap_table::{AccountColumns, Columns, Schema, TableKind};
use unsnap_verify::lattice::LatticeHash;

use crate::{
    ExportError, ExportQuery, Manifest, Problem,
    described::{Described, MANIFEST_BYTES_MAX, parse},
    directory::Directory,
    manifest::{MANIFEST_NAME, SUCCESS_NAME},
    passes::{Passes, Timers},
    read_back::read_back,
};

/// What is checked, and how.
#[derive(Clone, Debug)]
pub struct CheckQuery {
    /// Directory of an export.
    pub directory: PathBuf,
    /// With archives: memory for finding the newest versions in bytes; the rest goes to an unnamed
    /// temporary file.
    pub newest_memory_bytes: usize,
    /// Number of threads that read files.
    pub threads: NonZeroUsize,
}

/// What was checked and found right. Sizes are bytes, times milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// The directory.
    pub directory: String,
    /// Slot of the newest bank.
    pub slot: Option<u64>,
    /// Number of rows in all tables.
    pub rows: u64,
    /// Number of files of tables.
    pub files: u64,
    /// Size of the tables' files.
    pub bytes: u64,
    /// The capitalization of the bank, if the lamports of all accounts were compared with it.
    pub capitalization: Option<u64>,
    /// The hash in the archive's name, if that of all accounts was compared with it.
    pub accounts_hash: Option<String>,
    /// Archives whose accounts were compared with the rows.
    pub compared_with: Vec<String>,
    /// Time for everything.
    pub elapsed_ms: u64,
    /// What the export holds, as in its `_manifest.json`.
    pub manifest: Manifest,
}

impl CheckQuery {
    /// Returns a query with defaults.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            newest_memory_bytes: MEMORY_BYTES,
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }
}

/// Reads all files of an export and compares them with its manifest, and with what is known of the
/// bank: its capitalization, and the hash of all accounts. Then reads archives, if there are any, and
/// compares their accounts with the rows.
pub fn check(
    query: &CheckQuery,
    archives: Option<&Archives>,
    options: &Options,
    handles: &Handles,
) -> Result<CheckReport, ExportError> {
    let started = Instant::now();
    handles.progress.reset(options.neighbour.pace.as_ref());
    let calls = options.io.engine.syscalls();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = calls.open(&query.directory, flags);
    let opened = opened.map_err(|errno| {
        PassError::Source(SourceError::Open { path: query.directory.clone(), errno })
    })?;
    let directory = Directory::existing(&calls, &opened, &query.directory);
    let manifest = read_manifest(&directory)?;
    if manifest.filtered && archives.is_some() {
        let reason = "the export holds the records that a filter has selected, and does not say \
                      which: it cannot be compared with an archive";
        return Err(PassError::request(reason).into());
    }
    let described = Described::by(&manifest);
    let Described { tables, columns } =
        described.map_err(|problem| directory.bad(MANIFEST_NAME, problem))?;
    check_names(&directory, &manifest)?;

    // The hash covers all accounts of the bank, with all of their data.
    let has_data = columns.data && manifest.data_prefix.is_none();
    let has_accounts = tables.iter().any(|(kind, _)| *kind == TableKind::Accounts);
    let is_whole = manifest.is_whole() && has_accounts;
    let newest = manifest.archives.last().filter(|_| is_whole);
    let expected = newest.filter(|_| has_data).and_then(|newest| newest.hash.clone());
    let hashing = expected.is_some();
    let found = read_back(&directory, &manifest, &tables, query.threads, handles, hashing)?;
    if let Some(expected) = &expected {
        let found = found.map_or(LatticeHash::ZERO.checksum(), |hash| hash.checksum());
        let found = ArchiveHash::new(found).to_string();
        if found != *expected {
            let problem = Problem::AccountsHash { found, expected: expected.clone() };
            return Err(directory.bad("", problem));
        }
    }
    if let Some(archives) = archives {
        let compare = Compare { query, columns, tables: &tables, manifest: &manifest };
        compare.with(archives.as_slice(), &directory, options, handles)?;
    }
    handles.progress.enter(Phase::Done);
    let archives = archives.map_or(&[][..], Archives::as_slice);
    Ok(CheckReport {
        directory: query.directory.display().to_string(),
        slot: manifest.slot,
        rows: manifest.tables.iter().map(|table| table.rows).sum(),
        files: manifest.files().count() as u64,
        bytes: manifest.files().map(|file| file.bytes).sum(),
        capitalization: newest.and_then(|newest| newest.capitalization),
        accounts_hash: expected,
        compared_with: archives.iter().map(Archive::display_name).collect(),
        elapsed_ms: millis(started.elapsed()),
        manifest,
    })
}

/// Reads the manifest of a complete export.
pub(crate) fn read_manifest(directory: &Directory<'_>) -> Result<Manifest, ExportError> {
    let open = |name: &str, problem| {
        directory.open_as(name, OFlags::RDONLY | OFlags::NONBLOCK).map_err(|errno| match errno {
            Errno::NOENT => directory.bad("", problem),
            errno => directory.failed("open", name)(errno),
        })
    };
    open(SUCCESS_NAME, Problem::NotComplete)?;
    let absent = || Problem::Manifest("there is none".to_owned());
    let file = open(MANIFEST_NAME, absent())?;
    let text = read_small(directory, &file)?;
    parse(&text).map_err(|problem| directory.bad(MANIFEST_NAME, problem))
}

/// Reads a small file as a whole.
fn read_small(directory: &Directory<'_>, file: &OwnedFd) -> Result<Vec<u8>, ExportError> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let read = directory.calls.pread(file, &mut buffer, bytes.len() as u64);
        match read.map_err(directory.failed("read", MANIFEST_NAME))? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
        if bytes.len() > MANIFEST_BYTES_MAX {
            let reason = "it is too large".to_owned();
            return Err(directory.bad(MANIFEST_NAME, Problem::Manifest(reason)));
        }
    }
}

/// Compares the names in the directory with those in the manifest: engines read whatever is there.
fn check_names(directory: &Directory<'_>, manifest: &Manifest) -> Result<(), ExportError> {
    let mut missing: BTreeSet<String> = manifest.files().map(|file| file.path.clone()).collect();
    missing.extend([MANIFEST_NAME, SUCCESS_NAME].map(str::to_owned));
    let mut holders: BTreeSet<String> = manifest.tables.iter().map(|it| it.name.clone()).collect();
    for file in manifest.files() {
        let slashes = file.path.match_indices('/');
        holders.extend(slashes.map(|(at, _)| file.path[..at].to_owned()));
    }
    let mut pending = vec![String::new()];
    while let Some(holder) = pending.pop() {
        let entries = match holder.as_str() {
            "" => directory.entries(),
            name => directory.entries_of(name),
        };
        for (name, kind) in entries? {
            let name = name.to_string_lossy();
            let path =
                if holder.is_empty() { name.into_owned() } else { format!("{holder}/{name}") };
            match kind {
                FileType::Directory if holders.contains(&path) => pending.push(path),
                FileType::RegularFile if missing.remove(&path) => {}
                _ => return Err(directory.bad(&path, Problem::Foreign)),
            }
        }
    }
    match missing.pop_first() {
        Some(path) => Err(directory.bad(&path, Problem::Missing)),
        None => Ok(()),
    }
}

/// The comparison with archives.
struct Compare<'a> {
    query: &'a CheckQuery,
    columns: AccountColumns,
    tables: &'a [(TableKind, Schema)],
    manifest: &'a Manifest,
}

impl Compare<'_> {
    /// Makes the rows of the archives as the export has, and compares them with the manifest.
    fn with(
        &self,
        archives: &[Archive],
        directory: &Directory<'_>,
        options: &Options,
        handles: &Handles,
    ) -> Result<(), ExportError> {
        let Self { query, manifest, tables, columns } = self;
        let query = ExportQuery {
            filter: AccountFilter::default(),
            newest: manifest.newest,
            tables: tables.iter().map(|(kind, _)| *kind).collect(),
            columns: *columns,
            data_prefix: manifest.data_prefix,
            newest_memory_bytes: query.newest_memory_bytes,
            threads: query.threads,
            ..ExportQuery::all(&query.directory)
        };
        let timers = Timers::default();
        let passes = Passes { query: &query, tables, options, handles, timers: &timers };
        let passed = passes.run(archives, |_, _: Vec<Columns>| (), |_, ()| Ok(()))?;
        let names: Vec<String> = archives.iter().map(Archive::display_name).collect();
        for (made, facts) in passed.tables.iter().zip(&manifest.tables) {
            let (lamports, digest) = (made.lamports.to_string(), made.digest.to_string());
            let expected = (made.digest.rows, &lamports, &digest);
            if expected == (facts.rows, &facts.lamports, &facts.digest) {
                continue;
            }
            let kind = TableKind::ALL.into_iter().find(|kind| kind.name() == facts.name);
            let problem = Problem::Rows {
                table: kind.map_or("", TableKind::name),
                found_rows: facts.rows,
                found_lamports: facts.lamports.clone(),
                found: facts.digest.clone(),
                rows: made.digest.rows,
                lamports,
                expected: digest,
                whence: format!("are in {}", names.join(" and ")),
            };
            return Err(directory.bad("", problem));
        }
        Ok(())
    }
}

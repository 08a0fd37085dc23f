//! Looking up of accounts in an export, in a directory or on a server, by reading little of it.

use std::{collections::BTreeSet, num::NonZeroUsize, path::PathBuf, time::Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustix::fs::OFlags;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;
use unsnap_fetch::{Address, FetchOptions, RemoteParts};
use unsnap_pass::{
    Handles, Options, PassError, Phase, millis,
    ordered::{self, Submit, Times},
};
use unsnap_source::SourceError;
use unsnap_table::{Cell, Schema, Searched, TableKind, search};

use crate::{
    ExportError, FileFacts, Manifest, Problem,
    check::read_manifest,
    described::{Described, MANIFEST_BYTES_MAX, parse},
    directory::Directory,
    manifest::MANIFEST_NAME,
    parts::{FileParts, PartError, PartSource, ReadCounts},
};

/// Most addresses of one look-up: their rows are in memory together.
pub const KEYS_MAX: usize = 10_000;

/// Where an export is.
#[derive(Clone, Debug)]
pub enum Place {
    /// In a directory.
    Directory(PathBuf),
    /// On a server that answers ranges: the address of the directory.
    Server(Box<(Address, FetchOptions)>),
}

/// What is looked up, and how.
#[derive(Clone, Debug)]
pub struct LookupQuery {
    /// Where the export is.
    pub place: Place,
    /// Addresses.
    pub keys: BTreeSet<[u8; 32]>,
    /// Tables to search; none for all of the export.
    pub tables: BTreeSet<TableKind>,
    /// Whether the accounts' data is read as well.
    pub with_data: bool,
    /// Distance between two parts of a file up to which both are read at once; `None` for a default.
    pub gap_bytes: Option<u64>,
    /// Number of files that are searched at a time.
    pub threads: NonZeroUsize,
}

/// What was found, and what that took. Times are milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct LookupReport {
    /// The directory or its address.
    pub export: String,
    /// Slot of the newest bank.
    pub slot: Option<u64>,
    /// The rows, in the order of the tables' files.
    pub rows: Vec<FoundRow>,
    /// Addresses that are in none of the tables, in base58.
    pub missing: Vec<String>,
    /// Number of files that were searched.
    pub files: u64,
    /// Row groups in these files.
    pub row_groups: u64,
    /// Row groups of which addresses were read.
    pub row_groups_read: u64,
    /// Pages of addresses that were read.
    pub pages_read: u64,
    /// Reads of files, or requests to the server.
    pub requests: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes of these that were needed; the others were between them.
    pub bytes_needed: u64,
    /// Time for everything.
    pub elapsed_ms: u64,
}

/// A row of a table.
#[derive(Clone, Debug, Serialize)]
pub struct FoundRow {
    /// Name of the table.
    pub table: &'static str,
    /// Values by the names of their columns: addresses in base58, data in base64, decimal numbers as text.
    #[serde(serialize_with = "as_object")]
    pub values: Vec<(&'static str, Value)>,
}

fn as_object<S: Serializer>(
    values: &[(&'static str, Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(values.len()))?;
    for (name, value) in values {
        object.serialize_entry(name, value)?;
    }
    object.end()
}

/// Looks up accounts in the tables of an export. Reads the footers of their files, and the parts that
/// may hold one of the addresses by their statistics.
pub fn lookup(
    query: &LookupQuery,
    options: &Options,
    handles: &Handles,
) -> Result<LookupReport, ExportError> {
    let started = Instant::now();
    if query.keys.len() > KEYS_MAX {
        let reason = format!("at most {KEYS_MAX} addresses can be looked up at a time");
        return Err(PassError::request(reason).into());
    }
    handles.progress.reset(None);
    let calls = options.io.engine.syscalls();
    let mut counts = ReadCounts::default();
    let place = match &query.place {
        Place::Directory(path) => {
            let opened = calls.open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC);
            let failed = |errno| SourceError::Open { path: path.clone(), errno };
            Some(opened.map_err(|errno| PassError::Source(failed(errno)))?)
        }
        Place::Server(_) => None,
    };
    let (opened, name) = match (&query.place, &place) {
        (Place::Directory(path), Some(opened)) => (
            Opened::Directory(Directory::existing(&calls, opened, path)),
            path.display().to_string(),
        ),
        (Place::Server(server), _) => {
            let (address, options) = &**server;
            (Opened::Server(address, options), address.to_string())
        }
        (Place::Directory(path), None) => return Err(PassError::no_directory(path).into()),
    };
    let manifest = opened.manifest(handles, &mut counts)?;
    let described =
        Described::by(&manifest).map_err(|problem| opened.bad(MANIFEST_NAME, problem))?;
    let absent =
        query.tables.iter().find(|table| !described.tables.iter().any(|(kind, _)| kind == *table));
    if let Some(absent) = absent {
        let reason = format!("{name} has no table {}", absent.name());
        return Err(PassError::request(reason).into());
    }
    let mut report = LookupReport {
        export: name,
        slot: manifest.slot,
        rows: Vec::new(),
        missing: Vec::new(),
        files: 0,
        row_groups: 0,
        row_groups_read: 0,
        pages_read: 0,
        requests: 0,
        bytes_read: 0,
        bytes_needed: 0,
        elapsed_ms: 0,
    };
    let looking = Looking { query, opened: &opened, handles };
    let mut found = BTreeSet::new();
    looking.all(&manifest, &described, |file| {
        report.files += 1;
        report.row_groups += file.searched.row_groups;
        report.row_groups_read += file.searched.row_groups_read;
        report.pages_read += file.searched.pages_read;
        counts.add(file.counts);
        report.rows.extend(file.rows);
        found.extend(file.keys);
    })?;
    let missing = query.keys.difference(&found);
    report.missing = missing.map(|key| bs58::encode(key).into_string()).collect();
    report.requests = counts.requests;
    report.bytes_read = counts.bytes;
    report.bytes_needed = counts.needed_bytes;
    report.elapsed_ms = millis(started.elapsed());
    handles.progress.enter(Phase::Done);
    Ok(report)
}

/// An export that is there.
enum Opened<'a> {
    Directory(Directory<'a>),
    Server(&'a Address, &'a FetchOptions),
}

impl Opened<'_> {
    fn bad(&self, name: &str, problem: impl Into<Box<Problem>>) -> ExportError {
        match self {
            Self::Directory(directory) => directory.bad(name, problem),
            Self::Server(address, _) => {
                let path = PathBuf::from(address.below(name).to_string());
                ExportError::BadExport { path, problem: problem.into() }
            }
        }
    }

    fn manifest(
        &self,
        handles: &Handles,
        counts: &mut ReadCounts,
    ) -> Result<Manifest, ExportError> {
        match self {
            Self::Directory(directory) => read_manifest(directory),
            Self::Server(address, options) => {
                let address = address.below(MANIFEST_NAME);
                let mut parts = RemoteParts::new(address, (*options).clone());
                let cancelled = || handles.cancel.is_cancelled();
                let text = parts.read_whole(MANIFEST_BYTES_MAX as u64, &cancelled);
                let text = text.map_err(PassError::from)?;
                counts.add(ReadCounts {
                    requests: parts.requests(),
                    bytes: text.len() as u64,
                    needed_bytes: text.len() as u64,
                });
                parse(&text).map_err(|problem| self.bad(MANIFEST_NAME, problem))
            }
        }
    }

    fn source<'s>(&'s self, facts: &'s FileFacts) -> Result<PartSource<'s>, ExportError> {
        match self {
            Self::Directory(directory) => {
                let name = facts.path.as_str();
                let file = directory.open(name)?;
                let stat = directory.calls.fstat(&file);
                let found = stat.map_err(directory.failed("examine", name))?.st_size;
                let found = u64::try_from(found).unwrap_or(0);
                if found != facts.bytes {
                    return Err(self.bad(name, Problem::Size { found, expected: facts.bytes }));
                }
                Ok(PartSource::File { directory, name, file })
            }
            Self::Server(address, options) => {
                let address = address.below(&facts.path);
                let parts = RemoteParts::new(address, (*options).clone());
                Ok(PartSource::Server(Box::new(parts.with_length(facts.bytes))))
            }
        }
    }
}

/// A look-up under way.
struct Looking<'a> {
    query: &'a LookupQuery,
    opened: &'a Opened<'a>,
    handles: &'a Handles,
}

/// What was found in a file.
#[derive(Default)]
struct InFile {
    rows: Vec<FoundRow>,
    keys: Vec<[u8; 32]>,
    searched: Searched,
    counts: ReadCounts,
}

impl Looking<'_> {
    /// Searches all files, several at a time. Hands on what was found in the order of the files.
    fn all(
        &self,
        manifest: &Manifest,
        described: &Described,
        mut take: impl FnMut(InFile) + Send,
    ) -> Result<(), ExportError> {
        let wanted =
            |kind: &TableKind| self.query.tables.is_empty() || self.query.tables.contains(kind);
        let tables = described.tables.iter().zip(&manifest.tables);
        let jobs: Vec<(&Schema, &FileFacts)> = tables
            .filter(|((kind, _), _)| wanted(kind))
            .flat_map(|((_, schema), facts)| facts.files.iter().map(move |file| (schema, file)))
            .collect();
        let progress = &self.handles.progress;
        progress.begin_files(Phase::LookingAtFiles);
        progress.expect_files(jobs.len() as u64);
        let ((), searched) = ordered::run(
            "lookup",
            self.query.threads,
            &Times::default(),
            || (),
            |(), (schema, facts)| self.file(schema, facts),
            |found: Result<InFile, ExportError>| {
                progress.count_file();
                take(found?);
                Ok::<(), ExportError>(())
            },
            |to: Submit<'_, (&Schema, &FileFacts), _>| {
                for job in jobs {
                    // If it is not taken, the consumer's error is the reason.
                    if to.submit(job).is_err() {
                        break;
                    }
                }
            },
        )
        .map_err(PassError::thread)?;
        searched
    }

    fn file(&self, schema: &Schema, facts: &FileFacts) -> Result<InFile, ExportError> {
        let mut parts = FileParts {
            source: self.opened.source(facts)?,
            file_bytes: facts.bytes,
            gap_bytes: self.query.gap_bytes,
            cancel: &self.handles.cancel,
            counts: ReadCounts::default(),
        };
        let mut found = InFile::default();
        let LookupQuery { keys, with_data, .. } = self.query;
        let searched = search(schema, &mut parts, keys, *with_data, |cells| {
            found.keys.extend(cells[0].to_key());
            let values = schema.columns.iter().zip(cells);
            let values = values.map(|(column, cell)| (column.name, value(*cell)));
            found.rows.push(FoundRow { table: schema.name, values: values.collect() });
        });
        found.searched = searched.map_err(|error| match error {
            PartError::Export(error) => error,
            PartError::Table(error) => self.opened.bad(&facts.path, Problem::Undecodable(error)),
        })?;
        found.counts = parts.counts;
        Ok(found)
    }
}

fn value(cell: Cell<'_>) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Key(key) => bs58::encode(key).into_string().into(),
        Cell::Text(text) => String::from_utf8_lossy(text).into(),
        Cell::Long(number) => number.into(),
        Cell::Decimal(number) => number.to_string().into(),
        Cell::Int(number) => number.into(),
        Cell::Boolean(truth) => truth.into(),
        Cell::Data(data) => STANDARD.encode(data).into(),
    }
}

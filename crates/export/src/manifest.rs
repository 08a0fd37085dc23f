//! What an export holds: its manifest, and the report of the run that made it.

use serde::{Deserialize, Serialize};
use unsnap_table::KeyForm;
use unsnap_unpack::Report;

use crate::ExportQuery;

/// Name of the manifest in the directory. Engines skip names that begin with an underscore.
pub(crate) const MANIFEST_NAME: &str = "_manifest.json";

/// Name of the empty file that says that everything is there. Made last.
pub(crate) const SUCCESS_NAME: &str = "_SUCCESS";

/// Version of the manifest and of the tables' columns. Other values mean other columns.
pub(crate) const VERSION: u32 = 1;

/// Names of the forms of keys.
pub(crate) const BINARY: &str = "binary";
pub(crate) const BASE58: &str = "base58";

/// What an export holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the manifest and of the tables' columns.
    pub version: u32,
    /// Program that made it.
    pub made_by: String,
    /// Slot of the newest bank; `None` if no archive has a bank file.
    pub slot: Option<u64>,
    /// The archives, the full one first.
    pub archives: Vec<ArchiveFacts>,
    /// Whether only the newest version of each account was exported.
    pub newest: bool,
    /// Whether a filter has selected records.
    pub filtered: bool,
    /// Most bytes of each account's data; `None` for all.
    pub data_prefix: Option<usize>,
    /// Form of the keys: "binary" or "base58".
    pub keys: String,
    /// The tables.
    pub tables: Vec<TableFacts>,
}

/// An archive whose accounts were exported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArchiveFacts {
    /// The archive, as the caller named it.
    pub archive: String,
    /// "full", "incremental", or "unknown".
    pub kind: String,
    /// Slot of the snapshot.
    pub slot: Option<u64>,
    /// Slot of the full snapshot that an incremental one builds on.
    pub base_slot: Option<u64>,
    /// Hash in the archive's name.
    pub hash: Option<String>,
    /// Digest of the archive.
    pub digest: Option<String>,
    /// Capitalization in the bank file.
    pub capitalization: Option<u64>,
    /// Number of records in its storages.
    pub records: u64,
}

/// A table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableFacts {
    /// Name of the table, and of its directory.
    pub name: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Number of rows.
    pub rows: u64,
    /// Number of records of the table's programs that are neither a row nor known to be something else.
    pub not_decoded: u64,
    /// Sum of the rows' lamports, in decimal digits.
    pub lamports: String,
    /// Digest of the rows, the same for the same rows in any order.
    pub digest: String,
    /// Files.
    pub files: Vec<FileFacts>,
}

/// A file of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Path below the output directory.
    pub path: String,
    /// Number of rows.
    pub rows: u64,
    /// Number of row groups.
    pub row_groups: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Digest of its bytes (XXH3).
    pub digest: String,
}

/// Report of an export. Sizes are bytes, times milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct ExportReport {
    /// The output directory.
    pub output: String,
    /// Number of rows in all tables.
    pub rows: u64,
    /// Number of records in the archives.
    pub records: u64,
    /// Number of files of tables.
    pub files: u64,
    /// Size of the tables' files.
    pub bytes_written: u64,
    /// Decoded bytes of the archives.
    pub bytes_decoded: u64,
    /// Whether all files were read again and compared with the archives' accounts.
    pub checked: bool,
    /// Whether all files were written by direct I/O.
    pub direct_write: bool,
    /// Most bytes of a row group's rows.
    pub row_group_bytes: usize,
    /// Number of threads that make rows, and of those that encode them.
    pub threads: usize,
    /// Time from start to published.
    pub elapsed_ms: u64,
    /// Time for making rows, summed over all threads.
    pub gathering_ms: u64,
    /// Time for encoding, summed over all threads.
    pub encoding_ms: u64,
    /// Time for writing files.
    pub writing_ms: u64,
    /// What the export holds, as in its `_manifest.json`.
    pub manifest: Manifest,
}

impl Manifest {
    pub(crate) fn new(
        archives: Vec<ArchiveFacts>,
        query: &ExportQuery,
        tables: Vec<TableFacts>,
    ) -> Self {
        Self {
            version: VERSION,
            made_by: concat!("unsnap ", env!("CARGO_PKG_VERSION")).to_owned(),
            slot: archives.last().and_then(|archive| archive.slot),
            archives,
            newest: query.newest,
            filtered: !query.filter.is_all(),
            data_prefix: query.data_prefix,
            keys: match query.columns.keys {
                KeyForm::Binary => BINARY.to_owned(),
                KeyForm::Base58 => BASE58.to_owned(),
            },
            tables,
        }
    }

    /// Returns the files of all tables.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileFacts> {
        self.tables.iter().flat_map(|table| &table.files)
    }

    /// Whether the table of accounts holds all accounts of a bank: all newest versions.
    pub(crate) fn is_whole(&self) -> bool {
        // An incremental archive alone does not hold all accounts.
        let is_full = self.archives.first().is_some_and(|archive| archive.kind == "full");
        self.newest && !self.filtered && is_full
    }
}

impl ArchiveFacts {
    pub(crate) fn of(report: &Report, records: u64) -> Self {
        Self {
            archive: report.archive.clone(),
            kind: report.kind.to_owned(),
            slot: report.slot,
            base_slot: report.base_slot,
            hash: report.hash.clone(),
            digest: report.digest.clone(),
            capitalization: report.bank.as_ref().map(|bank| bank.capitalization),
            records,
        }
    }
}

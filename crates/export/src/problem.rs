//! What can be wrong with an export.

use unsnap_table::TableError;

/// Why a directory is not the export that its manifest describes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file that is made last is missing.
    #[error("there is no _SUCCESS: this is no complete export")]
    NotComplete,
    /// The manifest cannot be understood.
    #[error("not the manifest of an export: {0}")]
    Manifest(String),
    /// The manifest is of another version.
    #[error("the manifest has version {0}, which this program does not know")]
    Version(u64),
    /// The manifest names a file that is not there.
    #[error("the manifest names it, but it is not there")]
    Missing,
    /// There is something that the manifest does not name.
    #[error("the manifest does not name it")]
    Foreign,
    /// A file is larger or smaller.
    #[error("{found} bytes, but {expected} were written")]
    Size {
        /// Size of the file.
        found: u64,
        /// Size in the manifest.
        expected: u64,
    },
    /// A file has other bytes.
    #[error("the bytes are not those that were written: {found}, expected {expected}")]
    Bytes {
        /// Digest of the file.
        found: String,
        /// Digest in the manifest.
        expected: String,
    },
    /// A file cannot be decoded.
    #[error("{0}")]
    Undecodable(TableError),
    /// A file has more or fewer rows or row groups.
    #[error(
        "{found_rows} rows in {found_row_groups} row groups, but {rows} in {row_groups} were written"
    )]
    Counts {
        /// Rows of the file.
        found_rows: u64,
        /// Row groups of the file.
        found_row_groups: u64,
        /// Rows in the manifest.
        rows: u64,
        /// Row groups in the manifest.
        row_groups: u64,
    },
    /// A row holds what no account can have.
    #[error("a row of the table {table} is no account's: its {column} is wrong")]
    Row {
        /// Name of the table.
        table: &'static str,
        /// Name of the column.
        column: &'static str,
    },
    /// A table has other rows.
    #[error(
        "table {table}: {found_rows} rows with {found_lamports} lamports ({found}), but {rows} with \
         {lamports} ({expected}) {whence}"
    )]
    Rows {
        /// Name of the table.
        table: &'static str,
        /// Rows of the table.
        found_rows: u64,
        /// Sum of their lamports.
        found_lamports: String,
        /// Their digest.
        found: String,
        /// Expected rows.
        rows: u64,
        /// Sum of their lamports.
        lamports: String,
        /// Their digest.
        expected: String,
        /// Where the expected rows are: "were written", or "are in" the archives.
        whence: String,
    },
    /// The accounts are not those whose hash is in the name of the archive.
    #[error("the accounts have the hash {found}, but the archive was named {expected}")]
    AccountsHash {
        /// Hash of all accounts of the table.
        found: String,
        /// Hash in the archive's name.
        expected: String,
    },
}

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! Accounts of archives as tables: a directory of Parquet files for databases and data frames.
//!
//! ```text
//! walk ─▶ batches of records ─▶ rows ─▶ row groups ─▶ encoded ─▶ files ─▶ published
//!         (lookup)              workers  in order      workers    in order  (commit)
//! ```
//!
//! * [`export`] reads archives once, with every check of unpacking, and writes their accounts.
//! * [`stream`] writes one table as an Arrow IPC stream instead.
//! * [`check`] reads an export again, and compares it with its manifest and with archives.
//! * [`lookup`] finds accounts in an export, also on a server, and reads little of it.
//! * [`ExportQuery`] selects accounts and columns; [`ExportReport`] says what was written.
//!
//! The directory gets its name when everything in it is on the disk: a `_manifest.json`, the tables,
//! and an empty file `_SUCCESS`. After a failure nothing remains. Results do not depend on the number
//! of threads, but for the sizes of row groups, which follow from the memory.

mod check;
mod collect;
mod described;
mod directory;
mod error;
mod files;
mod gather;
mod lookup;
mod manifest;
mod parts;
mod passes;
mod pipeline;
mod problem;
mod query;
mod read_back;
mod rows;
mod space;
mod stream;

pub use check::{CheckQuery, CheckReport, check};
pub use error::ExportError;
pub use lookup::{FoundRow, LookupQuery, LookupReport, Place, lookup};
pub use manifest::{ArchiveFacts, ExportReport, FileFacts, Manifest, TableFacts};
pub use pipeline::export;
pub use problem::Problem;
pub use query::ExportQuery;
pub use stream::{StreamReport, stream};
pub use unsnap_table::{AccountColumns, KeyForm, TableKind};

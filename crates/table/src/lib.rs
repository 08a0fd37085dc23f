#![forbid(unsafe_code)]
//! Tables: schemas, column buffers, the row groups of Parquet files, and Arrow streams.
//!
//! ```text
//! values ──Row──▶ Columns ──Encoder (any thread)──▶ RowGroup ──TableFile (in order)──▶ bytes
//!                 buffers                           encoded column chunks            any Write
//! ```
//!
//! * [`Schema`] names the columns of a table and their kinds.
//! * [`Columns`] holds rows as one buffer for each column, and [digests](Columns::digest) them.
//! * [`Encoder`] encodes rows as a row group in memory, so that all cores can encode.
//! * [`ArrowEncoder`] encodes rows as a message, and [`ArrowStream`] makes a stream of them.
//! * [`TableFile`] appends row groups to a file; [`read_rows`] reads a file back, and
//!   [`each_row`](Columns::each_row) shows its rows.
//! * [`search`] finds rows by their addresses, and reads only the parts of a file that it needs.
//!
//! Other crates decide which rows there are and where files go.
//!
//! The files avoid what some engines read wrongly: there are no Bloom filters on binary columns
//! (DuckDB 1.5 finds nothing through them), no unsigned columns (Trino reads 2^64-1 as -1), no LZ4
//! and no BYTE_STREAM_SPLIT.

mod arrow;
mod cells;
mod columns;
mod encode;
mod error;
mod file;
mod read;
mod schema;
mod search;
mod spans;
mod tables;

pub use arrow::{ArrowEncoder, ArrowMessage, ArrowStream};
pub use cells::Cell;
pub use columns::{Columns, Digest, Row};
pub use encode::{Encoder, RowGroup};
pub use error::TableError;
pub use file::TableFile;
pub use read::read_rows;
pub use schema::{AccountColumns, Column, KeyForm, Kind, Packing, Schema};
pub use search::{Parts, Searched, search};
pub use tables::TableKind;

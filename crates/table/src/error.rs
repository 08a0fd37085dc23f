//! Errors of tables.

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};

/// A table could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Encoding, decoding or writing failed.
    #[error("{0}")]
    Parquet(#[from] ParquetError),
    /// Encoding rows for a stream failed.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// The other end of a stream does not take it.
    #[error("cannot write: {0}")]
    Output(#[from] std::io::Error),
    /// A file does not have the expected columns.
    #[error("column {column} of the file is not that of the table {table}")]
    Schema {
        /// Name of the table.
        table: &'static str,
        /// Name of the column.
        column: String,
    },
    /// A column has fewer or more values than the row group has rows.
    #[error("column {column} holds {found} values in a row group of {expected} rows")]
    Count {
        /// Name of the column.
        column: &'static str,
        /// Number of rows.
        expected: u64,
        /// Number of values.
        found: u64,
    },
    /// A column holds a value that its table cannot have.
    #[error("column {column} holds a value that the table cannot have")]
    Value {
        /// Name of the column.
        column: &'static str,
    },
}

impl TableError {
    /// Returns the error of the file below, if that is the reason.
    pub fn io(&self) -> Option<&std::io::Error> {
        match self {
            Self::Parquet(ParquetError::External(error)) => error.downcast_ref(),
            Self::Output(error) => Some(error),
            _ => None,
        }
    }
}

impl Failure for TableError {
    fn family(&self) -> Family {
        Family::Environment
    }

    fn code(&self) -> Code {
        self.io().map_or(Code::System, Code::of_io_error)
    }

    fn remedy(&self) -> Option<Remedy> {
        self.io().and_then(Remedy::of_io_error)
    }

    fn errno(&self) -> Option<Errno> {
        self.io().and_then(Errno::from_io_error)
    }
}

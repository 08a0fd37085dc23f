//! A table as a stream instead of files.

use std::{io::Write, time::Instant};

use unsnap_pass::{Archives, Handles, Options, PassError, Phase, millis};
use unsnap_table::{ArrowEncoder, ArrowMessage, ArrowStream, TableError};

use crate::{
    ExportError, ExportQuery,
    passes::{Passes, Timers, tables},
    pipeline::footer_facts,
};

/// Writes one table as an Arrow IPC stream. The query's directory has no meaning. The stream ends only
/// if every check of the archives has succeeded; after a failure readers see that it is cut.
pub fn stream(
    archives: &Archives,
    query: &ExportQuery,
    sink: impl Write + Send,
    options: &Options,
    handles: &Handles,
) -> Result<StreamReport, ExportError> {
    let started = Instant::now();
    let Handles { progress, cancel: _ } = handles;
    let archives = archives.as_slice();
    let tables = tables(query);
    let [(_, schema)] = tables.as_slice() else {
        return Err(PassError::request("a stream holds exactly one table").into());
    };
    if query.check {
        return Err(PassError::request("a stream cannot be read again to check it").into());
    }
    progress.reset(options.neighbour.pace.as_ref());
    let encoder = ArrowEncoder::new(schema.clone(), footer_facts(archives)).map_err(failed)?;
    let mut stream = ArrowStream::begin(&encoder, sink).map_err(failed)?;
    let mut bytes_written = 0;
    let timers = Timers::default();
    let passes = Passes { query, tables: &tables, options, handles, timers: &timers };
    let passed = passes.run(
        archives,
        |_, parts| encoder.encode(parts),
        |_, message: Result<ArrowMessage, TableError>| {
            let bytes = stream.append(&message.map_err(failed)?).map_err(failed)?;
            progress.count_written(bytes);
            bytes_written += bytes;
            Ok(())
        },
    )?;
    stream.finish().map_err(failed)?;
    progress.enter(Phase::Done);
    let rows = passed.tables.iter().map(|table| table.digest.rows).sum();
    Ok(StreamReport {
        rows,
        records: passed.records,
        not_decoded: passed.tables.iter().map(|table| table.not_decoded).sum(),
        bytes_written,
        elapsed_ms: millis(started.elapsed()),
    })
}

/// What a stream has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// Number of rows.
    pub rows: u64,
    /// Number of records in the archives.
    pub records: u64,
    /// Number of records of the table's programs that are of no known layout.
    pub not_decoded: u64,
    /// Size of the stream.
    pub bytes_written: u64,
    /// Time from the beginning to the end of the stream.
    pub elapsed_ms: u64,
}

fn failed(error: TableError) -> ExportError {
    match error {
        TableError::Output(error) => ExportError::Output(error),
        other => ExportError::Stream(other),
    }
}

//! The export, from archives to a published directory, in the order of the data's flow.

use std::time::Instant;

use unsnap_commit::{Spot, Target};
use unsnap_pass::{Archive, Archives, Handles, Options, Phase, millis};
use unsnap_table::{Encoder, RowGroup, Schema, TableError};

use crate::{
    ExportError, ExportQuery, ExportReport, Manifest, TableFacts,
    collect::Collector,
    directory::Directory,
    files::Files,
    manifest::{MANIFEST_NAME, SUCCESS_NAME},
    passes::{CANCELLED, Passes, Timers, tables},
    read_back::read_back,
    space,
};

/// Exports the accounts of archives, a full one and perhaps the incremental one that builds on it,
/// to a new directory. Blocks until everything is durable and has its final name, or until all files
/// of a failed run are removed.
pub fn export(
    archives: &Archives,
    query: &ExportQuery,
    options: &Options,
    handles: &Handles,
) -> Result<ExportReport, ExportError> {
    let started = Instant::now();
    let Handles { progress, cancel } = handles;
    let archives = archives.as_slice();

    // Open: the staging directory, in which there is enough room. On any error, dropping it removes
    // everything staged.
    progress.reset(options.neighbour.pace.as_ref());
    let (calls, direct) = (options.io.engine.syscalls(), options.io.direct);
    let spots = [Spot::empty(&query.output)];
    let mut target = Target::open(&calls, cancel.unfinished(), &spots, 1, direct, false)?;
    space::check(&target, archives, query)?;

    // Write: records become rows, row groups and files.
    let tables = tables(query);
    let failed = |source| ExportError::Table { path: query.output.clone(), source };
    let encoders = tables.iter().map(|(_, schema)| Encoder::new(schema.clone()).map_err(failed));
    let encoders: Vec<Encoder> = encoders.collect::<Result<_, _>>()?;
    let directory = Directory::of(&target, &query.output, direct).ok_or(CANCELLED)?;
    let facts = footer_facts(archives);
    let begin = |encoder| {
        Files::begin(directory.clone(), encoder, facts.clone(), query.file_bytes(), progress)
    };
    let mut files: Vec<Files<'_>> = encoders.iter().map(begin).collect::<Result<_, _>>()?;
    let timers = Timers::default();
    let passes = Passes { query, tables: &tables, options, handles, timers: &timers };
    let passed = passes.run(
        archives,
        |table, parts| encoders[table].encode(parts),
        |table, group: Result<RowGroup, TableError>| files[table].append(group.map_err(failed)?),
    )?;
    files.iter_mut().try_for_each(Files::finish)?;

    // Sync: the last file says that all others are complete.
    let facts = tables.iter().zip(&passed.tables).zip(&files);
    let facts = facts.map(|(((_, schema), table), files)| table_facts(schema, table, files));
    let manifest = Manifest::new(passed.archives.clone(), query, facts.collect());
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
    directory.write_file(MANIFEST_NAME, format!("{text}\n").as_bytes())?;
    directory.write_file(SUCCESS_NAME, &[])?;
    progress.enter(Phase::Syncing);
    target.staging.sync()?;
    if query.check {
        let read = read_back(&directory, &manifest, &tables, query.threads, handles, false);
        // The machine is at fault, not an archive.
        read.map_err(|error| match error {
            ExportError::BadExport { path, problem } => ExportError::NotIdentical { path, problem },
            other => other,
        })?;
    }
    if cancel.is_cancelled() {
        return Err(CANCELLED);
    }

    // Publish.
    let direct_write = files.iter().all(|files| files.direct);
    drop(files);
    progress.enter(Phase::Publishing);
    target.staging.publish()?;
    progress.enter(Phase::Done);
    Ok(ExportReport {
        output: query.output.display().to_string(),
        rows: manifest.tables.iter().map(|table| table.rows).sum(),
        records: passed.records,
        files: manifest.files().count() as u64,
        bytes_written: manifest.files().map(|file| file.bytes).sum(),
        bytes_decoded: passed.bytes_decoded,
        checked: query.check,
        direct_write,
        row_group_bytes: query.row_group_bytes(),
        threads: query.threads.get(),
        elapsed_ms: millis(started.elapsed()),
        gathering_ms: Timers::millis(&timers.gathering),
        encoding_ms: Timers::millis(&timers.encoding),
        writing_ms: Timers::millis(&timers.writing),
        manifest,
    })
}

/// Names and values for the footer of every file: what an archive is by its name.
pub(crate) fn footer_facts(archives: &[Archive]) -> Vec<(String, String)> {
    let named = |archive: &Archive| {
        let name = archive.display_name();
        name.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let names: Vec<String> = archives.iter().map(named).collect();
    vec![("unsnap.archives".to_owned(), names.join(" "))]
}

fn table_facts(schema: &Schema, table: &Collector, files: &Files<'_>) -> TableFacts {
    TableFacts {
        name: schema.name.to_owned(),
        columns: schema.columns.iter().map(|column| column.name.to_owned()).collect(),
        rows: table.digest.rows,
        not_decoded: table.not_decoded,
        lamports: table.lamports.to_string(),
        digest: table.digest.to_string(),
        files: files.complete.clone(),
    }
}

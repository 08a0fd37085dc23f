//! The export, from archives to a published directory, in the order of the data's flow.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use unsnap_commit::{CommitError, Spot, Target};
use unsnap_lookup::{Batch, Records, Superseded, checked, superseded};
use unsnap_pass::{
    Archive, Archives, Handles, Options, PassError, Phase, millis,
    ordered::{self, Submit, Times},
};
use unsnap_source::DigestKind;
use unsnap_table::{Columns, Encoder, RowGroup, Schema, TableError, TableKind};
use unsnap_unpack::{DigestUse, Report};

use crate::{
    ArchiveFacts, ExportError, ExportQuery, ExportReport, Manifest, TableFacts, check,
    collect::Collector,
    files::{Directory, Files},
    gather::{Gather, Gathered},
    manifest::{MANIFEST_NAME, SUCCESS_NAME},
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

    // Newest: a pass that finds the records to leave out.
    let hidden = if query.newest {
        let memory = query.newest_memory_bytes;
        superseded(archives, memory, query.threads, options, handles)?
    } else {
        Vec::new()
    };

    // Write: a pass in which records become rows, row groups and files.
    let tables = query.tables.iter().map(|kind| (*kind, Schema::of(*kind, query.columns)));
    let tables: Vec<(TableKind, Schema)> = tables.collect();
    let failed = |source| ExportError::Table { path: query.output.clone(), source };
    let encoders = tables.iter().map(|(_, schema)| Encoder::new(schema.clone()).map_err(failed));
    let encoders: Vec<Encoder> = encoders.collect::<Result<_, _>>()?;
    let directory = Directory::of(&target, &query.output, direct).ok_or(CANCELLED)?;
    let facts = footer_facts(archives);
    let begin = |encoder| {
        Files::begin(directory.clone(), encoder, facts.clone(), query.file_bytes(), progress)
    };
    let mut files: Vec<Files<'_>> = encoders.iter().map(begin).collect::<Result<_, _>>()?;
    let (times, gathering) = (Timers::default(), Times::default());
    let run = Run { query, tables: &tables, options, handles, timers: &times, gathering };
    let mut collected = Collected::new(&tables, query);
    let (walked, written) = ordered::run(
        "encode",
        query.threads,
        &Times::default(),
        || (),
        |(), (table, parts): Full| (table, times.encoding(|| encoders[table].encode(parts))),
        |(table, group): (usize, Result<RowGroup, TableError>)| {
            let group = group.map_err(failed)?;
            times.writing(|| files[table].append(group))
        },
        |to: Submit<'_, Full, _>| run.all(archives, &hidden, &mut collected, &to),
    )
    .map_err(PassError::thread)?;
    // If writing has failed, the walk's error is a consequence.
    written?;
    let reports = walked?;
    files.iter_mut().try_for_each(Files::finish)?;

    // Sync: the last file says that all others are complete.
    let facts = tables.iter().zip(&collected.tables).zip(&files);
    let facts = facts.map(|(((_, schema), table), files)| table_facts(schema, table, files));
    let manifest = Manifest::new(reports.archives, query, facts.collect());
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
    directory.write_file(MANIFEST_NAME, format!("{text}\n").as_bytes())?;
    directory.write_file(SUCCESS_NAME, &[])?;
    progress.enter(Phase::Syncing);
    target.staging.sync()?;
    if query.check {
        progress.enter(Phase::LookingAtFiles);
        for (((kind, schema), table), files) in tables.iter().zip(&collected.tables).zip(&files) {
            check::read_back(&directory, schema, &files.complete, table.digest)?;
            if *kind == TableKind::Accounts {
                check_capitalization(&manifest, query, table.lamports)?;
            }
        }
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
        records: collected.records,
        files: manifest.files().count() as u64,
        bytes_written: manifest.files().map(|file| file.bytes).sum(),
        bytes_decoded: reports.bytes_decoded,
        checked: query.check,
        direct_write,
        row_group_bytes: query.row_group_bytes(),
        threads: query.threads.get(),
        elapsed_ms: millis(started.elapsed()),
        gathering_ms: Timers::millis(&times.gathering),
        encoding_ms: Timers::millis(&times.encoding),
        writing_ms: Timers::millis(&times.writing),
        manifest,
    })
}

const CANCELLED: ExportError = ExportError::Commit(CommitError::Cancelled);

/// Rows of a row group, and the number of their table.
type Full = (usize, Vec<Columns>);

/// What was collected so far.
struct Collected {
    /// Number of records seen.
    records: u64,
    tables: Vec<Collector>,
}

impl Collected {
    fn new(tables: &[(TableKind, Schema)], query: &ExportQuery) -> Self {
        let tables = tables.iter().map(|_| Collector::new(query.row_group_bytes()));
        Self { records: 0, tables: tables.collect() }
    }

    /// Adds the rows of a batch and submits those of full row groups.
    fn add<O>(
        &mut self,
        gathered: Gathered,
        to: &Submit<'_, Full, O>,
    ) -> Result<(), ordered::Stopped> {
        self.records += gathered.records;
        for (table, part) in gathered.parts.into_iter().enumerate() {
            if let Some(rows) = self.tables[table].add(part) {
                to.submit((table, rows))?;
            }
        }
        Ok(())
    }
}

/// The passes over all archives.
struct Run<'a> {
    query: &'a ExportQuery,
    tables: &'a [(TableKind, Schema)],
    options: &'a Options,
    handles: &'a Handles,
    timers: &'a Timers,
    gathering: Times,
}

/// What the passes have found.
struct Passed {
    archives: Vec<ArchiveFacts>,
    bytes_decoded: u64,
}

/// Why the rows of a batch were not taken.
enum Halt {
    /// A record cannot become a row.
    Bad(ExportError),
    /// Writing has failed.
    Stopped,
}

impl Run<'_> {
    /// Reads all archives and submits the rows of full row groups.
    fn all<O>(
        &self,
        archives: &[Archive],
        hidden: &[Superseded],
        collected: &mut Collected,
        to: &Submit<'_, Full, O>,
    ) -> Result<Passed, ExportError>
    where
        O: Send,
    {
        let mut passed = Passed { archives: Vec::new(), bytes_decoded: 0 };
        for (index, archive) in archives.iter().enumerate() {
            let hidden = hidden.get(index);
            let before = collected.records;
            let report = self.one(archive, hidden, collected, to)?;
            if let Some(hidden) = hidden {
                hidden.check_unchanged(archive, report.digest.as_deref())?;
            }
            passed.archives.push(ArchiveFacts::of(&report, collected.records - before));
            passed.bytes_decoded += report.bytes_decoded;
        }
        for (table, collector) in collected.tables.iter_mut().enumerate() {
            if let Some(parts) = collector.take() {
                // If it is not taken, the consumer's error is the reason.
                let _ = to.submit((table, parts));
            }
        }
        Ok(passed)
    }

    fn one<O: Send>(
        &self,
        archive: &Archive,
        superseded: Option<&Superseded>,
        collected: &mut Collected,
        to: &Submit<'_, Full, O>,
    ) -> Result<Report, ExportError> {
        let name = archive.display_name();
        let Self { query, tables, options, handles, timers, gathering } = self;
        let gather = Gather { archive: &name, query, tables, superseded };
        let take = |gathered: Result<Gathered, ExportError>| {
            let gathered = gathered.map_err(Halt::Bad)?;
            collected.add(gathered, to).map_err(|ordered::Stopped| Halt::Stopped)
        };
        let (walked, taken) = ordered::run(
            "rows",
            query.threads,
            gathering,
            || (),
            |(), batch: Batch| timers.gathering(|| gather.batch(&batch)),
            take,
            |to: Submit<'_, Batch, _>| {
                let mut records = Records::new(|batch| match to.submit(batch) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(ordered::Stopped) => ControlFlow::Break(()),
                });
                let digest = DigestUse::Report(DigestKind::Xxh3);
                checked(archive, digest, options, handles).tap(&mut records)
            },
        )
        .map_err(PassError::thread)?;
        match taken {
            // The walk has ended as a consequence.
            Err(Halt::Bad(error)) => Err(error),
            Err(Halt::Stopped) => Err(CANCELLED),
            Ok(()) => Ok(walked?),
        }
    }
}

/// Nanoseconds, summed over all threads.
#[derive(Debug, Default)]
struct Timers {
    gathering: AtomicU64,
    encoding: AtomicU64,
    writing: AtomicU64,
}

impl Timers {
    fn gathering<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::timed(&self.gathering, work)
    }

    fn encoding<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::timed(&self.encoding, work)
    }

    fn writing<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::timed(&self.writing, work)
    }

    fn timed<T>(counter: &AtomicU64, work: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let result = work();
        let elapsed = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        counter.fetch_add(elapsed, Ordering::Relaxed);
        result
    }

    fn millis(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed) / 1_000_000
    }
}

/// Names and values for the footer of every file: what an archive is by its name.
fn footer_facts(archives: &[Archive]) -> Vec<(String, String)> {
    let named = |archive: &Archive| {
        let name = archive.display_name();
        name.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let names: Vec<String> = archives.iter().map(named).collect();
    vec![("unsnap.archives".to_owned(), names.join(" "))]
}

fn table_facts(schema: &Schema, table: &Collector, files: &Files<'_>) -> TableFacts {
    TableFacts {
        name: schema.name,
        columns: schema.columns.iter().map(|column| column.name).collect(),
        rows: table.digest.rows,
        not_decoded: table.not_decoded,
        lamports: table.lamports.to_string(),
        digest: table.digest.to_string(),
        files: files.complete.clone(),
    }
}

/// The newest versions of all accounts have together the lamports that the bank says. An incremental
/// archive alone does not hold all accounts.
fn check_capitalization(
    manifest: &Manifest,
    query: &ExportQuery,
    lamports: u128,
) -> Result<(), ExportError> {
    let is_all = query.newest
        && query.filter.is_all()
        && manifest.archives.first().is_some_and(|archive| archive.kind == "full");
    let newest = manifest.archives.last().filter(|_| is_all);
    match newest.and_then(|newest| Some((newest, newest.capitalization?))) {
        Some((newest, expected)) if u128::from(expected) != lamports => {
            let archive = newest.archive.clone();
            Err(ExportError::Capitalization { archive, found: lamports, expected })
        }
        _ => Ok(()),
    }
}

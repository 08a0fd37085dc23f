//! The passes over the archives, whose rows are collected, encoded and handed on in order.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use unsnap_commit::CommitError;
use unsnap_lookup::{Batch, Records, Superseded, checked, superseded};
use unsnap_pass::{
    Archive, Handles, Options, PassError,
    ordered::{self, Submit, Times},
};
use unsnap_source::DigestKind;
use unsnap_table::{Columns, Schema, TableKind};
use unsnap_unpack::{DigestUse, Report};

use crate::{
    ArchiveFacts, ExportError, ExportQuery,
    collect::Collector,
    gather::{Gather, Gathered},
};

pub(crate) const CANCELLED: ExportError = ExportError::Commit(CommitError::Cancelled);

/// Returns the tables of a query.
pub(crate) fn tables(query: &ExportQuery) -> Vec<(TableKind, Schema)> {
    query.tables.iter().map(|kind| (*kind, Schema::of(*kind, query.columns))).collect()
}

/// The passes over all archives.
pub(crate) struct Passes<'a> {
    pub query: &'a ExportQuery,
    pub tables: &'a [(TableKind, Schema)],
    pub options: &'a Options,
    pub handles: &'a Handles,
    pub timers: &'a Timers,
}

/// What the passes have found.
pub(crate) struct Passed {
    pub archives: Vec<ArchiveFacts>,
    pub bytes_decoded: u64,
    /// Number of records.
    pub records: u64,
    /// What was collected for each table.
    pub tables: Vec<Collector>,
}

impl Passes<'_> {
    /// Reads all archives. Encodes full row groups, with the number of their table, on all threads and
    /// hands them on in order. With `newest`, a pass before that finds the records to leave out.
    pub fn run<O: Send>(
        &self,
        archives: &[Archive],
        encode: impl Fn(usize, Vec<Columns>) -> O + Sync,
        mut write: impl FnMut(usize, O) -> Result<(), ExportError> + Send,
    ) -> Result<Passed, ExportError> {
        let Self { query, options, handles, timers, .. } = self;
        let hidden = if query.newest {
            let memory = query.newest_memory_bytes;
            superseded(archives, memory, query.threads, options, handles)?
        } else {
            Vec::new()
        };
        let mut collected = Collected::new(self.tables, query);
        let gathering = Times::default();
        let run = Run { passes: self, gathering };
        let (walked, written) = ordered::run(
            "encode",
            query.threads,
            &Times::default(),
            || (),
            |(), (table, parts): Full| (table, timers.encoding(|| encode(table, parts))),
            |(table, encoded)| timers.writing(|| write(table, encoded)),
            |to: Submit<'_, Full, _>| run.all(archives, &hidden, &mut collected, &to),
        )
        .map_err(PassError::thread)?;
        // If writing has failed, the walk's error is a consequence.
        written?;
        let (archives, bytes_decoded) = walked?;
        let Collected { records, tables } = collected;
        Ok(Passed { archives, bytes_decoded, records, tables })
    }
}

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

/// The passes that make rows.
struct Run<'a> {
    passes: &'a Passes<'a>,
    gathering: Times,
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
    ) -> Result<(Vec<ArchiveFacts>, u64), ExportError>
    where
        O: Send,
    {
        let (mut facts, mut bytes_decoded) = (Vec::new(), 0);
        for (index, archive) in archives.iter().enumerate() {
            let hidden = hidden.get(index);
            let before = collected.records;
            let report = self.one(archive, hidden, collected, to)?;
            if let Some(hidden) = hidden {
                hidden.check_unchanged(archive, report.digest.as_deref())?;
            }
            facts.push(ArchiveFacts::of(&report, collected.records - before));
            bytes_decoded += report.bytes_decoded;
        }
        for (table, collector) in collected.tables.iter_mut().enumerate() {
            if let Some(parts) = collector.take() {
                // If it is not taken, the consumer's error is the reason.
                let _ = to.submit((table, parts));
            }
        }
        Ok((facts, bytes_decoded))
    }

    fn one<O: Send>(
        &self,
        archive: &Archive,
        superseded: Option<&Superseded>,
        collected: &mut Collected,
        to: &Submit<'_, Full, O>,
    ) -> Result<Report, ExportError> {
        let name = archive.display_name();
        let Passes { query, tables, options, handles, timers } = self.passes;
        let gather = Gather { archive: &name, query, tables, superseded };
        let take = |gathered: Result<Gathered, ExportError>| {
            let gathered = gathered.map_err(Halt::Bad)?;
            collected.add(gathered, to).map_err(|ordered::Stopped| Halt::Stopped)
        };
        let (walked, taken) = ordered::run(
            "rows",
            query.threads,
            &self.gathering,
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
pub(crate) struct Timers {
    pub gathering: AtomicU64,
    pub encoding: AtomicU64,
    pub writing: AtomicU64,
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

    pub fn millis(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed) / 1_000_000
    }
}

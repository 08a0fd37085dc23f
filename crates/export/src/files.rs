//! The files of a table, in a staging directory.

use std::{
    io::{self, Write},
    sync::Arc,
};

use rustix::io::Errno;
use unsnap_commit::FileWriter;
use unsnap_pass::Progress;
use unsnap_source::{DigestKind, Hasher};
use unsnap_table::{Encoder, RowGroup, TableError, TableFile};

use crate::{ExportError, FileFacts, directory::Directory};

/// The files of a table.
pub(crate) struct Files<'a> {
    directory: Directory<'a>,
    encoder: &'a Encoder,
    /// Names and values for the footer of every file.
    facts: Vec<(String, String)>,
    /// Size of a file before the next one begins.
    file_bytes: u64,
    progress: &'a Progress,
    /// The current file and its name.
    current: Option<(TableFile<Sink>, String)>,
    /// The complete files.
    pub complete: Vec<FileFacts>,
    /// Whether all files were written by direct I/O.
    pub direct: bool,
}

impl<'a> Files<'a> {
    /// Makes the directory of a table. A table has at least one file, even without rows.
    pub fn begin(
        directory: Directory<'a>,
        encoder: &'a Encoder,
        facts: Vec<(String, String)>,
        file_bytes: u64,
        progress: &'a Progress,
    ) -> Result<Self, ExportError> {
        directory.make_directory(encoder.schema().name)?;
        let (current, complete, direct) = (None, Vec::new(), true);
        let mut files =
            Self { directory, encoder, facts, file_bytes, progress, current, complete, direct };
        files.next_file()?;
        Ok(files)
    }

    fn next_file(&mut self) -> Result<(), ExportError> {
        let name =
            format!("{}/part-{:05}.parquet", self.encoder.schema().name, self.complete.len());
        let Directory { calls, direct, .. } = &self.directory;
        let file = Arc::new(self.directory.create(&name)?);
        let writer = FileWriter::new(calls, &file, *direct);
        let writer = writer.map_err(self.directory.failed("use direct I/O on", &name))?;
        self.direct &= writer.is_direct();
        let (hasher, progress) = (DigestKind::Xxh3.hasher(), self.progress.clone());
        let sink = Sink { writer, hasher, progress };
        let begun = TableFile::begin(self.encoder, sink, self.facts.clone());
        let begun = begun.map_err(|source| self.failed(&name, source))?;
        self.current = Some((begun, name));
        Ok(())
    }

    fn failed(&self, name: &str, source: TableError) -> ExportError {
        match source.io().and_then(Errno::from_io_error) {
            Some(errno) => self.directory.failed("write", name)(errno),
            None => ExportError::Table { path: self.directory.path_of(name), source },
        }
    }

    /// Appends a row group.
    pub fn append(&mut self, group: RowGroup) -> Result<(), ExportError> {
        if self.current.as_ref().is_some_and(|(file, _)| file.bytes() >= self.file_bytes) {
            self.complete_file()?;
        }
        if self.current.is_none() {
            self.next_file()?;
        }
        if let Some((file, name)) = &mut self.current
            && let Err(source) = file.append(group)
        {
            let name = name.clone();
            return Err(self.failed(&name, source));
        }
        Ok(())
    }

    fn complete_file(&mut self) -> Result<(), ExportError> {
        let Some((file, name)) = self.current.take() else { return Ok(()) };
        let (rows, row_groups) = (file.rows(), file.row_groups());
        let mut sink = file.finish().map_err(|source| self.failed(&name, source))?;
        let bytes = sink.writer.finish().map_err(self.directory.failed("write", &name))?;
        let digest = sink.hasher.digest().to_string();
        self.complete.push(FileFacts { path: name, rows, row_groups, bytes, digest });
        Ok(())
    }

    /// Completes the last file.
    pub fn finish(&mut self) -> Result<(), ExportError> {
        self.complete_file()
    }
}

/// A file that counts and hashes what is written.
struct Sink {
    writer: FileWriter,
    hasher: Hasher,
    progress: Progress,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)?;
        self.hasher.update(bytes);
        self.progress.count_written(bytes.len() as u64);
        Ok(bytes.len())
    }

    /// Everything is written at the end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

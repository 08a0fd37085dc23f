//! Files of row groups.

use std::io::Write;

use parquet::file::{metadata::KeyValue, writer::SerializedFileWriter};

use crate::{Encoder, RowGroup, TableError};

/// A Parquet file under construction.
pub struct TableFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    rows: u64,
    row_groups: u64,
}

impl<W: Write + Send> TableFile<W> {
    /// Begins a file for row groups of this encoder. `facts` are names and values for its footer.
    pub fn begin(
        encoder: &Encoder,
        sink: W,
        facts: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, TableError> {
        let schema = encoder.columns.root_schema_ptr();
        let mut writer = SerializedFileWriter::new(sink, schema, encoder.properties.clone())?;
        for (name, value) in facts {
            writer.append_key_value_metadata(KeyValue::new(name, value));
        }
        Ok(Self { writer, rows: 0, row_groups: 0 })
    }

    /// Appends a row group.
    pub fn append(&mut self, group: RowGroup) -> Result<(), TableError> {
        self.rows += group.rows;
        self.row_groups += 1;
        let mut writer = self.writer.next_row_group()?;
        for (bytes, closed) in group.chunks {
            writer.append_column(&bytes, closed)?;
        }
        writer.close()?;
        Ok(())
    }

    /// Returns the number of bytes so far, without the footer.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of row groups so far.
    pub fn row_groups(&self) -> u64 {
        self.row_groups
    }

    /// Writes the footer. Returns what the file was written to.
    pub fn finish(self) -> Result<W, TableError> {
        Ok(self.writer.into_inner()?)
    }
}

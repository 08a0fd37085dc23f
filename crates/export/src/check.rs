//! Reading back of what was written.

use std::fs::File;

use unsnap_table::{Digest, Schema, read_rows};

use crate::{ExportError, FileFacts, files::Directory};

/// Reads all files of a table and compares their rows with those that were written.
pub(crate) fn read_back(
    directory: &Directory<'_>,
    schema: &Schema,
    files: &[FileFacts],
    written: Digest,
) -> Result<(), ExportError> {
    let mut found = Digest::default();
    for file in files {
        let open = File::from(directory.open(&file.path)?);
        let read = read_rows(schema, open, |rows| found.add(rows.digest()));
        let path = || directory.path_of(&file.path);
        read.map_err(|source| ExportError::Table { path: path(), source })?;
    }
    if found != written {
        return Err(ExportError::NotIdentical {
            table: schema.name,
            found_rows: found.rows,
            found: found.to_string(),
            rows: written.rows,
            expected: written.to_string(),
        });
    }
    Ok(())
}

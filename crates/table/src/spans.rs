//! A file of which only parts are in memory.

use std::ops::Range;

use bytes::{Buf, Bytes, buf::Reader};
use parquet::{
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};

/// Parts of a file.
#[derive(Debug)]
pub(crate) struct Spans {
    /// Size of the file.
    bytes: u64,
    /// Offset and bytes of each part.
    parts: Vec<(u64, Bytes)>,
}

impl Spans {
    pub fn new(bytes: u64, parts: Vec<(u64, Bytes)>) -> Self {
        Self { bytes, parts }
    }

    /// Returns the bytes from an offset on that are there.
    fn from(&self, start: u64, least: u64) -> Result<Bytes, ParquetError> {
        let holds = |(offset, bytes): &&(u64, Bytes)| {
            let part: Range<u64> = *offset..offset.saturating_add(bytes.len() as u64);
            part.start <= start && start.checked_add(least).is_some_and(|end| end <= part.end)
        };
        if let Some((offset, bytes)) = self.parts.iter().find(holds) {
            return Ok(bytes.slice(usize::try_from(start - offset).unwrap_or(usize::MAX)..));
        }
        let reason = format!("{least} bytes at {start} are not where its index says");
        Err(ParquetError::General(reason))
    }
}

impl Length for Spans {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Spans {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.from(start, 0)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        Ok(self.from(start, length as u64)?.slice(..length))
    }
}

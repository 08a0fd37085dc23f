//! Writing: executes chunks in the order of the stream, and checks frames as a whole.

use std::{hash::Hasher, io::Write};

use twox_hash::XxHash64;

use crate::{
    CHUNK_BYTES_MAX, Defect, Error, FrameHeader, Place,
    execute::{Repeats, Window},
    input::{Chunk, Ending},
    slot::{BlockDefect, Slot},
};

/// Smallest memory that is filled before it is written, in bytes.
const FILL_BYTES_MIN: usize = 4 << 20;

/// The decoded stream.
pub(crate) struct Output<W> {
    writer: W,
    /// Memory filled before.
    previous: Vec<u8>,
    previous_filled: usize,
    /// Memory being filled.
    current: Vec<u8>,
    filled: usize,
    written: usize,
    repeats: Repeats,
    /// Bytes of the open frame.
    frame_bytes: u64,
    hasher: Option<XxHash64>,
    pub raw_bytes: u64,
}

impl<W: Write> Output<W> {
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            previous: Vec::new(),
            previous_filled: 0,
            current: Vec::new(),
            filled: 0,
            written: 0,
            repeats: Repeats::new(),
            frame_bytes: 0,
            hasher: None,
            raw_bytes: 0,
        }
    }

    /// Decodes the next chunk, whose first stage had the result `parsed`.
    pub fn execute(
        &mut self,
        chunk: &Chunk,
        slot: &Slot,
        parsed: Result<(), BlockDefect>,
    ) -> Result<(), Error> {
        if chunk.begins {
            self.begin(&chunk.header)?;
        }
        if self.current.len() - self.filled < slot.raw_bytes(slot.blocks()) {
            self.roll()?;
        }
        let held = (self.previous_filled + self.filled) as u64;
        let window = Window {
            previous: &self.previous[..self.previous_filled],
            current: &mut self.current,
            filled: self.filled,
            history: usize::try_from(self.frame_bytes.min(held)).unwrap_or(usize::MAX),
        };
        let executed = slot.execute(&mut self.repeats, window).map_err(|damage| {
            let good = slot.raw_bytes(damage.index);
            (good, damage)
        });
        let good = match executed {
            Ok(count) => count,
            Err((good, _)) => good,
        };
        let decoded = &self.current[self.filled..self.filled + good];
        if let Some(hasher) = &mut self.hasher {
            hasher.write(decoded);
        }
        self.filled += good;
        self.frame_bytes += good as u64;
        self.raw_bytes += good as u64;
        executed.map_err(|(_, damage)| damage).and(parsed).map_err(|damage| {
            let BlockDefect { index, defect } = damage;
            let at = self.place(chunk, slot, index);
            Error::Corrupt { at, defect }
        })?;
        match &chunk.ends {
            Some(ending) => self.end(chunk, slot, ending),
            None => Ok(()),
        }
    }

    /// Writes what is decoded. Called at the end, also after damage.
    pub fn flush(&mut self) -> Result<(), Error> {
        let rest = &self.current[self.written..self.filled];
        self.written = self.filled;
        self.writer.write_all(rest).and_then(|()| self.writer.flush()).map_err(Error::Write)
    }

    fn begin(&mut self, header: &FrameHeader) -> Result<(), Error> {
        let window = usize::try_from(header.window_bytes).unwrap_or(usize::MAX);
        // Memory that is left for the next has less room than a chunk needs, so it holds a window.
        let fill_bytes = window.saturating_add(CHUNK_BYTES_MAX).max(FILL_BYTES_MIN);
        if self.current.len() < fill_bytes {
            self.flush()?;
            self.previous = Vec::new();
            self.current = Vec::new();
            // Zeroed memory comes from the kernel when it is first touched.
            self.current = vec![0; fill_bytes];
            (self.previous_filled, self.filled, self.written) = (0, 0, 0);
        }
        self.repeats = Repeats::new();
        self.frame_bytes = 0;
        self.hasher = header.has_checksum.then(|| XxHash64::with_seed(0));
        Ok(())
    }

    fn end(&self, chunk: &Chunk, slot: &Slot, ending: &Ending) -> Result<(), Error> {
        let at = self.place(chunk, slot, slot.blocks());
        let decoded = self.frame_bytes;
        if let Some(declared) = chunk.header.content_bytes.filter(|&bytes| bytes != decoded) {
            return Err(Error::Corrupt { at, defect: Defect::ContentSize { declared, decoded } });
        }
        let sum = self.hasher.as_ref().map(|hasher| hasher.finish().to_le_bytes());
        match (sum, ending.checksum) {
            (Some(sum), Some(expected)) if sum[..4] != expected => {
                Err(Error::Corrupt { at, defect: Defect::Checksum })
            }
            _ => Ok(()),
        }
    }

    fn roll(&mut self) -> Result<(), Error> {
        self.flush()?;
        std::mem::swap(&mut self.previous, &mut self.current);
        if self.current.is_empty() {
            self.current = vec![0; self.previous.len()];
        }
        self.previous_filled = self.filled;
        (self.filled, self.written) = (0, 0);
        Ok(())
    }

    /// Returns the place of a block, at which decoding has arrived.
    fn place(&self, chunk: &Chunk, slot: &Slot, index: usize) -> Place {
        Place {
            block: chunk.at.block + index as u64,
            compressed_offset: chunk.at.compressed_offset + slot.stored_bytes(index) as u64,
            raw_offset: self.raw_bytes,
            ..chunk.at
        }
    }
}

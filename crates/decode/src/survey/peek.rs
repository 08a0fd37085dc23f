//! Random access to an archive, without moving a file position.

use std::io;

/// An archive that several threads can read at any offset, such as a file.
pub trait ReadAt: Sync {
    /// Reads bytes from `offset` on, at most as many as `buffer` holds. Returns 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Announces that these bytes will be read soon, so that they can be fetched together.
    fn will_read(&self, _offset: u64, _bytes: u64) {}
}

impl ReadAt for &[u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Count of successful reads and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Number of reads.
    pub count: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Reads {
    /// Returns the sum of two counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, bytes: self.bytes + other.bytes }
    }
}

/// Part of an archive that is read in large pieces and examined in small ones.
pub(super) struct Peek<'a> {
    archive: &'a dyn ReadAt,
    /// Offset from which on nothing is read.
    limit: u64,
    buffer: Vec<u8>,
    /// Offset in the archive and length of the bytes in the buffer.
    start: u64,
    filled: usize,
    /// Whether nothing can be read after these bytes.
    at_end: bool,
    /// Statistics of all reads.
    pub reads: Reads,
}

impl<'a> Peek<'a> {
    /// Creates a view of the first `limit` bytes. `piece_bytes` is the size of a read.
    pub fn new(archive: &'a dyn ReadAt, limit: u64, piece_bytes: usize) -> Self {
        let buffer = vec![0; piece_bytes];
        Self { archive, limit, buffer, start: 0, filled: 0, at_end: false, reads: Reads::default() }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        // Bytes after the limit must not be visible any more.
        let below = usize::try_from(limit.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.filled = self.filled.min(below);
        self.at_end = false;
    }

    /// Returns `count` bytes from `offset` on. Returns fewer at the limit, and if reading fails;
    /// the run itself will report why.
    pub fn at(&mut self, offset: u64, count: usize) -> &[u8] {
        let end = self.start + self.filled as u64;
        let held = offset.saturating_add(count as u64) <= end || self.at_end;
        if offset < self.start || !held {
            self.fill(offset);
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX).min(self.filled);
        &self.buffer[from..self.filled.min(from.saturating_add(count))]
    }

    fn fill(&mut self, offset: u64) {
        let rest = self.limit.saturating_sub(offset);
        let wanted = usize::try_from(rest).unwrap_or(usize::MAX).min(self.buffer.len());
        (self.start, self.filled) = (offset, 0);
        while self.filled < wanted {
            let at = offset + self.filled as u64;
            match self.archive.read_at(&mut self.buffer[self.filled..wanted], at) {
                Ok(0) => break,
                Ok(count) => {
                    self.filled += count;
                    self.reads.count += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.reads.bytes += self.filled as u64;
        self.at_end = self.filled < wanted || offset.saturating_add(wanted as u64) >= self.limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_piece_size_does_not_change_the_bytes() {
        let all: Vec<u8> = (0..200).collect();
        let bytes = all.as_slice();
        for piece in [20, 64, 200, 300] {
            let mut peek = Peek::new(&bytes, 150, piece);
            for (offset, count) in [(0, 20), (10, 5), (149, 20), (3, 18), (150, 1), (1000, 3)] {
                let end = (offset + count).min(150);
                let expected = bytes.get(offset..end).unwrap_or_default();
                assert_eq!(peek.at(offset as u64, count), expected, "{offset} {count} {piece}");
            }
        }
    }

    #[test]
    fn nothing_after_a_new_limit_is_visible() {
        let bytes = [7; 100].as_slice();
        let mut peek = Peek::new(&bytes, 100, 100);
        assert_eq!(peek.at(0, 100).len(), 100);
        peek.set_limit(30);
        assert_eq!(peek.at(20, 20).len(), 10);
        peek.set_limit(90);
        assert_eq!(peek.at(20, 20).len(), 20);
    }
}

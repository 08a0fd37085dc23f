//! Looking at an archive wherever one likes, without moving any position in it.

use std::io;

/// Something that can be read at any offset, such as a file, by several threads.
pub trait ReadAt: Sync {
    /// Reads bytes from `offset` on, at most as many as `buffer` takes; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Says that these bytes will be read soon, so that they can be fetched together.
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

/// Reads that brought something, and how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Their number.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Reads {
    /// These and others.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, bytes: self.bytes + other.bytes }
    }
}

/// A part of an archive that is read in large pieces and looked at in small ones.
pub(super) struct Peek<'a> {
    archive: &'a dyn ReadAt,
    /// Nothing is read from here on.
    limit: u64,
    buffer: Vec<u8>,
    /// Offset in the archive of what the buffer holds, and how much that is.
    start: u64,
    filled: usize,
    /// Whether nothing can be read behind that.
    at_end: bool,
    /// Reads and their bytes, to be told in the end.
    pub reads: Reads,
}

impl<'a> Peek<'a> {
    /// `piece_bytes`: how much is read at once.
    pub fn new(archive: &'a dyn ReadAt, limit: u64, piece_bytes: usize) -> Self {
        let buffer = vec![0; piece_bytes];
        Self { archive, limit, buffer, start: 0, filled: 0, at_end: false, reads: Reads::default() }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        // What lies behind it must not be seen any more.
        let below = usize::try_from(limit.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.filled = self.filled.min(below);
        self.at_end = false;
    }

    /// `count` bytes from `offset` on; fewer at the limit, and where reading fails: the run itself
    /// will find out why.
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
    fn bytes_are_the_same_whatever_the_pieces() {
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
    fn nothing_behind_a_new_limit_is_seen() {
        let bytes = [7; 100].as_slice();
        let mut peek = Peek::new(&bytes, 100, 100);
        assert_eq!(peek.at(0, 100).len(), 100);
        peek.set_limit(30);
        assert_eq!(peek.at(20, 20).len(), 10);
        peek.set_limit(90);
        assert_eq!(peek.at(20, 20).len(), 20);
    }
}

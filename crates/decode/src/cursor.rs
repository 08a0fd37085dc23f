//! A cursor over the spans of a source, which can look ahead, take, skip and record bytes.

use std::collections::VecDeque;

use unsnap_arena::{Block, Slice};
use unsnap_source::{Source, SourceError};

/// Supplier of a cursor's spans.
pub(crate) trait Spans {
    fn next(&mut self) -> Result<Option<Slice>, SourceError>;

    /// Returns the memory in front of the span returned last, if it is reserved.
    fn headroom(&mut self) -> Option<Block> {
        None
    }
}

impl Spans for Box<dyn Source> {
    fn next(&mut self) -> Result<Option<Slice>, SourceError> {
        Ok(self.next_span()?.map(|span| span.bytes))
    }

    fn headroom(&mut self) -> Option<Block> {
        self.as_mut().headroom()
    }
}

/// Spans that are all in memory: the frames of a job.
impl Spans for VecDeque<Slice> {
    fn next(&mut self) -> Result<Option<Slice>, SourceError> {
        Ok(self.pop_front())
    }
}

/// A position in a compressed stream that is read on demand.
pub(crate) struct Cursor<S> {
    source: S,
    /// Spans read and not yet passed. The first has been passed up to `at`.
    spans: VecDeque<Slice>,
    at: usize,
    offset: u64,
    /// Slices passed since `record` was called, and the offset in the first span at which recording
    /// began.
    recorded: Option<Vec<Slice>>,
    record_from: usize,
    scratch: Vec<u8>,
}

impl<S: Spans> Cursor<S> {
    pub fn new(source: S, offset: u64) -> Self {
        Self {
            source,
            spans: VecDeque::new(),
            at: 0,
            offset,
            recorded: None,
            record_from: 0,
            scratch: Vec::new(),
        }
    }

    /// Takes memory for bytes that straddle spans, so that it need not be allocated.
    pub fn lend_scratch(&mut self, scratch: &mut Vec<u8>) {
        std::mem::swap(&mut self.scratch, scratch);
    }

    /// Gives [lent](Self::lend_scratch) memory back.
    pub fn return_scratch(&mut self, scratch: &mut Vec<u8>) {
        std::mem::swap(&mut self.scratch, scratch);
    }

    /// Returns the offset in the archive.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn source(&self) -> &S {
        &self.source
    }

    /// Returns the next `count` bytes without passing them; fewer at the end of the archive.
    pub fn peek(&mut self, count: usize) -> Result<&[u8], SourceError> {
        self.settle()?;
        let mut available = self.spans.iter().map(|span| span.len()).sum::<usize>() - self.at;
        while available < count {
            let Some(span) = self.source.next()? else { break };
            available += span.len();
            self.spans.push_back(span);
        }
        let Some(first) = self.spans.front() else { return Ok(&[]) };
        if first.len() - self.at >= count {
            return Ok(&first[self.at..self.at + count]);
        }
        self.scratch.clear();
        let mut skip = self.at;
        for span in &self.spans {
            let take = (count - self.scratch.len()).min(span.len() - skip);
            self.scratch.extend_from_slice(&span[skip..skip + take]);
            skip = 0;
        }
        Ok(&self.scratch)
    }

    /// Returns the rest of the current span without passing it; empty at the end of the archive.
    pub fn chunk(&mut self) -> Result<&[u8], SourceError> {
        self.settle()?;
        Ok(self.spans.front().map_or(&[], |span| &span[self.at..]))
    }

    /// Passes the rest of the current span. Returns it, with the memory in front of it if nothing of
    /// the span was passed before and that memory is reserved; `None` at the end of the archive.
    pub fn take_span(&mut self) -> Result<Option<(Slice, Option<Block>)>, SourceError> {
        self.settle()?;
        let headroom = if self.spans.len() == 1 { self.source.headroom() } else { None };
        let Some(span) = self.spans.pop_front() else { return Ok(None) };
        let from = std::mem::take(&mut self.at);
        self.offset += (span.len() - from) as u64;
        Ok(Some((span.slice(from..), headroom.filter(|_| from == 0))))
    }

    /// Passes `count` bytes and returns them in one piece, copying only if they straddle spans.
    /// Returns `None` if the archive ends earlier.
    pub fn take(&mut self, count: usize) -> Result<Option<&[u8]>, SourceError> {
        self.settle()?;
        if self.spans.front().is_some_and(|span| span.len() - self.at >= count) {
            let from = self.at;
            self.at += count;
            self.offset += count as u64;
            return Ok(self.spans.front().map(|span| &span[from..from + count]));
        }
        let mut gathered = std::mem::take(&mut self.scratch);
        gathered.clear();
        while gathered.len() < count {
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                self.scratch = gathered;
                return Ok(None);
            }
            let part = chunk.len().min(count - gathered.len());
            gathered.extend_from_slice(&chunk[..part]);
            self.pass(part);
        }
        self.scratch = gathered;
        Ok(Some(&self.scratch))
    }

    /// Passes as many bytes as `target` has and copies them there. Returns `false` if the archive
    /// ends earlier.
    pub fn fill(&mut self, mut target: &mut [u8]) -> Result<bool, SourceError> {
        while !target.is_empty() {
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                return Ok(false);
            }
            let part = chunk.len().min(target.len());
            let (now, later) = target.split_at_mut(part);
            now.copy_from_slice(&chunk[..part]);
            target = later;
            self.pass(part);
        }
        Ok(true)
    }

    /// Passes `count` bytes. Returns `false` if the archive ends earlier.
    pub fn skip(&mut self, mut count: u64) -> Result<bool, SourceError> {
        while count > 0 {
            let chunk = self.chunk()?.len();
            if chunk == 0 {
                return Ok(false);
            }
            let part = usize::try_from(count).unwrap_or(usize::MAX).min(chunk);
            self.pass(part);
            count -= part as u64;
        }
        Ok(true)
    }

    /// Passes `count` bytes, which the current span must have.
    pub fn pass(&mut self, count: usize) {
        self.at += count;
        self.offset += count as u64;
    }

    /// Starts to record the bytes passed from here on.
    pub fn record(&mut self) -> Result<(), SourceError> {
        self.settle()?;
        self.record_from = self.at;
        self.recorded = Some(Vec::new());
        Ok(())
    }

    /// Ends the recording and returns the bytes passed meanwhile.
    pub fn recorded(&mut self) -> Vec<Slice> {
        let mut recorded = self.recorded.take().unwrap_or_default();
        if let Some(span) = self.spans.front()
            && self.at > self.record_from
        {
            recorded.push(span.slice(self.record_from..self.at));
        }
        recorded
    }

    /// Goes back to the beginning of `slices`, which must be the latest recording.
    pub fn unread(&mut self, slices: Vec<Slice>) {
        if let Some(first) = self.spans.pop_front()
            && self.at < first.len()
        {
            self.spans.push_front(first.slice(self.at..));
        }
        self.at = 0;
        for slice in slices.into_iter().rev() {
            self.offset -= slice.len() as u64;
            self.spans.push_front(slice);
        }
    }

    /// Drops a span that has been passed and gets the next.
    fn settle(&mut self) -> Result<(), SourceError> {
        loop {
            match self.spans.front() {
                Some(span) if self.at < span.len() => return Ok(()),
                Some(span) => {
                    if let Some(recorded) = &mut self.recorded
                        && self.at > self.record_from
                    {
                        recorded.push(span.slice(self.record_from..self.at));
                    }
                    self.record_from = 0;
                    self.at = 0;
                    self.spans.pop_front();
                }
                None => match self.source.next()? {
                    Some(span) => self.spans.push_back(span),
                    None => return Ok(()),
                },
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use unsnap_arena::{Arena, Pool};

    use super::*;

    /// Returns `bytes`, split into spans of the given lengths, the last of which is repeated.
    pub(crate) fn spans(pool: &Pool, bytes: &[u8], lengths: &[usize]) -> VecDeque<Slice> {
        let mut rest = bytes;
        let mut spans = VecDeque::new();
        let mut lengths =
            lengths.iter().copied().chain(lengths.last().copied().into_iter().cycle());
        while !rest.is_empty() {
            let len = lengths.next().unwrap_or(1).clamp(1, rest.len());
            let mut block = pool.try_allocate(len).unwrap();
            block[..len].copy_from_slice(&rest[..len]);
            spans.push_back(block.freeze().slice(..len));
            rest = &rest[len..];
        }
        spans
    }

    pub(crate) fn pool(bytes: usize) -> Pool {
        Arena::builder().bytes(bytes).populate(false).build().unwrap().pool(bytes).unwrap()
    }

    #[test]
    fn peeking_taking_and_skipping_agree_over_any_spans() {
        let pool = pool(16 << 20);
        let bytes: Vec<u8> = (0..200_u8).collect();
        for lengths in [&[1][..], &[2, 3, 1], &[7], &[200], &[199, 1], &[100, 100]] {
            let mut cursor = Cursor::new(spans(&pool, &bytes, lengths), 0);
            assert_eq!(cursor.peek(18).unwrap(), &bytes[..18]);
            assert_eq!(cursor.take(5).unwrap().unwrap(), &bytes[..5]);
            assert!(cursor.skip(20).unwrap());
            assert_eq!(cursor.offset(), 25);
            assert_eq!(cursor.take(60).unwrap().unwrap(), &bytes[25..85]);
            let mut filled = [0; 40];
            assert!(cursor.fill(&mut filled).unwrap());
            assert_eq!(filled, bytes[85..125]);
            assert_eq!(cursor.peek(500).unwrap(), &bytes[125..]);
            assert!(cursor.take(76).unwrap().is_none(), "only 75 are left");
        }
    }

    #[test]
    fn recorded_bytes_can_be_read_again() {
        let pool = pool(16 << 20);
        let bytes: Vec<u8> = (0..200_u8).collect();
        for lengths in [&[1][..], &[2, 3, 1], &[7], &[200], &[50]] {
            for (before, within) in [(0, 0), (0, 50), (3, 47), (3, 197), (50, 50), (10, 1)] {
                let mut cursor = Cursor::new(spans(&pool, &bytes, lengths), 1000);
                assert!(cursor.skip(before as u64).unwrap());
                cursor.record().unwrap();
                let _ = cursor.peek(18).unwrap();
                assert!(cursor.skip(within as u64).unwrap());
                let recorded = cursor.recorded();
                let joined: Vec<u8> = recorded.iter().flat_map(|part| part.to_vec()).collect();
                assert_eq!(
                    joined,
                    &bytes[before..before + within],
                    "{lengths:?} {before} {within}"
                );
                cursor.unread(recorded);
                assert_eq!(cursor.offset(), 1000 + before as u64);
                assert_eq!(cursor.take(200 - before).unwrap().unwrap(), &bytes[before..]);
                assert_eq!(cursor.offset(), 1200);
            }
        }
    }
}

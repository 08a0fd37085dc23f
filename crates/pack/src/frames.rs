//! Cutting of the tar stream into frames that begin with entries.

use std::ops::ControlFlow;

use unsnap_arena::Slice;
use unsnap_pass::{Passing, Tap};

/// Size of a tar block.
const BLOCK_BYTES: u64 = 512;

/// Part of the tar stream that becomes a frame.
#[derive(Debug)]
pub(crate) struct RawFrame {
    /// Offset of the frame in the stream.
    pub raw_offset: u64,
    /// Its content, in order.
    pub pieces: Vec<Slice>,
    /// Its size in bytes.
    pub bytes: usize,
}

/// Cuts the stream that it listens to into frames of limited size.
///
/// A frame ends before the first entry that does not fit into it as a whole. A larger entry begins
/// a frame and is cut wherever a frame is full; the next entries follow in its last frame. So every
/// frame begins with an entry, or with the rest of an entry that is larger than a frame.
pub(crate) struct Framer<F> {
    frame_bytes: u64,
    /// Takes frames, in order. A break ends the run.
    take: F,
    /// Offset of the current frame in the stream.
    start: u64,
    pieces: Vec<Slice>,
    /// Total size of the pieces.
    bytes: u64,
}

impl<F: FnMut(RawFrame) -> ControlFlow<()> + Send> Framer<F> {
    /// Creates a framer. `frame_bytes` is the most bytes in a frame.
    pub fn new(frame_bytes: usize, take: F) -> Self {
        let frame_bytes = frame_bytes.max(1) as u64;
        Self { frame_bytes, take, start: 0, pieces: Vec::new(), bytes: 0 }
    }

    /// Ends the last frame. Call this after the whole stream has passed and proved good.
    pub fn finish(mut self) -> ControlFlow<()> {
        self.cut(self.bytes)
    }

    fn gather(&mut self, mut bytes: Slice) -> ControlFlow<()> {
        loop {
            // At most as many bytes as are in memory.
            let room = usize::try_from(self.frame_bytes - self.bytes).unwrap_or(usize::MAX);
            if bytes.len() <= room {
                break;
            }
            self.push(bytes.slice(..room));
            bytes = bytes.slice(room..);
            self.cut(self.bytes)?;
        }
        self.push(bytes);
        ControlFlow::Continue(())
    }

    /// Adds a piece. Pieces that are adjacent in memory are joined, so that most frames have few.
    fn push(&mut self, bytes: Slice) {
        if bytes.is_empty() {
            return;
        }
        self.bytes += bytes.len() as u64;
        match self.pieces.pop().map(|last| last.join(bytes.clone())) {
            None => self.pieces.push(bytes),
            Some(Ok(joined)) => self.pieces.push(joined),
            Some(Err(pair)) => self.pieces.extend([pair.0, pair.1]),
        }
    }

    /// Passes on a frame of the first `bytes` gathered bytes.
    fn cut(&mut self, bytes: u64) -> ControlFlow<()> {
        if bytes == 0 {
            return ControlFlow::Continue(());
        }
        let mut pieces = Vec::with_capacity(self.pieces.len());
        let mut kept = Vec::new();
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        for piece in self.pieces.drain(..) {
            let taken = left.min(piece.len());
            left -= taken;
            if taken == piece.len() {
                pieces.push(piece);
                continue;
            }
            if taken > 0 {
                pieces.push(piece.slice(..taken));
            }
            kept.push(piece.slice(taken..));
        }
        let raw_offset = self.start;
        self.pieces = kept;
        self.start += bytes;
        self.bytes -= bytes;
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        (self.take)(RawFrame { raw_offset, pieces, bytes })
    }
}

impl<F: FnMut(RawFrame) -> ControlFlow<()> + Send> Tap for Framer<F> {
    fn take(&mut self, what: Passing<'_>, bytes: Slice) -> ControlFlow<()> {
        self.gather(bytes)?;
        let Passing::Member { member, .. } = what else { return ControlFlow::Continue(()) };
        let payload = member.size.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX);
        let end = member.payload_offset.saturating_add(payload);
        // Offset of the entry in the frame, unless its extensions have filled a frame by
        // themselves.
        let before = member.header_offset.saturating_sub(self.start);
        if end - self.start > self.frame_bytes && before > 0 {
            return self.cut(before);
        }
        ControlFlow::Continue(())
    }
}

//! libzstd's block-level interface. The only unsafe module of this crate.
//!
//! `begin`, `wanted` and `feed` decode a frame piece by piece, each block at its final place. Used
//! this way, libzstd keeps no window of its own but copies matches from the places where earlier
//! blocks were decoded. That memory must stay in place and unchanged. This module guarantees it by
//! owning the memory:
//!
//! * `current` is the segment being filled; its filled part is never written again;
//! * `previous` is a counted reference to the segment filled before it (between two segments, to
//!   the one filled last).
//!
//! libzstd remembers one change of destination (it calls the part before it the external
//! dictionary) and forgets all destinations before the last two, so it can refer only to these two
//! segments. The caller must make sure that they hold a whole window, by comparing the frame's
//! window with the segment size. If they do not, libzstd reports the match as corrupt and reads
//! nothing.

use std::ptr::{self, NonNull};

use unsnap_arena::{OpenSegment, Segment, Slice};
use zstd_sys::{
    ZSTD_DCtx, ZSTD_createDCtx, ZSTD_decompressBegin, ZSTD_decompressContinue, ZSTD_freeDCtx,
    ZSTD_isError, ZSTD_nextSrcSizeToDecompress,
};

/// Decodes zstd frames into segments that it owns while they are open.
pub(crate) struct BlockDecoder {
    context: NonNull<ZSTD_DCtx>,
    current: Option<OpenSegment>,
    previous: Option<Slice>,
}

// SAFETY: a decompression context is plain memory that is not tied to a thread. `self` is its only
// owner, and all calls take `&mut self` (or `&self` for a pure query).
unsafe impl Send for BlockDecoder {}

impl BlockDecoder {
    /// Creates a decoder. Returns `None` if libzstd cannot allocate a context (about 160 KiB).
    pub fn new() -> Option<Self> {
        // SAFETY: has no preconditions.
        let context = unsafe { ZSTD_createDCtx() };
        Some(Self { context: NonNull::new(context)?, current: None, previous: None })
    }

    /// Starts a frame, which cannot refer to anything decoded before.
    pub fn begin(&mut self) -> Result<(), String> {
        // SAFETY: the context is valid and owned; this resets its state and touches no other
        // memory.
        let code = unsafe { ZSTD_decompressBegin(self.context.as_ptr()) };
        check(code)?;
        // Not before the success: until then, libzstd may refer to it.
        self.previous = None;
        Ok(())
    }

    /// Returns the exact number of compressed bytes that the next [`feed`](Self::feed) requires; 0
    /// at the end of the frame.
    pub fn wanted(&self) -> usize {
        // SAFETY: the context is valid; this only reads one of its fields.
        unsafe { ZSTD_nextSrcSizeToDecompress(self.context.as_ptr()) }
    }

    /// Returns the number of bytes decoded into the open segment.
    pub fn filled(&self) -> usize {
        self.current.as_ref().map_or(0, OpenSegment::filled)
    }

    /// Returns the number of bytes that can still be decoded into the open segment.
    pub fn spare(&self) -> usize {
        self.current.as_ref().map_or(0, OpenSegment::spare)
    }

    /// Returns the unfilled part of the open segment, for bytes from elsewhere between two frames.
    /// Count them with [`advance`](Self::advance).
    pub fn spare_mut(&mut self) -> &mut [u8] {
        self.current.as_mut().map_or(&mut [], OpenSegment::spare_mut)
    }

    /// Counts `count` bytes written to [`spare_mut`](Self::spare_mut).
    pub fn advance(&mut self, count: usize) {
        if let Some(current) = &mut self.current {
            current.advance(count);
        }
    }

    /// Decodes the next piece of the frame to the end of the open segment. Returns the number of
    /// decoded bytes.
    pub fn feed(&mut self, source: &[u8]) -> Result<usize, String> {
        let spare = self.spare_mut();
        let (target, capacity) =
            if spare.is_empty() { (ptr::null_mut(), 0) } else { (spare.as_mut_ptr(), spare.len()) };
        // SAFETY: `source` is readable and `target` exclusively writable for the given lengths
        // (spare_mut borrows from the only handle). Earlier output that libzstd may refer to lies
        // in the filled part of `current` or in `previous`, both owned by self (module invariant).
        let code = unsafe {
            ZSTD_decompressContinue(
                self.context.as_ptr(),
                target.cast(),
                capacity,
                source.as_ptr().cast(),
                source.len(),
            )
        };
        let count = check(code)?;
        self.advance(count);
        Ok(count)
    }

    /// Closes the open segment and returns it, if it holds any bytes. An unfinished frame continues
    /// in the next segment that is opened.
    pub fn seal(&mut self) -> Option<Segment> {
        // libzstd does not refer to a segment without decoded bytes, but still to `previous`.
        let filled = self.current.take().filter(|open| open.filled() > 0)?;
        let segment = filled.seal();
        self.previous = Some(segment.share());
        Some(segment)
    }

    /// Continues in `next`.
    ///
    /// # Panics
    /// If the segment open before has not been sealed: libzstd may still refer to it.
    pub fn open(&mut self, next: OpenSegment) {
        assert!(self.current.is_none(), "the open segment would be lost");
        self.current = Some(next);
    }

    /// Gives up the open segment and everything before it. An unfinished frame cannot continue
    /// afterwards.
    pub fn release(&mut self) -> Result<Option<OpenSegment>, String> {
        self.begin()?;
        Ok(self.current.take())
    }

    /// Closes the open segment like [`seal`](Self::seal), but an unfinished frame cannot continue
    /// afterwards.
    pub fn finish(&mut self) -> Result<Option<Segment>, String> {
        let segment = self.seal();
        self.begin()?;
        Ok(segment)
    }
}

impl Drop for BlockDecoder {
    fn drop(&mut self) {
        // SAFETY: the context came from ZSTD_createDCtx, `self` is its only owner, and it is freed
        // once, here.
        unsafe { ZSTD_freeDCtx(self.context.as_ptr()) };
    }
}

fn check(code: usize) -> Result<usize, String> {
    // SAFETY: a pure function of its argument.
    let failed = unsafe { ZSTD_isError(code) } != 0;
    if failed { Err(zstd_safe::get_error_name(code).to_owned()) } else { Ok(code) }
}

//! The one unsafe module: libzstd's block-level interface.
//!
//! `begin`, `wanted`, `feed` decode a frame piece by piece, each block at its final place. libzstd
//! keeps no window of its own then: matches are copied from where earlier blocks were decoded to.
//! That memory must therefore stay in place and unchanged, which this module sees to by owning it:
//!
//! * `current`, the segment being filled: its filled part is never written again;
//! * `previous`, a counted reference to the segment filled before it (between two segments, to the
//!   one filled last).
//!
//! libzstd follows one change of destination (it calls the part before it the external
//! dictionary) and forgets what lies before the last but one; so these two are all it can refer to.
//! Whether they hold a whole window is up to the caller, who compares the frame's window with the
//! segment size; if they do not, libzstd reports the match as corrupt and reads nothing.

use std::ptr::{self, NonNull};

use unsnap_arena::{OpenSegment, Segment, Slice};
use zstd_sys::{
    ZSTD_DCtx, ZSTD_createDCtx, ZSTD_decompressBegin, ZSTD_decompressContinue, ZSTD_freeDCtx,
    ZSTD_isError, ZSTD_nextSrcSizeToDecompress,
};

/// Decodes zstd frames into segments it owns while they are open.
pub(crate) struct BlockDecoder {
    context: NonNull<ZSTD_DCtx>,
    current: Option<OpenSegment>,
    previous: Option<Slice>,
}

// SAFETY: a decompression context is plain memory tied to no thread; we own it alone, and all
// calls take `&mut self` (or `&self` for a pure query).
unsafe impl Send for BlockDecoder {}

impl BlockDecoder {
    /// `None` if libzstd has no memory for a context (about 160 KiB).
    pub fn new() -> Option<Self> {
        // SAFETY: has no preconditions.
        let context = unsafe { ZSTD_createDCtx() };
        Some(Self { context: NonNull::new(context)?, current: None, previous: None })
    }

    /// Starts a frame. Whatever was decoded before is no longer referred to.
    pub fn begin(&mut self) -> Result<(), String> {
        // SAFETY: the context is valid and ours; this resets its state and touches no other memory.
        let code = unsafe { ZSTD_decompressBegin(self.context.as_ptr()) };
        self.previous = None;
        check(code).map(drop)
    }

    /// Compressed bytes that the next [`feed`](Self::feed) wants, exactly; 0 at the frame's end.
    pub fn wanted(&self) -> usize {
        // SAFETY: the context is valid; this only reads a field of it.
        unsafe { ZSTD_nextSrcSizeToDecompress(self.context.as_ptr()) }
    }

    /// Bytes that can still be decoded into the open segment.
    pub fn spare(&self) -> usize {
        self.current.as_ref().map_or(0, OpenSegment::spare)
    }

    /// The part of the open segment that is still to be filled, for bytes that come from
    /// elsewhere between two frames; count them by [`advance`](Self::advance).
    pub fn spare_mut(&mut self) -> &mut [u8] {
        self.current.as_mut().map_or(&mut [], OpenSegment::spare_mut)
    }

    /// Counts bytes put into [`spare_mut`](Self::spare_mut).
    pub fn advance(&mut self, count: usize) {
        if let Some(current) = &mut self.current {
            current.advance(count);
        }
    }

    /// Decodes the next piece of the frame to the end of the open segment, and gives the number of
    /// bytes that made.
    pub fn feed(&mut self, source: &[u8]) -> Result<usize, String> {
        let spare = self.spare_mut();
        let (target, capacity) =
            if spare.is_empty() { (ptr::null_mut(), 0) } else { (spare.as_mut_ptr(), spare.len()) };
        // SAFETY: `source` is readable and `target` writable for the lengths given, exclusively
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

    /// Closes the open segment and gives it away, if it holds anything. A frame under way goes on
    /// in the next one that is opened.
    pub fn seal(&mut self) -> Option<Segment> {
        // Where nothing was decoded to, libzstd refers to nothing: it still refers to `previous`.
        let filled = self.current.take().filter(|open| open.filled() > 0)?;
        let segment = filled.seal();
        self.previous = Some(segment.share());
        Some(segment)
    }

    /// Goes on in `next`. Whatever was open must have been sealed.
    pub fn open(&mut self, next: OpenSegment) {
        debug_assert!(self.current.is_none(), "a segment is lost");
        self.current = Some(next);
    }

    /// [`seal`](Self::seal), for good: a frame under way cannot go on after that.
    pub fn finish(&mut self) -> Result<Option<Segment>, String> {
        let segment = self.seal();
        self.begin()?;
        Ok(segment)
    }
}

impl Drop for BlockDecoder {
    fn drop(&mut self) {
        // SAFETY: the context came from ZSTD_createDCtx and is freed once.
        unsafe { ZSTD_freeDCtx(self.context.as_ptr()) };
    }
}

fn check(code: usize) -> Result<usize, String> {
    // SAFETY: a pure function of its argument.
    let failed = unsafe { ZSTD_isError(code) } != 0;
    if failed { Err(zstd_safe::get_error_name(code).to_owned()) } else { Ok(code) }
}

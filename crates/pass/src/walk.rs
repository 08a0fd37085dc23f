//! The walk: parses decoded segments as a tar stream and passes the events to a listener.

use std::ops::{ControlFlow, Range};

use unsnap_arena::{Segment, SegmentView, Slice};
use unsnap_decode::{Decoded, DecodedSegment, Position};
use unsnap_tarstream::{Event, Walker};

use crate::{CancelToken, PassError, Progress};

/// The bytes of an event.
#[derive(Clone, Debug)]
pub struct Span<'v> {
    /// The segment that holds them.
    pub view: &'v SegmentView,
    /// Their range in the segment's decoded bytes.
    pub range: Range<usize>,
    /// Origin of the segment.
    pub at: Position,
}

impl<'v> Span<'v> {
    /// Returns the bytes.
    pub fn bytes(&self) -> &'v [u8] {
        &self.view.bytes()[self.range.clone()]
    }

    /// Returns a counted reference to the bytes. Their memory is not reused before it is dropped.
    pub fn slice(&self) -> Slice {
        self.view.slice(0, self.range.clone())
    }
}

/// Listener to a walk.
pub trait Listener<E: From<PassError>> {
    /// Receives a segment. Returns the view of it that the events of the segment refer to. A
    /// listener may put bytes in front of it that it kept from the previous segment.
    fn segment(&mut self, segment: Segment) -> Result<SegmentView, E> {
        Ok(segment.prepend(&[]))
    }

    /// Receives an event and its bytes. A break ends the walk.
    fn event(&mut self, event: Event<'_>, span: &Span<'_>) -> Result<ControlFlow<()>, E>;

    /// Called after the last event of a segment.
    fn segment_end(&mut self, view: &SegmentView) -> Result<(), E> {
        let _ = view;
        Ok(())
    }
}

/// A walk over an archive.
pub struct Walk<'a> {
    /// Name of the archive in messages.
    pub archive: &'a str,
    /// Decoded stream of the archive.
    pub decoded: &'a mut Decoded,
    /// Tar walker, at the position where the walk begins.
    pub walker: Walker,
    /// Number of decoded bytes before that position.
    pub skip: u64,
    /// Counts decoded bytes.
    pub progress: &'a Progress,
    /// Stops the walk.
    pub cancel: &'a CancelToken,
}

impl Walk<'_> {
    /// Walks until the listener breaks, or to the proven end of the archive.
    ///
    /// # Errors
    ///
    /// [`PassError::Decode`] or [`PassError::Tar`] for a bad archive, [`PassError::Cancelled`], and
    /// the errors of the listener.
    pub fn run<E: From<PassError>>(mut self, listener: &mut impl Listener<E>) -> Result<(), E> {
        while let Some(DecodedSegment { segment, at }) = self.next_segment()? {
            let bytes = segment.len() as u64;
            let view = listener.segment(segment)?;
            let flow = self.segment(&view, at, listener)?;
            listener.segment_end(&view)?;
            self.progress.count_decoded(bytes);
            if flow.is_break() {
                return Ok(());
            }
        }
        let end = self.decoded.summary().map_or_else(Position::default, |summary| Position {
            compressed_offset: summary.bytes_read,
            frame: summary.frames + summary.skippable_frames,
            raw_offset: summary.bytes_decoded,
        });
        self.walker.finish().map_err(|source| PassError::tar(self.archive, source, end))?;
        Ok(())
    }

    fn next_segment(&mut self) -> Result<Option<DecodedSegment>, PassError> {
        if self.cancel.is_cancelled() {
            return Err(PassError::Cancelled);
        }
        self.decoded.next().map_err(|error| PassError::decode(self.archive, error))
    }

    fn segment<E: From<PassError>>(
        &mut self,
        view: &SegmentView,
        at: Position,
        listener: &mut impl Listener<E>,
    ) -> Result<ControlFlow<()>, E> {
        let bytes = view.bytes();
        let mut position = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
        self.skip -= position as u64;
        while position < bytes.len() {
            let step = self.walker.step(&bytes[position..]);
            let step = step.map_err(|source| PassError::tar(self.archive, source, at))?;
            let span = Span { view, range: position..position + step.consumed, at };
            position = span.range.end;
            if listener.event(step.event, &span)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Listener that passes every event, its bytes, and the origin of the segment to a closure.
pub struct See<F>(pub F);

impl<E, F> Listener<E> for See<F>
where
    E: From<PassError>,
    F: FnMut(Event<'_>, &[u8], Position) -> Result<ControlFlow<()>, E>,
{
    fn event(&mut self, event: Event<'_>, span: &Span<'_>) -> Result<ControlFlow<()>, E> {
        (self.0)(event, span.bytes(), span.at)
    }
}

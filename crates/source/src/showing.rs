//! A step that shows spans to a listener.

use crate::{Source, SourceError, Span, Step};

/// Shows each span to a listener first, which may keep a counted reference to the bytes.
pub struct Showing<F>(F);

impl<F: FnMut(&Span) + Send> Showing<F> {
    /// Creates the step.
    pub fn new(show: F) -> Self {
        Self(show)
    }
}

impl<F: FnMut(&Span) + Send> Step for Showing<F> {
    fn next_span(&mut self, source: &mut dyn Source) -> Result<Option<Span>, SourceError> {
        let span = source.next_span()?;
        if let Some(span) = &span {
            (self.0)(span);
        }
        Ok(span)
    }
}

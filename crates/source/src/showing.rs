//! A source that shows the spans of another source to a listener.

use std::time::Duration;

use crate::{Source, SourceError, SourceTraits, Span};

/// Passes on the spans of another source, and shows each to a listener first. The listener may keep a
/// counted reference to the bytes.
pub struct Showing<F> {
    source: Box<dyn Source>,
    show: F,
}

impl<F: FnMut(&Span) + Send> Showing<F> {
    /// Wraps `source`.
    pub fn new(source: Box<dyn Source>, show: F) -> Self {
        Self { source, show }
    }
}

impl<F: FnMut(&Span) + Send> Source for Showing<F> {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        let span = self.source.next_span()?;
        if let Some(span) = &span {
            (self.show)(span);
        }
        Ok(span)
    }

    fn len(&self) -> Option<u64> {
        self.source.len()
    }

    fn waited(&self) -> Duration {
        self.source.waited()
    }

    fn waited_for_memory(&self) -> Duration {
        self.source.waited_for_memory()
    }

    fn traits(&self) -> SourceTraits {
        self.source.traits()
    }
}

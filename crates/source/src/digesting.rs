//! A source that digests the bytes of another source.

use std::time::Duration;

use unsnap_arena::Block;

use crate::{Digest, Hasher, Source, SourceError, SourceTraits, Span};

/// Passes on the spans of another source and digests them. At the end of the archive
/// [`SourceTraits::digest`] holds the digest.
///
/// The calling thread computes the digest, which brings the bytes into its CPU cache before it
/// decodes them.
pub struct Digesting<F> {
    source: Box<dyn Source>,
    hasher: Hasher,
    /// Called after each span with its end offset and the digest of everything before that offset.
    mark: F,
    ended: Option<Digest>,
}

impl<F: FnMut(u64, Digest) + Send> Digesting<F> {
    /// Wraps `source`. `hasher` must already contain the bytes before the source's first byte, if
    /// there are any.
    pub fn new(source: Box<dyn Source>, hasher: Hasher, mark: F) -> Self {
        Self { source, hasher, mark, ended: None }
    }
}

impl<F: FnMut(u64, Digest) + Send> Source for Digesting<F> {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        let span = self.source.next_span()?;
        match &span {
            Some(Span { offset, bytes }) => {
                self.hasher.update(bytes);
                (self.mark)(offset + bytes.len() as u64, self.hasher.digest());
            }
            None => self.ended = Some(self.hasher.digest()),
        }
        Ok(span)
    }

    fn headroom(&mut self) -> Option<Block> {
        self.source.headroom()
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
        SourceTraits { digest: self.ended, ..self.source.traits() }
    }
}

//! A step that digests bytes.

use crate::{Digest, Hasher, Source, SourceError, Span, Step};

/// Digests spans. At the end of the archive [`SourceTraits::digest`](crate::SourceTraits::digest) holds
/// the digest.
///
/// The calling thread computes the digest, which brings the bytes into its CPU cache before it
/// decodes them.
pub struct Digesting<F> {
    hasher: Hasher,
    /// Called after each span with its end offset and the digest of everything before that offset.
    mark: F,
    ended: Option<Digest>,
}

impl<F: FnMut(u64, Digest) + Send> Digesting<F> {
    /// Creates the step. `hasher` must already contain the bytes before the source's first byte, if
    /// there are any.
    pub fn new(hasher: Hasher, mark: F) -> Self {
        Self { hasher, mark, ended: None }
    }
}

impl<F: FnMut(u64, Digest) + Send> Step for Digesting<F> {
    fn next_span(&mut self, source: &mut dyn Source) -> Result<Option<Span>, SourceError> {
        let span = source.next_span()?;
        match &span {
            Some(Span { offset, bytes }) => {
                self.hasher.update(bytes);
                (self.mark)(offset + bytes.len() as u64, self.hasher.digest());
            }
            None => self.ended = Some(self.hasher.digest()),
        }
        Ok(span)
    }

    fn digest(&self) -> Option<Digest> {
        self.ended
    }
}

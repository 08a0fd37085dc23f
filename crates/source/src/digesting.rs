//! A source whose bytes are digested as they pass by.

use std::time::Duration;

use crate::{Digest, Hasher, Source, SourceError, SourceTraits, Span};

/// Hands on what another source gives, and digests it. At the archive's end the digest is in
/// [`SourceTraits::digest`].
///
/// Digesting happens on the thread that asks for bytes, which brings them into its cache before
/// they are decoded there.
pub struct Digesting<F> {
    source: Box<dyn Source>,
    hasher: Hasher,
    /// Told the offset and the digest of everything before it, after each span.
    mark: F,
    ended: Option<Digest>,
}

impl<F: FnMut(u64, Digest) + Send> Digesting<F> {
    /// `hasher` has taken what comes before the source's first byte, if anything does.
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

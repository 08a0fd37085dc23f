//! Holding an archive to what earlier runs have read of it.

use std::time::Duration;

use unsnap_source::{Digest, Hasher, Source, SourceError, SourceTraits, Span};

use crate::{Address, FetchError};

/// A range of an archive that an earlier run has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRange {
    /// Offset of the first byte.
    pub from: u64,
    /// Offset behind the last byte.
    pub to: u64,
    /// Digest of the range.
    pub digest: Digest,
}

/// Passes on the spans of another source, which begins at the beginning of the archive, and refuses an
/// archive that has other bytes in a range than it had before.
pub struct Holding {
    source: Box<dyn Source>,
    address: Address,
    held: Vec<(HeldRange, Hasher)>,
}

impl Holding {
    /// Wraps `source`, which receives the archive at `address`.
    pub fn new(source: Box<dyn Source>, address: Address, ranges: &[HeldRange]) -> Self {
        let held = ranges.iter().map(|range| (*range, range.digest.kind().hasher())).collect();
        Self { source, address, held }
    }

    fn hold(&mut self, span: &Span) -> Result<(), FetchError> {
        let (first, end) = (span.offset, span.offset + span.bytes.len() as u64);
        for (range, hasher) in &mut self.held {
            let (from, to) = (range.from.max(first), range.to.min(end));
            if from >= to {
                continue;
            }
            let within = |offset: u64| usize::try_from(offset - first).unwrap_or(usize::MAX);
            hasher.update(&span.bytes[within(from)..within(to)]);
            let found = hasher.digest();
            if to == range.to && found != range.digest {
                return Err(FetchError::Changed {
                    address: self.address.clone(),
                    what: "the digest of the bytes that an interrupted run had received",
                    expected: range.digest.to_string(),
                    found: found.to_string(),
                });
            }
        }
        // Ranges behind which the archive is have been compared.
        self.held.retain(|(range, _)| range.to > end);
        Ok(())
    }
}

impl Source for Holding {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        let span = self.source.next_span()?;
        if let Some(span) = &span {
            self.hold(span).map_err(|error| SourceError::Remote(Box::new(error)))?;
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

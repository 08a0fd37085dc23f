//! Holding an archive to what earlier runs have read of it.

use unsnap_source::{Digest, Hasher, Source, SourceError, Span, Step};

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

/// Passes on the spans of a source, and refuses an archive that has other bytes in a range than it had
/// before.
pub struct Holding {
    address: Address,
    held: Vec<(HeldRange, Hasher)>,
}

impl Holding {
    /// Creates the step for a source that receives the archive at `address`.
    pub fn new(address: Address, ranges: &[HeldRange]) -> Self {
        let held = ranges.iter().map(|range| (*range, range.digest.kind().hasher())).collect();
        Self { address, held }
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

impl Step for Holding {
    fn next_span(&mut self, source: &mut dyn Source) -> Result<Option<Span>, SourceError> {
        let span = source.next_span()?;
        if let Some(span) = &span {
            self.hold(span).map_err(|error| SourceError::Remote(Box::new(error)))?;
        }
        Ok(span)
    }
}

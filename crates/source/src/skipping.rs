//! A step that leaves out the first bytes of a source.

use crate::{Source, SourceError, Span, Step};

/// Passes on spans from an offset on.
pub struct Skipping {
    from: u64,
}

impl Skipping {
    /// Creates the step for a source that begins at `from` or before.
    pub fn new(from: u64) -> Self {
        Self { from }
    }
}

impl Step for Skipping {
    fn next_span(&mut self, source: &mut dyn Source) -> Result<Option<Span>, SourceError> {
        loop {
            let Some(span) = source.next_span()? else { return Ok(None) };
            let before = self.from.saturating_sub(span.offset);
            match usize::try_from(before) {
                Ok(0) => return Ok(Some(span)),
                Ok(before) if before < span.bytes.len() => {
                    // In front of the rest there are bytes of the archive.
                    drop(source.headroom());
                    return Ok(Some(Span { offset: self.from, bytes: span.bytes.slice(before..) }));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use unsnap_arena::Arena;

    use super::*;
    use crate::{SourceTraits, Through};

    /// A source of three bytes at a time.
    struct Threes(Vec<Span>);

    impl Source for Threes {
        fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
            Ok(if self.0.is_empty() { None } else { Some(self.0.remove(0)) })
        }

        fn len(&self) -> Option<u64> {
            None
        }

        fn waited(&self) -> Duration {
            Duration::ZERO
        }

        fn waited_for_memory(&self) -> Duration {
            Duration::ZERO
        }

        fn traits(&self) -> SourceTraits {
            SourceTraits::default()
        }
    }

    #[test]
    fn exactly_the_bytes_before_the_offset_are_left_out() {
        let pool = Arena::builder().bytes(1 << 16).populate(false).build().unwrap();
        let pool = { pool }.pool(1 << 16).unwrap();
        for from in 0..=10_u8 {
            let threes = (0..3_u8).map(|index| {
                let mut block = pool.try_allocate(3).unwrap();
                let first = 3 * index;
                block[..3].copy_from_slice(&[first, first + 1, first + 2]);
                Span { offset: first.into(), bytes: block.freeze().slice(..3) }
            });
            let mut source =
                Through::new(Box::new(Threes(threes.collect())), Skipping::new(from.into()));
            let mut found = Vec::new();
            while let Some(span) = source.next_span().unwrap() {
                assert_eq!(span.offset, u64::from(from) + found.len() as u64);
                found.extend_from_slice(&span.bytes);
            }
            assert_eq!(found, (from..9).collect::<Vec<_>>());
        }
    }
}

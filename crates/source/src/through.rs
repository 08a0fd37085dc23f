//! Sources whose spans pass through a step.

use std::time::Duration;

use unsnap_arena::Block;

use crate::{Digest, Source, SourceError, SourceTraits, Span};

/// A step that the spans of a source pass through: it looks at them, waits, or leaves some out.
pub trait Step: Send {
    /// Returns the next span of `source`, or a part of it. The memory in front of a span is passed on
    /// by [`Through`]; a step that cuts a span in front takes it away.
    fn next_span(&mut self, source: &mut dyn Source) -> Result<Option<Span>, SourceError>;

    /// Returns the time that this step has waited.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the digest of all bytes, if this step computes one and the end has been reached.
    fn digest(&self) -> Option<Digest> {
        None
    }
}

/// A source whose spans pass through a step. Everything else is that of the source.
pub struct Through<S> {
    source: Box<dyn Source>,
    step: S,
}

impl<S: Step> Through<S> {
    /// Wraps `source`.
    pub fn new(source: Box<dyn Source>, step: S) -> Self {
        Self { source, step }
    }
}

impl<S: Step> Source for Through<S> {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        self.step.next_span(&mut *self.source)
    }

    fn headroom(&mut self) -> Option<Block> {
        self.source.headroom()
    }

    fn len(&self) -> Option<u64> {
        self.source.len()
    }

    fn waited(&self) -> Duration {
        self.source.waited() + self.step.waited()
    }

    fn waited_for_memory(&self) -> Duration {
        self.source.waited_for_memory()
    }

    fn traits(&self) -> SourceTraits {
        let traits = self.source.traits();
        SourceTraits { digest: self.step.digest().or(traits.digest), ..traits }
    }
}

#[cfg(test)]
mod tests {
    use unsnap_arena::{Arena, Pool};
    use unsnap_ring::Pace;

    use super::*;
    use crate::{Chained, DigestKind, Digesting, Pausing, Showing, Skipping};

    const PAGE: usize = 4096;

    /// A source of pages, with a page in front of each.
    struct Pages {
        pool: Pool,
        next: u64,
        end: u64,
        headroom: Option<Block>,
    }

    impl Source for Pages {
        fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
            if self.next == self.end {
                return Ok(None);
            }
            let (mut block, _) = self.pool.allocate(2 * PAGE).unwrap();
            self.headroom = Some(block.split_to(PAGE));
            block.fill(u8::try_from(self.next % 251).unwrap());
            let offset = self.next * PAGE as u64;
            self.next += 1;
            Ok(Some(Span { offset, bytes: block.freeze() }))
        }

        fn headroom(&mut self) -> Option<Block> {
            self.headroom.take()
        }

        fn len(&self) -> Option<u64> {
            Some(self.end * PAGE as u64)
        }

        fn waited(&self) -> Duration {
            Duration::from_secs(1)
        }

        fn traits(&self) -> SourceTraits {
            SourceTraits { engine: Some("pages"), ..SourceTraits::default() }
        }
    }

    #[test]
    fn steps_hide_nothing_of_the_source() {
        let mut arena = Arena::builder().bytes(64 * PAGE).populate(false).build().unwrap();
        let pool = arena.pool(64 * PAGE).unwrap();
        let pages = |pool: &Pool| -> Box<dyn Source> {
            Box::new(Pages { pool: pool.clone(), next: 0, end: 3, headroom: None })
        };
        let then = {
            let pool = pool.clone();
            move || pages(&pool)
        };
        let hasher = DigestKind::Xxh3.hasher();
        let sources: Vec<Box<dyn Source>> = vec![
            Box::new(Through::new(pages(&pool), Showing::new(|_: &Span| ()))),
            Box::new(Through::new(pages(&pool), Skipping::new(0))),
            Box::new(Through::new(pages(&pool), Digesting::new(hasher, |_, _| ()))),
            Box::new(Through::new(pages(&pool), Pausing::new(Pace::default(), pool.clone()))),
            Box::new(Chained::new(pages(&pool), then, Some(3 * PAGE as u64))),
        ];
        for (number, mut source) in sources.into_iter().enumerate() {
            assert_eq!(source.len(), Some(3 * PAGE as u64), "{number}");
            let mut spans = 0;
            while let Some(span) = source.next_span().unwrap() {
                spans += 1;
                let headroom = source.headroom().expect("the memory in front");
                assert_eq!(headroom.as_ptr_range().end, span.bytes.as_ptr(), "{number}");
                assert!(source.headroom().is_none(), "{number}: once");
            }
            assert!(spans >= 3 && source.waited() >= Duration::from_secs(1), "{number}");
            assert_eq!(source.traits().engine, Some("pages"), "{number}");
        }
    }

    #[test]
    fn the_memory_in_front_of_a_cut_span_is_not_that_of_the_rest() {
        let mut arena = Arena::builder().bytes(64 * PAGE).populate(false).build().unwrap();
        let pool = arena.pool(64 * PAGE).unwrap();
        let pages = Pages { pool, next: 0, end: 3, headroom: None };
        let mut source = Through::new(Box::new(pages), Skipping::new(PAGE as u64 + 7));
        assert_eq!(source.next_span().unwrap().unwrap().offset, PAGE as u64 + 7);
        assert!(source.headroom().is_none());
        assert_eq!(source.next_span().unwrap().unwrap().offset, 2 * PAGE as u64);
        assert!(source.headroom().is_some());
    }
}

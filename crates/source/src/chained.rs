//! Two sources, the one after the other.

use std::time::Duration;

use unsnap_arena::Block;

use crate::{Source, SourceError, SourceTraits, Span};

/// Passes on the spans of one source, and then those of another, which is started when the first has
/// ended: until then the first has all of the memory.
pub struct Chained {
    current: Box<dyn Source>,
    then: Option<Box<dyn FnOnce() -> Box<dyn Source> + Send>>,
    len: Option<u64>,
    /// Times and fallbacks of the first one, once it has ended.
    before: (Duration, Duration, Vec<String>),
}

impl Chained {
    /// Chains `first` and the source that `then` starts. Both together end at the offset `len`.
    pub fn new(
        first: Box<dyn Source>,
        then: impl FnOnce() -> Box<dyn Source> + Send + 'static,
        len: Option<u64>,
    ) -> Self {
        let before = Default::default();
        Self { current: first, then: Some(Box::new(then)), len, before }
    }
}

impl Source for Chained {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        loop {
            if let Some(span) = self.current.next_span()? {
                return Ok(Some(span));
            }
            let Some(then) = self.then.take() else { return Ok(None) };
            let first = &self.current;
            self.before = (first.waited(), first.waited_for_memory(), first.traits().fallbacks);
            self.current = then();
        }
    }

    fn headroom(&mut self) -> Option<Block> {
        self.current.headroom()
    }

    fn len(&self) -> Option<u64> {
        self.len
    }

    fn waited(&self) -> Duration {
        self.before.0 + self.current.waited()
    }

    fn waited_for_memory(&self) -> Duration {
        self.before.1 + self.current.waited_for_memory()
    }

    fn traits(&self) -> SourceTraits {
        let mut traits = self.current.traits();
        traits.fallbacks.extend(self.before.2.iter().cloned());
        traits
    }
}

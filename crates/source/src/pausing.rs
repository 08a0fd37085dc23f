//! A source that returns nothing while a run is paused.

use std::time::{Duration, Instant};

use unsnap_arena::{Block, Pool};
use unsnap_ring::Pace;

use crate::{Source, SourceError, SourceTraits, Span};

/// Passes on the spans of another source, except while the run is paused. Reads in flight at the
/// beginning of a pause complete; no further reads begin.
pub struct Pausing {
    source: Box<dyn Source>,
    pace: Pace,
    /// Pool that is closed when nobody wants the bytes any more. Its closer must then call
    /// [`Pace::rouse`].
    pool: Pool,
    waited: Duration,
}

impl Pausing {
    /// Wraps `source`, whose memory comes from `pool`.
    pub fn new(source: Box<dyn Source>, pace: Pace, pool: Pool) -> Self {
        Self { source, pace, pool, waited: Duration::ZERO }
    }
}

impl Source for Pausing {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        if self.pace.is_paused() {
            let since = Instant::now();
            self.pace.wait_while_paused(|| self.pool.is_closed());
            self.waited += since.elapsed();
            if self.pool.is_closed() {
                return Err(SourceError::Cancelled);
            }
        }
        self.source.next_span()
    }

    fn headroom(&mut self) -> Option<Block> {
        self.source.headroom()
    }

    fn len(&self) -> Option<u64> {
        self.source.len()
    }

    fn waited(&self) -> Duration {
        self.source.waited() + self.waited
    }

    fn waited_for_memory(&self) -> Duration {
        self.source.waited_for_memory()
    }

    fn traits(&self) -> SourceTraits {
        self.source.traits()
    }
}

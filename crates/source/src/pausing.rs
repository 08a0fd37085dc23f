//! A source that stands still while a run is paused.

use std::time::{Duration, Instant};

use unsnap_arena::Pool;
use unsnap_ring::Pace;

use crate::{Source, SourceError, SourceTraits, Span};

/// Hands on what another source gives, but while it is paused. What that is reading ahead then is
/// read to its end, and nothing more is begun.
pub struct Pausing {
    source: Box<dyn Source>,
    pace: Pace,
    /// Closed when nobody wants the bytes any more, after which [`Pace::rouse`] must be called.
    pool: Pool,
    waited: Duration,
}

impl Pausing {
    /// `pool`: that of the source's memory.
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

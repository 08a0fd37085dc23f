//! A step that passes on nothing while a run is paused.

use std::time::{Duration, Instant};

use unsnap_arena::Pool;
use unsnap_ring::Pace;

use crate::{Source, SourceError, Span, Step};

/// Passes on spans, except while the run is paused. Reads in flight at the beginning of a pause
/// complete; no further reads begin.
pub struct Pausing {
    pace: Pace,
    /// Pool that is closed when nobody wants the bytes any more. Its closer must then call
    /// [`Pace::rouse`].
    pool: Pool,
    waited: Duration,
}

impl Pausing {
    /// Creates the step for a source whose memory comes from `pool`.
    pub fn new(pace: Pace, pool: Pool) -> Self {
        Self { pace, pool, waited: Duration::ZERO }
    }
}

impl Step for Pausing {
    fn next_span(&mut self, source: &mut dyn Source) -> Result<Option<Span>, SourceError> {
        if self.pace.is_paused() {
            let since = Instant::now();
            self.pace.wait_while_paused(|| self.pool.is_closed());
            self.waited += since.elapsed();
            if self.pool.is_closed() {
                return Err(SourceError::Cancelled);
            }
        }
        source.next_span()
    }

    fn waited(&self) -> Duration {
        self.waited
    }
}

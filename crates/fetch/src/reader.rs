//! `RemoteReader`: passes an archive on in the order of its bytes, as it arrives.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_arena::{Block, Pool};
use unsnap_source::{Source, SourceError, SourceTraits, Span};

use crate::{
    FetchError,
    link::{Arrived, Shared, Transfer},
    site::Site,
};

/// Reads an archive from a server. Closing the pool ends a wait for bytes. Dropping the reader ends
/// the links; they return their memory within a tenth of a second, or when a connection that is being
/// made comes about.
pub struct RemoteReader {
    shared: Arc<Shared>,
    site: Arc<Site>,
    pool: Pool,
    bytes: u64,
    /// The first bytes were passed on.
    has_begun: bool,
    /// What has come behind them, before there was a pool, and how much of it was passed on.
    early: Vec<u8>,
    early_passed: usize,
    /// What links begin with when all of that was passed on. Earlier they could take the memory for it.
    transfer: Option<Transfer>,
    /// The memory in front of the span that was passed on last.
    headroom: Option<Block>,
    waited: Duration,
    waited_for_memory: Duration,
}

impl RemoteReader {
    /// `bytes` and `early`: the length of the archive, and what has come behind the first bytes.
    /// `has_begun`: the first bytes are not passed on.
    pub(crate) fn new(
        shared: Arc<Shared>,
        site: Arc<Site>,
        transfer: Transfer,
        (bytes, early): (u64, Vec<u8>),
        has_begun: bool,
    ) -> Self {
        let pool = transfer.pool.clone();
        let mut reader = Self {
            shared,
            site,
            pool,
            bytes,
            has_begun,
            early,
            early_passed: 0,
            transfer: Some(transfer),
            headroom: None,
            waited: Duration::ZERO,
            waited_for_memory: Duration::ZERO,
        };
        if reader.early.is_empty() {
            reader.start();
        }
        reader
    }

    /// Lets the links begin.
    fn start(&mut self) {
        self.shared.lock().transfer = self.transfer.take();
        self.shared.tell();
    }

    /// Returns the next of the bytes that came before there was a pool; `None` behind the last one.
    fn early(&mut self) -> Result<Option<Span>, SourceError> {
        let Some(Transfer { chunk_bytes, headroom_bytes, .. }) = self.transfer else {
            return Ok(None);
        };
        let rest = &self.early[self.early_passed..];
        let count = rest.len().min(chunk_bytes);
        // Blocks of the links' size, so that the pool is never in pieces.
        let allocated = self.pool.allocate(headroom_bytes + chunk_bytes);
        let (mut block, waited) = allocated.map_err(|_| SourceError::Cancelled)?;
        self.waited_for_memory += waited;
        self.headroom = (headroom_bytes > 0).then(|| block.split_to(headroom_bytes));
        block[..count].copy_from_slice(&rest[..count]);
        let offset = (self.site.head.len() + self.early_passed) as u64;
        self.early_passed += count;
        if self.early_passed == self.early.len() {
            self.early = Vec::new();
            self.start();
        }
        Ok(Some(Span { offset, bytes: block.freeze().slice(..count) }))
    }

    /// Returns the first bytes, which came before there was a pool.
    fn head(&mut self) -> Result<Span, SourceError> {
        let head = &self.site.head;
        let (mut block, waited) =
            self.pool.allocate(head.len()).map_err(|_| SourceError::Cancelled)?;
        self.waited_for_memory += waited;
        block[..head.len()].copy_from_slice(head);
        Ok(Span { offset: 0, bytes: block.freeze().slice(..head.len()) })
    }
}

impl Source for RemoteReader {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        if !self.has_begun {
            self.has_begun = true;
            return self.head().map(Some);
        }
        if let Some(span) = self.early()? {
            return Ok(Some(span));
        }
        let started = Instant::now();
        let mut state = self.shared.lock();
        let next = loop {
            let Some(transfer) = &mut state.transfer else { break Ok(None) };
            if let Some(Arrived { span, headroom }) = transfer.window.pass() {
                self.headroom = headroom;
                break Ok(Some(span));
            }
            if transfer.window.is_passed() {
                break Ok(None);
            }
            match state.failed.take() {
                // A link ends with this only if the pool is closed.
                Some(FetchError::Cancelled) => break Err(SourceError::Cancelled),
                Some(error) => break Err(SourceError::Remote(Box::new(error))),
                None if self.pool.is_closed() => break Err(SourceError::Cancelled),
                None => state = self.shared.wait(state),
            }
        };
        drop(state);
        // There is room in the window.
        self.shared.tell();
        self.waited += started.elapsed();
        next
    }

    fn headroom(&mut self) -> Option<Block> {
        self.headroom.take()
    }

    fn len(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn waited(&self) -> Duration {
        self.waited
    }

    fn waited_for_memory(&self) -> Duration {
        self.waited_for_memory
    }

    fn traits(&self) -> SourceTraits {
        let state = self.shared.lock();
        let mut fallbacks = Vec::new();
        if state.breaks > 0 {
            fallbacks.push(format!(
                "the connection to {} broke {} times; {} bytes were received again",
                self.site.address, state.breaks, state.bytes_twice
            ));
        }
        SourceTraits { fallbacks, ..SourceTraits::default() }
    }
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.tell();
    }
}

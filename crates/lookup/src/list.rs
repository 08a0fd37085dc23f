//! Listing of an archive's entries.

use std::{io, ops::ControlFlow};

use unsnap_decode::Position;
use unsnap_pass::{Opened, Pass, PassError};
use unsnap_tarstream::{Event, Member};

use crate::Reader;

impl Reader<'_> {
    /// Calls `visit` with every entry, in order, from the archive's index if it has one. Accepts
    /// every tar stream that has an entry. Ends early when `visit` breaks.
    pub fn list(
        &self,
        confined: impl FnOnce() -> io::Result<()>,
        mut visit: impl FnMut(&Member<'_>) -> ControlFlow<()>,
    ) -> Result<(), PassError> {
        let archives = self.first();
        let mut opened = Opened::to_read(archives, self.options, self.handles, confined)?;
        let indexes = opened.load_indexes(self.options, self.handles)?;
        if let Some(index) = indexes.into_iter().flatten().next() {
            let mut entries = index.entries.entries().iter();
            let _ = entries.try_for_each(|entry| visit(&entry.member(&entry.path())));
            return Ok(());
        }
        let pass = Pass::new(self.options, self.handles, opened.threads);
        let see = |_, event: Event<'_>, _: &[u8], _: Position| -> Result<_, PassError> {
            match event {
                Event::Member(member) => Ok(visit(&member)),
                _ => Ok(ControlFlow::Continue(())),
            }
        };
        pass.over(archives, opened.archives, see).map(drop)
    }
}

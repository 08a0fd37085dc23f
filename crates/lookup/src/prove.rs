//! Check of an archive's bank file against its name.

use std::ops::ControlFlow;

use unsnap_decode::Position;
use unsnap_layout::{BankFacts, LayoutError, Placement};
use unsnap_pass::{BankCheck, LayoutKind, Opened, Pass, PassError};
use unsnap_tarstream::Event;

use crate::Reader;

impl Reader<'_> {
    /// Checks the bank file against the archive's name and ignores the rest. Reads only the first
    /// megabytes of a real archive.
    pub fn prove(&self) -> Result<BankFacts, PassError> {
        let (archives, name) = (self.first(), self.archive_name());
        let mut rules = LayoutKind::Snapshot.rules(&archives[0], &self.options.limits);
        let mut bank = BankCheck::new(name.clone(), archives[0].snapshot_name());
        let opened = Opened::to_read(archives, self.options, self.handles, || Ok(()))?;
        // One thread: frames decoded ahead of the bank file would be wasted.
        let pass = Pass::new(self.options, self.handles, 1);
        let see = |_, event: Event<'_>, bytes: &[u8], at: Position| -> Result<_, PassError> {
            match event {
                Event::Member(member) => {
                    let placement = rules.admit(&member);
                    let placement =
                        placement.map_err(|source| PassError::layout(&name, source, Some(at)))?;
                    if let Placement::File { role, .. } = placement {
                        bank.begin(role, member.size);
                    }
                }
                Event::Payload { last } => bank.take(bytes, last, at)?,
                Event::Skipped | Event::End => {}
            }
            Ok(if bank.is_proven() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        pass.over(archives, opened.archives, see)?;
        let proven = bank.proven().ok_or_else(|| {
            let missing = LayoutError::MissingEntry { entry: "a bank file" };
            PassError::layout(&name, rules.finish().err().unwrap_or(missing), None)
        })?;
        Ok(proven.facts)
    }
}

//! Second look at accounts that occur twice.

use std::ops::ControlFlow;

use unsnap_commit::Target;
use unsnap_decode::Position;
use unsnap_failure::Remedy;
use unsnap_layout::{Layout, Placement, Role};
use unsnap_pass::{Handles, OpenArchive, Opened, Pass, PassError, Phase};
use unsnap_tarstream::Event;
use unsnap_verify::accounts::{Picker, StorageId, StreamLook};

use crate::{
    Options, UnpackError,
    report::AccountsReport,
    storages::{AccountsVerification, look_into_files},
    walk::Walked,
};

/// Source of the records that are read again.
pub(crate) struct SecondLook<'a> {
    options: &'a Options,
    threads: usize,
    /// The archives, opened once more, for a run that writes nothing.
    archives: Vec<OpenArchive>,
}

impl<'a> SecondLook<'a> {
    /// Opens the archives once more if they may be needed.
    pub fn prepare(options: &'a Options, opened: &Opened) -> Result<Self, PassError> {
        let mut archives = Vec::new();
        if options.source().verifies_accounts() && !options.writes() {
            for archive in &opened.archives {
                let again = archive.again().ok_or_else(|| {
                    PassError::request_with(
                        "the accounts of a stream cannot be verified without unpacking it: some \
                         must be read twice",
                        Remedy::advice("give a file, or a destination"),
                    )
                })?;
                archives.push(again?);
            }
        }
        Ok(Self { options, threads: opened.threads, archives })
    }

    /// Ends the verification of accounts, if there is one.
    pub fn verify(
        &mut self,
        verification: Option<AccountsVerification>,
        walked: &[Walked],
        target: Option<&Target>,
        handles: &Handles,
    ) -> Result<Option<AccountsReport>, UnpackError> {
        let Some(verification) = verification else { return Ok(None) };
        let (options, threads) = (self.options, self.threads);
        // The newest archive's name and bank file hold the expected sums.
        let newest = options.archives().last().map(unsnap_pass::Archive::display_name);
        let newest = newest.unwrap_or_default();
        let bank = walked.last().and_then(|walked| walked.bank.as_ref());
        let report = if let Some(Target { calls, directories, .. }) = target {
            let placements = verification.placements();
            let flat = options.state().is_some();
            // Each storage counts: the second look takes minutes on a large archive, and a watchdog
            // must see it go on. A cancellation during a pause is noticed when this returns.
            let before_each = || {
                handles.progress.count_file();
                if let Some(pace) = &options.pass.neighbour.pace {
                    pace.wait_while_paused(|| handles.cancel.is_cancelled());
                }
            };
            let mut look = look_into_files(calls, directories, placements, flat, before_each);
            verification.finish(&newest, bank, &mut look)
        } else {
            let mut archives = std::mem::take(&mut self.archives);
            let mut look = StreamLook::new(|picker: &mut Picker<'_, '_>| {
                // If the records do not fit into memory at once, there are several passes.
                let again =
                    archives.iter().filter_map(OpenArchive::again).collect::<Result<_, _>>();
                let these = std::mem::replace(&mut archives, again?);
                Ok(pick(options, threads, these, handles, picker)?)
            });
            verification.finish(&newest, bank, &mut look)
        };
        report.map(Some)
    }
}

/// Decodes all archives once more and shows their storages to `picker`.
fn pick(
    options: &Options,
    threads: usize,
    archives: Vec<OpenArchive>,
    handles: &Handles,
    picker: &mut Picker<'_, '_>,
) -> Result<(), PassError> {
    let named = options.archives();
    let mut rules: Vec<Layout> = (0..named.len()).map(|index| options.rules(index)).collect();
    let mut wanted = false;
    let mut pass = Pass::new(&options.pass, handles, threads);
    pass.phase = Phase::Verifying;
    let see = |stream: usize, event: Event<'_>, bytes: &[u8], at: Position| {
        match event {
            Event::Member(member) => {
                let admitted = rules[stream].admit(&member);
                let placement = admitted.map_err(|source| {
                    PassError::layout(&named[stream].display_name(), source, Some(at))
                })?;
                wanted = match placement {
                    Placement::File { role: Role::Storage { slot, id }, .. } => {
                        let (id, size) = (u64::from(id), member.size);
                        picker.begin(&StorageId { stream, slot, id, size })
                    }
                    _ => false,
                };
            }
            Event::Payload { .. } if wanted => picker.piece(bytes),
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    };
    pass.over(named, archives, see).map(drop)
}

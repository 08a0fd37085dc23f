//! The second look at accounts that occur twice.

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

/// Where records are read again from.
pub(crate) struct SecondLook<'a> {
    options: &'a Options,
    threads: usize,
    /// For a run that writes nothing: the archives once more.
    archives: Vec<OpenArchive>,
}

impl<'a> SecondLook<'a> {
    /// Keeps what is needed for it, if it may be needed.
    pub fn prepare(options: &'a Options, opened: &Opened) -> Result<Self, PassError> {
        let mut archives = Vec::new();
        if options.source().verifies_accounts() && !options.writes() {
            for archive in &opened.archives {
                let again = archive.again().ok_or_else(|| {
                    PassError::request_with(
                        "the accounts of a stream cannot be verified without unpacking it: some \
                         have to be read twice",
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
        // The newest archive says what the accounts must add up to.
        let newest = options.archives().last().map(unsnap_pass::Archive::display_name);
        let newest = newest.unwrap_or_default();
        let report = if let Some(Target { calls, directories, .. }) = target {
            let placements = verification.placements();
            let flat = options.state().is_some();
            // A run that is cancelled while it is paused learns so at the end of this.
            let pause = || {
                if let Some(pace) = &options.pass.neighbour.pace {
                    pace.wait_while_paused(|| handles.cancel.is_cancelled());
                }
            };
            let mut look = look_into_files(calls, directories, placements, flat, pause);
            verification.finish(&newest, walked, &mut look)
        } else {
            let mut archives = std::mem::take(&mut self.archives);
            let mut look = StreamLook::new(|picker: &mut Picker<'_, '_>| {
                // Without memory for all records at once there is more than one pass.
                let again =
                    archives.iter().filter_map(OpenArchive::again).collect::<Result<_, _>>();
                let these = std::mem::replace(&mut archives, again?);
                Ok(pick(options, threads, these, handles, picker)?)
            });
            verification.finish(&newest, walked, &mut look)
        };
        report.map(Some)
    }
}

/// Goes through all archives once more and shows their storages to `picker`.
fn pick(
    options: &Options,
    threads: usize,
    archives: Vec<OpenArchive>,
    handles: &Handles,
    picker: &mut Picker<'_, '_>,
) -> Result<(), PassError> {
    let named = options.archives();
    let limits = &options.pass.limits;
    let mut rules: Vec<Layout> =
        named.iter().map(|archive| options.source().layout().rules(archive, limits)).collect();
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

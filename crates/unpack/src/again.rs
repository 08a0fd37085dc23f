//! The second look at accounts that occur twice.

use std::ops::ControlFlow;

use unsnap_decode::Position;
use unsnap_layout::{Placement, Role};
use unsnap_tarstream::Event;
use unsnap_verify::accounts::{Picker, StorageId, StreamLook};

use crate::{
    CancelToken, Config, Error, Verify,
    content::{AccountsVerification, look_into_files},
    opening::{OpenArchive, Target},
    pipeline::see_all,
    report::AccountsReport,
    resources::{Input, Memory},
    stages::{Stages, layout},
    walk::{Walked, bad_layout},
};

/// Where records are read again from.
pub(crate) struct Again<'a> {
    config: &'a Config,
    /// For a run that writes nothing: the archives once more.
    archives: Vec<OpenArchive>,
}

impl<'a> Again<'a> {
    /// Keeps what is needed for it, if it may be needed.
    pub fn of(config: &'a Config, archives: &[OpenArchive]) -> Result<Self, Error> {
        let mut kept = Vec::new();
        if config.verify == Verify::Accounts && config.dry_run {
            for archive in archives {
                let again = archive.again().ok_or_else(|| Error::Request {
                    reason: "the accounts of a stream cannot be verified without unpacking it: \
                             some have to be read twice"
                        .to_owned(),
                    hint: Some("give a file, or a destination".to_owned()),
                })?;
                kept.push(again?);
            }
        }
        Ok(Self { config, archives: kept })
    }

    /// Ends the verification of accounts, if there is one.
    pub fn verify(
        &mut self,
        verification: Option<AccountsVerification>,
        walked: &[Walked],
        target: Option<&Target>,
        stages: &Stages<'_>,
        cancel: &CancelToken,
    ) -> Result<Option<AccountsReport>, Error> {
        let Some(verification) = verification else { return Ok(None) };
        let config = self.config;
        // What is compared is what the newest archive says.
        let newest = config.archives().last().map(|archive| archive.display_name());
        let newest = newest.unwrap_or_default();
        let report = if let Some(Target { calls, directories, .. }) = target {
            let placements = verification.placements();
            let flat = config.state.is_some();
            // Who is cancelled in a pause is told so when this has come to its end.
            let pause = || {
                if let Some(pace) = &config.pace {
                    pace.wait_while_paused(|| cancel.is_cancelled());
                }
            };
            let mut look = look_into_files(calls, directories, placements, flat, pause);
            verification.finish(&newest, walked, &mut look)
        } else {
            let mut archives = std::mem::take(&mut self.archives);
            let mut look = StreamLook::new(|picker: &mut Picker<'_, '_>| {
                // If there is not memory enough for all at once there is more than one pass.
                let again =
                    archives.iter().filter_map(OpenArchive::again).collect::<Result<_, _>>();
                let these = std::mem::replace(&mut archives, again?);
                Ok(pass(config, these, stages, cancel, picker)?)
            });
            verification.finish(&newest, walked, &mut look)
        };
        report.map(Some)
    }
}

/// Decodes all archives once more and shows their storages to `picker`, one archive after the other.
fn pass(
    config: &Config,
    archives: Vec<OpenArchive>,
    stages: &Stages<'_>,
    cancel: &CancelToken,
    picker: &mut Picker<'_, '_>,
) -> Result<(), Error> {
    let inputs = Input::begin_all(archives, config, cancel)?;
    let memory = Memory::reserve(config, &inputs, stages.threads())?;
    let _rouse = cancel.rouse_by(memory.closer());
    let mut decoded = stages.with_memory(&memory).decode(inputs, Position::default())?;
    let mut walk = || -> Result<(), Error> {
        for (stream, (decoded, archive)) in decoded.iter_mut().zip(config.archives()).enumerate() {
            let name = archive.display_name();
            let mut layout = layout(config, archive);
            let mut wanted = false;
            see_all(&name, config, decoded, cancel, |event, bytes, at| {
                match event {
                    Event::Member(member) => {
                        let admitted = layout.admit(&member);
                        let placement =
                            admitted.map_err(|source| bad_layout(&name, source, Some(at)))?;
                        wanted = match placement {
                            Placement::File { role: Role::Storage { slot, id }, .. } => picker
                                .begin(&StorageId {
                                    stream,
                                    slot,
                                    id: u64::from(id),
                                    size: member.size,
                                }),
                            _ => false,
                        };
                    }
                    Event::Payload { .. } if wanted => picker.piece(bytes),
                    _ => {}
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(())
    };
    let result = walk();
    memory.close();
    for decoded in decoded {
        decoded.join();
    }
    result
}

//! Options that name a validator as the source of directories.

use clap::Args;

use super::{Line, Processes, Unit};
use crate::settings::RequestError;

/// A validator whose own command line names its directories.
#[derive(Debug, Default, Args)]
pub struct SourceArgs {
    /// Take the directories from the command line of a systemd unit's validator, such as sol.service
    ///
    /// The validator may be the child of the unit's script while it runs. Otherwise ExecStart= must
    /// name agave-validator. Directories that are given in another way as well must be the same.
    #[arg(long, value_name = "UNIT")]
    pub from_unit: Option<String>,

    /// Take the directories from the command line of a running validator, or of a script's child
    #[arg(long, value_name = "PID")]
    pub from_pid: Option<u32>,
}

impl SourceArgs {
    /// Returns the command lines. Asks systemd and procfs.
    pub fn lines(&self) -> Result<Vec<Line>, RequestError> {
        let unit = self.from_unit.as_ref().map(|unit| Unit::ask(unit)?.validator());
        let process = self.from_pid.map(|process| Processes::now()?.validator(process));
        unit.into_iter().chain(process).collect()
    }
}

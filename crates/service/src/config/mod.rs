//! Configuration: defaults < file < environment < flags, checked as a whole before use.

mod check;
mod error;
mod layers;
mod machine;
mod places;
mod settings;
mod targets;
mod validator;
mod values;

use std::path::{Path, PathBuf};

pub use check::{Config, Unpacking};
pub use error::ConfigError;
pub use layers::{Override, VARIABLE_PREFIX};
pub use settings::{
    Archives, Cadence as CadenceSettings, Control, Kind, Metrics, Neighbour, Retry, Service,
    Settings, Target as TargetSettings, Unpack,
};
pub use targets::{Target, TargetKind};
pub use unsnap_fastboot::Places;
pub use validator::ValidatorPlaces;
pub use values::{Slots, Span};

/// Most bytes of a configuration file. A guess; the fully commented one has 10 KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Sources of a configuration, kept for reloads.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Path of the file.
    pub file: PathBuf,
    /// Environment variables: settings (see [`VARIABLE_PREFIX`]) and directories set by systemd.
    pub environment: Vec<(String, String)>,
    /// Settings from flags.
    pub flags: Vec<Override>,
    /// Reads validators' command lines, for targets that name a validator.
    pub validator: Option<ValidatorPlaces>,
}

impl Sources {
    /// Reads the file, merges all layers and checks the result.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let text = read(&self.file)?;
        self.load_text(&text).map_err(|ConfigError(reason)| {
            ConfigError(format!("{}: {}", self.file.display(), reason.trim_end()))
        })
    }

    /// Merges and checks all layers, given the text of the file.
    pub fn load_text(&self, text: &str) -> Result<Config, ConfigError> {
        let mut table = layers::parse(text)?;
        for (section, key, value) in layers::of_environment(self.environment.iter().cloned())? {
            layers::set(&mut table, &section, &key, &value)?;
        }
        for flag in &self.flags {
            layers::set(&mut table, flag.section, flag.key, &flag.value)?;
        }
        let mut settings: Settings =
            table.try_into().map_err(|error| ConfigError(error.to_string()))?;
        validator::complete(&mut settings, self.validator)?;
        Config::check(settings, |name| {
            let variable = self.environment.iter().find(|(variable, _)| variable == name);
            // systemd sets a colon-separated list; its first directory is the first in the unit.
            let first = variable.and_then(|(_, value)| value.split(':').next());
            first.filter(|directory| !directory.is_empty()).map(PathBuf::from)
        })
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let refuse = |reason: &dyn std::fmt::Display| {
        ConfigError(format!("cannot read the configuration {}: {reason}", path.display()))
    };
    let length = std::fs::metadata(path).map_err(|error| refuse(&error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(refuse(&format_args!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    std::fs::read_to_string(path).map_err(|error| refuse(&error))
}

#[cfg(test)]
mod tests;

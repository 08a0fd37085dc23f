//! Loading a configuration, also while the service runs.

use unsnap_control::Access;

use crate::config::{Config, ConfigError, Sources};

/// Returns the access rights that the configuration grants.
pub fn access(config: &Config) -> Result<Access, ConfigError> {
    let control = &config.settings.control;
    Access::default()
        .observing(&control.observe_users, &control.observe_groups)
        .and_then(|access| access.operating(&control.operate_users, &control.operate_groups))
        .map_err(|unknown| ConfigError(format!("[control]: {unknown}")))
}

/// Reads and checks the configuration, including the users and groups of this machine.
pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
    let config = sources.load()?;
    access(&config)?;
    Ok(config)
}

/// Returns the changed keys that take effect only after a restart of the service.
pub fn needs_restart(old: &Config, new: &Config) -> Vec<String> {
    let (old, new) = (&old.settings, &new.settings);
    [
        ("service.state-directory", old.service.state_directory != new.service.state_directory),
        ("control.socket", old.control.socket != new.control.socket),
        ("control.connections-max", old.control.connections_max != new.control.connections_max),
    ]
    .into_iter()
    .filter(|(_, differs)| *differs)
    .map(|(key, _)| key.to_owned())
    .collect()
}

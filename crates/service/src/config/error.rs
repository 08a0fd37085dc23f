//! Error of a configuration.

/// The configuration is invalid or cannot be read. Exit code 78 (`EX_CONFIG` of
/// sysexits.h).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

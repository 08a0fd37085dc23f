//! A validator's own command line, as the source of its directories.
//!
//! * [`ValidatorArgs`]: parses the arguments of `agave-validator`.
//! * [`names_validator`], [`validator_in`]: which commands are `agave-validator`. The arguments of
//!   other commands are not known, and nothing is guessed from them.
//! * [`Processes`]: the command line of a running validator.
//! * [`Unit`]: the command line of a systemd unit.
//! * [`SourceArgs`]: the options that name one of them.
//! * [`Told`]: directories from several sources, which must agree.

mod args;
mod command;
mod processes;
mod source;
mod told;
mod unit;

pub use args::{ArchiveUse, Purpose, ValidatorArgs};
pub use command::{names_validator, validator_in};
pub use processes::Processes;
pub use source::SourceArgs;
pub use told::{Line, OwnPlaces, Told, refuse_missing};
pub use unit::Unit;

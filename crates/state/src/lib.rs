#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! The on-disk state from which a validator starts. Agave calls it fastboot.
//!
//! * [`State`] describes a state to be made, and its destinations.
//! * [`format`](mod@format) encodes and decodes the files of a state.
//! * [`StateNames`], [`StatePlaces`] and [`AccountsSpread`] give each file of an archive its name and
//!   its accounts path.
//! * [`Base`] links storages that an earlier state has already.
//! * [`ShadowList`] and [`Linker`] maintain second names of the storages, from which a state is
//!   repaired.
//!
//! The crate `unpack` makes states from archives. The crate `fastboot` chooses archives and manages
//! finished states.

mod base;
pub mod format;
mod linker;
mod lists;
mod names;
mod origin;
mod shadow;
mod spread;
mod state;

pub use base::{Base, BaseShadow, Changed};
pub use format::{Format, Storage};
pub use linker::{Linker, Unlinked};
pub use names::{StateNames, StorageFile};
pub use origin::{ORIGIN_BYTES_MAX, ORIGIN_FILE, Origin};
pub use shadow::{DamagedList, SHADOW_LIST, SHADOW_LIST_BYTES_MAX, ShadowList};
pub use spread::{AccountsPathReport, AccountsSpread, StatePlaces};
pub use state::{
    AccountsPaths, RUN_DIRECTORY, SHADOW_DIRECTORY, STAGED, STAGED_STATE, State, StateError,
};

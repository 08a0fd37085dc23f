#![forbid(unsafe_code)]
//! The state that a validator starts from, as it lies on the disk. Agave calls it fastboot.
//!
//! * [`State`]: a state that is made, and its destinations.
//! * [`format`]: the files of a state, encoded and decoded.
//! * [`StatePlaces`] and [`AccountsSpread`]: under which name, and in which accounts path, each file
//!   of an archive becomes a part of the state.
//! * [`ShadowList`] and [`Linker`]: second names of the storages, from which a state is repaired.
//!
//! The crate `unpack` makes states of archives. Choosing archives, and everything that is done with
//! finished states, is in the crate `fastboot`.

pub mod format;
mod linker;
mod lists;
mod shadow;
mod spread;
mod state;

pub use format::{Format, Storage};
pub use linker::{Linker, Unlinked};
pub use shadow::{DamagedList, SHADOW_LIST, SHADOW_LIST_BYTES_MAX, ShadowList};
pub use spread::{AccountsPathReport, AccountsSpread, StatePlaces, StorageFile};
pub use state::{RUN_DIRECTORY, SHADOW_DIRECTORY, STAGED, State, StateError};

//! The choice between state and archives, and the load.

use std::{fs, io};

use crate::{
    Failure,
    archives::Pair,
    places::{ArchiveUse, Places, names},
    running::Validator,
    states::{self, Stored},
};

/// What a validator starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The state of this slot.
    State(u64),
    Archives(Pair),
    /// There is no full archive, so whatever else is there is not looked at.
    Genesis,
}

impl Start {
    /// Chooses as Agave does. Changes nothing.
    pub fn choose(places: &Places) -> Result<Self, Failure> {
        let Some(pair) = Pair::newest(places)? else { return Ok(Self::Genesis) };
        let highest = states::highest(places)?;
        let state = highest.filter(|slot| states::is_loadable(places, *slot));
        match (places.archive_use, state) {
            (ArchiveUse::Always, _) | (ArchiveUse::WhenNewest, None) => Ok(Self::Archives(pair)),
            (ArchiveUse::WhenNewest, Some(slot)) if slot < pair.slot() => Ok(Self::Archives(pair)),
            (_, Some(slot)) => Ok(Self::State(slot)),
            (ArchiveUse::Never, None) => {
                Err(Failure::Refused("there is no state, and archives are not to be used".into()))
            }
        }
    }

    pub fn source(&self) -> &'static str {
        match self {
            Self::State(_) => "state",
            Self::Archives(_) => "archives",
            Self::Genesis => "genesis",
        }
    }

    pub fn slot(&self) -> u64 {
        match self {
            Self::State(slot) => *slot,
            Self::Archives(pair) => pair.slot(),
            Self::Genesis => 0,
        }
    }

    /// Returns why the load would fail. Changes nothing.
    pub fn look(&self, places: &Places) -> Result<(), String> {
        match self {
            Self::State(slot) => states::load(places, *slot, false).map(drop),
            Self::Archives(pair) => pair.unpack(&mut |_, _| Ok(())),
            Self::Genesis => Ok(()),
        }
    }

    /// Loads it. A state that cannot be loaded stays as it is, so the next start fails as well.
    pub fn load(&self, places: Places) -> Result<Validator, Failure> {
        // Incomplete states and all but the highest go first, whatever is loaded.
        states::purge(&places, states::highest(&places)?)?;
        let storages = match self {
            Self::State(slot) => states::load(&places, *slot, true).map_err(Failure::Panicked)?,
            Self::Archives(pair) => {
                clear(&places)?;
                unpack(&places, pair)?
            }
            Self::Genesis => {
                clear(&places)?;
                Vec::new()
            }
        };
        Ok(Validator::new(places, self.slot(), storages))
    }
}

/// Removes all states and storages.
fn clear(places: &Places) -> io::Result<()> {
    states::purge(places, None)?;
    for accounts in &places.accounts {
        // Agave removes it in the background.
        let (run, old) = (accounts.join("run"), accounts.join("run_to_be_deleted"));
        if old.exists() {
            fs::remove_dir_all(&old)?;
        }
        fs::rename(&run, &old)?;
        // Agave does not mind that it exists: others may make it in that moment.
        let _ = fs::create_dir(&run);
        fs::remove_dir_all(&old)?;
        let legacy = accounts.join("snapshot");
        for name in names(&legacy)? {
            fs::remove_dir_all(legacy.join(name))?;
        }
    }
    Ok(())
}

/// Unpacks storages in turn to the accounts paths, with new ids.
fn unpack(places: &Places, pair: &Pair) -> Result<Vec<Stored>, Failure> {
    let mut storages = Vec::new();
    let mut directories = places.accounts.iter().map(|path| path.join("run")).cycle();
    let mut next_id = 0;
    pair.unpack(&mut |slot, bytes| {
        let directory = directories.next().unwrap_or_default();
        let stored = Stored { slot, id: next_id, directory };
        next_id += 1;
        fs::write(stored.path(), bytes)?;
        storages.push(stored);
        Ok(())
    })
    .map_err(Failure::Panicked)?;
    Ok(storages)
}

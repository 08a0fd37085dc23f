//! What a validator's state has beside the files of its archives.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use unsnap_create::FileSink;
use unsnap_layout::fastboot::{
    FASTBOOT_VERSION, NO_OBSOLETE_ACCOUNTS, OBSOLETE_ACCOUNTS, STORAGES_LIST, Storage,
};

use crate::{
    Config, Error, State,
    account::Created,
    opening::Target,
    pipeline::no_thread,
    places::{AccountsSpread, Places, StorageFile},
    shadow::{Linker, SHADOW_LIST, ShadowList, write_new},
    space::FileSystem,
    walk::Walked,
};

impl Target {
    /// What spreads storages over the accounts paths.
    pub fn spread(&self, config: &Config) -> Result<AccountsSpread, Error> {
        let paths = self.staging.directories()?.into_iter().skip(1).zip(&config.accounts);
        let paths = paths.map(|(directory, accounts)| {
            let systems = FileSystem::of(&self.calls, vec![directory])?;
            Ok(systems.into_iter().map(|system| (system, accounts.display().to_string())))
        });
        let paths = paths.collect::<Result<Vec<_>, Error>>()?;
        Ok(AccountsSpread::new(paths.into_iter().flatten()))
    }

    /// What gives storages their second names, if those are wanted.
    pub fn linker(&self, config: &Config) -> Result<Option<(Linker, FileSink)>, Error> {
        if !config.state.as_ref().is_some_and(|state| state.shadow) {
            return Ok(None);
        }
        let mut directories: Vec<OwnedFd> = self
            .staging
            .directories()?
            .into_iter()
            .skip(1)
            .map(|(directory, _)| directory)
            .collect();
        let shadows = directories.split_off(config.accounts.len());
        let pairs = directories.into_iter().zip(shadows).collect();
        let started = Linker::start(self.calls.clone(), pairs, config.files.clone());
        started.map(Some).map_err(|error| no_thread(&error))
    }

    /// Adds what no archive holds. `walked`: of each archive.
    pub fn complete(
        &mut self,
        config: &Config,
        walked: &[Walked],
        created: Option<&Created>,
    ) -> Result<(), Error> {
        let Some(State { format, .. }) = &config.state else { return Ok(()) };
        let files: Vec<StorageFile> = walked
            .iter()
            .filter_map(|walked| match &walked.places {
                Places::State(places) => Some(&places.storages),
                Places::Tree(_) => None,
            })
            .flatten()
            .copied()
            .collect();
        let storages: Vec<Storage> = files.iter().map(StorageFile::storage).collect();
        let list = format.encode_storages(&storages).map_err(|error| Error::Request {
            reason: format!("too many storages for a validator: {error}"),
            hint: None,
        })?;
        let at = |step, errno: Errno| Error::Staging { step, path: config.output.clone(), errno };
        if let Some(state) = self.directories.first() {
            for (name, bytes) in [
                (STORAGES_LIST, &list[..]),
                (OBSOLETE_ACCOUNTS, &NO_OBSOLETE_ACCOUNTS),
                // Everything gets its name at once, when all is durable: so the order is not what
                // counts.
                (FASTBOOT_VERSION, format.version().as_bytes()),
            ] {
                write_new(&self.calls, state, name, bytes)
                    .map_err(|errno| at("write the lists of", errno))?;
            }
        }
        if created.is_some_and(|created| created.linked) {
            let slot = walked.last().and_then(|walked| walked.summary.slot()).unwrap_or(0);
            let shadows = self.directories.iter().skip(config.destinations());
            for (index, shadow) in shadows.enumerate() {
                let here = files.iter().filter(|file| file.destination == index + 1);
                let storages = here.map(|file| (file.storage(), file.bytes)).collect();
                let list = ShadowList { slot, storages }.encode();
                write_new(&self.calls, shadow, SHADOW_LIST, &list)
                    .map_err(|errno| at("write the shadow's list of", errno))?;
            }
        }
        Ok(())
    }
}

//! Search for the newest versions of single accounts.
//!
//! The version in the storage of the highest slot is the newest, even if it has no lamports. A slot
//! has one storage, and a storage has an account once; a validator loads nothing else, so anything
//! else is an error here. Agave's archives have no list of accounts, so a search reads all
//! storages, or those of given slots.

use std::{collections::HashMap, io, ops::ControlFlow, time::Instant};

use unsnap_decode::Position;
use unsnap_index::{Entry, ReadOptions};
use unsnap_layout::{Layout, Placement, Role, append_vec::RecordHeader};
use unsnap_pass::{LayoutKind, OpenArchive, Opened, Pass, PassError, millis};
use unsnap_tarstream::Event;
use unsnap_verify::{Record, RecordSink, StorageScanner, accounts::AccountsError};

use crate::{LookupError, Reader, Selection, entries::EntryReader};

/// The newest version of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Address.
    pub pubkey: [u8; 32],
    /// Slot of its storage.
    pub slot: u64,
    /// Number of its storage.
    pub storage: u32,
    /// Offset of its record in the storage in bytes.
    pub offset: u64,
    /// Balance in lamports; 0 if the account is closed.
    pub lamports: u64,
    /// Address of the program that owns it.
    pub owner: [u8; 32],
    /// Whether its data is a program.
    pub executable: bool,
    /// Epoch of the last rent collection (obsolete).
    pub rent_epoch: u64,
    /// Data of the account.
    pub data: Vec<u8>,
}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct AccountsFound {
    /// The newest version of each requested account, in the order of the request; `None` if it was
    /// not found.
    pub accounts: Vec<Option<Account>>,
    /// Whether an index was used instead of reading the whole archive.
    pub index: bool,
    /// Number of storages that were read.
    pub storages: u64,
    /// Elapsed time in milliseconds.
    pub elapsed_ms: u64,
}

impl Reader<'_> {
    /// Finds the newest versions of accounts, in the archive and in the incremental one that builds
    /// on it. `what` holds the slots whose storages are read. Without slots, all storages are,
    /// which takes a pass over the archives.
    pub fn accounts(
        &self,
        keys: &[[u8; 32]],
        what: &Selection,
        how: ReadOptions,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<AccountsFound, LookupError> {
        let started = Instant::now();
        let Self { options, handles, .. } = *self;
        let archives = self.archives.as_slice();
        let mut opened = Opened::to_read(archives, options, handles, confined)?;
        let indexes = opened.load_indexes(options, handles)?;
        let mut newest = Newest::of(keys);
        let (mut storages, mut all_by_index) = (0, true);
        for ((named, archive), index) in archives.iter().zip(opened.archives).zip(indexes) {
            let name = named.display_name();
            let mut search = Search {
                archive: &name,
                rules: LayoutKind::Snapshot.rules(named, &options.limits),
                what,
                newest: &mut newest,
                scanner: None,
                storages: 0,
            };
            match (&archive, index) {
                (OpenArchive::File(file), Some(index)) if !what.slots().is_empty() => {
                    let is_wanted = |entry: &&Entry| {
                        entry.name.slot().is_some_and(|slot| what.includes_slot(slot))
                    };
                    let wanted: Vec<&Entry> =
                        index.entries.entries().iter().filter(is_wanted).collect();
                    let (limits, index) = (options.limits.tar, &index);
                    let reader =
                        EntryReader { archive: &name, file, index, options: how, limits, handles };
                    reader.entries(&wanted, |event, bytes| {
                        search.event(event, bytes, Position::default())
                    })?;
                }
                _ => {
                    all_by_index = false;
                    let pass = Pass::new(options, handles, opened.threads);
                    let see = |_, event: Event<'_>, bytes: &[u8], at: Position| {
                        search.event(event, bytes, at)?;
                        Ok::<_, LookupError>(ControlFlow::Continue(()))
                    };
                    pass.over(std::slice::from_ref(named), vec![archive], see)?;
                }
            }
            storages += search.storages;
        }
        let accounts = keys.iter().map(|key| newest.found.get(key).cloned().flatten()).collect();
        let elapsed_ms = millis(started.elapsed());
        Ok(AccountsFound { accounts, index: all_by_index, storages, elapsed_ms })
    }
}

/// Search through one archive.
struct Search<'a> {
    archive: &'a str,
    rules: Layout,
    what: &'a Selection,
    newest: &'a mut Newest,
    scanner: Option<StorageScanner>,
    storages: u64,
}

impl Search<'_> {
    fn event(&mut self, event: Event<'_>, bytes: &[u8], at: Position) -> Result<(), LookupError> {
        let archive = self.archive;
        match event {
            Event::Member(member) => {
                let placement = self.rules.admit(&member);
                let placement =
                    placement.map_err(|source| PassError::layout(archive, source, Some(at)))?;
                if let Placement::File { role: Role::Storage { slot, id }, .. } = placement
                    && (self.what.slots().is_empty() || self.what.includes_slot(slot))
                {
                    let scanner = StorageScanner::new(slot, u64::from(id), member.size);
                    self.scanner =
                        Some(scanner.map_err(|error| PassError::storage(archive, error, at))?);
                    self.newest.now = Some(Now { slot, id, account: None });
                    self.storages += 1;
                }
            }
            Event::Payload { last } => {
                let Some(scanner) = &mut self.scanner else { return Ok(()) };
                let bad = |error| PassError::storage(archive, error, at);
                scanner.feed(bytes, self.newest).map_err(bad)?;
                if let Some(twice) = self.newest.twice.take() {
                    return Err(LookupError::accounts(archive, twice));
                }
                if last && let Some(scanner) = self.scanner.take() {
                    scanner.finish().map_err(bad)?;
                }
            }
            Event::Skipped | Event::End => {}
        }
        Ok(())
    }
}

/// The newest versions found so far.
struct Newest {
    found: HashMap<[u8; 32], Option<Account>>,
    now: Option<Now>,
    /// Error for an account that occurs twice in a slot.
    twice: Option<AccountsError>,
}

/// The current storage, and a requested record in it that is incomplete.
struct Now {
    slot: u64,
    id: u32,
    account: Option<Account>,
}

impl Newest {
    fn of(keys: &[[u8; 32]]) -> Self {
        Self { found: keys.iter().map(|key| (*key, None)).collect(), now: None, twice: None }
    }

    /// Returns the account of a record, without its data, if it is requested and newer than the one
    /// found.
    fn account(&mut self, position: u64, header: &RecordHeader) -> Option<Account> {
        let now = self.now.as_ref()?;
        let found = self.found.get(&header.pubkey)?;
        if let Some(found) = found {
            if found.slot == now.slot {
                let pubkey = bs58::encode(header.pubkey).into_string();
                self.twice = Some(AccountsError::TwiceInSlot { pubkey, slot: now.slot });
            }
            if found.slot >= now.slot {
                return None;
            }
        }
        Some(Account {
            pubkey: header.pubkey,
            slot: now.slot,
            storage: now.id,
            offset: position,
            lamports: header.lamports,
            owner: header.owner,
            executable: header.executable != 0,
            rent_epoch: header.rent_epoch,
            data: Vec::new(),
        })
    }

    fn keep(&mut self, account: Account) {
        self.found.insert(account.pubkey, Some(account));
    }
}

impl RecordSink for Newest {
    fn whole(&mut self, record: &Record<'_>) {
        if let Some(mut account) = self.account(record.position, record.header) {
            account.data.extend_from_slice(record.data);
            self.keep(account);
        }
    }

    fn begins(&mut self, position: u64, header: &RecordHeader) {
        let account = self.account(position, header);
        if let Some(now) = &mut self.now {
            now.account = account;
        }
    }

    fn part(&mut self, data: &[u8]) {
        if let Some(account) = self.now.as_mut().and_then(|now| now.account.as_mut()) {
            account.data.extend_from_slice(data);
        }
    }

    fn ends(&mut self) {
        if let Some(account) = self.now.as_mut().and_then(|now| now.account.take()) {
            self.keep(account);
        }
    }
}

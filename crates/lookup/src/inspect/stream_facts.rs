//! Facts gathered from the decoded stream: the bank file, storages, owners.

use serde::Serialize;
use unsnap_decode::Position;
use unsnap_index::{Entry, Index, ReadOptions};
use unsnap_layout::{
    ArchiveName, BankError, BankFacts, BankHash, BankReader, Layout, Placement, Role,
};
use unsnap_pass::{Archive, Handles, LayoutKind, Options, PassError};
use unsnap_source::ArchiveFile;
use unsnap_tarstream::{Event, printable};
use unsnap_verify::StorageScanner;

use super::scope::WhatToInspect;
use crate::{
    LookupError, StorageFacts, entries::EntryReader, owners::Owners, storages::StorageTally,
};

/// Fields of a bank file.
#[derive(Clone, Debug, Serialize)]
pub struct BankInspection {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Slot of the bank.
    pub slot: u64,
    /// Epoch of the slot.
    pub epoch: u64,
    /// Slot of its parent.
    pub parent_slot: u64,
    /// Hash of the bank in base58.
    pub hash: String,
    /// Hash of its parent in base58.
    pub parent_hash: String,
    /// Total lamports of all accounts.
    pub capitalization: u64,
    /// Blocks since genesis.
    pub block_height: u64,
    /// Transactions since genesis.
    pub transaction_count: u64,
    /// Id of its last block in base58.
    pub block_id: Option<String>,
    /// Result of the check against the archive's name: `matches`, the difference, or `no name` if
    /// there is no name to check against.
    pub hash_check: String,
}

/// Damage of the decoded stream, or an entry that no snapshot has.
#[derive(Clone, Debug, Serialize)]
pub struct StreamDamage {
    /// The reason.
    pub reason: String,
    /// Number of entries that begin before it.
    pub entries: u64,
    /// Path of the last of them, escaped for display.
    pub last_entry: Option<String>,
}

/// Facts gathered so far.
pub struct StreamFacts<'a> {
    archive: &'a str,
    rules: Layout,
    what: WhatToInspect,
    tally: StorageTally,
    /// Whether the tally covers all storages.
    all_storages: bool,
    first_storage: bool,
    reader: Option<(BankReader, u64)>,
    facts: Option<(BankFacts, u64)>,
    /// Error of parsing the bank file.
    bank_error: Option<BankError>,
    pub bank_at: Position,
    scanner: Option<StorageScanner>,
    pub owners: Option<Owners>,
    pub bytes_decoded: u64,
    /// Entries that have begun.
    entries: u64,
    /// Path of the last of them.
    last_entry: Vec<u8>,
}

impl<'a> StreamFacts<'a> {
    pub fn new(archive: &'a str, named: &Archive, options: &Options, what: WhatToInspect) -> Self {
        Self {
            archive,
            rules: LayoutKind::Snapshot.rules(named, &options.limits),
            what,
            tally: StorageTally::default(),
            all_storages: what.storages || what.owners.is_some(),
            first_storage: false,
            reader: None,
            facts: None,
            bank_error: None,
            bank_at: Position::default(),
            scanner: None,
            owners: what.owners.map(|_| Owners::default()),
            bytes_decoded: 0,
            entries: 0,
            last_entry: Vec::new(),
        }
    }

    /// Returns whether the rest of the stream is not needed.
    pub fn is_enough(&self) -> bool {
        self.facts.is_some() || self.bank_error.is_some() || self.first_storage
    }

    /// Gathers facts by an index: storages from its entries, and the bank file from its frames.
    pub fn index(
        &mut self,
        index: &Index,
        file: &ArchiveFile,
        options: &Options,
        handles: &Handles,
    ) -> Result<(), LookupError> {
        let entries = index.entries.entries();
        for entry in entries {
            self.tally.add(entry);
        }
        self.all_storages = true;
        let bank: Vec<&Entry> = entries.iter().filter(|entry| is_bank_file(entry)).collect();
        let (how, limits) = (ReadOptions::default(), options.limits.tar);
        let archive = self.archive;
        let reader = EntryReader { archive, file, index, options: how, limits, handles };
        reader.entries(&bank, |event, bytes| self.event(event, bytes, None)).map(drop)
    }

    pub fn event(
        &mut self,
        event: Event<'_>,
        bytes: &[u8],
        at: Option<Position>,
    ) -> Result<(), LookupError> {
        let position = at.unwrap_or_default();
        self.bytes_decoded += bytes.len() as u64;
        match event {
            Event::Member(member) => {
                self.entries += 1;
                self.last_entry.clear();
                self.last_entry.extend_from_slice(member.path);
                let placement = self.rules.admit(&member);
                let placement =
                    placement.map_err(|source| PassError::layout(self.archive, source, at))?;
                match placement {
                    Placement::File { role: Role::BankFile { .. }, .. } => {
                        self.reader = Some((BankReader::new(member.size), member.size));
                    }
                    Placement::File { role: Role::Storage { slot, id }, .. } => {
                        self.first_storage = true;
                        self.tally.add(&Entry::of(&member));
                        if self.what.owners.is_some() {
                            let scanner = StorageScanner::new(slot, u64::from(id), member.size);
                            let bad = |error| PassError::storage(self.archive, error, position);
                            self.scanner = Some(scanner.map_err(bad)?);
                        }
                    }
                    _ => {}
                }
            }
            Event::Payload { last } => self.payload(bytes, last, position)?,
            Event::Skipped | Event::End => {}
        }
        Ok(())
    }

    fn payload(&mut self, bytes: &[u8], last: bool, at: Position) -> Result<(), LookupError> {
        let archive = self.archive;
        if let Err(error) = self.bank_payload(bytes, last) {
            // All other facts are still wanted.
            (self.reader, self.bank_error) = (None, Some(error));
            self.bank_at = at;
        } else if last && self.facts.is_some() && self.bank_at == Position::default() {
            self.bank_at = at;
        }
        if let (Some(scanner), Some(owners)) = (&mut self.scanner, &mut self.owners) {
            let bad = |error| PassError::storage(archive, error, at);
            scanner.feed(bytes, owners).map_err(bad)?;
            if last && let Some(scanner) = self.scanner.take() {
                scanner.finish().map_err(bad)?;
            }
        }
        Ok(())
    }

    fn bank_payload(&mut self, bytes: &[u8], last: bool) -> Result<(), BankError> {
        let Some((reader, _)) = &mut self.reader else { return Ok(()) };
        reader.push(bytes)?;
        if last && let Some((reader, size)) = self.reader.take() {
            self.facts = Some((reader.finish()?, size));
        }
        Ok(())
    }

    /// Returns what is known about damage that ended the stream.
    pub fn damage(&self, error: &LookupError) -> StreamDamage {
        StreamDamage {
            reason: error.to_string(),
            entries: self.entries,
            last_entry: (self.entries > 0).then(|| printable(&self.last_entry)),
        }
    }

    /// Returns whether the bank file cannot be parsed.
    pub fn bank_is_bad(&self) -> bool {
        self.bank_error.is_some()
    }

    pub fn storages(&mut self) -> Option<StorageFacts> {
        self.all_storages.then(|| std::mem::take(&mut self.tally).facts())
    }

    /// Returns the fields of the bank file, and the reason why it is bad or does not match the
    /// name.
    pub fn bank(&self, name: Option<&ArchiveName>) -> (Option<BankInspection>, Option<BankError>) {
        let Some((facts, bytes)) = &self.facts else { return (None, self.bank_error.clone()) };
        let proof = name.map(|name| facts.prove(name));
        let (hash_check, block_id, mismatch) = match proof {
            None => ("no name".to_owned(), None, None),
            Some(Ok(proof)) => ("matches".to_owned(), proof.block_id, None),
            Some(Err(error)) => (error.to_string(), None, Some(error)),
        };
        let bank = BankInspection {
            bytes: *bytes,
            slot: facts.slot,
            epoch: facts.epoch(),
            parent_slot: facts.parent_slot,
            hash: facts.hash.to_string(),
            parent_hash: facts.parent_hash.to_string(),
            capitalization: facts.capitalization,
            block_height: facts.block_height,
            transaction_count: facts.transaction_count,
            block_id: block_id.map(|id| BankHash(id).to_string()),
            hash_check,
        };
        (Some(bank), mismatch)
    }
}

/// Returns whether an entry is `snapshots/<slot>/<slot>`.
fn is_bank_file(entry: &Entry) -> bool {
    let path = entry.path();
    let path = path.strip_prefix(b"./").unwrap_or(&path);
    let Some(rest) = path.strip_prefix(b"snapshots/") else { return false };
    let mut parts = rest.split(|byte| *byte == b'/');
    let (slot, name, more) = (parts.next(), parts.next(), parts.next());
    slot.is_some_and(|slot| slot.iter().all(u8::is_ascii_digit)) && slot == name && more.is_none()
}

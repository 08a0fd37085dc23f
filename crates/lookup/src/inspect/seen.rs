//! What is gathered of the decoded stream: the bank file, storages, owners.

use serde::Serialize;
use unsnap_decode::Position;
use unsnap_index::{Entry, Index, ReadOptions};
use unsnap_layout::{ArchiveName, BankFacts, BankHash, BankReader, Layout, Placement, Role};
use unsnap_pass::{Archive, Handles, LayoutKind, Options, PassError};
use unsnap_source::ArchiveFile;
use unsnap_tarstream::Event;
use unsnap_verify::StorageScanner;

use super::WhatToInspect;
use crate::{
    LookupError, StorageFacts, entries::EntryReader, owners::Owners, storages::StorageTally,
};

/// What a bank file says.
#[derive(Clone, Debug, Serialize)]
pub struct BankInspection {
    /// Bytes of the file.
    pub bytes: u64,
    /// Slot of the bank.
    pub slot: u64,
    /// Its epoch.
    pub epoch: u64,
    /// Slot of its parent.
    pub parent_slot: u64,
    /// Its hash, in base58.
    pub hash: String,
    /// The hash of its parent, in base58.
    pub parent_hash: String,
    /// Lamports of all accounts.
    pub capitalization: u64,
    /// Blocks since genesis.
    pub block_height: u64,
    /// Transactions since genesis.
    pub transaction_count: u64,
    /// Id of its last block, in base58.
    pub block_id: Option<String>,
    /// Whether it is the bank file of the archive's name: `matches`, what does not, or `no name` if
    /// there is nothing to hold it to.
    pub hash_check: String,
}

/// What has been seen of the decoded stream.
pub struct Seen<'a> {
    archive: &'a str,
    rules: Layout,
    what: WhatToInspect,
    tally: StorageTally,
    /// Whether all storages are in the tally.
    all_storages: bool,
    first_storage: bool,
    reader: Option<(BankReader, u64)>,
    facts: Option<(BankFacts, u64)>,
    pub bank_at: Position,
    scanner: Option<StorageScanner>,
    pub owners: Option<Owners>,
    pub bytes_decoded: u64,
}

impl<'a> Seen<'a> {
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
            bank_at: Position::default(),
            scanner: None,
            owners: what.owners.map(|_| Owners::default()),
            bytes_decoded: 0,
        }
    }

    /// Whether nothing of what follows is wanted.
    pub fn is_enough(&self) -> bool {
        self.facts.is_some() || self.first_storage
    }

    /// By the index: storages by their entries, and the bank file out of its frames.
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
        if let Some((reader, _)) = &mut self.reader {
            let bad = |source| PassError::bank(archive, source, at);
            reader.push(bytes).map_err(bad)?;
            if last && let Some((reader, size)) = self.reader.take() {
                self.facts = Some((reader.finish().map_err(bad)?, size));
                self.bank_at = at;
            }
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

    pub fn storages(&mut self) -> Option<StorageFacts> {
        self.all_storages.then(|| std::mem::take(&mut self.tally).facts())
    }

    /// What the bank file says, and why it is not that of the name.
    pub fn bank(
        &self,
        name: Option<&ArchiveName>,
    ) -> (Option<BankInspection>, Option<unsnap_layout::BankError>) {
        let Some((facts, bytes)) = &self.facts else { return (None, None) };
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

/// Whether an entry is `snapshots/<slot>/<slot>`.
fn is_bank_file(entry: &Entry) -> bool {
    let path = entry.path();
    let path = path.strip_prefix(b"./").unwrap_or(&path);
    let Some(rest) = path.strip_prefix(b"snapshots/") else { return false };
    let mut parts = rest.split(|byte| *byte == b'/');
    let (slot, name, more) = (parts.next(), parts.next(), parts.next());
    slot.is_some_and(|slot| slot.iter().all(u8::is_ascii_digit)) && slot == name && more.is_none()
}

//! A validator that runs.

use std::{fs, io};

use serde_json::{Value, json};
use unsnap_testkit::series::{self, STEP, Snapshot};

use crate::{
    archives,
    places::Places,
    states::{self, Stored},
};

/// A validator that runs, with the storages that it would read from.
#[derive(Debug)]
pub struct Validator {
    places: Places,
    /// The slot that it has come to.
    slot: u64,
    storages: Vec<Stored>,
    next_id: u32,
}

impl Validator {
    pub fn new(places: Places, slot: u64, storages: Vec<Stored>) -> Self {
        let next_id = storages.iter().map(|stored| stored.id + 1).max().unwrap_or_default();
        Self { places, slot, storages, next_id }
    }

    /// Does what a command says, and returns the answer.
    pub fn command(&mut self, command: &str) -> io::Result<Value> {
        let mut words = command.split_whitespace();
        let (verb, number) = (words.next().unwrap_or_default(), words.next());
        let number = number.and_then(|word| word.parse().ok()).unwrap_or(0);
        match verb {
            "full" => self.snapshot(Snapshot::full_above(self.slot)),
            "incremental" => self.snapshot(Snapshot::incremental_above(self.slot)),
            "tear" => self.tear(),
            "shrink" => self.shrink(number),
            "delete" => self.delete(number),
            "check" => Ok(json!({"lost": self.lost()})),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no command {verb:?}"))),
        }
    }

    /// Goes on to the slot of a snapshot and writes its archive. The bank goes to the directory of
    /// states before, without a mark, and takes the place of the state that this one started from.
    fn snapshot(&mut self, snapshot: Snapshot) -> io::Result<Value> {
        self.slot = snapshot.slot();
        states::write_bank(&self.places, self.slot, &self.bank()?)?;
        let path = archives::write_archive(&self.places, snapshot)?;
        archives::purge(&self.places)?;
        Ok(json!({"slot": self.slot, "path": path}))
    }

    /// Begins to write the bank of the next snapshot, and does not come to the version.
    fn tear(&mut self) -> io::Result<Value> {
        let slot = Snapshot::incremental_above(self.slot).slot();
        let directory = self.places.state(slot);
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(slot.to_string()), self.bank()?)?;
        Ok(json!({"slot": slot}))
    }

    /// Writes a storage anew, and removes the old file. (Nothing here is dead, so it has the same
    /// length.)
    fn shrink(&mut self, number: usize) -> io::Result<Value> {
        let Some(index) = number.checked_rem(self.storages.len()) else { return Ok(Value::Null) };
        let old = self.storages[index].clone();
        let new = Stored { id: self.next_id, ..old.clone() };
        self.next_id += 1;
        fs::write(new.path(), fs::read(old.path())?)?;
        self.storages[index] = new;
        fs::remove_file(old.path())?;
        Ok(json!({"slot": old.slot}))
    }

    /// Removes a storage in which all accounts are dead, unless it is the last one.
    fn delete(&mut self, number: usize) -> io::Result<Value> {
        if self.storages.len() < 2 {
            return Ok(Value::Null);
        }
        let old = self.storages.remove(number % self.storages.len());
        fs::remove_file(old.path())?;
        Ok(json!({"slot": old.slot}))
    }

    /// Returns the storages of which anything is not as it was.
    fn lost(&self) -> Vec<String> {
        let is_lost = |stored: &&Stored| {
            let found = fs::read(stored.path()).ok();
            // Of an archive that is not of the series, only that it is there is known.
            match series::storage(stored.slot) {
                Some(expected) => found != Some(expected),
                None => found.is_none_or(|bytes| !states::is_chain(&bytes)),
            }
        };
        let lost = self.storages.iter().filter(is_lost);
        lost.map(|stored| stored.path().display().to_string()).collect()
    }

    fn bank(&self) -> io::Result<Vec<u8>> {
        let read = |stored: &Stored| Ok((stored.slot, stored.id, fs::read(stored.path())?));
        let storages = self.storages.iter().map(read).collect::<io::Result<Vec<_>>>()?;
        let parts: Vec<_> = storages.iter().map(|(slot, _, bytes)| (*slot, &bytes[..])).collect();
        Ok(series::bank_file(self.slot, &series::totals(&parts), &storages))
    }

    /// Writes the state that the next start loads, as Agave does when it is told to exit.
    pub fn exit(&mut self) -> io::Result<()> {
        // Not the slot of any snapshot.
        self.slot += if (self.slot + 1).is_multiple_of(STEP) { 2 } else { 1 };
        states::write_bank(&self.places, self.slot, &self.bank()?)?;
        states::mark(&self.places, self.slot, &self.storages)
    }
}

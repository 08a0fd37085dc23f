//! The bank file, checked against the archive's name as it passes by. A wrong archive ends the run
//! within the first megabytes, not after hours.

use unsnap_decode::Position;
use unsnap_layout::{ArchiveName, BankFacts, BankReader, Role};

use crate::PassError;

/// Checks a bank file against the name of its archive.
pub struct BankCheck {
    /// Name of the archive in messages.
    archive: String,
    /// `None` if there is nothing to check against.
    name: Option<ArchiveName>,
    reader: Option<BankReader>,
    proven: Option<ProvenBank>,
}

/// A bank file that agrees with its archive's name.
pub struct ProvenBank {
    /// Its content.
    pub facts: BankFacts,
    /// Checksum of its accounts' lattice hash, which is the hash in the name.
    pub checksum: [u8; 32],
}

impl BankCheck {
    /// `archive`: its name in messages. `name`: what its file name says.
    pub fn new(archive: String, name: Option<ArchiveName>) -> Self {
        Self { archive, name, reader: None, proven: None }
    }

    /// Takes note that a file begins.
    pub fn begin(&mut self, role: Role, bytes: u64) {
        if self.name.is_some() && matches!(role, Role::BankFile { .. }) {
            self.reader = Some(BankReader::new(bytes));
        }
    }

    /// Takes the next bytes of the current file. The last ones bring the verdict. `at`: origin of the
    /// segment.
    pub fn take(&mut self, piece: &[u8], last: bool, at: Position) -> Result<(), PassError> {
        let (Some(reader), Some(name)) = (&mut self.reader, &self.name) else { return Ok(()) };
        let archive = &self.archive;
        let bad = |source| PassError::bank(archive, source, at);
        reader.push(piece).map_err(bad)?;
        if last && let Some(reader) = self.reader.take() {
            let facts = reader.finish().map_err(bad)?;
            facts.prove(name).map_err(bad)?;
            tracing::debug!(%name, bank = %facts.hash, "the bank file agrees with the archive's name");
            self.proven = Some(ProvenBank { facts, checksum: *name.hash().as_bytes() });
        }
        Ok(())
    }

    /// Returns whether the bank file has passed by and agrees with the name.
    pub fn is_proven(&self) -> bool {
        self.proven.is_some()
    }

    /// Returns the bank file, if it has passed by and agrees with the name.
    pub fn proven(self) -> Option<ProvenBank> {
        self.proven
    }
}

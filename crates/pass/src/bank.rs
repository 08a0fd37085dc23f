//! Check of the bank file against the archive's name while the archive is walked. A wrong archive
//! ends the run within its first megabytes, not after hours.

use unsnap_decode::Position;
use unsnap_layout::{ArchiveName, BankFacts, BankReader, Role};

use crate::PassError;

/// Checks a bank file against the name of its archive.
pub struct BankCheck {
    /// Name of the archive in messages.
    archive: String,
    /// Parsed file name; `None` disables the check.
    name: Option<ArchiveName>,
    reader: Option<BankReader>,
    proven: Option<ProvenBank>,
}

/// A bank file that matches its archive's name.
pub struct ProvenBank {
    /// Content of the bank file.
    pub facts: BankFacts,
    /// Checksum of the accounts' lattice hash, which is the hash in the name.
    pub checksum: [u8; 32],
}

impl BankCheck {
    /// Prepares a check. `archive` is the archive's name in messages, `name` its parsed file name.
    pub fn new(archive: String, name: Option<ArchiveName>) -> Self {
        Self { archive, name, reader: None, proven: None }
    }

    /// Begins a file of `bytes`.
    pub fn begin(&mut self, role: Role, bytes: u64) {
        if self.name.is_some() && matches!(role, Role::BankFile { .. }) {
            self.reader = Some(BankReader::new(bytes));
        }
    }

    /// Takes the next bytes of the current file. The last bytes of the bank file complete the
    /// check. `at` is the origin of the segment.
    ///
    /// # Errors
    ///
    /// [`PassError::Bank`] if the bank file is damaged or contradicts the name.
    pub fn take(&mut self, piece: &[u8], last: bool, at: Position) -> Result<(), PassError> {
        let (Some(reader), Some(name)) = (&mut self.reader, &self.name) else { return Ok(()) };
        let archive = &self.archive;
        let bad = |source| PassError::bank(archive, source, at);
        reader.push(piece).map_err(bad)?;
        if last && let Some(reader) = self.reader.take() {
            let facts = reader.finish().map_err(bad)?;
            facts.prove(name).map_err(bad)?;
            tracing::debug!(%name, bank = %facts.hash, "the bank file matches the archive's name");
            self.proven = Some(ProvenBank { facts, checksum: *name.hash().as_bytes() });
        }
        Ok(())
    }

    /// Returns whether the bank file has been read and matches the name.
    pub fn is_proven(&self) -> bool {
        self.proven.is_some()
    }

    /// Returns the bank file, if it has been read and matches the name.
    pub fn proven(self) -> Option<ProvenBank> {
        self.proven
    }
}

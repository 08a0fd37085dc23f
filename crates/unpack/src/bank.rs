//! The bank file, held to the archive's name as it passes by: what is wrong is known within the first
//! megabytes, and not after hours.

use unsnap_decode::Position;
use unsnap_layout::{ArchiveName, BankFacts, BankReader, Role};

use crate::Error;

/// Holds a bank file to the name of its archive.
pub(crate) struct BankCheck {
    /// What messages call the archive.
    archive: String,
    /// `None` if there is nothing to hold it to.
    name: Option<ArchiveName>,
    reader: Option<BankReader>,
    proven: Option<ProvenBank>,
}

/// A bank file that is the one of its archive's name.
pub(crate) struct ProvenBank {
    pub facts: BankFacts,
    /// Hash of the lattice hash of its accounts: that in the name.
    pub checksum: [u8; 32],
}

impl BankCheck {
    pub fn new(archive: String, name: Option<ArchiveName>) -> Self {
        Self { archive, name, reader: None, proven: None }
    }

    /// A file begins.
    pub fn begin(&mut self, role: Role, bytes: u64) {
        if self.name.is_some() && matches!(role, Role::BankFile { .. }) {
            self.reader = Some(BankReader::new(bytes));
        }
    }

    /// The next bytes of the file under way; with the last the verdict falls. `at`: what the segment
    /// was decoded from.
    pub fn take(&mut self, piece: &[u8], last: bool, at: Position) -> Result<(), Error> {
        let (Some(reader), Some(name)) = (&mut self.reader, &self.name) else { return Ok(()) };
        let archive = &self.archive;
        let bad = |source| Error::Bank { archive: archive.clone(), source: Box::new(source), at };
        reader.push(piece).map_err(bad)?;
        if last && let Some(reader) = self.reader.take() {
            let facts = reader.finish().map_err(bad)?;
            facts.prove(name).map_err(bad)?;
            tracing::debug!(%name, bank = %facts.hash, "the bank file is that of the archive");
            self.proven = Some(ProvenBank { facts, checksum: *name.hash().as_bytes() });
        }
        Ok(())
    }

    /// What it says, if it has passed by and was held to the name.
    pub fn is_proven(&self) -> bool {
        self.proven.is_some()
    }

    pub fn proven(self) -> Option<ProvenBank> {
        self.proven
    }
}

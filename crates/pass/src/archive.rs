//! The archive that is read.

use std::path::PathBuf;

use unsnap_layout::ArchiveName;

/// Where an archive comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Archive {
    /// A file, or a named pipe, which is read like standard input.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Archive {
    /// Returns the name that messages use.
    pub fn display_name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
        }
    }

    /// Returns what the file name says, if it is the name of a snapshot archive.
    pub fn snapshot_name(&self) -> Option<ArchiveName> {
        let Self::File(path) = self else { return None };
        match ArchiveName::parse(path.file_name()?.to_str()?) {
            Ok(name) => Some(name),
            Err(error) => {
                tracing::debug!(%error, "the file name is not that of a snapshot archive");
                None
            }
        }
    }
}

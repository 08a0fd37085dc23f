//! Headers that describe the next entry: GNU long names and PAX headers.

use crate::error::TarError;
use crate::header::{Format, Header};
use crate::limits::Limits;
use crate::pax::{self, PaxProblem};
use crate::printable;
use std::mem;

/// A header whose payload describes another entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extension {
    /// GNU `L`: the path of the next entry.
    LongName,
    /// GNU `K`: the link target of the next entry.
    LongLink,
    /// PAX `x`: properties of the next entry.
    Pax,
    /// PAX `g`: properties of all entries from here on.
    Global,
}

impl Extension {
    /// Returns the extension that a header announces, if it is one. PAX outside POSIX headers and
    /// GNU extensions in v7 headers are refused: some readers treat them as extensions, others as
    /// files.
    pub(crate) fn of(header: Header<'_>) -> Result<Option<Self>, TarError> {
        let extension = match header.typeflag() {
            b'L' => Self::LongName,
            b'K' => Self::LongLink,
            b'x' => Self::Pax,
            b'g' => Self::Global,
            b'X' => return Err(TarError::SolarisExtension { offset: header.offset }),
            _ => return Ok(None),
        };
        let belongs = match extension {
            // 7-Zip and others write GNU long names under the POSIX magic.
            Self::LongName | Self::LongLink => header.format != Format::V7,
            Self::Pax | Self::Global => header.format == Format::Posix,
        };
        if belongs { Ok(Some(extension)) } else { Err(header.foreign_type()) }
    }

    pub(crate) fn flag(self) -> char {
        match self {
            Self::LongName => 'L',
            Self::LongLink => 'K',
            Self::Pax => 'x',
            Self::Global => 'g',
        }
    }

    fn bytes_max(self, limits: &Limits) -> u64 {
        match self {
            Self::LongName | Self::LongLink | Self::Pax => limits.extension_bytes_max,
            Self::Global => limits.global_header_bytes_max,
        }
    }
}

/// Properties of the next entry, from the extensions read so far.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Offset of the first pending extension's header block.
    pub(crate) since: Option<u64>,
    /// Whether one of them is a PAX header.
    pax: bool,
    path: Override,
    link: Override,
    /// The size, from PAX.
    pub(crate) size: Option<u64>,
    /// Whether PAX marks the entry as sparse.
    pub(crate) sparse: bool,
}

/// A property of the next entry that an extension overrides.
#[derive(Debug, Default)]
struct Override {
    bytes: Vec<u8>,
    origin: Option<Origin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Gnu,
    Pax,
}

impl Pending {
    /// Accepts an extension's header. Returns the length of its body, or the reason why it may not
    /// be here.
    pub(crate) fn begin(
        &mut self,
        extension: Extension,
        header: Header<'_>,
        limits: &Limits,
    ) -> Result<u64, TarError> {
        let (offset, flag) = (header.offset, extension.flag());
        let found = header.size()?;
        let limit = extension.bytes_max(limits);
        if found > limit {
            return Err(TarError::ExtensionTooLarge { offset, flag, found, limit });
        }
        let duplicate = match extension {
            Extension::LongName => self.path.origin == Some(Origin::Gnu),
            Extension::LongLink => self.link.origin == Some(Origin::Gnu),
            Extension::Pax => mem::replace(&mut self.pax, true),
            // Some readers would see a global header here as parting an extension from its entry.
            Extension::Global => {
                return match self.since {
                    Some(offset) => Err(TarError::DanglingExtension { offset }),
                    None => Ok(found),
                };
            }
        };
        if duplicate {
            return Err(TarError::DuplicateExtension { offset, flag });
        }
        self.since.get_or_insert(offset);
        Ok(found)
    }

    /// Applies an extension's body, which starts at `offset` of the stream.
    pub(crate) fn apply(
        &mut self,
        extension: Extension,
        body: &[u8],
        offset: u64,
    ) -> Result<(), TarError> {
        match extension {
            Extension::LongName => self.path.set_gnu(extension, "path", body, offset),
            Extension::LongLink => self.link.set_gnu(extension, "linkpath", body, offset),
            Extension::Pax => self.apply_pax(body, offset),
            Extension::Global => check_global(body, offset),
        }
    }

    /// Stores the path of the next entry in `path`: the one from the extensions if they gave one,
    /// otherwise the header's own.
    pub(crate) fn take_path(&mut self, header: Header<'_>, path: &mut Vec<u8>) {
        if self.path.take(path) {
            return;
        }
        path.clear();
        if !header.prefix().is_empty() {
            path.extend_from_slice(header.prefix());
            path.push(b'/');
        }
        path.extend_from_slice(header.name());
    }

    /// Stores the link target of the next entry in `link`.
    pub(crate) fn take_link(&mut self, header: Header<'_>, link: &mut Vec<u8>) {
        if !self.link.take(link) {
            link.clear();
            link.extend_from_slice(header.link());
        }
    }

    /// Clears all properties once their entry has been read. The buffers are kept.
    pub(crate) fn clear(&mut self) {
        self.since = None;
        self.pax = false;
        self.path.origin = None;
        self.link.origin = None;
        self.size = None;
        self.sparse = false;
    }

    fn apply_pax(&mut self, body: &[u8], body_offset: u64) -> Result<(), TarError> {
        for record in pax::records(body) {
            let record = record.map_err(|(position, problem)| TarError::Pax {
                offset: body_offset + position as u64,
                problem,
            })?;
            let offset = body_offset + record.position as u64;
            let value = record.value;
            match record.key {
                b"path" => self.path.set_pax(Extension::LongName, "path", value, offset)?,
                b"linkpath" => self.link.set_pax(Extension::LongLink, "linkpath", value, offset)?,
                b"size" => {
                    let size =
                        pax::size(value).map_err(|problem| TarError::Pax { offset, problem })?;
                    if self.size.replace(size).is_some() {
                        let problem = PaxProblem::DuplicateKey { key: "size" };
                        return Err(TarError::Pax { offset, problem });
                    }
                }
                key => self.sparse |= key.starts_with(SPARSE_KEYS),
            }
        }
        Ok(())
    }
}

impl Override {
    /// Applies a GNU long name: the bytes before the first NUL, which only NULs may follow.
    ///
    /// Otherwise readers that stop at the first NUL and readers that strip the last one would see
    /// two different names.
    fn set_gnu(
        &mut self,
        extension: Extension,
        key: &'static str,
        body: &[u8],
        offset: u64,
    ) -> Result<(), TarError> {
        let flag = extension.flag();
        if self.origin == Some(Origin::Pax) {
            return Err(TarError::ConflictingExtensions { offset, flag, key });
        }
        let name_bytes = body.iter().position(|&byte| byte == 0);
        let Some((name, nuls)) = name_bytes.map(|end| body.split_at(end)) else {
            return Err(TarError::LongName { offset, flag });
        };
        if name.is_empty() || nuls.iter().any(|&byte| byte != 0) {
            return Err(TarError::LongName { offset, flag });
        }
        self.set(name, Origin::Gnu);
        Ok(())
    }

    fn set_pax(
        &mut self,
        rival: Extension,
        key: &'static str,
        value: &[u8],
        offset: u64,
    ) -> Result<(), TarError> {
        let problem = match self.origin {
            Some(Origin::Gnu) => {
                let flag = rival.flag();
                return Err(TarError::ConflictingExtensions { offset, flag, key });
            }
            Some(Origin::Pax) => PaxProblem::DuplicateKey { key },
            None if value.is_empty() => PaxProblem::EmptyValue { key },
            None if value.contains(&0) => PaxProblem::NulInValue { key },
            None => {
                self.set(value, Origin::Pax);
                return Ok(());
            }
        };
        Err(TarError::Pax { offset, problem })
    }

    fn set(&mut self, bytes: &[u8], origin: Origin) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.origin = Some(origin);
    }

    /// Swaps the override into `target`, if there is one.
    fn take(&mut self, target: &mut Vec<u8>) -> bool {
        let taken = self.origin.take().is_some();
        if taken {
            mem::swap(&mut self.bytes, target);
        }
        taken
    }
}

/// Checks a global header. Global headers carry comments (git stores its commit there) and are
/// ignored, so they must not set anything that would change an entry.
fn check_global(body: &[u8], body_offset: u64) -> Result<(), TarError> {
    for record in pax::records(body) {
        let refuse =
            |(position, problem)| TarError::Pax { offset: body_offset + position as u64, problem };
        let record = record.map_err(refuse)?;
        let counts = matches!(record.key, b"path" | b"linkpath" | b"size");
        if counts || record.key.starts_with(SPARSE_KEYS) {
            let problem = PaxProblem::GlobalKey { key: printable(record.key) };
            return Err(refuse((record.position, problem)));
        }
    }
    Ok(())
}

const SPARSE_KEYS: &[u8] = b"GNU.sparse.";

//! What went wrong, in a word that stays the same.

use std::io;

use rustix::io::Errno;
use unsnap_create::CreateError;
use unsnap_decode::DecodeError;
use unsnap_layout::LayoutError;
use unsnap_ring::EngineError;
use unsnap_source::SourceError;
use unsnap_tarstream::TarError;

use crate::{Resource, error::Error};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident = $name:literal,)+) => {
        /// What went wrong, in a word that stays the same when messages are worded anew: for scripts, alerts
        /// and the headings of docs/troubleshooting.md, which has a paragraph for each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $code,)+
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$code),+];

            /// The word.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)+
                }
            }
        }
    };
}

codes! {
    /// The first bytes are those of no archive.
    NotAnArchive = "not-an-archive",
    /// The archive ends too early.
    ArchiveCut = "archive-cut",
    /// Compressed data or tar headers contradict themselves.
    ArchiveDamaged = "archive-damaged",
    /// Something follows where the archive should end.
    ForeignBytes = "foreign-bytes",
    /// The archive asks for more than is allowed.
    Limit = "limit",
    /// The archive needs what is not supported.
    Unsupported = "unsupported",
    /// A path or an entry that could do harm.
    UnsafeEntry = "unsafe-entry",
    /// Entries that no snapshot has, or that one lacks.
    NoSnapshot = "no-snapshot",
    /// The bank file is not that of the archive's name.
    WrongBank = "wrong-bank",
    /// A storage is no row of accounts.
    BadStorage = "bad-storage",
    /// Accounts do not add up to what the archive says.
    WrongAccounts = "wrong-accounts",
    /// The archive has another digest than was asked for.
    WrongDigest = "wrong-digest",
    /// What was asked for is not in the archive.
    NotInArchive = "not-in-archive",
    /// The archive's index is damaged, or of another archive.
    IndexUnusable = "index-unusable",
    /// What was written does not decode to what was read.
    NotIdentical = "not-identical",
    /// The archive is still being written, or was replaced.
    ArchiveChanging = "archive-changing",
    /// There is no archive to begin with.
    NoArchive = "no-archive",
    /// The request makes no sense.
    Request = "request",
    /// The destination is not empty.
    NotClean = "not-clean",
    /// Somebody else is unpacking there.
    Locked = "locked",
    /// A validator, or another unsnap, holds the ledger.
    LedgerInUse = "ledger-in-use",
    /// An interrupted run cannot be gone on with.
    NotResumable = "not-resumable",
    /// There is not enough space, or there was not when it was needed.
    NoSpace = "no-space",
    /// There are not enough inodes.
    NoInodes = "no-inodes",
    /// The user's quota is used up.
    Quota = "quota",
    /// Too many open files.
    OpenFiles = "open-files",
    /// A limit of file sizes.
    FileSizeLimit = "file-size-limit",
    /// Not allowed.
    Permission = "permission",
    /// The file system is mounted read-only.
    ReadOnly = "read-only",
    /// The disk reports errors.
    DiskError = "disk-error",
    /// There is no such file or directory.
    NotFound = "not-found",
    /// Not enough memory.
    Memory = "memory",
    /// io_uring was demanded and is refused.
    UringRefused = "uring-refused",
    /// Direct I/O was demanded and cannot be had.
    DirectRefused = "direct-refused",
    /// What accounts are verified with could not be had.
    VerifySpace = "verify-space",
    /// Another answer of the kernel.
    System = "system",
    /// Somebody asked to stop.
    Cancelled = "cancelled",
}

impl Code {
    /// What an error of the system means.
    pub fn of_io_error(error: &io::Error) -> Self {
        Errno::from_io_error(error).map_or(Self::System, Self::of_errno)
    }

    /// What an answer of the kernel means.
    pub fn of_errno(errno: Errno) -> Self {
        match errno {
            Errno::NOSPC => Self::NoSpace,
            Errno::DQUOT => Self::Quota,
            Errno::MFILE => Self::OpenFiles,
            Errno::FBIG => Self::FileSizeLimit,
            Errno::ACCESS | Errno::PERM => Self::Permission,
            Errno::ROFS => Self::ReadOnly,
            Errno::IO => Self::DiskError,
            Errno::NOENT | Errno::NOTDIR => Self::NotFound,
            Errno::NOMEM => Self::Memory,
            _ => Self::System,
        }
    }
}

impl Error {
    /// What went wrong, in a word.
    pub fn code(&self) -> Code {
        match self {
            Self::Decode { source, .. } => of_decode(source),
            Self::Tar { source, .. } => of_tar(source),
            Self::Layout { source, .. } => of_layout(source),
            Self::Bank { .. } => Code::WrongBank,
            Self::Index { .. } => Code::IndexUnusable,
            Self::NotFound { .. } => Code::NotInArchive,
            Self::Storage { .. } => Code::BadStorage,
            Self::Accounts { source, .. } if source.is_bad_archive() => Code::WrongAccounts,
            Self::Accounts { .. } => Code::VerifySpace,
            Self::Source(source) => of_source(source),
            Self::Create(source) => of_create(source),
            Self::Uring(_) => Code::UringRefused,
            Self::Memory { .. } => Code::Memory,
            Self::Request { .. } => Code::Request,
            Self::NotClean { .. } => Code::NotClean,
            Self::Digest { .. } => Code::WrongDigest,
            Self::NotResumable { .. } => Code::NotResumable,
            Self::NoArchive { .. } => Code::NoArchive,
            Self::Running { .. } => Code::LedgerInUse,
            Self::Locked { .. } => Code::Locked,
            Self::Staging { errno, .. } | Self::Search { errno, .. } => Code::of_errno(*errno),
            Self::Output { error } => Code::of_io_error(error),
            Self::NoSpace(shortage) => match shortage.resource {
                Resource::Bytes => Code::NoSpace,
                Resource::Inodes => Code::NoInodes,
            },
            Self::Cancelled => Code::Cancelled,
        }
    }
}

fn of_decode(error: &DecodeError) -> Code {
    match error {
        DecodeError::UnknownFormat { .. } => Code::NotAnArchive,
        DecodeError::Empty | DecodeError::Truncated { .. } => Code::ArchiveCut,
        DecodeError::TrailingBytes { .. } => Code::ForeignBytes,
        DecodeError::Limit { .. } => Code::Limit,
        DecodeError::Unsupported { .. } => Code::Unsupported,
        _ => Code::ArchiveDamaged,
    }
}

fn of_tar(error: &TarError) -> Code {
    match error {
        TarError::TruncatedHeader { .. }
        | TarError::TruncatedExtension { .. }
        | TarError::TruncatedPayload { .. }
        | TarError::MissingEnd { .. } => Code::ArchiveCut,
        TarError::TrailingData { .. } | TarError::StrayZeroBlock { .. } => Code::ForeignBytes,
        TarError::ExtensionTooLarge { .. }
        | TarError::PathTooLong { .. }
        | TarError::SparseMapTooLong { .. } => Code::Limit,
        TarError::SolarisExtension { .. } => Code::Unsupported,
        _ => Code::ArchiveDamaged,
    }
}

fn of_layout(error: &LayoutError) -> Code {
    match error {
        LayoutError::UnsafePath { .. }
        | LayoutError::WrongKind { .. }
        | LayoutError::Duplicate { .. }
        | LayoutError::FileAndDirectory { .. } => Code::UnsafeEntry,
        LayoutError::FileTooLarge { .. }
        | LayoutError::TooManyEntries { .. }
        | LayoutError::TotalTooLarge { .. } => Code::Limit,
        _ => Code::NoSnapshot,
    }
}

fn of_source(error: &SourceError) -> Code {
    match error {
        SourceError::Open { errno, .. } | SourceError::Read { errno, .. } => Code::of_errno(*errno),
        SourceError::Shrank { .. } | SourceError::Grew { .. } => Code::ArchiveChanging,
        SourceError::DirectRefused { .. } => Code::DirectRefused,
        SourceError::Alignment { .. } => Code::Request,
        SourceError::Engine(error) => of_engine(error),
        _ => Code::Cancelled,
    }
}

fn of_create(error: &CreateError) -> Code {
    match error {
        CreateError::File { errno, .. } | CreateError::Directory { errno, .. } => {
            Code::of_errno(*errno)
        }
        CreateError::DirectRefused { .. } => Code::DirectRefused,
        CreateError::Path(_) => Code::UnsafeEntry,
        CreateError::Engine(error) => of_engine(error),
        _ => Code::System,
    }
}

fn of_engine(error: &EngineError) -> Code {
    match error {
        EngineError::Refused(_) => Code::UringRefused,
        error => error.errno().map_or(Code::System, Code::of_errno),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn words_are_unique_and_can_be_headings() {
        let names: HashSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        assert!(names.iter().all(|name| name.bytes().all(plain)), "{names:?}");
    }

    #[test]
    fn a_full_disk_is_one_thing_whoever_meets_it() {
        let path = "/x".into();
        let staging = Error::Staging { step: "sync", path, errno: Errno::NOSPC };
        assert_eq!(staging.code(), Code::NoSpace);
        let path = "/x".into();
        let create = CreateError::File { step: "write", path, errno: Errno::NOSPC };
        assert_eq!(Error::Create(create).code(), Code::NoSpace);
    }
}

//! Stable codes of failures.

use std::io;

use rustix::io::Errno;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident = $name:literal,)+) => {
        /// Stable code of a failure. Messages may be reworded, codes may not: scripts, alerts and
        /// the headings of docs/troubleshooting.md rely on them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $code,)+
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$code),+];

            /// Returns the code as text.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)+
                }
            }
        }
    };
}

codes! {
    /// The file does not begin like an archive.
    NotAnArchive = "not-an-archive",
    /// The archive ends too early.
    ArchiveCut = "archive-cut",
    /// Compressed data or tar headers are inconsistent.
    ArchiveDamaged = "archive-damaged",
    /// Bytes follow the archive's end.
    ForeignBytes = "foreign-bytes",
    /// The archive exceeds a limit.
    Limit = "limit",
    /// The archive uses an unsupported feature.
    Unsupported = "unsupported",
    /// A path or an entry is unsafe.
    UnsafeEntry = "unsafe-entry",
    /// An entry does not belong in a snapshot, or a required one is missing.
    NoSnapshot = "no-snapshot",
    /// The bank file contradicts the archive's name.
    WrongBank = "wrong-bank",
    /// A storage is not a sequence of whole account records.
    BadStorage = "bad-storage",
    /// The accounts do not match the archive's hash or capitalization.
    WrongAccounts = "wrong-accounts",
    /// The archive's digest differs from the expected one.
    WrongDigest = "wrong-digest",
    /// The server has another archive than the expected one.
    WrongArchive = "wrong-archive",
    /// The requested entry or account is not in the archive.
    NotInArchive = "not-in-archive",
    /// The archive's index is damaged or belongs to another archive.
    IndexUnusable = "index-unusable",
    /// A compressed frame does not decode to its input.
    NotIdentical = "not-identical",
    /// An export is damaged or incomplete, or does not hold the accounts of its archive.
    BadExport = "bad-export",
    /// The archive is still being written, or was replaced.
    ArchiveChanging = "archive-changing",
    /// No full archive was found.
    NoArchive = "no-archive",
    /// The request makes no sense.
    Request = "request",
    /// The destination is not empty.
    NotClean = "not-clean",
    /// Another process is using the destination.
    Locked = "locked",
    /// A validator, or another unsnap, holds the ledger's lock.
    LedgerInUse = "ledger-in-use",
    /// An interrupted run cannot be resumed.
    NotResumable = "not-resumable",
    /// There is not enough free space.
    NoSpace = "no-space",
    /// There are not enough free inodes.
    NoInodes = "no-inodes",
    /// The user's quota is used up.
    Quota = "quota",
    /// Too many open files.
    OpenFiles = "open-files",
    /// The limit on file sizes was reached.
    FileSizeLimit = "file-size-limit",
    /// The kernel denied access.
    Permission = "permission",
    /// The file system is mounted read-only.
    ReadOnly = "read-only",
    /// The disk reports errors.
    DiskError = "disk-error",
    /// There is no such file or directory.
    NotFound = "not-found",
    /// The limit on processes and threads was reached.
    Threads = "threads",
    /// Not enough memory.
    Memory = "memory",
    /// The kernel refuses io_uring, which was required.
    UringRefused = "uring-refused",
    /// The file system refuses direct I/O, which was required.
    DirectRefused = "direct-refused",
    /// Verifying accounts failed for lack of memory or temporary space.
    VerifySpace = "verify-space",
    /// A server cannot be reached, or does not send the archive.
    Network = "network",
    /// Another error of the operating system.
    System = "system",
    /// The caller asked to stop.
    Cancelled = "cancelled",
}

impl Code {
    /// Returns the code for an error of the operating system.
    pub fn of_io_error(error: &io::Error) -> Self {
        Errno::from_io_error(error).map_or(Self::System, Self::of_errno)
    }

    /// Returns the code for an error number.
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_can_be_headings() {
        let names: HashSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        assert!(names.iter().all(|name| name.bytes().all(plain)), "{names:?}");
    }
}

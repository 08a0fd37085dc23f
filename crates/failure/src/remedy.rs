//! Remedies, and the words for them.

use rustix::io::Errno;

/// Something that the operator can set. A front end names it by its [`Vocabulary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Knob {
    /// The file or section that holds the limits on archives.
    Limits,
    /// Accepting tar archives that are not snapshots.
    AnyLayout,
    /// Ignoring the archive's index.
    NoIndex,
    /// Making the archive's index.
    MakeIndex,
    /// The I/O engine.
    IoEngine,
    /// Use of direct I/O.
    DirectIo,
    /// The memory budget.
    MemoryBudget,
    /// The number of decoding threads.
    DecodeThreads,
    /// Unpacking without the check for free space.
    NoPreflight,
    /// Resuming an interrupted run.
    Resume,
    /// Preparing a state beside a running validator.
    Beside,
    /// The directory with the snapshot archives.
    Snapshots,
    /// The accounts paths.
    Accounts,
    /// Replacing existing output.
    Replace,
    /// The output directory or file.
    Output,
    /// The size of compressed frames.
    FrameSize,
    /// Writing a seek table.
    SeekTable,
    /// Listing only the newest version of each account.
    Newest,
    /// The incremental archive of a pair.
    Incremental,
    /// The memory for verifying accounts.
    VerifyMemory,
}

/// A front end's names for [`Knob`]s.
pub trait Vocabulary {
    /// Returns the name of a knob as the operator would type it, such as `--io-engine` or
    /// `io-engine`; `None` if this front end, or this subcommand, does not have it.
    fn name(&self, knob: Knob) -> Option<String>;
}

/// A remedy for a failure. The front end puts it into words: see [`Remedy::words`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// The archive ends too early: compare sizes, fetch it again.
    FetchWhole,
    /// The archive is damaged: fetch it again.
    FetchAgain,
    /// The archive is not the one that the digest belongs to.
    FetchOther,
    /// The file is still being written.
    WaitForDownload,
    /// The file does not look like an archive.
    CheckFile,
    /// Raise one of these limits on archives; without names, the one that the message names.
    RaiseLimits(&'static [&'static str]),
    /// Accept archives that are not snapshots.
    AllowAnyLayout,
    /// The archive is damaged, or its index is.
    IgnoreIndex,
    /// Make the index again, or ignore it.
    RemakeIndex,
    /// Name the directory that holds the archives.
    NameSnapshots,
    /// Name an accounts path.
    NameAccounts,
    /// Give a destination that is absent or empty.
    EmptyDestination,
    /// Give a name that is free, or allow replacing.
    FreeName,
    /// Start over without resuming.
    StartOver,
    /// Stop the validator, or prepare beside it.
    StopValidator,
    /// Wait for the other process, or use another destination.
    WaitOrMove,
    /// Use an I/O engine that works here.
    OtherEngine,
    /// Use plain threads as the I/O engine.
    ThreadsEngine,
    /// Let direct I/O fall back to the page cache.
    BufferedIo,
    /// Free memory, or use less.
    LessMemory,
    /// Use more memory.
    MoreMemory {
        /// Bytes that suffice.
        bytes: u64,
    },
    /// Raise the limit on the user's processes and threads.
    MoreThreads,
    /// Free space or inodes on the destination's file system.
    MakeRoom {
        /// Whether inodes are short, and not bytes.
        inodes: bool,
        /// Whether the run had begun to write.
        unpacking: bool,
    },
    /// The file system is full, or has no inodes left.
    DiskFull,
    /// The disk quota is used up.
    Quota,
    /// Raise the limit on open files.
    MoreOpenFiles,
    /// Raise the limit on file sizes.
    LargerFiles,
    /// Check owner and permissions.
    Permissions,
    /// The file system is mounted read-only.
    ReadOnlyMount,
    /// The disk reports errors.
    KernelLog,
    /// A sentence that names no option.
    Advice(String),
    /// A sentence about an option; the front end's name replaces `{}`. It is not given if the
    /// front end has no such option.
    Set(Knob, &'static str),
}

impl Remedy {
    /// Returns a remedy that names no option.
    pub fn advice(text: impl Into<String>) -> Self {
        Self::Advice(text.into())
    }

    /// Returns the remedy for an error number, if one is known.
    pub fn of_errno(errno: Errno) -> Option<Self> {
        Some(match errno {
            Errno::NOSPC => Self::DiskFull,
            Errno::DQUOT => Self::Quota,
            Errno::MFILE => Self::MoreOpenFiles,
            Errno::FBIG => Self::LargerFiles,
            Errno::ACCESS | Errno::PERM => Self::Permissions,
            Errno::ROFS => Self::ReadOnlyMount,
            Errno::IO => Self::KernelLog,
            _ => return None,
        })
    }

    /// Returns the remedy for an error of the operating system, if one is known.
    pub fn of_io_error(error: &std::io::Error) -> Option<Self> {
        Errno::from_io_error(error).and_then(Self::of_errno)
    }

    /// Puts the remedy into words with a front end's names. `None` if nothing in it applies to that
    /// front end.
    pub fn words(&self, names: &dyn Vocabulary) -> Option<String> {
        let name = |knob| names.name(knob);
        // A sentence with an addition that needs a knob.
        let also = |sentence: &str, knob, addition: &dyn Fn(String) -> String| {
            let addition = name(knob).map_or_else(String::new, |name| addition(name));
            Some(format!("{sentence}{addition}"))
        };
        match self {
            Self::FetchWhole => Some(
                "the archive is incomplete: compare its size with the original's and fetch it again"
                    .to_owned(),
            ),
            Self::FetchAgain => Some("the archive is damaged: fetch it again".to_owned()),
            Self::FetchOther => {
                Some("this is not the archive that the digest belongs to: fetch it again".to_owned())
            }
            Self::WaitForDownload => Some("wait until the download is complete".to_owned()),
            Self::CheckFile => Some(
                "snapshot archives end in .tar.zst or .tar.lz4: is this the right file?".to_owned(),
            ),
            Self::RaiseLimits(limits) => {
                let named = match limits {
                    [] => "the limit named in brackets".to_owned(),
                    limits => limits.join(" or "),
                };
                also(&format!("if you trust the archive, raise {named}"), Knob::Limits, &|name| {
                    format!(" ({name})")
                })
            }
            Self::AllowAnyLayout => name(Knob::AnyLayout)
                .map(|name| format!("if this tar is not a validator's snapshot, use {name}")),
            Self::IgnoreIndex => also(
                "the archive is damaged, or its index belongs to another archive",
                Knob::NoIndex,
                &|name| format!(": try {name}"),
            ),
            Self::RemakeIndex => {
                also("make the index again", Knob::MakeIndex, &|name| format!(" ({name})")).map(
                    |text| match name(Knob::NoIndex) {
                        Some(name) => format!("{text}, or ignore it ({name})"),
                        None => text,
                    },
                )
            }
            Self::NameSnapshots => {
                also("give the directory that holds the archives", Knob::Snapshots, &|name| {
                    format!(": the validator's {name}, or its ledger")
                })
            }
            Self::NameAccounts => {
                also("give an accounts path", Knob::Accounts, &|name| format!(": {name}"))
            }
            Self::EmptyDestination => {
                Some("give a directory that does not exist yet, or an empty one".to_owned())
            }
            Self::FreeName => also("give another name", Knob::Replace, &|name| {
                format!(", or replace the existing file ({name})")
            }),
            Self::StartOver => {
                also("the files left there are removed when unpacking starts over", Knob::Resume, {
                    &|name| format!(": run again without {name}")
                })
            }
            Self::StopValidator => {
                also("stop it first (agave-validator exit)", Knob::Beside, &|name| {
                    format!(", or prepare a state beside it ({name})")
                })
            }
            Self::WaitOrMove => {
                Some("wait until the other process ends, or use another directory".to_owned())
            }
            Self::OtherEngine => name(Knob::IoEngine)
                .map(|name| format!("set {name} to auto or threads: the files are the same")),
            Self::ThreadsEngine => {
                name(Knob::IoEngine).map(|name| format!("set {name} to threads: the files are the same"))
            }
            Self::BufferedIo => name(Knob::DirectIo)
                .map(|name| format!("set {name} to auto, which falls back to the page cache")),
            Self::LessMemory => {
                also("free memory", Knob::MemoryBudget, &|name| format!(", or lower {name}"))
            }
            Self::MoreMemory { bytes } => name(Knob::MemoryBudget)
                .map(|name| format!("set {name} to at least {bytes} bytes")),
            Self::MoreThreads => {
                Some("raise the limit on processes and threads of this user (ulimit -u, TasksMax=)".to_owned())
            }
            Self::MakeRoom { inodes, unpacking } => self.room(*inodes, *unpacking, names),
            Self::DiskFull => Some(
                "free space (or inodes: see df -i) on the destination's file system".to_owned(),
            ),
            Self::Quota => Some("free space, or raise this user's disk quota".to_owned()),
            Self::MoreOpenFiles => {
                Some("raise the limit on open files (ulimit -n, LimitNOFILE=)".to_owned())
            }
            Self::LargerFiles => {
                Some("raise the limit on file sizes (ulimit -f, LimitFSIZE=)".to_owned())
            }
            Self::Permissions => Some("check the owner and permissions of the path".to_owned()),
            Self::ReadOnlyMount => Some("the file system is mounted read-only".to_owned()),
            Self::KernelLog => Some("the disk reports errors: see the kernel log (dmesg)".to_owned()),
            Self::Advice(text) => Some(text.clone()),
            Self::Set(knob, sentence) => name(*knob).map(|name| sentence.replace("{}", &name)),
        }
    }

    fn room(&self, inodes: bool, unpacking: bool, names: &dyn Vocabulary) -> Option<String> {
        let first = match (inodes, unpacking) {
            (false, false) => "free space there, or unpack to a larger file system",
            (true, false) => {
                "remove files there, or unpack to a file system made with more inodes (see df -i)"
            }
            (false, true) => "free space there and unpack again",
            (true, true) => "remove files there and unpack again (see df -i)",
        };
        let goes_on =
            if unpacking { "goes on until nothing is left" } else { "unpacks all the same" };
        let after = names.name(Knob::NoPreflight);
        let after = after.map_or_else(String::new, |name| format!("; {name} {goes_on}"));
        Some(format!("{first}{after}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Flags(&'static [(Knob, &'static str)]);

    impl Vocabulary for Flags {
        fn name(&self, knob: Knob) -> Option<String> {
            self.0.iter().find(|(known, _)| *known == knob).map(|(_, name)| (*name).to_owned())
        }
    }

    #[test]
    fn an_option_is_named_only_where_it_exists() {
        let flags =
            Flags(&[(Knob::NoPreflight, "--no-preflight"), (Knob::AnyLayout, "--layout any")]);
        let room = Remedy::MakeRoom { inodes: false, unpacking: false };
        assert!(room.words(&flags).unwrap().ends_with("; --no-preflight unpacks all the same"));
        assert!(!room.words(&Flags(&[])).unwrap().contains("preflight"));
        assert!(Remedy::AllowAnyLayout.words(&flags).unwrap().contains("--layout any"));
        assert_eq!(Remedy::AllowAnyLayout.words(&Flags(&[])), None);
        let set = Remedy::Set(Knob::Newest, "go without {}");
        assert_eq!(set.words(&flags), None);
        assert_eq!(
            set.words(&Flags(&[(Knob::Newest, "--newest")])).unwrap(),
            "go without --newest"
        );
    }
}

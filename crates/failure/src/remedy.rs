//! Remedies, and their wording.

use std::path::Path;

use rustix::io::Errno;

/// Option that the operator can set. The [`Vocabulary`] of a front end gives it a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Knob {
    /// The file or section that holds the limits on archives.
    Limits,
    /// Permission for tar archives that are not snapshots.
    AnyLayout,
    /// Option to ignore the archive's index.
    NoIndex,
    /// Command that makes the archive's index.
    MakeIndex,
    /// The I/O engine.
    IoEngine,
    /// Use of direct I/O.
    DirectIo,
    /// The memory budget.
    MemoryBudget,
    /// The number of decoding threads.
    DecodeThreads,
    /// Option to skip the check for free space.
    NoPreflight,
    /// The free space to leave to other processes.
    MinFree,
    /// Option to resume an interrupted run.
    Resume,
    /// Option to prepare a state beside a running validator.
    Beside,
    /// The directory with the snapshot archives.
    Snapshots,
    /// The accounts paths.
    Accounts,
    /// Permission to replace existing output.
    Replace,
    /// The output directory or file.
    Output,
    /// The size of compressed frames.
    FrameSize,
    /// Option to write a seek table.
    SeekTable,
    /// Option to list only the newest version of each account.
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

/// Remedy for a failure. [`Remedy::words`] turns it into text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Compare the size of the archive with the original, and fetch it again.
    FetchWhole,
    /// Fetch the damaged archive again.
    FetchAgain,
    /// Fetch the archive that the digest belongs to.
    FetchOther,
    /// Fetch an archive from elsewhere, because the content of this one is not what its name says.
    FetchElsewhere,
    /// Wait until the file is complete.
    WaitForDownload,
    /// Check that the file is an archive.
    CheckFile,
    /// Raise one of these limits on archives; if empty, the limit that the message names.
    RaiseLimits(&'static [&'static str]),
    /// Accept archives that are not snapshots.
    AllowAnyLayout,
    /// Ignore the index, which may belong to another archive.
    IgnoreIndex,
    /// Make the index again, or ignore it.
    RemakeIndex,
    /// Specify the directory that holds the archives.
    NameSnapshots,
    /// Specify an accounts path.
    NameAccounts,
    /// Specify a destination that is absent or empty.
    EmptyDestination,
    /// Specify an unused name, or permit replacement.
    FreeName,
    /// Start over without resuming.
    StartOver,
    /// Stop the validator, or prepare beside it.
    StopValidator,
    /// Wait for the other process, or use another destination.
    WaitOrMove,
    /// Use an I/O engine that works here.
    OtherEngine,
    /// Use threads as the I/O engine.
    ThreadsEngine,
    /// Let direct I/O fall back to the page cache.
    BufferedIo,
    /// Free memory, or use less.
    LessMemory,
    /// Use more memory.
    MoreMemory {
        /// Sufficient number of bytes.
        bytes: u64,
    },
    /// Raise the limit on the user's processes and threads.
    MoreThreads,
    /// Free space or inodes on the destination's file system.
    MakeRoom {
        /// Whether inodes are missing, and not bytes.
        inodes: bool,
        /// Whether the run had begun writing.
        unpacking: bool,
    },
    /// Free space on the destination's file system, or leave less of it to other processes.
    LowerMinFree {
        /// Whether the run had begun writing.
        unpacking: bool,
    },
    /// The file system is full, or has no inodes left.
    DiskFull,
    /// Raise the disk quota.
    Quota,
    /// Raise the limit on open files.
    MoreOpenFiles,
    /// Raise the limit on file sizes.
    LargerFiles,
    /// Check owner and permissions.
    Permissions,
    /// Use a file system that is not mounted read-only.
    ReadOnlyMount,
    /// Look for disk errors in the kernel log.
    KernelLog,
    /// A sentence that names no option.
    Advice(String),
    /// A sentence about an option, whose name in the front end replaces `{}`. A front end without
    /// this option gives no hint.
    Set(Knob, &'static str),
}

impl Remedy {
    /// Returns a remedy that names no option.
    pub fn advice(text: impl Into<String>) -> Self {
        Self::Advice(text.into())
    }

    /// Returns the remedy for a directory that does not exist, and that is not made by itself.
    pub fn make_directory(path: &Path) -> Self {
        Self::Advice(format!("make it first: mkdir -p {}", path.display()))
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
            Errno::NOENT | Errno::NOTDIR => Self::advice(
                "check the spelling of the path, and whether its file system is mounted",
            ),
            _ => return None,
        })
    }

    /// Returns the remedy for an error of the operating system, if one is known.
    pub fn of_io_error(error: &std::io::Error) -> Option<Self> {
        Errno::from_io_error(error).and_then(Self::of_errno)
    }

    /// Returns the text of the remedy with a front end's names; `None` if it does not apply to that
    /// front end.
    #[allow(clippy::too_many_lines, reason = "a sentence for each remedy")]
    pub fn words(&self, names: &dyn Vocabulary) -> Option<String> {
        let name = |knob| names.name(knob);
        let say = |text: &str| Some(text.to_owned());
        // A sentence, with an addition if the front end has the option.
        let also = |sentence: &str, knob, addition: &dyn Fn(String) -> String| {
            let addition = name(knob).map_or_else(String::new, addition);
            Some(format!("{sentence}{addition}"))
        };
        match self {
            Self::FetchWhole => say(
                "the archive is incomplete: compare its size with the original's and fetch it again",
            ),
            Self::FetchAgain => say("the archive is damaged: fetch it again"),
            Self::FetchOther => {
                say("this is not the archive that the digest belongs to: fetch it again")
            }
            Self::FetchElsewhere => {
                say("the content is not what the name says: fetch the archive from elsewhere")
            }
            Self::WaitForDownload => say("wait until the download is complete"),
            Self::CheckFile => say(
                "look at the file (head -c 200): a failed download may have saved an error page \
                 under the archive's name",
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
                say("give a directory that does not exist yet, or an empty one")
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
            Self::WaitOrMove => say("wait until the other process ends, or use another directory"),
            Self::OtherEngine => name(Knob::IoEngine)
                .map(|name| format!("set {name} to auto or threads: the files are the same")),
            Self::ThreadsEngine => {
                let text = |name| format!("set {name} to threads: the files are the same");
                name(Knob::IoEngine).map(text)
            }
            Self::BufferedIo => name(Knob::DirectIo)
                .map(|name| format!("set {name} to auto, which falls back to the page cache")),
            Self::LessMemory => {
                also("free memory", Knob::MemoryBudget, &|name| format!(", or lower {name}"))
            }
            Self::MoreMemory { bytes } => {
                name(Knob::MemoryBudget).map(|name| format!("set {name} to at least {bytes} bytes"))
            }
            Self::MoreThreads => {
                say("raise the limit on processes and threads of this user (ulimit -u, TasksMax=)")
            }
            Self::MakeRoom { inodes, unpacking } => Some(make_room(*inodes, *unpacking, names)),
            Self::LowerMinFree { unpacking } => Some(lower_min_free(*unpacking, names)),
            Self::DiskFull => {
                say("free space (or inodes: see df -i) on the destination's file system")
            }
            Self::Quota => say("free space, or raise this user's disk quota"),
            Self::MoreOpenFiles => say("raise the limit on open files (ulimit -n, LimitNOFILE=)"),
            Self::LargerFiles => say("raise the limit on file sizes (ulimit -f, LimitFSIZE=)"),
            Self::Permissions => {
                say("check the owner and permissions of the path and of the directories above it")
            }
            Self::ReadOnlyMount => {
                say("the file system is mounted read-only: by /etc/fstab, by a systemd unit \
                 (ReadWritePaths=), or by the kernel after a disk error (dmesg)")
            }
            Self::KernelLog => say("the disk reports errors: see the kernel log (dmesg)"),
            Self::Advice(text) => Some(text.clone()),
            Self::Set(knob, sentence) => name(*knob).map(|name| sentence.replace("{}", &name)),
        }
    }
}

/// Returns the text of [`Remedy::MakeRoom`].
fn make_room(inodes: bool, unpacking: bool, names: &dyn Vocabulary) -> String {
    let first = match (inodes, unpacking) {
        (false, false) => "free space there, or unpack to a larger file system",
        (true, false) => {
            "remove files there, or unpack to a file system made with more inodes (see df -i)"
        }
        (false, true) => "free space there and unpack again",
        (true, true) => "remove files there and unpack again (see df -i)",
    };
    let after = names.name(Knob::NoPreflight);
    let after = after.map_or_else(String::new, |name| format!("; {name} skips this check"));
    format!("{first}{after}")
}

/// Returns the text of [`Remedy::LowerMinFree`].
fn lower_min_free(unpacking: bool, names: &dyn Vocabulary) -> String {
    let again = if unpacking { " and unpack again" } else { "" };
    let less = names.name(Knob::MinFree);
    let less =
        less.map_or_else(String::new, |name| format!(", or leave less to other programs ({name})"));
    format!("free space there{again}{less}")
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
        assert!(room.words(&flags).unwrap().ends_with("; --no-preflight skips this check"));
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

//! The sandbox: what is open stays usable, and what is being built can be built; nothing else of the
//! file system can be reached any more.
//!
//! Decoders and parsers see hostile bytes. Before the first of them is read, the thread that will
//! start all others gives up what it does not need, for good (Landlock, Linux 5.19 and later):
//!
//! | where | what is left |
//! |---|---|
//! | staging directories | making, writing, moving and removing files and directories; not reading files |
//! | staging directories that an interrupted run has left, or whose files are handed over open | the same, and reading files |
//! | the directories that hold them | making, renaming and removing directories, which is what publishing does |
//! | destinations that are filled in place | as in staging directories |
//! | anywhere else | nothing: no opening, no creating, no removing, no executing |
//! | beyond files | no TCP connections, no device control, no signals and abstract sockets to others |
//!
//! It also gains no privileges by executing anything (`no_new_privs`). Rings are restricted by
//! themselves, see the crate ring.
//!
//! What it does not do. Landlock confines a thread and those that it starts later, so in a process
//! with other threads it stops whoever can make the parser do things, but not one who has taken over
//! the parser's memory and reaches for those other threads through it. It does not hide metadata
//! (`stat` works everywhere), does not close what is open, does not filter system calls, and knows no
//! UDP. What publishing needs is left to all: below the directory that holds a destination,
//! directories can be made, renamed in their place and, if empty, removed. And a destination can be
//! filled until its disk is full.

use std::{fmt, os::fd::BorrowedFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, make_bitflags,
};
use serde::Serialize;

/// The ABI that is asked for: every restriction that was tried here. The kernel's may be older or
/// newer.
const ABI_WANTED: ABI = ABI::V6;

/// What each ABI since the second has added, and the kernel that brought it.
const ADDED_BY_ABI: [(i32, &str); 4] = [
    (3, "truncating files by name is not restricted (since Linux 6.2)"),
    (4, "TCP connections are not restricted (since Linux 6.7)"),
    (5, "control of devices is not restricted (since Linux 6.10)"),
    (6, "signals and abstract sockets are not restricted (since Linux 6.12)"),
];

/// Whether a run confines itself before it looks at the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// As far as the kernel can. What it cannot is named in the report and fails nothing.
    ///
    /// [`Unpacker::run`](crate::Unpacker::run) does its work on a thread of its own, which is
    /// confined with all that it starts; other threads of the process keep their rights. So it
    /// protects against archives that trick the unpacker into opening, creating or executing
    /// something, not against one that takes over the process's memory: for that, every thread
    /// must be confined ([`Unpacker::run_on_this_thread`](`Unpacker::run_on_this_thread`)).
    #[default]
    Auto,
    /// Not at all.
    Off,
}

/// What a directory is needed for after the confinement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Building a tree in it, and removing it.
    Build,
    /// The same, and reading what is in it: what an interrupted run has left, or files that are handed
    /// on open.
    Resume,
    /// Giving a directory in it another name.
    Publish,
}

impl Need {
    fn rights(self) -> BitFlags<AccessFs> {
        match self {
            // Refer: files are moved out of a staging directory into the destination around it, and
            // up when they are removed.
            Self::Build => make_bitflags!(AccessFs::{
                MakeReg | MakeDir | WriteFile | Truncate | RemoveFile | RemoveDir | ReadDir | Refer
            }),
            Self::Resume => Self::Build.rights() | AccessFs::ReadFile,
            Self::Publish => make_bitflags!(AccessFs::{ MakeDir | RemoveDir }),
        }
    }
}

/// How far a run was confined; a part of its report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SandboxReport {
    /// Whether it was wanted.
    pub wanted: bool,
    /// The kernel's version of Landlock, such as "abi 6"; `None` if it is not in force.
    pub landlock: Option<String>,
    /// Whether executing a program can no longer gain privileges.
    pub no_new_privs: bool,
    /// Whether every ring takes only the operations it is for; `None` if there is no ring.
    pub ring_restricted: Option<bool>,
    /// What was wanted and could not be had, in words.
    pub missing: Vec<String>,
}

impl SandboxReport {
    /// Adds what became of the rings.
    pub fn with_rings(mut self, rings: impl Iterator<Item = bool>) -> Self {
        self.ring_restricted = rings.reduce(|all, one| all && one);
        if self.wanted && self.ring_restricted == Some(false) {
            let reason = "rings are not restricted (since Linux 5.10)";
            self.missing.push(reason.to_owned());
        }
        self
    }

    fn without(mut self, missing: impl fmt::Display) -> Self {
        tracing::info!(%missing, "the sandbox is incomplete");
        self.missing.push(missing.to_string());
        self
    }
}

/// Finds out how far a run would be confined here, by confining a thread that ends at once.
pub fn survey_sandbox() -> SandboxReport {
    let thread = std::thread::Builder::new().name("unsnap-sandbox".to_owned());
    let confined =
        thread.spawn(|| confine(SandboxMode::Auto, &[])).ok().and_then(|t| t.join().ok());
    confined.unwrap_or_else(|| {
        let report = SandboxReport { wanted: true, ..SandboxReport::default() };
        report.without("not known: no thread could be started to try it")
    })
}

/// Confines the calling thread, and all threads that it will start, to these directories.
pub fn confine(mode: SandboxMode, places: &[(BorrowedFd<'_>, Need)]) -> SandboxReport {
    if mode == SandboxMode::Off {
        return SandboxReport::default();
    }
    // Whatever becomes of Landlock, which asks for it as well.
    let no_new_privs = rustix::thread::set_no_new_privs(true).is_ok();
    let mut report = SandboxReport { wanted: true, no_new_privs, ..SandboxReport::default() };
    if !no_new_privs {
        report = report.without("programs may gain privileges: the kernel refuses no_new_privs");
    }
    let status = match restrict(places) {
        Ok(status) => status,
        Err(error) => {
            return report.without(format_args!("files are not restricted: {}", causes(&error)));
        }
    };
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            kernel_abi.unwrap_or(effective_abi as i32)
        }
        LandlockStatus::NotEnabled => {
            return report.without("files are not restricted: Landlock is not enabled");
        }
        LandlockStatus::NotImplemented => return report.without(
            "files are not restricted: the kernel has no Landlock, or a seccomp filter hides it",
        ),
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        return report.without(
            "files are not restricted: this kernel's Landlock cannot move files between \
             directories (since Linux 5.19)",
        );
    }
    report.landlock = Some(format!("abi {abi}"));
    let missing = ADDED_BY_ABI.iter().filter(|(since, _)| abi < *since);
    missing.fold(report, |report, (_, missing)| report.without(missing))
}

fn restrict(places: &[(BorrowedFd<'_>, Need)]) -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        // Without this right (the first ABI) moving files is never allowed: then rather nothing.
        .set_compatibility(CompatLevel::SoftRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_WANTED))?
        .handle_access(AccessNet::from_all(ABI_WANTED))?
        .scope(Scope::from_all(ABI_WANTED))?
        .create()?;
    for (directory, need) in places {
        ruleset = ruleset.add_rule(PathBeneath::new(directory, need.rights()))?;
    }
    ruleset.restrict_self()
}

/// An error with what lies behind it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

//! The sandbox confines a run to its open descriptors and its staging directories.
//!
//! Decoders and parsers process hostile bytes. Before the first of these is read, the thread that
//! will start all others gives up all rights that it does not need, for good (Landlock, Linux 5.19
//! and later):
//!
//! | place | remaining rights |
//! |---|---|
//! | staging directories | making, writing, moving and removing files and directories; not reading files |
//! | staging directories of an interrupted run, or whose files are handed over open | the same, and reading files |
//! | the directories that hold them | making, renaming and removing directories, as publishing does |
//! | destinations that are filled in place | as in staging directories |
//! | a directory that keeps archives from the network | making, renaming and removing files |
//! | elsewhere | none: no opening, no creating, no removing, no executing |
//! | beyond files | no TCP connections, no device control, no signals or abstract sockets to other processes |
//!
//! `no_new_privs` also keeps the run from gaining privileges by executing programs. Rings are
//! restricted separately; see the crate ring.
//!
//! The sandbox has limits. Landlock confines a thread and those that it starts later. In a process
//! with other threads it stops an attacker who can make the parser perform operations, but not one
//! who has taken over the parser's memory and reaches the other threads through it. It does not
//! hide metadata (`stat` works everywhere), close open descriptors, filter system calls, or
//! restrict UDP. All threads keep the rights for publishing: below the directory that holds a
//! destination, directories can be made, renamed in place and, if empty, removed. A destination can
//! also be filled until its disk is full.

use std::{fmt, os::fd::BorrowedFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, make_bitflags,
};
use serde::Serialize;

/// Requested Landlock ABI, which covers every restriction that has been tested. The kernel's may be
/// older or newer.
const ABI_WANTED: ABI = ABI::V6;

/// Messages for restrictions that are missing before an ABI, with the kernel version that added it.
const ADDED_BY_ABI: [(i32, &str); 4] = [
    (3, "truncating files by name is not restricted (since Linux 6.2)"),
    (4, "TCP connections are not restricted (since Linux 6.7)"),
    (5, "control of devices is not restricted (since Linux 6.10)"),
    (6, "signals and abstract sockets are not restricted (since Linux 6.12)"),
];

/// Whether a run confines itself before it reads the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// Confines the run as far as the kernel can. The report lists missing restrictions; they are
    /// no error.
    ///
    /// By default, operations run on a new thread, which is confined together with all threads that
    /// it starts. Other threads of the process keep their rights. This protects against archives
    /// that trick the parser into opening, creating or executing something, but not against one
    /// that takes over the process's memory. For that, every thread must be confined: a program can
    /// run an operation on its only thread instead.
    #[default]
    Auto,
    /// Does not confine the run.
    Off,
}

/// Access to a directory that a confined run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Building a tree in it and removing the tree.
    Build,
    /// The same, and reading its files: those of an interrupted run, or files that are handed over
    /// open.
    Resume,
    /// Renaming a directory in it.
    Publish,
    /// Renaming and removing a file in it.
    Keep,
}

impl Need {
    fn rights(self) -> BitFlags<AccessFs> {
        match self {
            // Refer: publishing moves files from a staging directory into the destination around
            // it, and removal moves them up.
            Self::Build => make_bitflags!(AccessFs::{
                MakeReg | MakeDir | WriteFile | Truncate | RemoveFile | RemoveDir | ReadDir | Refer
            }),
            Self::Resume => Self::Build.rights() | AccessFs::ReadFile,
            Self::Publish => make_bitflags!(AccessFs::{ MakeDir | RemoveDir }),
            Self::Keep => make_bitflags!(AccessFs::{ MakeReg | RemoveFile }),
        }
    }
}

/// Confinement of a run; a part of its report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SandboxReport {
    /// Whether confinement was requested.
    pub wanted: bool,
    /// Landlock ABI of the kernel, such as "abi 6"; `None` if Landlock is not in force.
    pub landlock: Option<String>,
    /// Whether the run can gain no privileges by executing a program.
    pub no_new_privs: bool,
    /// Whether every ring is restricted to the operations that it needs; `None` without rings.
    pub ring_restricted: Option<bool>,
    /// Missing restrictions, as messages.
    pub missing: Vec<String>,
}

impl SandboxReport {
    /// Adds whether each ring is restricted.
    #[must_use]
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

/// Determines how far a run would be confined on this machine, by confining a thread that ends at
/// once.
pub fn survey_sandbox() -> SandboxReport {
    let thread = std::thread::Builder::new().name("unsnap-sandbox".to_owned());
    let confined =
        thread.spawn(|| confine(SandboxMode::Auto, &[])).ok().and_then(|t| t.join().ok());
    confined.unwrap_or_else(|| {
        let report = SandboxReport { wanted: true, ..SandboxReport::default() };
        report.without("not known, since no thread could be started to try it")
    })
}

/// Confines the calling thread, and all threads that it will start, to the directories in `places`.
pub fn confine(mode: SandboxMode, places: &[(BorrowedFd<'_>, Need)]) -> SandboxReport {
    if mode == SandboxMode::Off {
        return SandboxReport::default();
    }
    // Set even if Landlock, which requires it, is not available.
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

/// Enforces a Landlock ruleset on the calling thread.
fn restrict(places: &[(BorrowedFd<'_>, Need)]) -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        // Without this right (in the first ABI) no file can be moved, so nothing is restricted
        // then.
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

/// Returns an error with its causes.
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

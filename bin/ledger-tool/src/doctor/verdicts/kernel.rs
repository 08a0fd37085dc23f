//! Checks of the kernel, and of the features that it allows this process to use.

use crate::doctor::{
    check::{Check, Verdict},
    facts::{Confinement, Kernel, Uring},
};

/// The first kernel with openat2(2), which unsnap needs to create files.
const RELEASE_MIN: (u32, u32) = (5, 6);

/// The first kernel whose syncfs(2) reports failed write-back.
const RELEASE_SYNCFS: (u32, u32) = (5, 8);

/// Features of later kernels that unsnap uses.
const FEATURES: [((u32, u32), &str); 4] = [
    ((5, 19), "the sandbox (Landlock, 5.19)"),
    ((6, 1), "the alignment of direct I/O (STATX_DIOALIGN, 6.1)"),
    ((6, 5), "reads of cached parts from the page cache (cachestat, 6.5)"),
    ((6, 12), "the full sandbox (Landlock ABI 6, 6.12)"),
];

pub fn release(kernel: &Kernel) -> Check {
    let check = Check::ok("kernel", format!("Linux {}", kernel.release));
    let Some(version) = kernel.version else {
        return check.but(Verdict::Note, "the version is unknown");
    };
    let upgrade = "use Linux 6.12 or later";
    if version < RELEASE_MIN {
        let why = "openat2(2) is missing (before 5.6): unsnap cannot unpack anything";
        return check.but(Verdict::Problem, why).remedy(upgrade);
    }
    if version < RELEASE_SYNCFS {
        let why = "syncfs(2) hides I/O errors (before 5.8): data that unsnap reports as durable \
                   might not be";
        return check.but(Verdict::Problem, why).remedy(upgrade);
    }
    let missing: Vec<&str> =
        FEATURES.iter().filter(|(since, _)| version < *since).map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return check;
    }
    check.but(Verdict::Note, format!("missing: {}", missing.join("; "))).remedy(upgrade)
}

pub fn uring(uring: &Uring) -> Check {
    const CONSEQUENCE: &str = "unsnap uses more threads, which block in system calls, instead; \
                               with --io-engine uring every run fails";
    if let Some(errno) = &uring.refused {
        let reason = uring.reason.as_deref().unwrap_or("see io_uring_setup(2)");
        let check = Check::ok("io_uring", format!("refused: {errno}"));
        let remedy = match uring.disabled {
            Some(2) => "sysctl kernel.io_uring_disabled=0 (now 2: disabled for all)".to_owned(),
            Some(1) => "sysctl kernel.io_uring_disabled=0 (now 1), or join the group that \
                        kernel.io_uring_group names, or run with CAP_SYS_ADMIN"
                .to_owned(),
            _ if reason.contains("memory") => "LimitMEMLOCK=2G (or ulimit -l)".to_owned(),
            _ => {
                "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp filter: \
                  SystemCallFilter=@aio in a unit, --security-opt seccomp=PROFILE with Docker"
                    .to_owned()
            }
        };
        let why = format!("{reason}; {CONSEQUENCE}");
        return check.but(Verdict::Warning, why).remedy(remedy);
    }
    let found = format!("works; features {}", uring.features.join(" "));
    let check = Check::ok("io_uring", found);
    if !uring.missing_operations.is_empty() {
        let missing = uring.missing_operations.join(", ");
        let why = format!("missing operations: {missing}; {CONSEQUENCE}");
        return check.but(Verdict::Warning, why).remedy("use Linux 5.6 or later");
    }
    if !uring.registers {
        let why = "buffers cannot be registered: the kernel pins memory at each read and write";
        let remedy = "LimitMEMLOCK=2G (or ulimit -l)";
        return check.but(Verdict::Warning, why).remedy(remedy);
    }
    check
}

pub fn ring_restrictions(uring: &Uring) -> Check {
    let id = "ring restrictions";
    if uring.refused.is_some() {
        return Check::ok(id, "not needed without io_uring");
    }
    if uring.restricts {
        return Check::ok(id, "rings can be restricted to the operations that unsnap uses");
    }
    let why = "an exploited parser could submit any operation to the ring";
    Check::ok(id, "refused")
        .but(Verdict::Warning, why)
        .remedy("use Linux 5.10 or later, or --io-engine threads")
}

pub fn sandbox(confinement: &Confinement) -> Check {
    let found = confinement.landlock.as_deref().unwrap_or("none");
    let check = Check::ok("landlock", found);
    if confinement.sandbox_missing.is_empty() {
        return check;
    }
    let missing = confinement.sandbox_missing.join("; ");
    if confinement.landlock.is_some() {
        return check.but(Verdict::Note, missing).remedy("use Linux 6.12 or later");
    }
    let why = format!("{missing}: an exploited parser has all rights of its user");
    check.but(Verdict::Warning, why).remedy(
        "boot with lsm=landlock,… on Linux 5.19 or later, and allow landlock_create_ruleset, \
         landlock_add_rule and landlock_restrict_self in the seccomp filter",
    )
}

pub fn seccomp(confinement: &Confinement) -> Check {
    let privileges = match confinement.no_new_privs {
        Some(true) => "; no new privileges",
        Some(false) => "; new privileges possible (unsnap forbids them before it reads an archive)",
        None => "",
    };
    let mode = match confinement.seccomp_mode {
        Some(0) => "no filter",
        Some(1) => "strict",
        Some(2) => "a filter is active",
        _ => "unknown",
    };
    let check = Check::ok("seccomp", format!("{mode}{privileges}"));
    match confinement.seccomp_mode {
        Some(2) => check.but(
            Verdict::Note,
            "unsnap cannot use the system calls that it refuses: see the other checks",
        ),
        _ => check,
    }
}

pub fn container(confinement: &Confinement) -> Check {
    let machine = confinement.virtual_machine.as_ref();
    let machine =
        machine.map_or("no virtual machine".to_owned(), |name| format!("virtual machine: {name}"));
    let Some(name) = &confinement.container else {
        return Check::ok("container", format!("none; {machine}"));
    };
    let why = "its limits, seccomp filter and root file system apply to unsnap";
    Check::ok("container", format!("{name}; {machine}"))
        .but(Verdict::Note, why)
        .remedy("put archives and destinations on volumes of the host")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(release: &str, version: (u32, u32)) -> Check {
        super::release(&Kernel { release: release.to_owned(), version: Some(version) })
    }

    #[test]
    fn old_kernels_are_unsafe_and_new_ones_complete() {
        assert_eq!(judged("6.18.1", (6, 18)).verdict, Verdict::Ok);
        assert_eq!(judged("5.4.0", (5, 4)).verdict, Verdict::Problem);
        let syncfs = judged("5.7.0", (5, 7));
        assert_eq!(syncfs.verdict, Verdict::Problem);
        assert!(syncfs.consequence.unwrap().contains("syncfs"));
        let old = judged("6.1.0", (6, 1));
        assert_eq!(old.verdict, Verdict::Note);
        let missing = old.consequence.unwrap();
        assert!(missing.contains("cachestat") && !missing.contains("DIOALIGN"), "{missing}");
        assert_eq!(release(&Kernel::default()).verdict, Verdict::Note);
    }

    fn refused(errno: &str, reason: &str, disabled: Option<u32>) -> Check {
        uring(&Uring {
            refused: Some(errno.to_owned()),
            reason: Some(reason.to_owned()),
            disabled,
            ..Uring::default()
        })
    }

    #[test]
    fn each_refusal_has_its_remedy() {
        for (disabled, reason, remedy) in [
            (Some(2), "sysctl or seccomp", "disabled for all"),
            (Some(1), "sysctl or seccomp", "io_uring_group"),
            (Some(0), "sysctl or seccomp", "SystemCallFilter=@aio"),
            (None, "sysctl or seccomp", "SystemCallFilter=@aio"),
            (None, "the limit of locked memory is too low", "LimitMEMLOCK"),
        ] {
            let check = refused("EPERM", reason, disabled);
            assert_eq!(check.verdict, Verdict::Warning);
            assert!(check.remedy.as_ref().unwrap().contains(remedy), "{check:?}");
        }
    }

    #[test]
    fn a_ring_is_judged_by_what_it_lacks() {
        let whole = Uring { restricts: true, registers: true, ..Uring::default() };
        assert_eq!(uring(&whole).verdict, Verdict::Ok);
        assert_eq!(ring_restrictions(&whole).verdict, Verdict::Ok);
        let unregistered = Uring { registers: false, ..whole.clone() };
        assert_eq!(uring(&unregistered).verdict, Verdict::Warning);
        let lacking = Uring { missing_operations: vec!["OPENAT2"], ..whole.clone() };
        assert!(uring(&lacking).consequence.unwrap().contains("OPENAT2"));
        let open = Uring { restricts: false, ..whole };
        assert_eq!(ring_restrictions(&open).verdict, Verdict::Warning);
    }

    #[test]
    fn an_incomplete_sandbox_is_a_note_and_a_missing_one_a_warning() {
        let mut facts = Confinement { landlock: Some("abi 6".to_owned()), ..Default::default() };
        assert_eq!(sandbox(&facts).verdict, Verdict::Ok);
        facts.sandbox_missing.push("signals are not restricted".to_owned());
        assert_eq!(sandbox(&facts).verdict, Verdict::Note);
        facts.landlock = None;
        assert_eq!(sandbox(&facts).verdict, Verdict::Warning);
    }

    #[test]
    fn containers_and_filters_are_noted() {
        let mut facts = Confinement { seccomp_mode: Some(0), ..Default::default() };
        assert_eq!(
            (seccomp(&facts).verdict, container(&facts).verdict),
            (Verdict::Ok, Verdict::Ok)
        );
        facts.seccomp_mode = Some(2);
        facts.container = Some("docker".to_owned());
        let verdicts = (seccomp(&facts).verdict, container(&facts).verdict);
        assert_eq!(verdicts, (Verdict::Note, Verdict::Note));
    }
}

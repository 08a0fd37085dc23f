//! Probing the machine. Judges nothing, and writes nothing but unnamed files in the given directories.

mod disk;
mod place;
mod process;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

use unsnap_cli::machine::{
    cgroup,
    proc_files::{self, Mount, field, number, read, selected},
};
use unsnap_pass::{Resources, survey_sandbox};
use unsnap_ring::survey_uring;

use super::facts::{Confinement, Facts, Kernel, Memory, Processor, Sysctls, Uring};

use place::Unfit;

/// Returns all facts about this process, the machine and the paths.
pub fn facts(paths: &[PathBuf]) -> Result<Facts, Unfit> {
    let mounts = proc_files::mounts(&read("/proc/self/mountinfo"));
    let places = paths.iter().map(|path| place::probe(path, &mounts));
    Ok(Facts {
        // First, so that a missing path is reported at once.
        places: places.collect::<Result<_, _>>()?,
        kernel: kernel(),
        uring: uring(),
        confinement: confinement(&mounts),
        processor: processor(),
        memory: memory(),
        limits: process::limits(),
        cgroup: cgroup::own(&mounts),
        sysctls: Sysctls {
            max_map_count: number(&read("/proc/sys/vm/max_map_count")),
            nr_open: number(&read("/proc/sys/fs/nr_open")),
        },
    })
}

/// Returns the type of the file system that holds a path; "unknown" if the kernel does not list it.
pub fn file_system_of(path: &Path) -> String {
    let mounts = proc_files::mounts(&read("/proc/self/mountinfo"));
    let whole = fs::canonicalize(path).unwrap_or_default();
    let mount = place::mount_of(&whole, &mounts);
    mount.map_or_else(|| "unknown".to_owned(), |mount| mount.file_system.clone())
}

fn kernel() -> Kernel {
    let release = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let version = proc_files::version(&release);
    Kernel { release, version }
}

fn uring() -> Uring {
    let disabled = number(&read("/proc/sys/kernel/io_uring_disabled"));
    match survey_uring() {
        Err(refused) => Uring {
            refused: Some(refused.errno.to_string()),
            reason: Some(refused.reason().to_owned()),
            disabled,
            ..Uring::default()
        },
        Ok(survey) => Uring {
            disabled,
            features: survey.features,
            missing_operations: survey.missing_operations,
            restricts: survey.restricts,
            registers: survey.registers,
            ..Uring::default()
        },
    }
}

fn confinement(mounts: &[Mount]) -> Confinement {
    let sandbox = survey_sandbox();
    let status = read("/proc/self/status");
    Confinement {
        landlock: sandbox.landlock,
        sandbox_missing: sandbox.missing,
        seccomp_mode: field(&status, "Seccomp").and_then(|mode| mode.parse().ok()),
        no_new_privs: field(&status, "NoNewPrivs").map(|set| set == "1"),
        container: process::container(mounts),
        virtual_machine: process::virtual_machine(),
    }
}

fn processor() -> Processor {
    let information = read("/proc/cpuinfo");
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    Processor {
        model: field(&information, "model name").map(str::to_owned),
        features: process::vector_features(),
        online: proc_files::list_length(&read("/sys/devices/system/cpu/online")),
        allowed: process::allowed_processors(),
        usable: thread::available_parallelism().map_or(1, usize::from),
        governor: Some(governor.trim().to_owned()).filter(|governor| !governor.is_empty()),
    }
}

fn memory() -> Memory {
    let information = read("/proc/meminfo");
    let value = |name| field(&information, name).map_or(0, proc_files::kib_or_count);
    Memory {
        total_bytes: value("MemTotal"),
        available_bytes: value("MemAvailable"),
        needed_bytes: Resources::default().memory_bytes(),
        transparent: selected(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
        huge_free: value("HugePages_Free"),
        huge_total: value("HugePages_Total"),
        huge_page_bytes: value("Hugepagesize"),
    }
}

//! Limits and surroundings of this process.

use std::{fs, path::Path};

use rustix::{
    process::{Resource, getrlimit},
    thread::sched_getaffinity,
};

use crate::doctor::facts::Limits;
use unsnap_cli::machine::proc_files::{Mount, field, read};

/// Number of CAP_IPC_LOCK, see linux/capability.h.
const CAP_IPC_LOCK: u32 = 14;

pub fn limits() -> Limits {
    let open_files = getrlimit(Resource::Nofile);
    let status = read("/proc/self/status");
    let effective = field(&status, "CapEff").and_then(|set| u64::from_str_radix(set, 16).ok());
    Limits {
        locked_bytes: getrlimit(Resource::Memlock).current,
        may_lock: effective.is_some_and(|set| set >> CAP_IPC_LOCK & 1 == 1),
        open_files: open_files.current,
        open_files_hard: open_files.maximum,
        file_bytes: getrlimit(Resource::Fsize).current,
    }
}

pub fn allowed_processors() -> usize {
    let online = || std::thread::available_parallelism().map_or(1, usize::from);
    sched_getaffinity(None).map_or_else(|_| online(), |set| set.count() as usize)
}

/// Returns the processor's features for which the lattice hash and zstd have code.
pub fn vector_features() -> Vec<&'static str> {
    let mut features = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let known = [
            ("sse4.2", std::arch::is_x86_feature_detected!("sse4.2")),
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
            ("avx512vl", std::arch::is_x86_feature_detected!("avx512vl")),
        ];
        features.extend(known.into_iter().filter_map(|(name, has)| has.then_some(name)));
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        features.push("neon");
    }
    features
}

/// Returns the kind of container, found like systemd-detect-virt does, as far as files reveal it.
pub fn container(mounts: &[Mount]) -> Option<String> {
    let named = read("/run/systemd/container").trim().to_owned();
    if !named.is_empty() {
        return Some(named);
    }
    // The environment of the first process, which only its user may read.
    let environment = fs::read("/proc/1/environ").unwrap_or_default();
    let variable =
        environment.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(b"container="));
    if let Some(name) = variable.filter(|name| !name.is_empty()) {
        return Some(String::from_utf8_lossy(name).into_owned());
    }
    let files = [
        ("/run/.containerenv", "podman"),
        ("/.dockerenv", "docker"),
        ("/var/run/secrets/kubernetes.io", "kubernetes"),
    ];
    if let Some((_, name)) = files.into_iter().find(|(file, _)| Path::new(file).exists()) {
        return Some(name.to_owned());
    }
    let root = mounts.iter().rev().find(|mount| mount.point == "/")?;
    (root.file_system == "overlay").then(|| "unknown (its root is an overlay)".to_owned())
}

/// Returns the vendor of the virtual machine, or the type of the hypervisor; `None` on a physical
/// machine.
pub fn virtual_machine() -> Option<String> {
    let information = read("/proc/cpuinfo");
    let flags = field(&information, "flags")?;
    if !flags.split(' ').any(|flag| flag == "hypervisor") {
        return None;
    }
    let named = ["/sys/class/dmi/id/sys_vendor", "/sys/hypervisor/type"];
    let named = named.iter().map(|file| read(file).trim().to_owned());
    Some(named.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned()))
}

//! Checks of the process's limits and of its control groups.

use std::collections::BTreeSet;

use unsnap_cli::units::{number, size};

use crate::doctor::{
    check::{Check, Verdict},
    facts::{Cgroup, Facts, Limits},
};

/// Descriptors that a run can use: the files in flight of two creators for each of a few devices,
/// and some dozens for the rest. A guess on the safe side.
const OPEN_FILES_USEFUL: u64 = 512;

/// Descriptors below which a run may fail.
const OPEN_FILES_MIN: u64 = 64;

/// Limit that validators need (Agave's documentation: LimitNOFILE=1000000).
const OPEN_FILES_VALIDATOR: u64 = 1_000_000;

/// The largest storage that a validator opens (`append_vec.rs` of solana-accounts-db).
const STORAGE_BYTES_MAX: u64 = 16 << 30;

/// Size above all files seen in mainnet snapshots (a bank file has some hundred MB).
const FILE_BYTES_COMMON: u64 = 2 << 30;

/// Memory that a run needs besides its reservation: code, stacks, and pages of small files. A guess.
const MEMORY_BESIDE: u64 = 128 << 20;

pub fn locked_memory(facts: &Facts) -> Check {
    let id = "locked memory";
    let limits = &facts.limits;
    let Some(limit) = limits.locked_bytes else { return Check::ok(id, "no limit") };
    if limits.may_lock {
        let found = format!("limit {}, but this process is exempt", size(limit));
        return Check::ok(id, found);
    }
    // The reader's ring and one for each device. The kernel counts the memory once for each ring.
    let directories = facts.places.iter().filter(|place| place.is_directory);
    let devices: BTreeSet<u64> = directories.map(|place| place.device).collect();
    let rings = 1 + devices.len().max(1) as u64;
    let needed = rings * facts.memory.needed_bytes;
    let check = Check::ok(id, format!("limit {}", size(limit)));
    if limit >= needed {
        return check;
    }
    let why = format!(
        "{rings} rings would register {}: some buffers stay unregistered, and the kernel pins \
         memory at each read and write",
        size(needed)
    );
    let remedy = "LimitMEMLOCK=2000000000 in the unit (validators need it too), or ulimit -l";
    // Without io_uring no memory is registered.
    let verdict = if facts.uring.refused.is_some() { Verdict::Note } else { Verdict::Warning };
    check.but(verdict, why).remedy(remedy)
}

pub fn open_files(limits: &Limits) -> Check {
    let id = "open files";
    let Some(limit) = limits.open_files else { return Check::ok(id, "no limit") };
    let hard = limits.open_files_hard.map_or("none".to_owned(), number);
    let check = Check::ok(id, format!("limit {} (hard limit {hard})", number(limit)));
    let remedy = "LimitNOFILE=1000000 in the unit, or ulimit -n";
    if limit < OPEN_FILES_MIN {
        return check.but(Verdict::Problem, "too few: a run may fail").remedy(remedy);
    }
    if limit < OPEN_FILES_USEFUL {
        return check.but(Verdict::Warning, "unsnap writes fewer files at a time").remedy(remedy);
    }
    if limit < OPEN_FILES_VALIDATOR {
        let why = format!("enough for unsnap; a validator needs {}", number(OPEN_FILES_VALIDATOR));
        return check.but(Verdict::Note, why).remedy(remedy);
    }
    check
}

pub fn file_size(limits: &Limits) -> Check {
    let id = "file size";
    let Some(limit) = limits.file_bytes else { return Check::ok(id, "no limit") };
    let check = Check::ok(id, format!("limit {}", size(limit)));
    let remedy = "LimitFSIZE=infinity in the unit, or ulimit -f unlimited";
    if limit < FILE_BYTES_COMMON {
        let why = "a run fails at the first larger file (EFBIG)";
        return check.but(Verdict::Problem, why).remedy(remedy);
    }
    if limit < STORAGE_BYTES_MAX {
        let why = format!("storages may be as large as {}", size(STORAGE_BYTES_MAX));
        return check.but(Verdict::Note, why).remedy(remedy);
    }
    check
}

pub fn cgroup_memory(facts: &Facts) -> Check {
    let id = "cgroup memory";
    let Cgroup { memory_bytes, memory_high_bytes, unknown, .. } = &facts.cgroup;
    let (max, high) = (memory_bytes.map(size), memory_high_bytes.map(size));
    let found = match (max, high) {
        (None, None) if *unknown => "unknown: control groups are not mounted".to_owned(),
        (None, None) => "no limit".to_owned(),
        (Some(max), None) => format!("limit {max}"),
        (None, Some(high)) => format!("throttled beyond {high}"),
        (Some(max), Some(high)) => format!("limit {max}, throttled beyond {high}"),
    };
    let check = Check::ok(id, found);
    let needed = facts.memory.needed_bytes + MEMORY_BESIDE;
    if memory_bytes.is_some_and(|limit| limit < needed) {
        let why = format!("a run needs about {} and would be killed", size(needed));
        let remedy = format!("MemoryMax={} in the unit, or a smaller --memory-budget", 2 * needed);
        return check.but(Verdict::Problem, why).remedy(remedy);
    }
    if memory_high_bytes.is_some_and(|limit| limit < needed) {
        let why = format!("a run needs about {} and would be throttled", size(needed));
        let remedy = format!("MemoryHigh={} in the unit, or a smaller --memory-budget", 2 * needed);
        return check.but(Verdict::Warning, why).remedy(remedy);
    }
    check
}

pub fn cgroup_cpu(facts: &Facts) -> Check {
    let id = "cgroup cpu";
    let Some(cores) = facts.cgroup.cores else { return Check::ok(id, "no quota") };
    let check = Check::ok(id, format!("quota of {cores:.2} processors"));
    #[allow(clippy::cast_precision_loss)] // a count of processors
    if cores >= facts.processor.allowed as f64 {
        return check;
    }
    let why = "when the quota is used up, all threads stop until the next period";
    check
        .but(Verdict::Warning, why)
        .remedy("CPUQuota= (empty) in the unit; rank units by CPUWeight= instead")
}

pub fn cgroup_io(cgroup: &Cgroup) -> Check {
    let id = "cgroup io";
    if cgroup.io.is_empty() {
        return Check::ok(id, "no limit");
    }
    Check::ok(id, cgroup.io.join(", "))
        .but(Verdict::Warning, "reads and writes of these devices are throttled")
        .remedy(
            "remove IOReadBandwidthMax= and the like from the unit; rank units by IOWeight= instead",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::{Memory, Place, Processor};

    const GIB: u64 = 1 << 30;

    fn facts() -> Facts {
        Facts {
            memory: Memory { needed_bytes: GIB, ..Memory::default() },
            processor: Processor { allowed: 4, ..Processor::default() },
            ..Facts::default()
        }
    }

    #[test]
    fn every_ring_counts_towards_locked_memory() {
        let mut facts = facts();
        assert_eq!(locked_memory(&facts).verdict, Verdict::Ok);
        facts.limits.locked_bytes = Some(2 * GIB);
        assert_eq!(locked_memory(&facts).verdict, Verdict::Ok);
        // A second device has a ring of its own.
        let place = |device| Place { is_directory: true, device, ..Place::default() };
        facts.places = vec![place(1), place(2)];
        assert_eq!(locked_memory(&facts).verdict, Verdict::Warning);
        facts.uring.refused = Some("EPERM".to_owned());
        assert_eq!(locked_memory(&facts).verdict, Verdict::Note);
        facts.limits.may_lock = true;
        assert_eq!(locked_memory(&facts).verdict, Verdict::Ok);
    }

    #[test]
    fn open_files_and_file_sizes_have_steps() {
        let files = |limit| Limits { open_files: Some(limit), ..Limits::default() };
        let verdict = |limit| open_files(&files(limit)).verdict;
        assert_eq!(verdict(32), Verdict::Problem);
        assert_eq!(verdict(100), Verdict::Warning);
        assert_eq!(verdict(1024), Verdict::Note);
        assert_eq!(verdict(1 << 20), Verdict::Ok);
        assert_eq!(open_files(&Limits::default()).verdict, Verdict::Ok);
        let sizes = |limit| Limits { file_bytes: Some(limit), ..Limits::default() };
        assert_eq!(file_size(&sizes(1 << 20)).verdict, Verdict::Problem);
        assert_eq!(file_size(&sizes(4 * GIB)).verdict, Verdict::Note);
        assert_eq!(file_size(&Limits::default()).verdict, Verdict::Ok);
    }

    #[test]
    fn limits_of_control_groups_have_verdicts() {
        let mut facts = facts();
        assert_eq!(cgroup_memory(&facts).verdict, Verdict::Ok);
        facts.cgroup.memory_high_bytes = Some(GIB / 2);
        assert_eq!(cgroup_memory(&facts).verdict, Verdict::Warning);
        facts.cgroup.memory_bytes = Some(GIB);
        assert_eq!(cgroup_memory(&facts).verdict, Verdict::Problem);

        assert_eq!(cgroup_cpu(&facts).verdict, Verdict::Ok);
        facts.cgroup.cores = Some(1.5);
        assert_eq!(cgroup_cpu(&facts).verdict, Verdict::Warning);
        facts.cgroup.cores = Some(4.0);
        assert_eq!(cgroup_cpu(&facts).verdict, Verdict::Ok);

        assert_eq!(cgroup_io(&facts.cgroup).verdict, Verdict::Ok);
        facts.cgroup.io.push("io.max 8:0 rbps=1000".to_owned());
        assert_eq!(cgroup_io(&facts.cgroup).verdict, Verdict::Warning);
    }
}

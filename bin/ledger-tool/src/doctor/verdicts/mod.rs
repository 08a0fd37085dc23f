//! What facts mean. Everything here is a function of facts alone.

mod kernel;
mod limits;
mod machine;
mod place;

use indicatif::BinaryBytes;

use super::{check::Check, facts::Facts};

/// What a snapshot of mainnet takes (November 2026): the archive, its files, and how many these are.
pub const MAINNET_ARCHIVE_BYTES: u64 = 110_000_000_000;
pub const MAINNET_BYTES: u64 = 500_000_000_000;
pub const MAINNET_FILES: u64 = 430_000;

/// All checks, those of the machine first, then those of each path.
pub fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![
        kernel::release(&facts.kernel),
        kernel::uring(&facts.uring),
        kernel::ring_restrictions(&facts.uring),
        kernel::sandbox(&facts.confinement),
        kernel::seccomp(&facts.confinement),
        kernel::container(&facts.confinement),
        limits::locked_memory(facts),
        limits::open_files(&facts.limits),
        limits::file_size(&facts.limits),
        limits::cgroup_memory(facts),
        limits::cgroup_cpu(facts),
        limits::cgroup_io(&facts.cgroup),
        machine::processors(&facts.processor),
        machine::vectors(&facts.processor),
        machine::governor(&facts.processor),
        machine::memory(&facts.memory),
        machine::huge_pages(&facts.memory),
        machine::reserved_pages(&facts.memory),
        machine::max_map_count(&facts.sysctls),
        machine::nr_open(&facts.sysctls),
    ];
    for place in &facts.places {
        let found = [
            Some(place::file_system(place)),
            place::mount_options(place),
            place::writable(place),
            place::direct_io(place),
            place::space(place),
            place::inodes(place),
        ];
        let disks = place.disks.iter().map(place::disk);
        let found = found.into_iter().flatten().chain(disks);
        checks.extend(found.map(|check| check.of(&place.path)));
    }
    checks.extend(place::together(&facts.places));
    checks
}

fn size(bytes: u64) -> String {
    BinaryBytes(bytes).to_string()
}

//! Judging the facts. All functions here depend on facts alone.

mod kernel;
mod limits;
mod machine;
mod place;

use super::{check::Check, facts::Facts};

/// Returns all checks: of the machine first, then of each path.
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

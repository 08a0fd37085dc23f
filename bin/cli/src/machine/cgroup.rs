//! Limits of this process's control groups and of their ancestors.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::proc_files::{Mount, number, read};

/// Maximum number of levels of groups to examine. A guess; the kernel's own limit is far above any
/// use.
const LEVELS_MAX: usize = 64;

/// "No limit" in version 1 is the largest multiple of a page; no machine has that much memory.
const V1_UNLIMITED: u64 = 1 << 60;

/// The tightest limits of this process's control groups; `None` for no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cgroup {
    /// Memory beyond which processes are killed (memory.max, memory.limit_in_bytes).
    pub memory_bytes: Option<u64>,
    /// Memory beyond which processes are throttled (memory.high).
    pub memory_high_bytes: Option<u64>,
    /// Processor time per second (cpu.max, cpu.cfs_quota_us).
    pub cores: Option<f64>,
    /// Limits of disks, as the kernel prints them (io.max, blkio.throttle.*).
    pub io: Vec<String>,
    /// Control files that could not be read.
    pub unknown: bool,
}

/// Returns the tightest limits of this process's groups.
pub fn own(mounts: &[Mount]) -> Cgroup {
    limits(&read("/proc/self/cgroup"), mounts)
}

/// Returns the tightest limits. `own` is the content of /proc/self/cgroup.
fn limits(own: &str, mounts: &[Mount]) -> Cgroup {
    let mut limits = Cgroup::default();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        for controller in controllers.split(',') {
            let Some(groups) = groups(controller, path, mounts) else {
                limits.unknown |= matches!(controller, "" | "memory" | "cpu" | "blkio");
                continue;
            };
            for group in groups {
                match controller {
                    "" => version_2(&group, &mut limits),
                    "memory" | "cpu" | "blkio" => version_1(&group, &mut limits),
                    _ => {}
                }
            }
        }
    }
    limits
}

/// Returns the directories of a group and of its ancestors, the innermost first; `None` if the
/// controller is not mounted. `controller` is empty for version 2.
fn groups(controller: &str, path: &str, mounts: &[Mount]) -> Option<Vec<PathBuf>> {
    let mount = mounts.iter().find(|mount| match mount.file_system.as_str() {
        "cgroup2" => controller.is_empty(),
        "cgroup" => mount.options.iter().any(|option| option == controller),
        _ => false,
    })?;
    // In a container the mount shows only a part of the tree.
    let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let below = below.strip_prefix("/").unwrap_or(below);
    let point = Path::new(&mount.point);
    let innermost = point.join(below);
    let around = innermost.ancestors().take(LEVELS_MAX);
    Some(around.take_while(|group| group.starts_with(point)).map(Path::to_owned).collect())
}

fn version_2(group: &Path, limits: &mut Cgroup) {
    let read = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    tighten(&mut limits.memory_bytes, number(&read("memory.max")));
    tighten(&mut limits.memory_high_bytes, number(&read("memory.high")));
    let cpu = read("cpu.max");
    let (quota, period) = cpu.trim().split_once(' ').unwrap_or_default();
    tighten(&mut limits.cores, cores(number(quota), number(period)));
    limits.io.extend(read("io.max").lines().map(|line| format!("io.max {line}")));
}

fn version_1(group: &Path, limits: &mut Cgroup) {
    let read = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    let memory = number(&read("memory.limit_in_bytes")).filter(|bytes| *bytes < V1_UNLIMITED);
    tighten(&mut limits.memory_bytes, memory);
    let (quota, period) = (read("cpu.cfs_quota_us"), read("cpu.cfs_period_us"));
    tighten(&mut limits.cores, cores(number(&quota), number(&period)));
    for name in ["read_bps", "write_bps", "read_iops", "write_iops"] {
        let name = format!("blkio.throttle.{name}_device");
        limits.io.extend(read(&name).lines().map(|line| format!("{name} {line}")));
    }
}

/// Returns the processor time per second; `None` without a quota ("max", or -1).
fn cores(quota: Option<i32>, period: Option<u32>) -> Option<f64> {
    let (quota, period) = (quota.filter(|quota| *quota > 0)?, period.filter(|period| *period > 0)?);
    Some(f64::from(quota) / f64::from(period))
}

fn tighten<N: PartialOrd + Copy>(limit: &mut Option<N>, found: Option<N>) {
    if let Some(found) = found
        && limit.is_none_or(|known| found < known)
    {
        *limit = Some(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(point: &Path, file_system: &str, root: &str, option: &str) -> Mount {
        Mount {
            root: root.to_owned(),
            point: point.to_str().unwrap().to_owned(),
            file_system: file_system.to_owned(),
            source: "cgroup".to_owned(),
            options: vec!["rw".to_owned(), option.to_owned()],
        }
    }

    fn write(directory: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(directory).unwrap();
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
    }

    #[test]
    fn the_tightest_limit_of_all_ancestors_counts_in_version_2() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path();
        write(root, &[]);
        write(&root.join("a"), &[("memory.max", "4096\n"), ("cpu.max", "150000 100000\n")]);
        let own = [("memory.max", "max\n"), ("memory.high", "8192\n"), ("io.max", "8:0 rbps=1\n")];
        write(&root.join("a/b"), &own);
        let limits = limits("0::/a/b\n", &[mount(root, "cgroup2", "/", "")]);
        let expected = Cgroup {
            memory_bytes: Some(4096),
            memory_high_bytes: Some(8192),
            cores: Some(1.5),
            io: vec!["io.max 8:0 rbps=1".to_owned()],
            unknown: false,
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn version_1_has_a_tree_for_each_controller() {
        let tree = tempfile::tempdir().unwrap();
        let (memory, cpu) = (tree.path().join("memory"), tree.path().join("cpu,cpuacct"));
        write(&memory, &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        write(&memory.join("x"), &[("memory.limit_in_bytes", "1048576\n")]);
        write(&cpu.join("x"), &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]);
        let mounts = [
            mount(&memory, "cgroup", "/", "memory"),
            // A container sees its own group as the root of the mount.
            mount(&cpu, "cgroup", "/docker", "cpu"),
        ];
        let limits = limits("4:memory:/x\n2:cpu,cpuacct:/docker/x\n", &mounts);
        assert_eq!(limits, Cgroup { memory_bytes: Some(1 << 20), ..Cgroup::default() });
    }

    #[test]
    fn limits_of_unmounted_controllers_are_unknown() {
        assert!(limits("0::/\n", &[]).unknown);
        assert!(!limits("7:pids:/\n1:name=systemd:/\n", &[]).unknown);
    }
}

//! Facts about the machine that figures depend on: no names, no paths.

use rustix::fs::{major, minor};
use rustix::system::uname;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the report says about the machine and the tools.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Facts {
    /// Model of the processor.
    pub cpu: String,
    /// Threads that run at the same time.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Type of the file system of the work directory.
    pub file_system: String,
    /// Kind of the device it is on.
    pub device: String,
    /// Versions of the tools, by name.
    pub versions: Vec<(String, String)>,
}

impl Facts {
    /// Facts about this machine, with `work` on the file system that is measured.
    pub fn gather(work: &Path, versions: Vec<(String, String)>) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let memory_kib: u64 = field(&meminfo, "MemTotal")
            .and_then(|value| value.trim_end_matches("kB").trim().parse().ok())
            .unwrap_or(0);
        Self {
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            cores: available_parallelism().map_or(0, usize::from),
            memory_mib: memory_kib >> 10,
            kernel: uname().release().to_string_lossy().into_owned(),
            file_system: file_system(&mountinfo, work).unwrap_or("unknown").to_owned(),
            device: device_kind(work),
            versions,
        }
    }
}

/// The device of a file's file system, as `major:minor`.
pub fn device_number(path: &Path) -> Option<(u32, u32)> {
    let device = rustix::fs::stat(path).ok()?.st_dev;
    Some((major(device), minor(device)))
}

/// Today, as `year-month-day` (UTC).
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date so many days after 1970-01-01, by counting from March on, which puts the leap day at
/// the end of the year.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Value of the first line `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

/// Type of the file system that holds `path`: that of the deepest mount point above it.
fn file_system<'a>(mountinfo: &'a str, path: &Path) -> Option<&'a str> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let mount_point = mount.split(' ').nth(4)?;
        let file_system = source.split(' ').next()?;
        path.starts_with(mount_point).then_some((mount_point.len(), file_system))
    });
    // Of equals the last one, which is mounted over the others.
    mounts.max_by_key(|(length, _)| *length).map(|(_, file_system)| file_system)
}

/// What kind of device a path is on, by the name that its driver gives it.
fn device_kind(path: &Path) -> String {
    let name = device_number(path).and_then(|(major, minor)| {
        let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    });
    let kinds = [
        ("nvme", "NVMe disk"),
        ("vd", "virtio disk"),
        ("xvd", "Xen disk"),
        ("sd", "SCSI or SATA disk"),
        ("md", "software RAID"),
        ("dm", "device mapper"),
        ("loop", "loop device"),
    ];
    let name = name.unwrap_or_default();
    let kind = kinds.iter().find(|(prefix, _)| name.starts_with(prefix));
    kind.map_or("unknown device", |(_, kind)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(19_782), "2024-02-29");
        assert_eq!(date(19_783), "2024-03-01");
        assert_eq!(date(20_454), "2026-01-01");
    }

    #[test]
    fn fields_are_found() {
        assert_eq!(field("a : 1\nmodel name\t: A B\nmodel name: C", "model name"), Some("A B"));
        assert_eq!(field("a : 1", "b"), None);
    }

    #[test]
    fn the_deepest_mount_counts() {
        let mountinfo = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
                         2 1 0:5 / /data rw shared:1 - tmpfs tmpfs rw\n\
                         3 2 8:2 / /data/deep rw - xfs /dev/b rw\n";
        assert_eq!(file_system(mountinfo, Path::new("/data/deep/work")), Some("xfs"));
        assert_eq!(file_system(mountinfo, Path::new("/data/deeper")), Some("tmpfs"));
        assert_eq!(file_system(mountinfo, Path::new("/database")), Some("ext4"));
    }
}

//! Devices that are not like others: large sectors, little throughput, and errors that make them
//! read-only in the middle.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rustix::fs::syncfs;
use unsnap_test_support::{
    HalfWay, Site, assert_holds,
    disk::{Disk, Kind, Options, can_lose_power},
    expected_tree_of, has_tool, ledger_tool, ledger_tool_path, run, skip_unsupported,
    staged_storages,
};
use unsnap_testkit::{
    spec::{ArchiveSpec, FileSizes},
    tree::read_tree,
};

use crate::space::repair;

#[test]
fn an_xfs_of_large_sectors_takes_everything() {
    if !can_lose_power() {
        return;
    }
    let options = Options { sector_bytes: 4096, ..Options::default() };
    let Some(disk) = Disk::new(Kind::Xfs, &options) else { return };
    let site = Site::new();
    let spec = ArchiveSpec { total_bytes: 10_000_000, ..ArchiveSpec::default() };
    // Read from there, and written there.
    let archive = disk.path().join(spec.name());
    fs::copy(site.archive(&spec), &archive).unwrap();
    let expected = expected_tree_of(&archive);
    for (engine, direct) in [("auto", "on"), ("threads", "on"), ("auto", "auto"), ("auto", "off")] {
        let output = disk.path().join("output");
        let report =
            run(ledger_tool().arg("unpack").arg(&archive).arg("--output").arg(&output).args([
                "--format=json",
                "--no-progress",
                &format!("--io-engine={engine}"),
                &format!("--use-direct-io={direct}"),
            ]))
            .assert_code(0)
            .json();
        assert_holds(&output, &expected, format_args!("{engine}, {direct}"));
        assert_eq!(report["direct_write"], direct != "off", "{report:#}");
        if direct != "auto" {
            assert_eq!(report["direct_read"], direct == "on", "{report:#}");
        }
        fs::remove_dir_all(&output).unwrap();
    }
}

/// ext4 becomes read-only by itself when it finds an error; the kernel has a file to pretend one.
#[test]
fn a_disk_that_becomes_read_only_in_the_middle() {
    if !can_lose_power() {
        return;
    }
    let Some(mut disk) = Disk::new(Kind::Ext4, &Options::default()) else { return };
    disk.change_mount("errors=remount-ro");
    let name = disk.device().file_name().unwrap().to_owned();
    let trigger = Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error");
    let site = Site::new();
    let archive = site.archive(&HalfWay::spec());
    let expected = expected_tree_of(&archive);
    for empty in [false, true] {
        let output = disk.path().join("output");
        if empty {
            fs::create_dir(&output).unwrap();
        }
        // What is not in the journal yet is lost by what follows.
        syncfs(fs::File::open(disk.path()).unwrap()).unwrap();
        let mut tool = ledger_tool();
        tool.arg("unpack").arg("-").arg("--output").arg(&output).arg("--no-progress");
        let half = HalfWay::start_in(&mut tool, &site, disk.path());
        if let Err(error) = fs::write(&trigger, "1") {
            // Some kernels let nobody trigger one.
            skip_unsupported(format_args!("ext4 has no test errors: {error}"));
            drop(half.go_on());
            return;
        }
        half.go_on().assert_code(3).assert_error(&[
            "error: cannot ",
            output.to_str().unwrap(),
            "Read-only file system",
            "hint: the file system is mounted read-only",
        ]);
        // Not even what was staged can be removed now.
        assert_eq!(output.exists(), empty);
        assert!(staged_storages(disk.path()) > 0, "nothing was staged, so nothing is proven");

        // After a repair it can be written to again, and the next run cleans up.
        disk.unmount();
        repair(Kind::Ext4, disk.device());
        disk.mount().unwrap();
        disk.change_mount("errors=remount-ro");
        assert_eq!(output.exists(), empty);
        assert!(!empty || read_tree(&output).unwrap().is_empty());
        run(ledger_tool().arg("unpack").arg(&archive).arg("--output").arg(&output).arg("-q"))
            .assert_code(0);
        assert_holds(&output, &expected, "after the repair");
        assert!(!disk.path().join(".output.unsnap-staging").exists());
        fs::remove_dir_all(&output).unwrap();
    }
}

/// Caps what is written to a device, for the processes that enter it. Removed when dropped.
struct SlowGroup {
    path: PathBuf,
}

impl SlowGroup {
    /// `None`, with the reason told, where there can be none.
    fn new(device: &Path, bytes_per_second: u64) -> Option<Self> {
        let number = fs::metadata(device).unwrap().rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let v1 = Path::new("/sys/fs/cgroup/blkio");
        let (root, file, text) = if v1.is_dir() {
            let text = format!("{major}:{minor} {bytes_per_second}");
            (v1, "blkio.throttle.write_bps_device", text)
        } else {
            let text = format!("{major}:{minor} wbps={bytes_per_second}");
            (Path::new("/sys/fs/cgroup"), "io.max", text)
        };
        let group = Self { path: root.join(format!("unsnap-slow-{}", std::process::id())) };
        let made =
            fs::create_dir(&group.path).and_then(|()| fs::write(group.path.join(file), text));
        // A container without control groups of its own, or a kernel without the controller.
        let why = |error: &_| skip_unsupported(format_args!("no slow disk: {error}"));
        made.inspect_err(why).ok().map(|()| group)
    }
}

impl Drop for SlowGroup {
    fn drop(&mut self) {
        for _ in 0..200 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A slow disk is no error, and whoever looks at the terminal sees that it goes on.
#[test]
fn a_slow_disk_takes_its_time_and_is_seen_to_go_on() {
    if !can_lose_power() || !has_tool("script", "--version") {
        return;
    }
    let site = Site::new();
    let spec = ArchiveSpec {
        total_bytes: 24_000_000,
        file_sizes: FileSizes::Fixed(400_000),
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let expected = expected_tree_of(&archive);
    let Some(disk) = Disk::new(Kind::Ext4, &Options::default()) else { return };
    let Some(group) = SlowGroup::new(disk.device(), 10 << 20) else { return };
    let output = disk.path().join("output");
    // A terminal, without which progress is a line every ten seconds.
    let line = format!(
        "echo $$ > {}; exec {} unpack {} --output {} --memory-budget 8MiB",
        group.path.join("cgroup.procs").display(),
        ledger_tool_path().display(),
        archive.display(),
        output.display(),
    );
    let started = Instant::now();
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    let outcome = run(script.env_remove("RUST_LOG").env_remove("UNSNAP_CONFIG")).assert_code(0);
    let took = started.elapsed();
    assert_holds(&output, &expected, "slow");
    // 24 MB at 10 MiB/s.
    assert!(took > Duration::from_millis(1500), "the disk was not slow: {took:?}");
    let percents: BTreeSet<&str> = outcome
        .stdout
        .split('%')
        .filter_map(|text| text.rsplit(|c: char| !c.is_ascii_digit()).next())
        .filter(|number| !number.is_empty())
        .collect();
    assert!(percents.len() >= 5, "progress stood at {percents:?} for {took:?}");
    assert!(outcome.stdout.contains("unpacking"), "{outcome:?}");
}

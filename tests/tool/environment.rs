//! What is written when the machine does not play along: disks that are full, fail or may not be written
//! to, and SIGKILL. An error names the path and the remedy; nothing is under a final name, nothing
//! temporary is left, and what a killed run leaves does not outlive the next one.
//!
//! Of `unpack` the same is proven in `tests/e2e` and `tests/crash`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::statvfs;
use unsnap_test_support::{
    Site, assert_same_tree, available, cleaned, genuine_full, has_tool, ledger_tool_path, run,
};
use unsnap_testkit::{
    scratch::{ScratchFs, Tmpfs},
    tree::read_tree,
};

use crate::lookup::tool;

/// What each command writes, into a place that also holds the archive.
const COMMANDS: [&str; 4] = ["repack", "create", "index", "extract"];

/// An archive in a place of its own, and elsewhere a tree of it.
struct Ground {
    place: PathBuf,
    archive: PathBuf,
    tree: PathBuf,
}

impl Ground {
    fn new(site: &Site, place: PathBuf) -> Self {
        let archive = place.join(genuine_full().file_name().unwrap());
        fs::copy(genuine_full(), &archive).unwrap();
        fs::create_dir(place.join("out")).unwrap();
        let tree = site.path("tree");
        if !tree.exists() {
            let words = ["unpack", "--quiet", "--output", tree.to_str().unwrap()];
            tool(&words, &archive).assert_code(0);
        }
        Self { place, archive, tree }
    }

    /// The words of a command, and what it writes.
    fn command(&self, name: &str) -> (Vec<PathBuf>, PathBuf) {
        let out = self.place.join("out");
        let packed = out.join(self.archive.file_name().unwrap());
        let side_car = self.place.join(format!("{}.unsnap-index", self.archive.display()));
        let words = |words: &[&Path]| words.iter().map(|&word| word.to_owned()).collect();
        let [repack, create, index, extract, output, entry] =
            ["repack", "create", "index", "extract", "--output", "--entry=**"].map(Path::new);
        let extracted = out.join("tree");
        match name {
            "repack" => (words(&[repack, &self.archive, output, &out]), packed),
            "create" => (words(&[create, &self.tree, output, &out]), packed),
            "index" => (words(&[index, &self.archive]), side_car),
            _ => (words(&[extract, &self.archive, entry, output, &extracted]), extracted),
        }
    }

    /// The program, under strace with these words if there are some.
    fn tool(&self, name: &str, strace: &[String]) -> Command {
        let mut command = Command::new(if strace.is_empty() {
            ledger_tool_path().as_os_str()
        } else {
            "strace".as_ref()
        });
        if !strace.is_empty() {
            command.args(["-f", "-qq", "-o", "/dev/null"]).args(strace).arg(ledger_tool_path());
        }
        command.args(self.command(name).0).args(["--quiet", "--no-progress"]);
        cleaned(command)
    }

    /// The command fails for a fault of the machine, and has changed nothing.
    #[track_caller]
    fn assert_fails(&self, name: &str, strace: &[String], parts: &[&str]) {
        let before = read_tree(&self.place).unwrap();
        let (_, written) = self.command(name);
        let outcome = run(&mut self.tool(name, strace)).assert_code(3);
        let outcome = outcome.assert_error(&["error: cannot ", written.to_str().unwrap()]);
        assert_eq!(outcome.assert_error(parts).stdout, "", "{name}");
        assert_same_tree(&read_tree(&self.place).unwrap(), &before, format_args!("{name}"));
    }
}

#[test]
fn full_disks_and_read_only_ones_are_told_and_keep_nothing() {
    let site = Site::new();
    let tmpfs = Tmpfs { size_bytes: 8 << 20, inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&tmpfs)) else { return };
    let ground = Ground::new(&site, disk.path().to_owned());
    let free = || {
        let stat = statvfs(disk.path()).unwrap();
        usize::try_from(stat.f_bavail * stat.f_frsize).unwrap()
    };
    // Enough to begin an archive or a tree of it, and too little for an index.
    for (left, names) in [(256 << 10, &["repack", "create", "extract"][..]), (0, &["index"])] {
        let filler = disk.path().join("filler");
        fs::write(&filler, vec![0; free() - left]).unwrap();
        for name in names {
            ground.assert_fails(name, &[], &["No space left", "hint: free space"]);
        }
        fs::remove_file(filler).unwrap();
    }
    let archive = fs::read(&ground.archive).unwrap();
    let cut = disk.path().join("cut.tar.zst");
    fs::write(&cut, &archive[..archive.len() / 2]).unwrap();
    disk.remount("ro").unwrap();
    for name in COMMANDS {
        ground.assert_fails(name, &[], &["Read-only file system", "hint: the file system is"]);
    }
    // Before the archive is gone through, which may take long and here would find another error.
    tool(&["index"], &cut).assert_code(3).assert_error(&["Read-only file system"]);
    disk.remount("rw").unwrap();
    for name in COMMANDS {
        run(&mut ground.tool(name, &[])).assert_code(0);
        assert!(ground.command(name).1.exists(), "{name}");
        let _ = fs::remove_file(ground.command(name).1);
    }
}

/// The call that makes durable what a command has written.
fn sync_of(name: &str) -> &'static str {
    if name == "extract" { "syncfs" } else { "fsync" }
}

fn inject(call: &str, what: &str) -> Vec<String> {
    ["-e".to_owned(), format!("trace={call}"), "-e".to_owned(), format!("inject={call}:{what}")]
        .into()
}

#[test]
fn disks_that_fail_are_told_and_keep_nothing() {
    if !has_tool("strace", "--version") {
        return;
    }
    let site = Site::new();
    let ground = Ground::new(&site, site.place());
    for name in COMMANDS {
        let parts = ["Input/output error", "hint: the disk reports errors"];
        ground.assert_fails(name, &inject(sync_of(name), "error=EIO"), &parts);
        // Of the calls that write only those to what is under construction.
        let (_, written) = ground.command(name);
        let (directory, file) = (written.parent().unwrap(), written.file_name().unwrap());
        let file = file.to_str().unwrap();
        let begun = match name {
            "extract" => format!(".{file}.unsnap-staging/version"),
            _ => format!(".{file}.unsnap-partial"),
        };
        let only = ["-P".to_owned(), directory.join(begun).display().to_string()];
        let strace = [&only[..], &inject("write,pwrite64", "error=EIO")].concat();
        ground.assert_fails(name, &strace, &[&parts[..], &["cannot write"]].concat());
    }
}

#[test]
fn what_is_killed_leaves_nothing_final_and_the_next_run_clears_up() {
    if !has_tool("strace", "--version") {
        return;
    }
    let site = Site::new();
    let ground = Ground::new(&site, site.place());
    for name in COMMANDS {
        let before = read_tree(&ground.place).unwrap();
        let (_, written) = ground.command(name);
        // When everything has been written and nothing has its name.
        run(&mut ground.tool(name, &inject(sync_of(name), "signal=KILL")));
        assert!(!written.exists(), "{name}");
        let left = read_tree(&ground.place).unwrap();
        assert!(left.len() > before.len(), "{name}: it was killed before it began");

        run(&mut ground.tool(name, &[])).assert_code(0);
        assert!(written.exists(), "{name}");
        if written.is_dir() {
            fs::remove_dir_all(written).unwrap();
        } else {
            fs::remove_file(written).unwrap();
        }
        assert_same_tree(&read_tree(&ground.place).unwrap(), &before, format_args!("{name}"));
    }
}

//! Where files may go, and what keeps two runs apart.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;
use unsnap_commit::CommitError;
use unsnap_failure::{Failure, Family};
use unsnap_test_support::{
    HalfWay, Outcome, Site, assert_holds, assert_same_tree, available, expected_tree_of, finish,
    genuine_full, has_tool, is_root, ledger_tool, ledger_tool_path, run, skip, skip_unsupported,
    small, staged_storages, unpack,
};
use unsnap_testkit::{
    scratch::{Ext4, ScratchFs, Tmpfs},
    spec::ArchiveSpec,
    tree::{Node, Tree, read_tree},
};
use unsnap_unpack::UnpackError;

fn tool(archive: &Path, output: &Path) -> Command {
    let mut tool = ledger_tool();
    tool.arg("unpack").arg(archive).arg("--output").arg(output);
    tool
}

/// Puts something where the destination is to be.
type Put<'a> = &'a dyn Fn(&Path);

#[test]
fn what_is_not_empty_is_not_touched() {
    let site = Site::new();
    let archive = genuine_full();
    let put: [(&str, Put<'_>); 5] = [
        ("a file in it", &|output| {
            fs::create_dir(output).unwrap();
            fs::write(output.join("precious"), "data").unwrap();
        }),
        ("a directory in it", &|output| fs::create_dir_all(output.join("sub")).unwrap()),
        ("a link in it", &|output| {
            fs::create_dir(output).unwrap();
            symlink("nowhere", output.join("link")).unwrap();
        }),
        ("a file", &|output| fs::write(output, "data").unwrap()),
        ("a dangling link", &|output| symlink("nowhere", output).unwrap()),
    ];
    for (what, put) in put {
        let site = Site::new();
        put(&site.output());
        let before = site.state();
        let outcome = run(&mut tool(&archive, &site.output())).assert_code(4);
        outcome.assert_error(&["output", "hint: give a directory that does not exist yet"]);
        site.assert_untouched(&before, what);
    }

    // Of several destinations, any.
    let accounts = site.place().join("accounts");
    fs::create_dir_all(accounts.join("17.3")).unwrap();
    let before = site.state();
    run(tool(&archive, &site.output()).arg("--accounts").arg(&accounts))
        .assert_code(4)
        .assert_error(&["accounts", "is not empty"]);
    site.assert_untouched(&before, "accounts");
}

#[test]
fn the_parent_must_exist() {
    let site = Site::new();
    let before = site.state();
    let output = site.place().join("missing/output");
    run(&mut tool(&genuine_full(), &output))
        .assert_code(2)
        .assert_error(&["missing does not exist", "hint: make it first: mkdir -p "]);
    site.assert_untouched(&before, "parent missing");

    let output = site.place().join("neighbour/output");
    let outcome = run(&mut tool(&genuine_full(), &output));
    assert!(matches!(outcome.status.code(), Some(2..=4)), "{outcome:?}");
    outcome.assert_error(&["neighbour"]);
    site.assert_untouched(&before, "parent is a file");
}

#[test]
fn destinations_may_not_overlap() {
    let site = Site::new();
    let archive = genuine_full();
    let output = site.output();
    let link = site.place().join("link");
    symlink(site.place(), &link).unwrap();
    let before = site.state();
    let cases = [
        output.join("accounts"),
        output.clone(),
        site.place(),
        link.join("output"),
        PathBuf::from(format!("{0}/a,{0}/a", site.place().display())),
    ];
    for accounts in cases {
        run(tool(&archive, &output).arg("--accounts").arg(&accounts))
            .assert_code(2)
            .assert_error(&["overlap", "hint: "]);
        site.assert_untouched(&before, accounts.display());
    }
    // A common beginning of names is no overlap.
    let beside = site.place().join("output2");
    run(tool(&archive, &output).arg("--accounts").arg(&beside)).assert_code(0);
}

#[test]
fn of_two_runs_to_one_place_one_is_refused() {
    let site = Site::new();
    for empty in [false, true] {
        site.reset(empty);
        let first = HalfWay::start(&mut tool(Path::new("-"), &site.output()), &site);
        let before = names(&site.place());
        let staged = staged_storages(&site.place());
        run(&mut tool(&genuine_full(), &site.output())).assert_code(4).assert_error(&[
            "another process is unpacking to",
            "hint: wait until the other process ends",
        ]);
        assert_eq!(names(&site.place()), before);
        assert!(staged_storages(&site.place()) >= staged, "the loser has taken files away");
        first.go_on().assert_code(0);
        let archive = site.archive(&HalfWay::spec());
        assert_holds(&site.output(), &expected_tree_of(&archive), "the winner");
    }
}

#[test]
fn many_runs_at_once_do_not_mix() {
    let site = Site::new();
    let expected = expected_tree_of(&genuine_full());
    for round in 0..5 {
        site.reset(round % 2 == 1);
        let children: Vec<Child> = (0..6)
            .map(|_| {
                let mut tool = tool(&genuine_full(), &site.output());
                tool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let outcomes: Vec<Outcome> = children.into_iter().map(finish).collect();
        let codes: Vec<_> = outcomes.iter().map(|outcome| outcome.status.code()).collect();
        assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{outcomes:#?}");
        assert_eq!(codes.iter().filter(|code| **code == Some(4)).count(), 5, "{outcomes:#?}");
        assert_holds(&site.output(), &expected, "the winner");
        assert_eq!(names(&site.place()), ["neighbour", "output"]);
    }
}

#[test]
fn what_a_killed_run_has_left_is_cleaned_by_the_next() {
    let site = Site::new();
    for empty in [false, true] {
        site.reset(empty);
        let before = site.state();
        let mut killed = HalfWay::start(&mut tool(Path::new("-"), &site.output()), &site);
        killed.tool.kill().unwrap();
        killed.tool.wait().unwrap();
        assert!(staged_storages(&site.place()) > 0, "nothing is left, so nothing is proven");

        // A run that fails takes it away as well.
        let bad = site.write("bad", b"this is no archive");
        run(&mut tool(&bad, &site.output())).assert_code(1);
        site.assert_untouched(&before, "a failing run after a killed one");

        let mut killed = HalfWay::start(&mut tool(Path::new("-"), &site.output()), &site);
        killed.tool.kill().unwrap();
        killed.tool.wait().unwrap();
        run(&mut tool(&genuine_full(), &site.output())).assert_code(0);
        assert_holds(&site.output(), &expected_tree_of(&genuine_full()), "after a killed run");
        assert_eq!(names(&site.place()), ["neighbour", "output"]);
    }
}

#[test]
fn left_overs_are_removed_however_deep_and_never_followed() {
    let site = Site::new();
    let staging = site.place().join(".output.unsnap-staging");
    let deep: PathBuf = std::iter::repeat_n("d", 300).collect();
    fs::create_dir_all(staging.join(deep)).unwrap();
    symlink(site.place(), staging.join("link")).unwrap();
    fs::write(staging.join("version"), "old").unwrap();
    unpack(&small(&genuine_full(), &site.output())).unwrap();
    assert_holds(&site.output(), &expected_tree_of(&genuine_full()), "deep left-overs");
    assert_eq!(names(&site.place()), ["neighbour", "output"]);

    // A link in its place is not followed.
    site.reset(false);
    fs::create_dir(site.path("elsewhere")).unwrap();
    fs::write(site.path("elsewhere/precious"), "data").unwrap();
    symlink(site.path("elsewhere"), &staging).unwrap();
    let error = unpack(&small(&genuine_full(), &site.output())).unwrap_err();
    assert_eq!(error.family(), Family::Environment, "{error}");
    assert_eq!(names(&site.path("elsewhere")), ["precious"]);
}

/// The tree of an output that is a file system of its own.
fn without_lost_and_found(directory: &Path) -> Tree {
    let mut tree = read_tree(directory).unwrap();
    tree.remove("lost+found");
    tree
}

#[test]
fn a_mount_point_is_filled_in_place() {
    let disks = [
        available(ScratchFs::ext4(&Ext4::default())),
        available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 64 << 20, inodes: None })),
    ];
    for disk in disks.into_iter().flatten() {
        let expected = expected_tree_of(&genuine_full());
        let before = read_tree(disk.path()).unwrap();

        // A failure leaves it as it was.
        let site = Site::new();
        let archive = fs::read(genuine_full()).unwrap();
        let cut = site.write("cut", &archive[..archive.len() / 2]);
        let error = unpack(&small(&cut, disk.path())).unwrap_err();
        assert_eq!(error.family(), Family::BadArchive, "{error}");
        assert_same_tree(&read_tree(disk.path()).unwrap(), &before, "after a failure");

        unpack(&small(&genuine_full(), disk.path())).unwrap();
        assert_same_tree(&without_lost_and_found(disk.path()), &expected, "mount point");

        // Now it is not empty.
        let error = unpack(&small(&genuine_full(), disk.path())).unwrap_err();
        assert!(matches!(error, UnpackError::Commit(CommitError::NotClean { .. })), "{error}");
        assert_same_tree(&without_lost_and_found(disk.path()), &expected, "mount point, again");

        // Below it.
        let output = disk.path().join("below");
        unpack(&small(&genuine_full(), &output)).unwrap();
        assert_holds(&output, &expected, "below a mount point");
    }
}

#[test]
fn a_disk_of_large_sectors_takes_everything() {
    let options = Ext4 { sector_bytes: 4096, ..Ext4::default() };
    let Some(disk) = available(ScratchFs::ext4(&options)) else { return };
    let site = Site::new();
    let spec = ArchiveSpec { total_bytes: 10_000_000, ..ArchiveSpec::default() };
    // Read from there, and written there.
    let archive = disk.path().join(spec.name());
    fs::copy(site.archive(&spec), &archive).unwrap();
    let expected = expected_tree_of(&archive);
    for direct in ["auto", "on", "off"] {
        let output = disk.path().join(direct);
        let report = run(tool(&archive, &output).args([
            "--format",
            "json",
            &format!("--use-direct-io={direct}"),
        ]))
        .assert_code(0)
        .json();
        assert_holds(&output, &expected, direct);
        if direct != "auto" {
            assert_eq!(report["direct_write"], direct == "on", "{report:#}");
        }
        fs::remove_dir_all(&output).unwrap();
    }
}

#[test]
fn accounts_may_be_on_another_file_system() {
    let Some(disk) = available(ScratchFs::ext4(&Ext4::default())) else { return };
    let memory = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 64 << 20, inodes: None }));
    let site = Site::new();
    let expected = expected_tree_of(&genuine_full());
    let mut accounts = vec![disk.path().join("accounts")];
    accounts.extend(memory.as_ref().map(|memory| memory.path().to_owned()));
    let list: Vec<String> = accounts.iter().map(|path| path.display().to_string()).collect();
    run(tool(&genuine_full(), &site.output()).args(["--accounts", &list.join(",")])).assert_code(0);

    let mut found = read_tree(&site.output()).unwrap();
    found.insert("accounts".to_owned(), Node::Dir { mode: 0o755 });
    for directory in &accounts {
        let storages = read_tree(directory).unwrap();
        assert!(!storages.is_empty(), "{} got nothing", directory.display());
        found.extend(storages.into_iter().map(|(name, node)| (format!("accounts/{name}"), node)));
    }
    assert_same_tree(&found, &expected, "accounts elsewhere");
}

#[test]
fn several_destinations_fail_together() {
    let options = Ext4 { size_bytes: 8 << 20, ..Ext4::default() };
    let Some(disk) = available(ScratchFs::ext4(&options)) else { return };
    let site = Site::new();
    let spec = ArchiveSpec { total_bytes: 30_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let accounts = disk.path().join("accounts");
    let (before, before_there) = (site.state(), read_tree(disk.path()).unwrap());
    for (flags, error) in
        [(&[][..], "the archive does not fit"), (&["--no-preflight"], "No space left")]
    {
        run(tool(&archive, &site.output()).arg("--accounts").arg(&accounts).args(flags))
            .assert_code(3)
            .assert_error(&[accounts.to_str().unwrap(), error]);
        site.assert_untouched(&before, "output");
        assert_same_tree(&read_tree(disk.path()).unwrap(), &before_there, "accounts");
    }
}

#[test]
fn a_read_only_file_system_is_the_environments_fault() {
    let Some(disk) = available(ScratchFs::ext4(&Ext4::default())) else { return };
    let assert_refused = |output: &Path| {
        let before = read_tree(disk.path()).unwrap();
        run(&mut tool(&genuine_full(), output))
            .assert_code(3)
            .assert_error(&["Read-only", "hint: the file system is mounted read-only"]);
        assert_same_tree(&read_tree(disk.path()).unwrap(), &before, output.display());
    };
    disk.remount("ro").unwrap();
    assert_refused(&disk.path().join("output"));
    assert_refused(disk.path());
    disk.remount("rw").unwrap();
    let empty = disk.path().join("empty");
    fs::create_dir(&empty).unwrap();
    disk.remount("ro").unwrap();
    assert_refused(&empty);
}

/// A directory that anybody can reach, with the program in it.
struct Public {
    directory: TempDir,
}

impl Public {
    fn new() -> Option<Self> {
        if !is_root() {
            skip("running as another user needs root");
            return None;
        }
        if !has_tool("setpriv", "--version") {
            return None;
        }
        // Not in the target directory: that may be in a home that only its owner may enter.
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        fs::copy(ledger_tool_path(), directory.path().join("ledger-tool")).unwrap();
        fs::copy(genuine_full(), directory.path().join("archive.tar.zst")).unwrap();
        let public = Self { directory };
        if !public.as_nobody().arg("--version").output().unwrap().status.success() {
            // Mounted noexec, or private.
            skip_unsupported("nobody cannot run a program in the temporary directory");
            return None;
        }
        Some(public)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn directory(&self, name: &str, mode: u32, owner: Option<u32>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&path, owner, owner).unwrap();
        path
    }

    fn as_nobody(&self) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(self.path("ledger-tool"))
            .env_remove("RUST_LOG")
            .env_remove("UNSNAP_CONFIG")
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    fn unpack_as_nobody(&self, output: &Path) -> Outcome {
        let mut tool = self.as_nobody();
        tool.args(["unpack", "archive.tar.zst", "--format", "json", "--output"]).arg(output);
        run(&mut tool)
    }
}

const NOBODY: Option<u32> = Some(65534);

#[test]
fn no_privileges_are_needed() {
    let Some(public) = Public::new() else { return };
    let expected = expected_tree_of(&genuine_full());
    let own = public.directory("own", 0o700, NOBODY);
    // The archive is root's: it may not be opened with O_NOATIME.
    let report = public.unpack_as_nobody(&own.join("output")).assert_code(0).json();
    assert_holds(&own.join("output"), &expected, "as nobody");
    assert_eq!(report["files"], 43);
    // Confining oneself needs no privileges either.
    let site = Site::new();
    let by_root = run(tool(&genuine_full(), &site.output()).args(["--format", "json"]));
    assert_eq!(report["sandbox"], by_root.assert_code(0).json()["sandbox"]);
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(own.join("output")).unwrap());
    assert_eq!(Some(owner), NOBODY);

    // Its own empty directory in one it may not write to.
    let closed = public.directory("closed", 0o755, None);
    let inside = public.directory("closed/inside", 0o755, NOBODY);
    public.unpack_as_nobody(&inside).assert_code(0);
    assert_holds(&inside, &expected, "inside");
    assert_eq!(names(&closed), ["inside"]);
}

#[test]
fn missing_permissions_are_the_environments_fault() {
    let Some(public) = Public::new() else { return };
    let closed = public.directory("closed", 0o755, None);
    public
        .unpack_as_nobody(&closed.join("output"))
        .assert_code(3)
        .assert_error(&["closed", "hint: check the owner and permissions"]);
    assert_eq!(names(&closed).len(), 0);

    let secret = public.directory("secret", 0o700, None);
    public.unpack_as_nobody(&secret.join("output")).assert_code(3).assert_error(&["secret"]);

    let foreign = public.directory("closed/foreign", 0o755, None);
    public.unpack_as_nobody(&foreign).assert_code(3).assert_error(&["foreign"]);
    assert_eq!(names(&closed), ["foreign"]);

    // An archive that may not be read leaves no trace either.
    let own = public.directory("own", 0o700, NOBODY);
    File::open(public.path("archive.tar.zst"))
        .unwrap()
        .set_permissions(Permissions::from_mode(0o600))
        .unwrap();
    public
        .unpack_as_nobody(&own.join("output"))
        .assert_code(3)
        .assert_error(&["archive.tar.zst", "hint: check the owner and permissions"]);
    assert_eq!(names(&own).len(), 0);
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

//! Where crashes are staged: two disks, an archive, and runs of the program in every shape.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

use unsnap_test_support::{
    Site,
    disk::{Disk, Kind, Options},
    expected_tree, has_uring, ledger_tool, run,
};
use unsnap_testkit::{compress, random::Random, tar::snapshot_tar, tree::Tree};

use crate::law::{Case, Found, SHAPES, Shape};

/// Account files of the archive: enough for many moments in between.
pub const STORAGES: usize = 60;

const NEIGHBOUR: &str = "neighbour";

/// An archive, and what it becomes.
pub struct Subject {
    site: Site,
    pub archive: PathBuf,
    pub expected: Tree,
}

impl Subject {
    /// About 8 MB: files that are written directly and files that go through the page cache, of
    /// random bytes, so that a block that is lost or zero is noticed.
    pub fn new() -> Self {
        let site = Site::new();
        let mut random = Random::of(&[STORAGES as u64]);
        let storages: Vec<(u64, u32, Vec<u8>)> = (0..STORAGES)
            .map(|index| {
                let bytes = if index % 6 == 5 { 600_000 } else { 1_000 + 500 * index };
                let mut contents = vec![0; bytes];
                random.fill(&mut contents);
                (900 + index as u64, 1, contents)
            })
            .collect();
        let archive = compress::zstd_frames(&snapshot_tar(1000, &storages), 1 << 20, 1);
        let path = site.write("snapshot.tar.zst", &archive);
        Self { archive: path, expected: expected_tree(&archive), site }
    }

    /// For further files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.site.path(name)
    }
}

/// Two disks of a kind, on which one destination after the other is tried.
pub struct Stage<'a> {
    pub subject: &'a Subject,
    /// Holds the output in all shapes but [`Shape::MountPoint`].
    pub disk: Disk,
    /// Holds the account files, or is the output.
    pub other: Disk,
    pub shape: Shape,
}

impl<'a> Stage<'a> {
    /// `None`, with the reason told, where there can be none.
    pub fn new(subject: &'a Subject, kind: Kind) -> Option<Self> {
        let options = Options::default();
        let (disk, other) = (Disk::new(kind, &options)?, Disk::new(kind, &options)?);
        fs::write(disk.path().join(NEIGHBOUR), "mind your own business").unwrap();
        Some(Self { subject, disk, other, shape: Shape::Absent })
    }

    pub fn output(&self) -> PathBuf {
        match self.shape {
            Shape::MountPoint => self.other.path().to_owned(),
            _ => self.disk.path().join("output"),
        }
    }

    pub fn accounts(&self) -> PathBuf {
        self.other.path().join("run")
    }

    /// The name of the staging directory that says how far a run is, and of its account files.
    pub fn staged(&self) -> (PathBuf, PathBuf) {
        let beside = self.disk.path().join(".output.unsnap-staging");
        match self.shape {
            Shape::Absent | Shape::Empty => (beside.clone(), beside.join("accounts")),
            Shape::Accounts => (beside, self.other.path().join(".run.unsnap-staging")),
            Shape::MountPoint => {
                let inside = self.other.path().join(".unsnap-staging");
                (inside.clone(), inside.join("accounts"))
            }
        }
    }

    /// Sets the scene: destinations of this shape, durably, and nothing else.
    pub fn set(&mut self, shape: Shape) {
        self.shape = shape;
        for disk in [&self.disk, &self.other] {
            for entry in fs::read_dir(disk.path()).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap();
                if name == NEIGHBOUR || name == "lost+found" {
                    continue;
                }
                if path.is_dir() {
                    fs::remove_dir_all(path).unwrap();
                } else {
                    fs::remove_file(path).unwrap();
                }
            }
        }
        if shape == Shape::Empty {
            fs::create_dir(self.output()).unwrap();
        }
        for disk in [&self.disk, &self.other] {
            let root = fs::File::open(disk.path()).unwrap();
            rustix::fs::syncfs(&root).unwrap();
        }
    }

    /// A run of the program into this scene.
    pub fn command(&self, flags: &[&str]) -> Command {
        let mut tool = ledger_tool();
        self.arguments(&mut tool, flags);
        tool
    }

    pub fn arguments(&self, tool: &mut Command, flags: &[&str]) {
        // Its storages hold random bytes.
        tool.arg("unpack").arg(&self.subject.archive).args(["--verify", "none"]);
        tool.arg("--output").arg(self.output());
        if self.shape == Shape::Accounts {
            tool.arg("--accounts").arg(self.accounts());
        }
        tool.args(["--memory-budget", "16MiB", "--decode-threads", "2"]).args(flags);
    }

    /// The power fails, for all disks at once.
    pub fn cut_power(&self) {
        // The one that publishes first goes first: whoever sees the other one alive must not take
        // that for a sign.
        self.other.cut_power();
        self.disk.cut_power();
    }

    pub fn remount(&mut self) {
        self.disk.remount();
        self.other.remount();
    }

    pub fn judge(&self, reported: bool) -> Result<Found, String> {
        let (output, accounts) = (self.output(), self.accounts());
        let expected = &self.subject.expected;
        let case = Case { shape: self.shape, output: &output, accounts: &accounts, expected };
        let found = case.judge(reported)?;
        match fs::read_to_string(self.disk.path().join(NEIGHBOUR)) {
            Ok(text) if text == "mind your own business" => Ok(found),
            result => Err(format!("the file beside the destination is {result:?}")),
        }
    }

    /// What was found must not stand in the way of the next run, which leaves nothing but its
    /// result. Where an interrupted publication does stand in the way, it is refused and stays as
    /// it is, until somebody has removed it. Says whether it has resumed the one before, which it only
    /// does with `resume`.
    pub fn assert_next_run_succeeds(&mut self, found: Found, resume: bool, what: &str) -> bool {
        match found {
            Found::Untouched => {}
            Found::Complete => {
                run(&mut self.command(&["-q"])).assert_code(4);
                assert_eq!(self.judge(true), Ok(Found::Complete), "{what}");
                self.set(self.shape);
            }
            Found::AccountsOnly | Found::PartlyMoved => {
                run(&mut self.command(&["-q"])).assert_code(4);
                assert_eq!(self.judge(false), Ok(found), "{what}");
                self.set(self.shape);
            }
        }
        let flags: &[&str] =
            if resume { &["--format=json", "--resume"] } else { &["--format=json"] };
        let report = run(&mut self.command(flags)).assert_code(0).json();
        assert_eq!(self.judge(true), Ok(Found::Complete), "{what}, the next run: {report:#}");
        let mut left = names(self.disk.path());
        left.extend(names(self.other.path()));
        left.retain(|name| name.contains("unsnap"));
        assert!(left.is_empty(), "{what}: the next run has left {left:?}");
        assert!(resume || report["resumed"].is_null(), "{what}: {report:#}");
        !report["resumed"].is_null()
    }
}

pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Rounds that were asked for, or these.
pub fn rounds(default: usize) -> usize {
    let asked = std::env::var("UNSNAP_CRASH_ROUNDS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Whether more was asked for than what fits into CI.
pub fn is_long() -> bool {
    std::env::var_os("UNSNAP_CRASH_ROUNDS").is_some()
}

/// Shapes in turn.
pub fn shape_of(round: usize) -> Shape {
    SHAPES[round % SHAPES.len()]
}

/// Ways of running, which must make no difference.
pub fn random_flags(random: &mut Random) -> Vec<&'static str> {
    let engines = ["--io-engine=threads", "--io-engine=auto", "--io-engine=uring"];
    vec![
        "--quiet",
        *random.pick(&engines[..if has_uring() { 3 } else { 1 }]),
        *random.pick(&["--use-direct-io=auto", "--use-direct-io=auto", "--use-direct-io=off"]),
        *random.pick(&["--checkpoint-every=16GiB", "--checkpoint-every=300kB"]),
    ]
}

/// Figures of a run of tests, which the harness would swallow.
pub fn tell(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

//! Archives and destinations for the loop, and what must hold of them after a run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use unsnap_failure::{Failure, Family};
use unsnap_pass::{FaultPlan, IoEngine, LayoutKind};
use unsnap_ring::{Call, Injected};
use unsnap_test_support::Setup;
use unsnap_test_support::{Site, assert_same_tree, expected_tree, small};
use unsnap_testkit::{
    compress,
    tar::{TarBuilder, account_path, snapshot_head},
    tree::{Node, Tree},
};
use unsnap_unpack::{UnpackError, Unpacker};

use super::apart::{keep_log, take_log};

/// What is unpacked, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub archive: Kind,
    pub before: Before,
    /// A second destination, for the storages.
    pub accounts: bool,
    /// With a checkpoint after every file, so that a run can be resumed, and resuming.
    pub resume: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A snapshot in one zstd frame.
    OneFrame,
    /// A snapshot in zstd frames of 9000 bytes.
    Frames,
    /// A tree that is no snapshot, in lz4 frames.
    Tree,
}

/// What is at the destination before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Nothing,
    /// An empty directory, which is replaced.
    Empty,
    /// A directory that cannot be replaced and is filled entry by entry.
    LostAndFound,
    /// What a run that was killed has left beside it.
    LeftOver,
    /// What a run has left that can be resumed.
    Interrupted,
}

impl Kind {
    fn tar(self) -> Vec<u8> {
        match self {
            Self::OneFrame | Self::Frames => snapshot_head(100, &[1; 900], &[2; 5000])
                // Of several writes, and of one; written directly, and through the page cache.
                .account(&account_path(90, 1), &vec![3; 20_000])
                .account(&account_path(91, 2), &[4; 700])
                .account(&account_path(92, 3), &[5; 4096])
                .finish(),
            Self::Tree => TarBuilder::new()
                .directory("empty/")
                .directory("a/")
                .file("a/first", &[6; 300])
                .file("implied/deep/direct", &[7; 13_000])
                .file("implied/deep/cached", &[8; 7000])
                .file("nothing", &[])
                .finish(),
        }
    }

    fn bytes(self) -> Vec<u8> {
        match self {
            Self::OneFrame => compress::zstd_one_frame(&self.tar(), 1, None, false, false),
            Self::Frames => compress::zstd_frames(&self.tar(), 9000, 1),
            Self::Tree => compress::lz4_frames(&self.tar(), 2500),
        }
    }
}

pub struct Ground {
    scenario: Scenario,
    site: Site,
    archive: PathBuf,
    /// Where destinations are, before a run and after one that succeeded.
    before: Tree,
    after: Tree,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed,
    /// Failed, with something left behind.
    LeftBehind,
    /// Failed, and what was published could not be taken back.
    Stuck,
}

impl Ground {
    pub fn new(scenario: Scenario, directory: &Path) -> Self {
        keep_log();
        let site = Site::new_in(directory);
        let bytes = scenario.archive.bytes();
        let archive = site.write("archive", &bytes);
        let mut ground = Self { scenario, site, archive, before: Tree::new(), after: Tree::new() };
        ground.lay();
        ground.before = ground.site.state();
        ground.after = ground.model(&expected_tree(&bytes));
        ground
    }

    /// What there must be after a success.
    fn model(&self, unpacked: &Tree) -> Tree {
        let mut tree = self.before.clone();
        tree.retain(|path, _| !is_staging(path));
        let directory = Node::Dir { mode: 0o755 };
        if self.scenario.before != Before::LostAndFound {
            tree.insert("output".to_owned(), directory.clone());
        }
        for (path, node) in unpacked {
            let place = match path.strip_prefix("accounts/").filter(|_| self.scenario.accounts) {
                Some(name) => format!("accounts/{name}"),
                None if self.scenario.accounts && path == "accounts" => "accounts".to_owned(),
                None => format!("output/{path}"),
            };
            tree.insert(place, node.clone());
        }
        tree
    }

    /// Puts everything as it is before a run.
    pub fn lay(&self) {
        for entry in fs::read_dir(self.site.place()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            }
        }
        let mut places = vec![self.site.output()];
        places.extend(self.accounts());
        for place in places {
            match self.scenario.before {
                Before::Nothing | Before::Interrupted => {}
                Before::Empty => fs::create_dir(place).unwrap(),
                Before::LostAndFound => fs::create_dir_all(place.join("lost+found")).unwrap(),
                Before::LeftOver => {
                    let name = place.file_name().unwrap().to_str().unwrap();
                    let staging = place.with_file_name(format!(".{name}.unsnap-staging"));
                    fs::create_dir_all(staging.join("some/where")).unwrap();
                    fs::write(staging.join("some/where/half"), "ha").unwrap();
                    fs::write(staging.join("version"), "1.2").unwrap();
                }
            }
        }
        if self.scenario.before == Before::Interrupted {
            self.interrupt();
        }
    }

    /// Leaves what can be resumed: the third file cannot be closed.
    fn interrupt(&self) {
        let mut config = self.config();
        config.pass.io.engine =
            IoEngine::Faulty(FaultPlan::new(0).fail_nth(Call::Close, 2, Errno::IO));
        let result = config.unpacker().and_then(Unpacker::run);
        let journal = self.site.place().join(".output.unsnap-staging/.unsnap-journal");
        assert!(result.is_err() && journal.exists(), "{result:?}");
    }

    /// Whether runs resume what others have left.
    pub fn resumes(&self) -> bool {
        self.scenario.resume
    }

    fn accounts(&self) -> Option<PathBuf> {
        self.scenario.accounts.then(|| self.site.place().join("accounts"))
    }

    fn config(&self) -> Setup {
        let mut config = small(&self.archive, &self.site.output());
        config.accounts = self.accounts().into_iter().collect();
        if self.scenario.archive == Kind::Tree {
            config.layout = LayoutKind::Any;
        }
        // Small, so that there are files of several writes, frames of several reads, and segments
        // that return.
        config.pass.tuning.decode.segment_bytes = Some(6000);
        config.pass.tuning.decode.chunk_bytes = Some(4096);
        config.pass.tuning.direct_bytes_min = Some(4096);
        if self.scenario.resume {
            config.resume = true;
            config.pass.tuning.checkpoint_bytes = Some(1);
        }
        config
    }

    /// One run under a plan, judged. `cut`: whether the plan cuts a transfer down to nothing, which
    /// may end in an error though no fault was injected.
    pub fn run(&self, plan: &FaultPlan, cut: bool, what: &str) -> Outcome {
        let mut config = self.config();
        config.pass.io.engine = IoEngine::Faulty(plan.clone());
        take_log();
        let result = config.unpacker().and_then(Unpacker::run);
        let (injected, log) = (plan.injected(), take_log());
        let what = format!("{what}: {injected:?}, {result:?}, log: {log:?}");
        match result {
            Ok(report) => {
                let told = |fault: &Injected| is_told(fault, &log, &report.fallbacks);
                let survived = |fault| may_be_survived(fault, self.scenario.before) || told(fault);
                let ignored = injected.iter().find(|fault| !survived(fault));
                assert!(ignored.is_none(), "{ignored:?} was taken for a success: {what}");
                let resumed = report.resumed.is_some();
                let can = self.scenario.before == Before::Interrupted;
                assert!(resumed || !can || !injected.is_empty() || cut, "not resumed: {what}");
                self.assert_done(&log, &what)
            }
            Err(error) => {
                assert!(!injected.is_empty() || cut, "failed for no reason: {what}");
                self.assert_told(&error, &injected, &what);
                self.assert_taken_back(&injected, &log, &what)
            }
        }
    }

    /// A run without faults, after one that failed: it must succeed, and leave nothing behind.
    pub fn run_again(&self, outcome: Outcome, what: &str) {
        if matches!(outcome, Outcome::Stuck | Outcome::Done) {
            self.lay();
        }
        // What is laid may be a run that is interrupted, and says so.
        take_log();
        let result = self.config().unpacker().and_then(Unpacker::run);
        let log = take_log();
        assert!(result.is_ok() && log.is_empty(), "the run after {what}: {result:?}, {log}");
        assert_same_tree(&self.site.state(), &self.after, format_args!("the run after {what}"));
    }

    fn assert_done(&self, log: &str, what: &str) -> Outcome {
        let mut state = self.site.state();
        if log.contains("left behind") {
            state.retain(|path, _| !is_staging(path));
        }
        assert_same_tree(&state, &self.after, what);
        Outcome::Done
    }

    /// The error must be the environment's, and name what failed, where, and why.
    fn assert_told(&self, error: &UnpackError, injected: &[Injected], what: &str) {
        let family = error.family();
        let raced = |fault: &Injected| families_of_races(fault.errno).contains(&family);
        assert!(family == Family::Environment || injected.iter().any(raced), "{what}");
        let (text, place) = (error.to_string(), self.site.path("").display().to_string());
        assert!(text.contains(&place), "no path in {text:?}: {what}");
        if let ([fault], Family::Environment) = (injected, family) {
            assert_eq!(error.errno(), Some(fault.errno), "{what}");
            let errno = fault.errno.to_string();
            assert!(text.starts_with("cannot ") && text.contains(&errno), "{text:?}: {what}");
        }
    }

    /// Everything must be as before. If more than one step failed, taking back may be what failed:
    /// then that must have been told, and what is there must be what was or what was to come.
    fn assert_taken_back(&self, injected: &[Injected], log: &str, what: &str) -> Outcome {
        let several = injected.len() > 1;
        let locked =
            |fault: &Injected| fault.call == Call::Lock && fault.errno == Errno::WOULDBLOCK;
        let another_has_it = injected.iter().any(locked);
        let mut state = self.site.state();
        let mut before = self.before.clone();
        if self.scenario.before == Before::LeftOver || self.scenario.resume || another_has_it {
            // Another run's, or for another run: whether it is there does not matter.
            before.retain(|path, _| !is_staging(path));
            state.retain(|path, _| !is_staging(path));
        }
        if !several {
            assert_same_tree(&state, &before, what);
        }
        if state == before {
            return Outcome::Failed;
        }
        assert!(!log.is_empty(), "something was left behind in silence: {what}: {state:?}");
        state.retain(|path, _| !is_staging(path));
        if state == before {
            return Outcome::LeftBehind;
        }
        assert!(log.contains("cannot take back a publication"), "{what}: {state:?}");
        for (path, node) in &state {
            let known = [self.before.get(path), self.after.get(path)].contains(&Some(node));
            assert!(known, "{path} is neither old nor new: {what}");
        }
        if self.scenario.before != Before::LostAndFound {
            // Published by one rename, so all is there or nothing is.
            for place in ["output/", "accounts/"] {
                let below =
                    |tree: &Tree| tree.keys().filter(|path| path.starts_with(place)).count();
                let found = below(&state);
                assert!(found == 0 || found == below(&self.after), "{what}: {state:?}");
            }
        }
        Outcome::Stuck
    }
}

/// Whether a success has told that it had to do without something: without a journal, or without
/// what was left to be resumed.
fn is_told(fault: &Injected, log: &str, fallbacks: &[String]) -> bool {
    let anew = fallbacks.iter().filter(|fallback| fallback.starts_with("starting over: "));
    let journal = log.lines().filter(|line| line.contains("journal"));
    let errno = fault.errno.to_string();
    anew.map(String::as_str).chain(journal).any(|told| told.contains(&errno))
}

/// Whether a path below the place of destinations is, or lies in, a staging directory.
fn is_staging(path: &str) -> bool {
    path.split('/').any(|part| part.ends_with(".unsnap-staging"))
}

/// Answers that say that somebody else was there first, or that a path is not what it was.
fn families_of_races(errno: Errno) -> &'static [Family] {
    match errno {
        Errno::NOENT => &[Family::NotClean, Family::Request],
        Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::WOULDBLOCK => &[Family::NotClean],
        _ => &[],
    }
}

/// Whether a run may go on after this answer and succeed, because there is another way. Everything
/// else that is not reported as a failure has been overlooked.
fn may_be_survived(fault: &Injected, before: Before) -> bool {
    match fault.call {
        // Through the page cache, or by asking another way. (A look that matters and fails is told;
        // the reader's looks for direct I/O do not matter.)
        Call::OpenDirect
        | Call::TrialRead
        | Call::TrialWrite
        | Call::Statx
        | Call::CacheStat
        | Call::Stat => true,
        // An operation that was interrupted starts over, and a direct read that is refused goes
        // through the page cache.
        Call::Read => matches!(fault.errno, Errno::INTR | Errno::AGAIN | Errno::INVAL),
        Call::Write => matches!(fault.errno, Errno::INTR | Errno::AGAIN),
        // Once more, a moment later.
        Call::Lock => matches!(fault.errno, Errno::INTR | Errno::AGAIN),
        // And what an interrupted run has left of trying things out is removed.
        Call::Create => matches!(fault.errno, Errno::INTR | Errno::AGAIN | Errno::EXIST),
        // Directories that were left are tried.
        Call::RemoveDirectory => {
            before == Before::Interrupted && matches!(fault.errno, Errno::NOENT | Errno::NOTEMPTY)
        }
        // A close that was interrupted has closed.
        Call::SetLen | Call::Close => fault.errno == Errno::INTR,
        Call::Open => match fault.errno {
            // Once more; without O_NOATIME; once more, after another run has removed its staging
            // directory.
            Errno::INTR | Errno::PERM | Errno::NOENT => true,
            // In the destination, instead of beside it.
            Errno::ACCESS | Errno::ROFS => before == Before::Empty,
            _ => false,
        },
        Call::MakeDirectory => match fault.errno {
            // What another run has left.
            Errno::EXIST => true,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => before == Before::Empty,
            _ => false,
        },
        Call::SetMode => {
            matches!(fault.errno, Errno::PERM | Errno::ROFS) && before == Before::Empty
        }
        // What does not exist is not resolved; and there is a journal in few cases.
        Call::Resolve | Call::Remove => fault.errno == Errno::NOENT,
        Call::RenameToNew => match fault.errno {
            // There are file systems that cannot rename like this.
            Errno::INVAL => true,
            // In emptying a directory any name will do.
            Errno::EXIST => before == Before::LeftOver,
            _ => false,
        },
        _ => false,
    }
}

//! A machine with a validator's directories, for the stand-in validator.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use tempfile::TempDir;
use unsnap_testkit::{bank::GENESIS_S, series::Snapshot};

use crate::{
    cleaned,
    disk::Disk,
    ledger::{Ledger, names},
    run, scratch_directory,
};

/// Files of a validator that are no business of unsnap.
const OWN_FILES: [&str; 4] = [
    "genesis.bin",
    "tower-1_9-7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2.bin",
    "validator-keypair.json",
    "rocksdb/000017.sst",
];

const HOUR: Duration = Duration::from_hours(1);

/// The bytes of such a file. The genesis is that of the archives' cluster.
fn own_file(name: &str) -> Vec<u8> {
    let mut bytes = name.repeat(100).into_bytes();
    if name == "genesis.bin" {
        bytes[..8].copy_from_slice(&GENESIS_S.to_le_bytes());
    }
    bytes
}

/// What a start of the validator alone would come to.
#[derive(Clone, Debug)]
pub struct Alone {
    /// `state`, `archives` or `genesis`.
    pub source: String,
    /// The slot that it would begin with.
    pub slot: u64,
    /// The slot of the newest pair of archives, 0 if there is none.
    pub archives: u64,
    /// Whether it would come up.
    pub up: bool,
    /// Why not.
    pub reason: String,
}

/// A validator's directories, perhaps on a disk of their own.
#[derive(Debug)]
pub struct Machine {
    // The scratch directory goes last.
    /// The disk, if they have one of their own.
    pub disk: Option<Disk>,
    /// Ledger, snapshots and accounts paths.
    pub ledger: Ledger,
    /// Where incremental archives are, if not with the others.
    incremental: Option<PathBuf>,
    /// Good archives that must be there, with their bytes.
    pub archives: BTreeMap<PathBuf, Vec<u8>>,
    scratch: TempDir,
}

impl Machine {
    /// Makes one for the stand-in at a path. Of the shapes of directories there are two, one as simple
    /// and one as spread out as they come.
    pub fn new(stand_in: &Path, disk: Option<Disk>, shape: u32) -> Self {
        let scratch = TempDir::new_in(scratch_directory()).unwrap();
        let place = disk.as_ref().map_or(scratch.path(), Disk::path).to_owned();
        let mut ledger = Ledger::new(&place, 1 + usize::from(shape > 0));
        let mut incremental = None;
        if shape == 0 {
            ledger.accounts = vec![ledger.root.join("accounts")];
        } else {
            ledger.snapshots = place.join("snapshots");
            incremental = Some(place.join("incremental"));
        }
        let bin = scratch.path().join("bin");
        fs::create_dir(&bin).unwrap();
        // No copy: another test's child may hold it open for writing, and then it cannot be executed.
        fs::hard_link(stand_in, bin.join("agave-validator")).unwrap();
        let machine = Self { disk, ledger, incremental, archives: BTreeMap::new(), scratch };
        for directory in [&machine.ledger.snapshots, machine.incremental_archives()] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::create_dir(machine.ledger.root.join("rocksdb")).unwrap();
        for name in OWN_FILES {
            fs::write(machine.ledger.root.join(name), own_file(name)).unwrap();
        }
        machine
    }

    /// Returns a path that is not the validator's, on another file system than its own if that is a
    /// disk.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the stand-in under the name of the real program.
    pub fn program(&self) -> PathBuf {
        self.path("bin/agave-validator")
    }

    /// Returns the directory of incremental archives.
    pub fn incremental_archives(&self) -> &Path {
        self.incremental.as_ref().unwrap_or(&self.ledger.snapshots)
    }

    /// Returns the arguments that name the directories.
    pub fn places(&self) -> Vec<String> {
        let mut arguments = self.ledger.arguments();
        if let Some(incremental) = &self.incremental {
            let incremental = incremental.display().to_string();
            arguments.extend(["--incremental-snapshot-archive-path".to_owned(), incremental]);
        }
        arguments
    }

    /// Returns the validator's arguments.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = self.places();
        // Flags of the real one.
        arguments.extend(["--identity".to_owned(), "validator-keypair.json".to_owned()]);
        arguments.push("--no-snapshot-fetch".to_owned());
        arguments
    }

    /// Returns what a start of the validator alone would come to, with these further arguments.
    /// Changes nothing.
    pub fn alone(&self, further: &[&str]) -> Alone {
        let mut command = cleaned(Command::new(self.program()));
        command.args(self.arguments()).args(further).env("STAND_IN_WHAT_IF", "1");
        let told = run(&mut command).assert_code(0).json();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Alone {
            source: text(&told["source"]),
            slot: told["slot"].as_u64().unwrap(),
            archives: told["archives"].as_u64().unwrap(),
            up: told["up"].as_bool().unwrap(),
            reason: text(&told["reason"]),
        }
    }

    /// Puts an archive in its place, as a download does.
    pub fn add_archive(&mut self, snapshot: Snapshot) {
        let (name, bytes) = snapshot.archive();
        let directory = match snapshot.base() {
            None => &self.ledger.snapshots,
            Some(_) => self.incremental_archives(),
        };
        let (temporary, path) = (directory.join("tmp-download"), directory.join(name));
        fs::write(&temporary, &bytes).unwrap();
        fs::rename(&temporary, &path).unwrap();
        self.archives.insert(path, bytes);
    }

    /// The validator has written an archive, and has removed what it pleased.
    pub fn archive_written(&mut self, path: &Path) {
        self.archives.retain(|known, _| known.exists());
        // One that is older than those that are there goes at once: the validator had to start from
        // older ones.
        if path.exists() {
            self.archives.insert(path.to_owned(), fs::read(path).unwrap());
        }
    }

    /// Returns good archives, full or incremental, the oldest first.
    pub fn good(&self, full: bool) -> Vec<PathBuf> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut good: Vec<PathBuf> = self.archives.keys().cloned().collect();
        good.retain(|path| name(path).starts_with("snapshot-") == full);
        // Slots have the same number of digits for long enough.
        good.sort_by_key(name);
        good
    }

    /// Cuts an archive, as a crash or a disk may.
    pub fn cut(&mut self, path: &Path, bytes: u64) {
        File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
        self.archives.remove(path);
    }

    /// Removes what was renamed as bad, as an operator does.
    pub fn remove_bad_archives(&self) {
        for directory in [&self.ledger.snapshots, self.incremental_archives()] {
            for name in names(directory).iter().filter(|name| name.ends_with(".unsnap-bad")) {
                // The service may be quicker.
                let _ = fs::remove_file(directory.join(name));
            }
        }
    }

    /// Makes everything that the front end remembers older by an hour: the validator that has come up
    /// runs for so long. (Starts follow each other within milliseconds here, and each would look like
    /// the early end of a validator.)
    pub fn let_an_hour_pass(&self) {
        let path = self.ledger.snapshots.join(".unsnap-attempts");
        let Ok(text) = fs::read_to_string(&path) else { return };
        let mut memory: Value = serde_json::from_str(&text).unwrap();
        let age = |time: &mut Value| {
            if let Some(seconds) = time.as_u64() {
                *time = seconds.saturating_sub(HOUR.as_secs()).into();
            }
        };
        age(&mut memory["begun"]);
        age(&mut memory["killed_at"]);
        for served in memory["served"].as_array_mut().unwrap() {
            age(&mut served["at"]);
        }
        // In its place: the disk may be full.
        let aged = format!("{memory:<width$}", memory = memory.to_string(), width = text.len());
        assert_eq!(aged.len(), text.len());
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(aged.as_bytes(), 0).unwrap();
        // The service keeps away from a ledger for a moment after this was written.
        file.set_modified(SystemTime::now() - HOUR).unwrap();
    }

    /// Returns what is not as it was: files of the validator, and good archives.
    pub fn lost_files(&self) -> Vec<PathBuf> {
        let own = OWN_FILES.iter().map(|name| (self.ledger.root.join(name), own_file(name)));
        let own = own.filter(|(path, bytes)| fs::read(path).ok().as_ref() != Some(bytes));
        let archives = self.archives.iter();
        let archives = archives.filter(|(path, bytes)| fs::read(path).ok().as_ref() != Some(bytes));
        own.map(|(path, _)| path).chain(archives.map(|(path, _)| path.clone())).collect()
    }

    /// Returns a listing of everything, for a failure.
    pub fn listing(&self) -> String {
        let place = self.disk.as_ref().map_or(self.scratch.path(), Disk::path);
        let mut command = Command::new("find");
        run(command.arg(place).args(["-not", "-path", "*/bin/*", "-printf", "%P %s\n"])).stdout
    }
}

/// Returns the files in `run` of a place: the validator's own, or the ready one.
pub fn storages(ledger: &Ledger) -> Vec<PathBuf> {
    let runs = (0..ledger.accounts.len()).map(|index| ledger.run(index));
    let runs = runs.filter(|run| run.exists());
    runs.flat_map(|run| names(&run).into_iter().map(move |name| run.join(name))).collect()
}

//! A ledger, and a program in the place of `agave-validator` that writes down what it finds.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use unsnap_test_support::{Outcome, Site, cleaned, genuine, run, validator_path};
use unsnap_testkit::tree::reference_entries;

/// Of all that a program inherits, what a shell can see of itself. `$$` is the process that
/// was executed, not one of those it starts.
const SCRIPT: &str = r#"#!/bin/sh
out=$UNSNAP_TEST_OUT
printf '%s\0' "$@" > "$out/arguments"
# By the shell itself: while it starts something it blocks signals.
while IFS= read -r line; do printf '%s\n' "$line"; done < /proc/$$/status > "$out/status"
cat /proc/$$/limits > "$out/limits"
cat /proc/$$/environ > "$out/environ"
cat /proc/$$/oom_score_adj > "$out/oom_score_adj"
cut -d' ' -f19 /proc/$$/stat > "$out/nice"
pwd > "$out/directory"
ls -l /proc/$$/fd > "$out/descriptors"
echo $$ > "$out/pid"
echo "this is the validator"
exit 42
"#;

/// What the fake validator's exit code is.
pub const STARTED: i32 = 42;

pub struct Ledger {
    pub site: Site,
}

impl Ledger {
    /// Without archives.
    pub fn empty() -> Self {
        let ledger = Self { site: Site::new() };
        fs::create_dir(ledger.path()).unwrap();
        fs::create_dir(ledger.out()).unwrap();
        fs::write(ledger.fake(), SCRIPT).unwrap();
        fs::set_permissions(ledger.fake(), fs::Permissions::from_mode(0o755)).unwrap();
        ledger
    }

    /// With the genuine archives whose names contain one of these.
    pub fn with(parts: &[&str]) -> Self {
        let ledger = Self::empty();
        for part in parts {
            fs::copy(archive(part), ledger.path().join(archive(part).file_name().unwrap()))
                .unwrap();
        }
        ledger
    }

    pub fn path(&self) -> PathBuf {
        self.site.path("ledger")
    }

    pub fn fake(&self) -> PathBuf {
        self.site.path("agave-validator")
    }

    fn out(&self) -> PathBuf {
        self.site.path("out")
    }

    pub fn state(&self, slot: u64) -> PathBuf {
        self.path().join("snapshots").join(slot.to_string())
    }

    pub fn run_directory(&self) -> PathBuf {
        self.path().join("accounts/run")
    }

    /// `validator <own> agave-validator --ledger <LEDGER> <arguments>`. The fake validator ends at
    /// once, which is not to count against its state: only tests of that want a limit.
    pub fn command(&self, own: &[&str], arguments: &[&str]) -> Command {
        self.command_with(own, &self.path(), arguments)
    }

    /// The same with another ledger.
    pub fn command_with(&self, own: &[&str], ledger: &Path, arguments: &[&str]) -> Command {
        let mut command = cleaned(Command::new(validator_path()));
        if !own.contains(&"--attempts") {
            command.args(["--attempts", "0"]);
        }
        command.args(own).arg(self.fake()).arg("--ledger").arg(ledger).args(arguments);
        command.env("UNSNAP_TEST_OUT", self.out());
        command
    }

    /// Runs it, and forgets what an earlier one has written down.
    #[track_caller]
    pub fn start(&self, own: &[&str], arguments: &[&str]) -> Outcome {
        self.run(&mut self.command(own, arguments))
    }

    #[track_caller]
    pub fn run(&self, command: &mut Command) -> Outcome {
        fs::remove_dir_all(self.out()).unwrap();
        fs::create_dir(self.out()).unwrap();
        run(command)
    }

    /// Whether the fake validator was started.
    pub fn was_started(&self) -> bool {
        self.out().join("pid").exists()
    }

    pub fn wrote(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.out().join(name)).unwrap()).into_owned()
    }

    /// The fake validator's arguments.
    pub fn arguments(&self) -> Vec<OsString> {
        let bytes = fs::read(self.out().join("arguments")).unwrap();
        let mut words: Vec<_> = bytes.split(|byte| *byte == 0).collect();
        words.pop();
        words.into_iter().map(|word| OsString::from_vec(word.to_vec())).collect()
    }

    /// Panics unless the validator was started on a state, and told to take it.
    #[track_caller]
    pub fn assert_ready(&self, outcome: &Outcome, slot: u64) {
        assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
        assert_eq!(outcome.stdout, "this is the validator\n");
        let told = format!("unsnap: state of slot {slot} is ready: ");
        assert!(outcome.stderr.contains(&told), "{outcome:#?}");
        let arguments = self.arguments();
        let [.., flag, value] = &arguments[..] else { panic!("{arguments:?}") };
        assert_eq!(flag, "--use-snapshot-archives-at-startup");
        assert_eq!(value, "when-newest");
        assert!(self.state(slot).join("fastboot_version").exists());
    }

    /// Panics unless the validator was started with what was typed and nothing else.
    #[track_caller]
    pub fn assert_as_it_is(&self, outcome: &Outcome, arguments: &[&str], told: &str) {
        assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
        assert_eq!(outcome.stdout, "this is the validator\n");
        assert!(outcome.stderr.contains(told), "no {told:?} in {outcome:#?}");
        let mut expected = vec![OsString::from("--ledger"), self.path().into()];
        expected.extend(arguments.iter().map(OsString::from));
        assert_eq!(self.arguments(), expected);
        assert!(!self.is_marked(), "{outcome:#?}");
    }

    /// Whether there is a state that a validator would load.
    pub fn is_marked(&self) -> bool {
        fs::read_dir(self.path().join("snapshots")).is_ok_and(|states| {
            states.into_iter().any(|state| state.unwrap().path().join("fastboot_version").exists())
        })
    }

    /// Storages in `run`, with their contents.
    pub fn storages(&self) -> BTreeMap<String, Vec<u8>> {
        files(&self.run_directory())
    }
}

/// The genuine archive whose name contains this.
pub fn archive(part: &str) -> PathBuf {
    let named = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().contains(part);
    genuine().into_iter().find(named).unwrap_or_else(|| panic!("no archive {part}"))
}

pub fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default())
        })
        .collect()
}

/// Panics unless the state is that of these archives, the newest last. What is expected is made here
/// of other readers' entries and of what a validator's own files are known to hold.
#[track_caller]
pub fn assert_state_of(ledger: &Ledger, slot: u64, archives: &[PathBuf]) {
    let mut contents: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut expected: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for archive in archives {
        for entry in reference_entries(&fs::read(archive).unwrap()).unwrap() {
            let path = entry.path.trim_end_matches('/');
            if let Some(name) = path.strip_prefix("accounts/") {
                let (slot, _) = name.split_once('.').unwrap();
                contents.insert(slot.parse().unwrap(), entry.bytes);
            } else if path == "snapshots/status_cache" {
                expected.insert("status_cache".to_owned(), entry.bytes);
            } else if path == format!("snapshots/{slot}/{slot}") {
                expected.insert(slot.to_string(), entry.bytes);
            }
        }
    }
    expected.insert("version".to_owned(), b"1.2.0".to_vec());
    expected.insert("fastboot_version".to_owned(), b"3.0.0".to_vec());
    expected.insert("obsolete_accounts".to_owned(), vec![0; 8]);

    let mut found = files(&ledger.state(slot));
    let list = found.remove("storages_list").unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(found == expected, "a file of the state is not what it should be");

    // A number, then slot and id of each.
    let (count, entries) = list.split_at(8);
    assert_eq!(count, (contents.len() as u64).to_le_bytes());
    let mut ids = BTreeSet::new();
    let mut listed = BTreeMap::new();
    for entry in entries.chunks(12) {
        let slot = u64::from_le_bytes(entry[..8].try_into().unwrap());
        let id = u32::from_le_bytes(entry[8..].try_into().unwrap());
        assert!(ids.insert(id), "{id} is there twice");
        let bytes = contents.remove(&slot).unwrap_or_else(|| panic!("{slot} is there twice"));
        listed.insert(format!("{slot}.{id}"), bytes);
    }
    assert!(contents.is_empty(), "not listed: {:?}", contents.keys());
    let storages = ledger.storages();
    assert_eq!(storages.keys().collect::<Vec<_>>(), listed.keys().collect::<Vec<_>>());
    assert!(storages == listed, "a storage is not what it should be");
}

/// Standard error goes where nobody reads it.
pub fn without_readers(command: &mut Command) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stderr(Stdio::from(writer));
}

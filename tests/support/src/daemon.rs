//! A service under test: its directories, its process, its socket.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use unsnap_testkit::{
    archive::write_archive,
    spec::{ArchiveSpec, FileSizes},
};

use crate::{assert_holds, cleaned, expected_tree_of, scratch_directory, unpackd_path, wait};

/// Longer than any wait, on the slowest machine.
const HANG: Duration = Duration::from_mins(4);

/// Directories, a configuration, and perhaps a running process, which is killed when this is
/// dropped.
#[derive(Debug)]
pub struct Daemon {
    directory: TempDir,
    child: Option<Child>,
}

impl Default for Daemon {
    fn default() -> Self {
        Self::new()
    }
}

impl Daemon {
    /// Creates one with one tree target `tree` and short intervals. Starts nothing.
    pub fn new() -> Self {
        let directory = TempDir::new_in(scratch_directory()).unwrap();
        let daemon = Self { directory, child: None };
        for name in ["archives", "trees", "stock"] {
            fs::create_dir(daemon.path(name)).unwrap();
        }
        daemon.configure(&daemon.tree_target("tree", "trees", 1));
        daemon
    }

    /// Returns the path of a file or directory of the service.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the configuration of a `[[target]]` of trees.
    pub fn tree_target(&self, name: &str, directory: &str, keep: u32) -> String {
        let directory = self.path(directory).display().to_string();
        format!("[[target]]\nname = \"{name}\"\nkeep = {keep}\ndirectory = \"{directory}\"\n")
    }

    /// Writes the configuration, with this at its end.
    pub fn configure(&self, rest: &str) {
        let text = format!(
            "[archives]\ndirectory = \"{archives}\"\nrescan = \"2s\"\nsettle = \"1s\"\n\
             [service]\nstate-directory = \"{state}\"\n\
             [control]\nsocket = \"{socket}\"\n\
             [retry]\nfirst = \"200ms\"\nmost = \"1s\"\n\
             [unpack]\nio-engine = \"threads\"\nmemory-budget = \"8MiB\"\ndecode-threads = 1\n{rest}",
            archives = self.path("archives").display(),
            state = self.path("state").display(),
            socket = self.path("socket").display(),
        );
        fs::write(self.path("unpackd.toml"), text).unwrap();
    }

    /// Replaces a part of the configuration that occurs once.
    #[track_caller]
    pub fn edit(&self, from: &str, to: &str) {
        let path = self.path("unpackd.toml");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{from} in {text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// Returns a command of the program with its configuration. Unless that says otherwise, nothing
    /// of the disk is left to other programs: it may have less than the default.
    pub fn command(&self) -> Command {
        let mut command = cleaned(Command::new(unpackd_path()));
        let text = fs::read_to_string(self.path("unpackd.toml")).unwrap_or_default();
        if !text.contains("min-free") {
            command.env("UNPACKD_NEIGHBOUR_MIN_FREE", "0");
        }
        command.arg("--config").arg(self.path("unpackd.toml"));
        command
    }

    /// Starts the process, and waits until it answers.
    #[track_caller]
    pub fn start(&mut self) -> u32 {
        self.start_by(self.command())
    }

    /// Does the same by a command that becomes the program.
    #[track_caller]
    pub fn start_by(&mut self, mut command: Command) -> u32 {
        assert!(self.child.is_none());
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let pid = child.id();
        self.child = Some(child);
        self.until("it answers", |daemon| daemon.ask(&json!({"request": "status"})).is_ok());
        pid
    }

    /// Takes over a process that was started otherwise.
    pub fn adopt(&mut self, child: Child) {
        assert!(self.child.replace(child).is_none());
    }

    /// Returns the number of the process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Sends a signal that ends it, and waits for that.
    #[track_caller]
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        wait(&mut self.child.take().unwrap())
    }

    /// Sends a request, and returns its `ok` or its `error`.
    pub fn ask(&self, request: &Value) -> Result<Value, Value> {
        let refuse = |error: std::io::Error| json!({"kind": "io", "message": error.to_string()});
        let mut stream = UnixStream::connect(self.path("socket")).map_err(refuse)?;
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).map_err(refuse)?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).map_err(refuse)?;
        let mut reply: Value = serde_json::from_str(&line)
            .map_err(|error| json!({"kind": "io", "message": format!("{error}: {line}")}))?;
        match reply.get_mut("ok") {
            Some(ok) => Ok(ok.take()),
            None => Err(reply["error"].take()),
        }
    }

    /// Returns the status.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.ask(&json!({"request": "status"})).unwrap()
    }

    /// Returns the status of one target.
    #[track_caller]
    pub fn target(&self, name: &str) -> Value {
        let status = self.status();
        let targets = status["targets"].as_array().unwrap();
        targets.iter().find(|target| target["name"] == name).unwrap().clone()
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub fn until(&self, what: &str, mut is_true: impl FnMut(&Self) -> bool) {
        let since = Instant::now();
        while !is_true(self) {
            assert!(
                since.elapsed() < HANG,
                "never came true: {what}; status {:?}; log:\n{}",
                self.ask(&json!({"request": "status"})),
                self.log()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns everything the process has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits until a target's newest result is of this slot, and the target is idle.
    #[track_caller]
    pub fn until_settled(&self, target: &str, slot: u64) {
        self.until(&format!("{target} is at {slot}"), |daemon| {
            let target = daemon.target(target);
            target["results"][0]["slot"] == slot && target["state"] == "idle"
        });
    }

    /// Writes an archive to the stock, once, and returns its path.
    pub fn make(&self, spec: &ArchiveSpec) -> PathBuf {
        let path = self.path("stock").join(spec.name());
        if !path.exists() {
            write_archive(spec, &mut File::create(&path).unwrap()).unwrap();
        }
        path
    }

    /// Renames a file into the archives' directory.
    pub fn drop_in(&self, file: &Path) -> PathBuf {
        let path = self.path("archives").join(file.file_name().unwrap());
        let tmp = self.path("archives").join(format!("tmp-{}", std::process::id()));
        fs::copy(file, &tmp).unwrap();
        fs::rename(&tmp, &path).unwrap();
        path
    }

    /// Panics unless the tree of that name is exactly what the archive holds.
    #[track_caller]
    pub fn assert_tree(&self, trees: &str, name: &str, archive: &Path) {
        let directory = self.path(trees).join(name);
        assert_holds(&directory, &expected_tree_of(archive), name);
    }

    /// Returns the names in a directory, but for those that are being removed and the service's claim.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned());
        let mut names: Vec<String> =
            names.filter(|name| !name.starts_with(".unsnap-removed-")).collect();
        names.retain(|name| name != ".unsnap-service");
        names.sort();
        names
    }

    /// Returns a field of /proc/PID/status for each thread.
    pub fn threads(&self, field: &str) -> BTreeMap<String, u64> {
        let pid = self.pid();
        let mut found = BTreeMap::new();
        for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let task = task.unwrap();
            let Ok(text) = fs::read_to_string(task.path().join("status")) else { continue };
            let get = |field: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
                line.trim_start_matches(':').trim().to_owned()
            };
            let value = get(field).trim_end_matches(" kB").parse().unwrap();
            found.insert(format!("{} {}", get("Name"), task.file_name().display()), value);
        }
        found
    }

    /// Returns the number of open descriptors, and resident memory in KiB.
    pub fn size(&self) -> (usize, u64) {
        let pid = self.pid();
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        (descriptors, *self.threads("VmRSS").values().next().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a small full archive: some 40 files of 1.2 MB in all.
pub fn full(slot: u64, seed: u64) -> ArchiveSpec {
    ArchiveSpec {
        total_bytes: 300_000,
        file_sizes: FileSizes::Fixed(20_000),
        slot,
        seed,
        ..ArchiveSpec::default()
    }
}

/// Returns a small incremental archive.
pub fn incremental(base: u64, slot: u64, seed: u64) -> ArchiveSpec {
    ArchiveSpec { base_slot: Some(base), total_bytes: 60_000, ..full(slot, seed) }
}

/// A part of the configuration that makes jobs so slow that they take minutes.
pub const SLOW: &str = "[neighbour]\nrate-limit = \"20kB\"\n";

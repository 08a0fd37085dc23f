//! The programs in processes of their own, built by cargo when a test first wants them.

use std::{
    ffi::OsStr,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use unsnap_testkit::spec::{ArchiveSpec, FileSizes};

use crate::{HANG, Site, until};

/// Returns the path of the program `ledger-tool`.
pub fn ledger_tool_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("ledger-tool"))
}

/// Returns the path of the program `validator`.
pub fn validator_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("validator"))
}

/// Returns the path of the program `unpackd`.
pub fn unpackd_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("unpackd"))
}

/// Returns a program, built by cargo in the profile and target directory of these tests.
fn built(program: &str) -> PathBuf {
    // <target>/<profile>/deps/e2e-<hash>
    let test = std::env::current_exe().unwrap();
    let directory = test.ancestors().nth(2).unwrap();
    let profile = match directory.file_name().and_then(OsStr::to_str) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is not in a target directory", test.display()),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--profile", profile, "--bin", program])
        // With these, cargo gives every crate the features that it has in `cargo test --workspace`, so
        // that what was built for that is used here. Of the packages alone, and without a target that
        // has development dependencies, it would compile most crates again, libzstd included.
        .args(["--workspace", "--example", "gaps"])
        .arg("--target-dir")
        .arg(directory.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(built.success(), "{program} cannot be built");
    directory.join(program)
}

/// Returns a command of `ledger-tool` without the variables of this process that would change its
/// output.
pub fn ledger_tool() -> Command {
    cleaned(Command::new(ledger_tool_path()))
}

/// Returns a command of `ledger-tool`, started by a shell that runs a script first.
pub fn ledger_tool_after(script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{script}; exec \"$0\" \"$@\"")]).arg(ledger_tool_path());
    cleaned(shell)
}

/// Returns the command without this process's standard input, variables of unsnap and proxies.
pub fn cleaned(mut command: Command) -> Command {
    command.env_remove("RUST_LOG").env_remove("UNSNAP_CONFIG").stdin(Stdio::null());
    for variable in ["http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(variable);
    }
    command
}

/// The end of a program.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit status.
    pub status: ExitStatus,
    /// Everything it wrote to standard output.
    pub stdout: String,
    /// Everything it wrote to standard error.
    pub stderr: String,
}

impl Outcome {
    /// Panics unless it exited with this code.
    #[track_caller]
    pub fn assert_code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    /// Returns the report on standard output.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_str(&self.stdout) {
            Ok(json) => json,
            Err(error) => panic!("no report: {error}: {self:#?}"),
        }
    }

    /// Panics unless there is an error message on standard error, and all of these are in it.
    #[track_caller]
    pub fn assert_error(self, parts: &[&str]) -> Self {
        assert!(self.stderr.lines().any(|line| line.starts_with("error: ")), "{self:#?}");
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in {self:#?}");
        }
        self
    }
}

/// Runs a program to its end, and panics if that does not come.
#[track_caller]
pub fn run(command: &mut Command) -> Outcome {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    finish(child)
}

/// Waits for a program that was started with pipes, and panics if it hangs.
#[track_caller]
pub fn finish(mut child: Child) -> Outcome {
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = wait(&mut child);
    Outcome { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Returns where the threads of a process are, for who has to find out why it hangs.
fn tasks(pid: u32) -> String {
    let process = format!("/proc/{pid}");
    let read = |path: String| fs::read_to_string(path).unwrap_or_default().replace('\0', " ");
    let mut told = format!("{}\n", read(format!("{process}/cmdline")));
    for task in fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten() {
        let task = task.path().display().to_string();
        let status = read(format!("{task}/status"));
        let is_told =
            |line: &&str| ["Name", "State", "Sig", "Shd"].iter().any(|at| line.starts_with(at));
        let status: Vec<&str> = status.lines().filter(is_told).collect();
        let (waits_in, call) = (read(format!("{task}/wchan")), read(format!("{task}/syscall")));
        told.extend([&status.join(", "), "; ", &*waits_in, "; ", &*call]);
    }
    told
}

/// Waits for a program, and panics if it hangs.
#[track_caller]
pub fn wait(child: &mut Child) -> ExitStatus {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if since.elapsed() > HANG {
            let where_it_is = tasks(child.id());
            child.kill().unwrap();
            panic!("the program hangs\n{where_it_is}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn drain(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A run on standard input that stands in the middle: half of the archive has been fed, and some
/// files are staged.
#[derive(Debug)]
pub struct HalfWay {
    /// The process.
    pub tool: Child,
    /// Its standard input.
    pub feed: ChildStdin,
    /// The second half of the archive.
    pub rest: Vec<u8>,
}

impl HalfWay {
    /// Returns the archive it unpacks: of several segments, in files that are soon complete.
    pub fn spec() -> ArchiveSpec {
        let file_sizes = FileSizes::Fixed(200_000);
        ArchiveSpec { total_bytes: 40_000_000, file_sizes, ..ArchiveSpec::default() }
    }

    /// Starts a command whose destination is the site's output.
    pub fn start(command: &mut Command, site: &Site) -> Self {
        Self::start_in(command, site, &site.place())
    }

    /// Starts a command whose destination is `<place>/output`.
    pub fn start_in(command: &mut Command, site: &Site, place: &Path) -> Self {
        let mut archive = fs::read(site.archive(&Self::spec())).unwrap();
        let rest = archive.split_off(archive.len() / 2);
        let mut tool = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut feed = tool.stdin.take().unwrap();
        feed.write_all(&archive).unwrap();
        until("a storage is staged", || staged_storages(place) > 0);
        Self { tool, feed, rest }
    }

    /// Feeds the second half, and waits for the end.
    pub fn go_on(mut self) -> Outcome {
        // A program that takes no more has ended, and its output says why.
        let _ = self.feed.write_all(&self.rest);
        drop(self.feed);
        finish(self.tool)
    }
}

/// Returns the number of storages that a run to `<place>/output` has staged so far.
pub fn staged_storages(place: &Path) -> usize {
    let staged = fs::read_dir(place.join(".output.unsnap-staging/accounts"));
    staged.map_or(0, Iterator::count)
}

//! What all modules share: scratch directories, archives, the program, and ways to compare.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;
use unsnap_testkit::{
    archive::write_archive,
    compress,
    scratch::{ScratchFs, Unavailable},
    spec::{ArchiveSpec, FileSizes},
    tree::{Kind, Node, Tree, read_tree, reference_entries},
};
use unsnap_unpack::{Archive, Config, Error, IoEngine, LayoutKind, Report, Unpacker, Verify};

/// No step of any test takes this long; what does has hung.
const HANG: Duration = Duration::from_secs(90);

/// Tells on standard error why a test does nothing. Not by `eprintln`, which the test harness would
/// swallow when the test passes.
pub fn skip(why: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "skipped: {why}");
}

/// Whether a signal is ignored here, and so by what is started, which keeps to that: under nohup.
pub fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let is_ignored = ignored & (1 << (signal.as_raw() - 1)) != 0;
    if is_ignored {
        skip(format_args!("{signal:?} is ignored by whoever has started this"));
    }
    is_ignored
}

/// A scratch file system, or the reason why not told.
pub fn available(made: Result<ScratchFs, Unavailable>) -> Option<ScratchFs> {
    made.inspect_err(|unavailable| skip(unavailable)).ok()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a tool can be run; told if not.
pub fn has_tool(name: &str, probe: &str) -> bool {
    let found = Command::new(name).arg(probe).output().is_ok_and(|output| output.status.success());
    if !found {
        skip(format_args!("there is no {name}"));
    }
    found
}

/// Whether the kernel lets this process use io_uring; told if not.
pub fn has_uring() -> bool {
    static PROBED: OnceLock<bool> = OnceLock::new();
    *PROBED.get_or_init(|| {
        let mut config = Config::new(Archive::File(genuine().remove(0)), "");
        config.dry_run = true;
        config.io_engine = IoEngine::Uring;
        match unpack(&config) {
            Ok(_) => true,
            Err(error) => {
                skip(format_args!("all that needs io_uring: {error}"));
                false
            }
        }
    })
}

/// A bind mount, taken away when dropped.
pub struct Bound(PathBuf);

impl Bound {
    /// `None`, with the reason told, where that cannot be done.
    pub fn at(path: PathBuf, what: &Path) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let mount = Command::new("mount").arg("--bind").args([what, &path]).status();
        if mount.is_ok_and(|status| status.success()) {
            return Some(Self(path));
        }
        skip("no bind mounts");
        None
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A directory for one test, and a place in it that nothing but a destination may appear in.
pub struct Site {
    directory: TempDir,
}

impl Site {
    pub fn new() -> Self {
        Self::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub fn new_in(directory: &Path) -> Self {
        let directory = TempDir::new_in(directory).unwrap();
        let site = Self { directory };
        fs::create_dir(site.place()).unwrap();
        // Whatever happens, this must not be touched.
        fs::write(site.place().join("neighbour"), "mind your own business").unwrap();
        site
    }

    /// For archives and the like.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The directory that destinations are made in.
    pub fn place(&self) -> PathBuf {
        self.path("place")
    }

    /// The destination, which does not exist yet.
    pub fn output(&self) -> PathBuf {
        self.place().join("output")
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes an archive under its genuine name, unless it is there.
    pub fn archive(&self, spec: &ArchiveSpec) -> PathBuf {
        let path = self.path(&spec.name());
        if !path.exists() {
            let mut file = io::BufWriter::new(fs::File::create(&path).unwrap());
            write_archive(spec, &mut file).unwrap();
        }
        path
    }

    /// Removes a destination, and makes it anew if it is to be empty.
    pub fn reset(&self, empty: bool) {
        let output = self.output();
        if output.exists() {
            fs::remove_dir_all(&output).unwrap();
        }
        if empty {
            fs::create_dir(&output).unwrap();
        }
    }

    /// Everything where destinations are, to be compared with what is there later.
    pub fn state(&self) -> Tree {
        read_tree(&self.place()).unwrap()
    }

    /// Panics if anything has changed where destinations are: a file, a mode, a leftover.
    #[track_caller]
    pub fn assert_untouched(&self, before: &Tree, what: impl std::fmt::Display) {
        let after = self.state();
        assert!(after == *before, "{what}: was {before:?}, is {after:?}");
    }
}

/// The genuine archives in tests/data.
pub fn genuine() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut archives: Vec<PathBuf> = ["agave-tiny", "agave-tiny-lz4"]
        .iter()
        .flat_map(|folder| fs::read_dir(data.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| matches!(path.extension().and_then(OsStr::to_str), Some("zst" | "lz4")))
        .collect();
    archives.sort();
    assert_eq!(archives.len(), 4);
    archives
}

/// The genuine full archive, 43 files, 1.3 MB.
pub fn genuine_full() -> PathBuf {
    let is_it = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().contains("qRmx7H5b");
    genuine().into_iter().find(is_it).unwrap()
}

/// The same tar in every compressed shape, with what to call it.
pub fn shapes(tar: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("plain", tar.to_vec()),
        ("one zstd frame", compress::zstd_one_frame(tar, 1, None, false, false)),
        ("one zstd frame, sized", compress::zstd_one_frame(tar, 1, None, true, true)),
        ("one zstd frame, small window", compress::zstd_one_frame(tar, 3, Some(10), true, false)),
        ("zstd frames of 700 bytes", compress::zstd_frames(tar, 700, 1)),
        ("zstd frames of 9000 bytes", compress::zstd_frames(tar, 9000, 1)),
        ("zstd frames, unsized", compress::zstd_frames_unsized(tar, 3000, 1)),
        ("zstd raw blocks", compress::zstd_raw_blocks(tar, 1300)),
        ("zstd mixture", compress::zstd_mixed(tar, 7)),
        ("one lz4 frame", compress::lz4_frame(tar)),
        ("lz4 frames", compress::lz4_frames(tar, 2500)),
    ]
}

/// [`shapes`], and Firedancer's frames, which are cut at the entries of a plain snapshot.
pub fn snapshot_shapes(tar: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut shapes = shapes(tar);
    shapes.push(("zstd by Firedancer", compress::zstd_firedancer(tar, 1)));
    shapes
}

/// What an archive must become: exactly these files and directories, with these modes.
pub fn expected_tree(archive: &[u8]) -> Tree {
    let mut tree = Tree::new();
    for entry in reference_entries(archive).unwrap() {
        let path = entry.path.strip_prefix("./").unwrap_or(&entry.path).trim_end_matches('/');
        if path.is_empty() || path == "." {
            continue;
        }
        for (end, _) in path.match_indices('/') {
            tree.insert(path[..end].to_owned(), Node::Dir { mode: 0o755 });
        }
        let node = match entry.kind {
            Kind::File => Node::File { mode: 0o644, bytes: entry.bytes },
            Kind::Directory => Node::Dir { mode: 0o755 },
            // A setting for all that follows, which the reference shows as an entry.
            Kind::Other if path == "pax_global_header" => continue,
            Kind::Other => panic!("{path} is neither file nor directory"),
        };
        tree.insert(path.to_owned(), node);
    }
    tree
}

pub fn expected_tree_of(archive: &Path) -> Tree {
    expected_tree(&fs::read(archive).unwrap())
}

/// Panics with the first difference unless the directory holds exactly this.
#[track_caller]
pub fn assert_holds(directory: &Path, expected: &Tree, what: impl std::fmt::Display) {
    let found = read_tree(directory)
        .unwrap_or_else(|error| panic!("{what}: cannot read {}: {error}", directory.display()));
    assert_same_tree(&found, expected, &what);
    let root = fs::metadata(directory).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&root.permissions()) & 0o7777;
    assert_eq!(mode, 0o755, "{what}: mode of {}: {mode:o}", directory.display());
}

/// Panics with the first difference.
#[track_caller]
pub fn assert_same_tree(found: &Tree, expected: &Tree, what: impl std::fmt::Display) {
    if found == expected {
        return;
    }
    let paths: std::collections::BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    for path in paths {
        let (found, expected) = (found.get(path), expected.get(path));
        assert!(found == expected, "{what}: {path}: found {found:?}, expected {expected:?}");
    }
}

/// A configuration for small archives: little memory, so that a run costs little.
pub fn small(archive: &Path, output: &Path) -> Config {
    let mut config = Config::new(Archive::File(archive.to_owned()), output);
    config.memory_budget = Some(4 << 20);
    config.io_engine = IoEngine::Threads;
    config.decode_threads = Some(2);
    // What their storages hold is not what most tests are about: in many it is no accounts.
    config.verify = Verify::None;
    config
}

/// [`small`] for tars that are no snapshots.
pub fn small_any(archive: &Path, output: &Path) -> Config {
    let mut config = small(archive, output);
    config.layout = LayoutKind::Any;
    config
}

/// Unpacks by the library, and panics if that hangs.
#[track_caller]
pub fn unpack(config: &Config) -> Result<Report, Error> {
    let unpacker = Unpacker::new(config.clone());
    within(move || unpacker.run())
}

/// Does something on a thread of its own, and panics if that hangs.
#[track_caller]
pub fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let worker = thread::spawn(move || {
        let _ = done.send(work());
    });
    match result.recv_timeout(HANG) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("this hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().unwrap_err())
        }
    }
}

/// The program `ledger-tool`.
pub fn ledger_tool_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("unsnap-ledger-tool", "ledger-tool"))
}

/// The program `validator`.
pub fn validator_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("unsnap-validator", "validator"))
}

/// The program `unpackd`. For other test programs that share this file.
#[allow(dead_code)]
pub fn unpackd_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("unsnap-unpackd", "unpackd"))
}

/// A program, built by cargo in the profile and target directory of these tests.
fn built(package: &str, program: &str) -> PathBuf {
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
        .args(["build", "--quiet", "--package", package, "--profile", profile])
        .arg("--target-dir")
        .arg(directory.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(built.success(), "{program} cannot be built");
    directory.join(program)
}

/// The program, with nothing of this process's environment that would change what it says.
pub fn ledger_tool() -> Command {
    cleaned(Command::new(ledger_tool_path()))
}

/// The program with the arguments `$@`, from a shell that does something before.
pub fn ledger_tool_after(script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{script}; exec \"$0\" \"$@\"")]).arg(ledger_tool_path());
    cleaned(shell)
}

pub fn cleaned(mut command: Command) -> Command {
    command.env_remove("RUST_LOG").env_remove("UNSNAP_CONFIG").stdin(Stdio::null());
    command
}

/// What a program did.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    #[track_caller]
    pub fn assert_code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    /// The report on standard output.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_str(&self.stdout) {
            Ok(json) => json,
            Err(error) => panic!("no report: {error}: {self:#?}"),
        }
    }

    /// The message for people.
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

#[track_caller]
pub fn wait(child: &mut Child) -> ExitStatus {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if since.elapsed() > HANG {
            child.kill().unwrap();
            panic!("the program hangs");
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
pub struct HalfWay {
    pub tool: Child,
    pub feed: ChildStdin,
    pub rest: Vec<u8>,
}

impl HalfWay {
    /// The archive it unpacks: of several segments, in files that are soon complete.
    pub fn spec() -> ArchiveSpec {
        let file_sizes = FileSizes::Fixed(200_000);
        ArchiveSpec { total_bytes: 40_000_000, file_sizes, ..ArchiveSpec::default() }
    }

    pub fn start(command: &mut Command, site: &Site) -> Self {
        Self::start_in(command, site, &site.place())
    }

    /// The same where the destination is `<place>/output`.
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

    pub fn go_on(mut self) -> Outcome {
        // If it takes no more, it has ended, and what it says tells why.
        let _ = self.feed.write_all(&self.rest);
        drop(self.feed);
        finish(self.tool)
    }
}

/// Storages that a run to `<place>/output` has staged so far.
pub fn staged_storages(place: &Path) -> usize {
    let staged = fs::read_dir(place.join(".output.unsnap-staging/accounts"));
    staged.map_or(0, Iterator::count)
}

/// Waits until something has come true.
#[track_caller]
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_true() {
        assert!(since.elapsed() < HANG, "never came true: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A seed that is different in every run, printed so that a failure can be repeated:
/// `UNSNAP_TEST_SEED=<seed> cargo test ...`.
pub fn seed(test: &str) -> u64 {
    let given = std::env::var("UNSNAP_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    let _ = writeln!(io::stderr(), "{test}: UNSNAP_TEST_SEED={seed}");
    seed
}

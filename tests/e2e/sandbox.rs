//! Who takes over the parser gains nothing: the run is confined before it looks at the archive.
//!
//! The attack is a hook that the library calls in the parser's place, on its thread. That cleaning up,
//! filling mount points, going to several file systems and being nobody work under confinement is
//! what all other tests show, since it is the default.

use std::{
    fs::{self, File},
    io,
    net::{TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::symlink,
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::{Pid, test_kill_process},
};
use tempfile::TempDir;
use unsnap_commit::CommitError;
use unsnap_lookup::Reader;
use unsnap_pass::{Compromised, Handles, IoEngine, SandboxMode, on_a_thread_of_its_own};
use unsnap_ring::{
    CreateFile, EngineConfig, EngineKind, NewFile, Operation, RelativePath, probe_uring,
};
use unsnap_test_support::Setup;
use unsnap_test_support::{
    HalfWay, Site, assert_holds, available, expected_tree_of, genuine_full, has_tool, has_uring,
    ledger_tool, ledger_tool_path, run, skip_unsupported, small, unpack,
};
use unsnap_testkit::scratch::{ScratchFs, Tmpfs};
use unsnap_unpack::{Report, UnpackError, Unpacker};

/// What attacks aim at, and what they are told by.
struct Scene {
    site: Site,
    temporary: TempDir,
    tcp: TcpListener,
    _abstract: UnixListener,
    abstract_name: String,
    victim: Victim,
}

/// A process that may be signalled. Ended with the test.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const CANARIES: [&str; 4] = ["written", "removed", "renamed", "linked"];

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        fs::create_dir(site.place().join("sibling")).unwrap();
        for name in CANARIES {
            fs::write(site.place().join(name), "canary").unwrap();
        }
        let temporary = TempDir::new().unwrap();
        let abstract_name = temporary.path().display().to_string();
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        Self {
            site,
            temporary,
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            victim: Victim(Command::new("sleep").arg("1000").spawn().unwrap()),
        }
    }

    /// Unpacks with every attack; gives what became of them.
    fn unpack_under_attack(&self, config: &mut Setup) -> (Report, Vec<Attempt>) {
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let made = Arc::clone(&attempts);
        let attacks = Mutex::new(Some(self.attacks()));
        config.pass.tuning.compromised = Some(Compromised::new(move || {
            let attacks = attacks.lock().unwrap().take().expect("the hook is called once");
            for Attack { name, abi, act } in attacks {
                made.lock().unwrap().push(Attempt { name, abi, result: act() });
            }
        }));
        let report = unpack(config).unwrap();
        let attempts = std::mem::take(&mut *attempts.lock().unwrap());
        assert_eq!(attempts.len(), self.attacks().len(), "the parser was taken over");
        (report, attempts)
    }

    fn attacks(&self) -> Vec<Attack> {
        let place = self.site.place();
        let at = |name: &str| place.join(name);
        let (written, removed, renamed, linked) =
            (at("written"), at("removed"), at("renamed"), at("linked"));
        let (moved, link, created, evil) =
            (at("moved"), at("link"), at("created"), at("sibling/evil"));
        let (sibling, symbolic) = (at("sibling"), at("symbolic"));
        let temporary = self.temporary.path().join("evil");
        let (port, abstract_name) = (self.tcp.local_addr().unwrap(), self.abstract_name.clone());
        let victim = Pid::from_child(&self.victim.0);
        let mut attacks = vec![
            attack("read a file", 2, || File::open("/etc/passwd").map(drop)),
            attack("read a file on another thread", 2, || {
                thread::spawn(|| File::open("/etc/passwd").map(drop)).join().unwrap()
            }),
            attack("list a directory", 2, || fs::read_dir("/etc").map(drop)),
            attack("create beside the destination", 2, || File::create(created).map(drop)),
            attack("create in a sibling", 2, || File::create(evil).map(drop)),
            attack("create in the temporary directory", 2, || File::create(temporary).map(drop)),
            attack("write by an absolute path", 2, || fs::write(written, "evil")),
            attack("remove", 2, || fs::remove_file(removed)),
            attack("rename", 2, || fs::rename(renamed, moved)),
            attack("link", 2, || fs::hard_link(linked, link)),
            attack("link symbolically", 2, || symlink("/etc", symbolic)),
            attack("execute", 2, || Command::new("/bin/true").status().map(drop)),
            attack("connect", 4, move || TcpStream::connect(port).map(drop)),
            attack("listen", 4, || TcpListener::bind("127.0.0.1:0").map(drop)),
            attack("connect to an abstract socket", 6, || {
                let address = SocketAddr::from_abstract_name(abstract_name).unwrap();
                UnixStream::connect_addr(&address).map(drop)
            }),
            attack("signal", 6, move || test_kill_process(victim).map_err(io::Error::from)),
        ];
        if probe_uring().is_ok() {
            attacks
                .push(attack("create by a ring of its own", 2, move || create_by_ring(&sibling)));
        }
        attacks
    }
}

/// What an attacker tries.
struct Attack {
    name: &'static str,
    /// The version of Landlock that stops it.
    abi: u32,
    act: Box<dyn FnOnce() -> io::Result<()> + Send>,
}

fn attack(
    name: &'static str,
    abi: u32,
    act: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Attack {
    Attack { name, abi, act: Box::new(act) }
}

/// What came of it.
#[derive(Debug)]
struct Attempt {
    name: &'static str,
    abi: u32,
    result: io::Result<()>,
}

/// Creates a file by an io_uring that is made for it.
fn create_by_ring(directory: &Path) -> io::Result<()> {
    // A path alone can be opened anywhere; it gives no right.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory: OwnedFd = rustix::fs::open(directory, flags, Mode::empty())?;
    let config = EngineConfig {
        kind: EngineKind::Uring,
        capacity: 1,
        workers: 1,
        register: None,
        attach: None,
        priority: None,
        device: 0,
    };
    let mut engine = config.open().map_err(io::Error::other)?;
    let new = NewFile {
        directory: Arc::new(directory),
        path: RelativePath::new("by-ring").map_err(io::Error::other)?,
        mode: 0o644,
        force_mode: false,
        direct: None,
        keep_open: false,
    };
    engine.submit(0, Operation::Create(CreateFile::new(new)));
    let mut done = Vec::new();
    engine.wait(&mut done).map_err(io::Error::other)?;
    done.remove(0).result.map(drop).map_err(|error| error.errno.into())
}

/// The version of Landlock that was in force; told if there is none.
fn landlock_abi(report: &Report) -> Option<u32> {
    let Some(landlock) = &report.sandbox.landlock else {
        // The kernel's.
        skip_unsupported(format_args!("the sandbox: {:?}", report.sandbox.missing));
        return None;
    };
    Some(landlock.strip_prefix("abi ").unwrap().parse().unwrap())
}

fn engines() -> Vec<IoEngine> {
    let mut engines = vec![IoEngine::Threads];
    if has_uring() {
        engines.extend([IoEngine::Auto, IoEngine::Uring]);
    }
    engines
}

#[test]
fn a_parser_taken_over_gains_nothing() {
    for engine in engines() {
        let scene = Scene::new();
        let before = scene.site.state();
        let mut config = small(&genuine_full(), &scene.site.output());
        config.pass.io.engine = engine;
        let (report, attempts) = scene.unpack_under_attack(&mut config);
        let Some(abi) = landlock_abi(&report) else { return };
        for Attempt { name, abi: since, result } in attempts {
            if abi < since {
                skip_unsupported(format_args!(
                    "{name}: needs Landlock's abi {since}, this is {abi}"
                ));
                continue;
            }
            let errno = result.as_ref().err().and_then(Errno::from_io_error);
            assert!(matches!(errno, Some(Errno::ACCESS | Errno::PERM)), "{name}: {result:?}");
        }
        assert!(report.sandbox.no_new_privs);
        assert_eq!(report.sandbox.missing.is_empty(), abi >= 6, "{:?}", report.sandbox);
        assert_holds(&scene.site.output(), &expected_tree_of(&genuine_full()), "under attack");
        scene.site.reset(false);
        scene.site.assert_untouched(&before, "attacked");
        assert_eq!(fs::read_dir(scene.temporary.path()).unwrap().count(), 0);
    }
}

/// So that the test above can fail.
#[test]
fn without_the_sandbox_every_attack_succeeds() {
    let scene = Scene::new();
    let mut config = small(&genuine_full(), &scene.site.output());
    config.pass.sandbox = SandboxMode::Off;
    let (report, attempts) = scene.unpack_under_attack(&mut config);
    for Attempt { name, result, .. } in attempts {
        assert!(result.is_ok(), "{name}: {result:?}");
    }
    assert!(!report.sandbox.wanted && report.sandbox.missing.is_empty(), "{:?}", report.sandbox);
    assert_eq!(report.sandbox.landlock, None);
    assert_eq!(fs::read(scene.site.place().join("written")).unwrap(), b"evil");
    assert!(!scene.site.place().join("removed").exists());
    assert_holds(&scene.site.output(), &expected_tree_of(&genuine_full()), "attacked");
}

#[test]
fn listing_is_confined_and_the_caller_is_not() {
    let setup = small(&genuine_full(), Path::new(""));
    let (archives, handles) = (setup.archive.into(), Handles::default());
    let reader = Reader { archives: &archives, options: &setup.pass, handles: &handles };
    let mut opened = None;
    let listed = on_a_thread_of_its_own(|| {
        reader.list(
            || Ok(()),
            |_| {
                opened.get_or_insert_with(|| File::open("/etc/passwd").map(drop));
                std::ops::ControlFlow::Continue(())
            },
        )
    });
    listed.unwrap();
    let site = Site::new();
    let report = unpack(&small(&genuine_full(), &site.output())).unwrap();
    if landlock_abi(&report).is_some() {
        let refused = opened.unwrap().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
    }
    File::open("/etc/passwd").unwrap();
}

/// A run whose thread waits at the first member until the other end does something.
fn pausing(config: &mut Setup) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (pause, paused) = mpsc::channel();
    let (resume, resumed) = mpsc::channel();
    let ends = Mutex::new((pause, resumed));
    config.pass.tuning.compromised = Some(Compromised::new(move || {
        let (pause, resumed) = &*ends.lock().unwrap();
        pause.send(()).unwrap();
        resumed.recv().unwrap();
    }));
    (paused, resume)
}

/// Publishing fails at the last destination, so the others, which have been published, are taken
/// back; all by a thread that is confined.
#[test]
fn a_publication_is_taken_back_under_confinement() {
    let expected = expected_tree_of(&genuine_full());
    let name = expected.keys().find_map(|path| path.strip_prefix("accounts/")).unwrap();
    let memory = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 64 << 20, inodes: None }));
    let site = Site::new();
    let accounts = site.place().join("accounts");
    let mut cases: Vec<(&str, PathBuf, bool)> =
        vec![("absent", accounts.clone(), false), ("empty", accounts, true)];
    cases.extend(memory.as_ref().map(|memory| ("mounted", memory.path().to_owned(), false)));
    for (what, accounts, make) in cases {
        // Either the output or, in the middle of being filled, the accounts are in the way.
        for in_accounts in [false, true] {
            if in_accounts && what != "mounted" {
                continue;
            }
            site.reset(true);
            if make {
                fs::create_dir(&accounts).unwrap();
            }
            let in_the_way =
                if in_accounts { accounts.join(name) } else { site.output().join("in-the-way") };
            let mut config = small(&genuine_full(), &site.output());
            config.accounts = vec![accounts.clone()];
            let (paused, resume) = pausing(&mut config);
            let run = thread::spawn(move || config.unpacker().and_then(Unpacker::run));
            paused.recv().unwrap();
            fs::write(&in_the_way, "mine").unwrap();
            resume.send(()).unwrap();
            let error = run.join().unwrap().unwrap_err();
            assert!(
                matches!(error, UnpackError::Commit(CommitError::NotClean { .. })),
                "{what}: {error}"
            );

            assert_eq!(fs::read(&in_the_way).unwrap(), b"mine", "{what}");
            fs::remove_file(&in_the_way).unwrap();
            assert_eq!(accounts.exists(), what != "absent", "{what}");
            let left = fs::read_dir(&accounts).map_or(0, Iterator::count);
            assert_eq!(left, 0, "{what}, in accounts: {in_accounts}");
            let mut names: Vec<_> = fs::read_dir(site.place())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            let here = ["accounts", "neighbour", "output"];
            assert_eq!(names, here[usize::from(!make)..], "{what}");
            if make {
                fs::remove_dir(&accounts).unwrap();
            }
        }
    }
}

/// Names of a process's threads, and whether they can gain privileges no more.
fn threads_of(pid: u32) -> Vec<(String, bool)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .filter_map(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status")).ok()?;
            let field = |name: &str| {
                status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
            };
            Some((field("Name:"), field("NoNewPrivs:") == "1"))
        })
        .collect()
}

#[test]
fn every_thread_of_the_program_is_confined() {
    let own = threads_of(std::process::id()).iter().any(|(_, no_new_privs)| !no_new_privs);
    for (flags, confined) in [(&[][..], true), (&["--no-sandbox"][..], false)] {
        let site = Site::new();
        let mut tool = ledger_tool();
        tool.args(["unpack", "-", "--format", "json", "--output"]).arg(site.output()).args(flags);
        let half = HalfWay::start(&mut tool, &site);
        let threads = threads_of(half.tool.id());
        for name in ["ledger-tool", "unsnap-signals", "unsnap-progres", "unsnap-create"] {
            assert!(threads.iter().any(|(thread, _)| thread.starts_with(name)), "{threads:?}");
        }
        if confined || own {
            assert!(threads.iter().all(|(_, one)| *one == confined), "{threads:?}");
        }
        let report = half.go_on().assert_code(0).json();
        assert_eq!(report["sandbox"]["wanted"], confined, "{report:#}");
        let archive = site.archive(&HalfWay::spec());
        assert_holds(&site.output(), &expected_tree_of(&archive), "unpacked");
    }
}

/// The program, unpacking, with what strace makes of the system calls of its main thread, which is
/// the one that confines itself and makes the rings.
fn with_answers(inject: &str, output: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-qq", "-o", "/dev/null", "-e", "trace=/landlock.*,io_uring_register", "-e"])
        .arg(format!("inject={inject}"))
        .arg(ledger_tool_path())
        .arg("unpack")
        .arg(genuine_full())
        .arg("--output")
        .arg(output)
        .env_remove("RUST_LOG")
        .env_remove("UNSNAP_CONFIG")
        .stdin(Stdio::null());
    strace
}

#[test]
fn what_a_kernel_lacks_is_told_and_fails_nothing() {
    if !has_tool("strace", "--version") {
        return;
    }
    let site = Site::new();
    let report = unpack(&small(&genuine_full(), &site.output())).unwrap();
    let Some(own) =
        report.sandbox.landlock.as_deref().filter(|_| report.sandbox.missing.is_empty())
    else {
        return skip_unsupported("pretending to be an older kernel needs Landlock's abi 6");
    };
    // strace answers to the question for the version; what follows is real.
    let nothing = "files are not restricted: ";
    let mut cases: Vec<(&str, Option<&str>, Vec<&str>)> = vec![
        ("landlock_create_ruleset:error=ENOSYS", None, vec![nothing]),
        ("landlock_create_ruleset:error=EPERM", None, vec![nothing]),
        ("landlock_create_ruleset:error=EOPNOTSUPP", None, vec![nothing]),
        ("landlock_add_rule:error=EBADFD", None, vec![nothing]),
        ("landlock_restrict_self:error=E2BIG", None, vec![nothing]),
        ("landlock_create_ruleset:retval=1:when=1", None, vec![nothing]),
        (
            "landlock_create_ruleset:retval=2:when=1",
            Some("abi 2"),
            vec!["truncating", "TCP", "devices", "signals"],
        ),
        ("landlock_create_ruleset:retval=5:when=1", Some("abi 5"), vec!["signals"]),
        ("landlock_create_ruleset:retval=6:when=1", Some("abi 6"), vec![]),
    ];
    if has_uring() {
        // Each ring is asked what it knows, then restricted.
        cases.push(("io_uring_register:error=EINVAL:when=2+2", Some(own), vec!["rings"]));
    }
    for (inject, landlock, missing) in cases {
        site.reset(false);
        let mut tool = with_answers(inject, &site.output());
        let report = run(tool.args(["--format", "json"])).assert_code(0).json();
        assert_holds(&site.output(), &expected_tree_of(&genuine_full()), inject);
        let sandbox = &report["sandbox"];
        assert_eq!(sandbox["landlock"].as_str(), landlock, "{inject}: {sandbox:#}");
        assert_eq!(sandbox["no_new_privs"], true, "{inject}: {sandbox:#}");
        let told = sandbox["missing"].as_array().unwrap();
        assert_eq!(told.len(), missing.len(), "{inject}: {sandbox:#}");
        for (told, part) in told.iter().zip(&missing) {
            assert!(told.as_str().unwrap().contains(part), "{inject}: {sandbox:#}");
        }

        // What is missing is told to people, too, and only that.
        site.reset(false);
        let outcome = run(&mut with_answers(inject, &site.output())).assert_code(0);
        let lines = outcome.stdout.lines().filter(|line| line.starts_with("  sandbox: "));
        assert_eq!(lines.count(), missing.len(), "{inject}: {outcome:#?}");
    }
}

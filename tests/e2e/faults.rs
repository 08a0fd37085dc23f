//! Full disks, failing disks, signals, cancellation, no io_uring: the right answer, and the
//! destination as it was.

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use unsnap_failure::{Failure, Family};
use unsnap_pass::{Archive, DirectMode, FaultPlan, IoEngine, PassError};
use unsnap_test_support::Setup;
use unsnap_test_support::{
    HalfWay, Site, assert_holds, assert_same_tree, available, expected_tree, expected_tree_of,
    finish, genuine_full, has_tool, has_uring, is_ignored, ledger_tool, ledger_tool_path, run,
    seed, skip, skip_unsupported, small, staged_storages, unpack, until, wait, within,
};
use unsnap_testkit::{
    compress,
    random::Random,
    scratch::{Ext4, ScratchFs, Tmpfs},
    spec::{ArchiveSpec, FileSizes},
    tar::{TarBuilder, account_path, snapshot_head},
    tree::read_tree,
};
use unsnap_unpack::{UnpackError, Unpacker};

fn tool(archive: &Path, output: &Path) -> Command {
    let mut tool = ledger_tool();
    // Storages here hold no accounts.
    tool.arg("unpack").arg(archive).args(["--verify", "none"]).arg("--output").arg(output);
    tool
}

/// Unpacks more than fits, to a directory in the file system and to the file system itself, by both
/// engines, directly and not.
fn assert_fills_up(disk: &ScratchFs, archive: &Path, site: &Site, messages: &[&str]) {
    let before = read_tree(disk.path()).unwrap();
    for output in [disk.path().join("output"), disk.path().to_owned()] {
        for flags in [
            ["--io-engine=auto", "--use-direct-io=auto"],
            ["--io-engine=auto", "--use-direct-io=off"],
            ["--io-engine=threads", "--use-direct-io=auto"],
        ] {
            let outcome = run(tool(archive, &output).arg("--no-preflight").args(flags))
                .assert_code(3)
                .assert_error(&["error: cannot ", output.to_str().unwrap()])
                .assert_error(messages);
            assert_eq!(outcome.stdout, "");
            let after = read_tree(disk.path()).unwrap();
            assert_same_tree(&after, &before, format_args!("{}, {flags:?}", output.display()));
        }
    }
    // The space is free again.
    let output = disk.path().join("output");
    run(&mut tool(&site.write("tiny.tar", &tiny_tar()), &output)).assert_code(0);
}

/// A snapshot that fits everywhere.
fn tiny_tar() -> Vec<u8> {
    snapshot_head(100, &[1; 900], &[2; 5000])
        .account(&account_path(90, 1), &vec![3; 20_000])
        .account(&account_path(91, 2), &[4; 700])
        .account(&account_path(92, 3), &[5; 4096])
        .finish()
}

/// Parts of the message on a full disk.
const NO_SPACE: &[&str] =
    &["No space left", "[no-space]", "hint: free space (or inodes: see df -i)"];

/// Parts of the message on a file system without free inodes.
const NO_INODES: &[&str] = &["has no free inodes", "[no-inodes]", "hint: remove files there, or "];

#[test]
fn a_full_disk() {
    let site = Site::new();
    let large = ArchiveSpec { total_bytes: 30_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&large);
    let options = Ext4 { size_bytes: 16 << 20, ..Ext4::default() };
    if let Some(disk) = available(ScratchFs::ext4(&options)) {
        assert_fills_up(&disk, &archive, &site, NO_SPACE);
    }
    if let Some(disk) = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 8 << 20, inodes: None })) {
        assert_fills_up(&disk, &archive, &site, NO_SPACE);
    }
}

#[test]
fn no_inodes_left() {
    let site = Site::new();
    let spec = ArchiveSpec {
        total_bytes: 400 * 1000,
        file_sizes: FileSizes::Fixed(1000),
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let options = Ext4 { size_bytes: 16 << 20, inodes: Some(32), ..Ext4::default() };
    if let Some(disk) = available(ScratchFs::ext4(&options)) {
        assert_fills_up(&disk, &archive, &site, NO_INODES);
    }
    let options = Tmpfs { size_bytes: 64 << 20, inodes: Some(20) };
    if let Some(disk) = available(ScratchFs::tmpfs(&options)) {
        assert_fills_up(&disk, &archive, &site, NO_INODES);
    }
}

/// A disk that promises more than it has: writes succeed, and it is the sync that fails, be it the
/// last one or one while files are still being created.
#[test]
fn a_disk_that_fails_only_when_synced() {
    for writeback_bytes in [None, Some(4 << 20)] {
        let options = Tmpfs { size_bytes: 24 << 20, inodes: None };
        let Some(memory) = available(ScratchFs::tmpfs(&options)) else { return };
        let image = memory.path().join("image");
        fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
        let mount_point = Site::new();
        let place = mount_point.path("disk");
        fs::create_dir(&place).unwrap();
        let did =
            |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        if !has_tool("mkfs.ext4", "-V") {
            return;
        }
        let mut mkfs = Command::new("mkfs.ext4");
        if !did(mkfs.args(["-q", "-F", "-m", "0", "-E", "nodiscard"]).arg(&image))
            || !did(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&place))
        {
            // The tools and root are there: a container without loop devices.
            skip_unsupported("no file system in a file in memory");
            return;
        }
        let spec = ArchiveSpec { total_bytes: 60_000_000, ..ArchiveSpec::default() };
        let mut config =
            Setup::new(Archive::File(mount_point.archive(&spec)), place.join("output"));
        config.pass.io.direct = DirectMode::Off;
        config.pass.tuning.writeback_bytes = writeback_bytes;
        let result = config.unpacker().and_then(Unpacker::run);
        let left = fs::symlink_metadata(&config.output);
        // Before anything is asserted: this must not stay.
        let unmounted = did(Command::new("umount").arg(&place))
            || did(Command::new("umount").arg("--lazy").arg(&place));
        let error = result.unwrap_err();
        assert_eq!(error.family(), Family::Environment, "{error}");
        assert!(error.to_string().contains(config.output.to_str().unwrap()), "{error}");
        assert!(left.is_err(), "what may not be on the disk has its final name");
        assert!(unmounted);
    }
}

#[test]
fn a_limit_of_file_sizes() {
    let site = Site::new();
    let spec = ArchiveSpec {
        file_sizes: FileSizes::Fixed(3_000_000),
        total_bytes: 9_000_000,
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let before = site.state();
    // In units of 512 bytes.
    run(unsnap_test_support::ledger_tool_after("ulimit -f 2000")
        .arg("unpack")
        .arg(&archive)
        .arg("--output")
        .arg(site.output()))
    .assert_code(3)
    .assert_error(&["accounts/", "hint: raise the limit on file sizes (ulimit -f"]);
    site.assert_untouched(&before, "file size limit");
}

#[test]
fn an_archive_that_shrinks_or_grows_meanwhile() {
    let site = Site::new();
    let before = site.state();
    // Either the run was quick enough to see nothing of it, or it notices.
    let spec = ArchiveSpec { total_bytes: 30_000_000, ..ArchiveSpec::default() };
    let path = site.archive(&spec);
    let whole = fs::read(&path).unwrap();
    let expected = expected_tree(&whole);
    for grow in [false, true] {
        let mut child = tool(&path, &site.output())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until("it has begun", || {
            site.place().join(".output.unsnap-staging").exists()
                || child.try_wait().unwrap().is_some()
        });
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        if grow {
            file.seek(SeekFrom::End(0)).unwrap();
            file.write_all(b"more").unwrap();
        } else {
            file.set_len(whole.len() as u64 / 3).unwrap();
        }
        let outcome = finish(child);
        match outcome.status.code() {
            Some(0) => assert_holds(&site.output(), &expected, "quick enough"),
            Some(1 | 3) => site.assert_untouched(&before, "it was noticed"),
            _ => panic!("{outcome:#?}"),
        }
        site.reset(false);
        fs::write(&path, &whole).unwrap();
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A signal in the middle of a run ends the process by that signal, with everything taken back.
fn assert_interrupted(silent: bool) {
    let site = Site::new();
    for empty in [false, true] {
        for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
            if is_ignored(signal) {
                continue;
            }
            site.reset(empty);
            let before = site.state();
            let mut half = HalfWay::start(&mut tool(Path::new("-"), &site.output()), &site);
            send(&half.tool, signal);
            let since = Instant::now();
            if silent {
                // The archive's sender has stopped too, and keeps the pipe open.
                wait(&mut half.tool);
            } else {
                for piece in half.rest.chunks(4096) {
                    if half.feed.write_all(piece).is_err() {
                        break;
                    }
                    thread::sleep(Duration::from_millis(5));
                }
            }
            let status = wait(&mut half.tool);
            assert_eq!(status.signal(), Some(number), "{status:?}");
            assert!(since.elapsed() < Duration::from_secs(10), "it took {:?}", since.elapsed());
            site.assert_untouched(&before, format_args!("{signal:?}"));
        }
    }
}

#[test]
fn signals_while_the_archive_trickles_in() {
    assert_interrupted(false);
}

#[test]
fn signals_while_the_archive_is_stuck() {
    assert_interrupted(true);
}

#[test]
fn a_shell_sees_130_and_143() {
    let site = Site::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        if is_ignored(signal) {
            continue;
        }
        let before = site.state();
        let pid_file = site.path("pid");
        // The shell tells the pid of what it is going to be; a second shell waits for that.
        let script = "sh -c 'echo $$ > \"$1\"; shift; exec \"$@\"' sh \"$@\" <&3; exit $?";
        let pipe = Command::new("bash")
            .args(["-c", &format!("set -m; exec 3<&0; {script}"), "bash"])
            .arg(&pid_file)
            .arg(ledger_tool_path())
            .args(["unpack", "-", "--output"])
            .arg(site.output())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut shell) = pipe else {
            skip("bash is not installed");
            return;
        };
        let archive = fs::read(site.archive(&HalfWay::spec())).unwrap();
        let mut feed = shell.stdin.take().unwrap();
        feed.write_all(&archive[..archive.len() / 2]).unwrap();
        until("a storage is staged", || staged_storages(&site.place()) > 0);
        let pid: i32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        assert_eq!(wait(&mut shell).code(), Some(code));
        drop(feed);
        site.assert_untouched(&before, "by a shell");
    }
}

/// Runs the program with io_uring_setup failing.
fn without_uring(errno: &str, arguments: &mut Command) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=io_uring_setup", "-e"])
        .arg(format!("inject=io_uring_setup:error={errno}"))
        .arg(arguments.get_program())
        .args(arguments.get_args())
        .env_remove("RUST_LOG")
        .env_remove("UNSNAP_CONFIG")
        .stdin(Stdio::null());
    strace
}

#[test]
fn io_uring_refused() {
    if !has_tool("strace", "--version") {
        return;
    }
    let site = Site::new();
    let expected = expected_tree_of(&genuine_full());
    for errno in ["EPERM", "ENOSYS", "ENOMEM"] {
        let mut command = tool(&genuine_full(), &site.output());
        let outcome = run(&mut without_uring(errno, command.args(["--format", "json"])));
        if outcome.stderr.contains("ptrace") {
            // A container without ptrace.
            skip_unsupported(format_args!("strace cannot trace: {}", outcome.stderr));
            return;
        }
        let report = outcome.assert_code(0).json();
        assert_holds(&site.output(), &expected, errno);
        assert_eq!(report["io_engine"], "threads");
        let fallbacks = report["fallbacks"].as_array().unwrap();
        let named = |fallback: &serde_json::Value| {
            fallback.as_str().unwrap().contains("the kernel refuses io_uring")
        };
        assert!(fallbacks.iter().any(named), "{fallbacks:?}");
        site.reset(false);

        let before = site.state();
        let mut command = tool(&genuine_full(), &site.output());
        run(&mut without_uring(errno, command.args(["--io-engine", "uring"])))
            .assert_code(3)
            .assert_error(&["the kernel refuses io_uring", "hint: set --io-engine to auto"]);
        site.assert_untouched(&before, errno);
    }
}

#[test]
fn an_uring_whose_calls_are_interrupted() {
    if !has_tool("strace", "--version") || !has_uring() {
        return;
    }
    let site = Site::new();
    let expected = expected_tree_of(&genuine_full());
    for fault in [
        "io_uring_enter:error=EINTR:when=1+2",
        "io_uring_enter:error=EAGAIN:when=2+3",
        "io_uring_enter:error=EBUSY:when=2+3",
    ] {
        site.reset(false);
        let (call, _) = fault.split_once(':').unwrap();
        run(Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"])
            .arg(format!("inject={fault}"))
            .arg(ledger_tool_path())
            .arg("unpack")
            .arg(genuine_full())
            .args(["--io-engine", "uring", "--output"])
            .arg(site.output()))
        .assert_code(0);
        assert_holds(&site.output(), &expected, fault);
    }
}

/// Says that [`nothing_is_leaked_alone`] is alone.
const ALONE: &str = "UNSNAP_TEST_ALONE";

/// Not a test of its own: [`nothing_is_leaked`] runs it alone in a process.
#[test]
#[ignore = "runs in a process of its own, see nothing_is_leaked"]
fn nothing_is_leaked_alone() {
    if std::env::var_os(ALONE).is_none() {
        // Nothing is lost: the other test runs it.
        skip_unsupported("other tests' descriptors and threads would be counted");
        return;
    }
    let site = Site::new();
    let archive = site.write("archive", &compress::zstd_frames(&tiny_tar(), 9000, 1));
    let bad = site.write("bad", &TarBuilder::new().file("evil", b"x").finish());
    let counts = || {
        let count = |folder| fs::read_dir(folder).unwrap().count();
        (count("/proc/self/fd"), count("/proc/self/task"))
    };
    let mut round = |number: u64| {
        let mut engines = vec![
            IoEngine::Threads,
            IoEngine::Faulty(FaultPlan::new(number).fail(number * 3, rustix::io::Errno::IO)),
        ];
        if has_uring() {
            engines.push(IoEngine::Uring);
        }
        for engine in engines {
            for archive in [&archive, &bad] {
                site.reset(false);
                let mut config = small(archive, &site.output());
                config.pass.io.engine = engine.clone();
                let _ = unpack(&config);
                let unpacker = config.unpacker().unwrap();
                unpacker.handles().cancel.cancel();
                assert!(unpacker.run().is_err());
            }
        }
    };
    // The first round may set up what stays for good.
    round(0);
    let before = counts();
    (1..10).for_each(&mut round);
    // Threads are gone a moment after they were joined.
    until("descriptors and threads are as before", || counts() <= before);
}

#[test]
fn nothing_is_leaked() {
    let this = std::env::current_exe().unwrap();
    let outcome = run(Command::new(this)
        .args(["--exact", "faults::nothing_is_leaked_alone", "--ignored", "--test-threads=1"])
        .env(ALONE, "1")
        .stdin(Stdio::null()));
    assert!(outcome.stdout.contains("1 passed"), "{outcome:#?}");
    outcome.assert_code(0);
}

#[test]
fn cancellation_at_any_moment() {
    let seed = seed("cancellation_at_any_moment");
    let mut random = Random::new(seed);
    let site = Site::new();
    let spec = ArchiveSpec { total_bytes: 6_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let expected = expected_tree_of(&archive);
    let mut engines = vec![IoEngine::Threads, IoEngine::Faulty(FaultPlan::new(seed))];
    if has_uring() {
        engines.push(IoEngine::Uring);
    }
    let (mut finished, mut cancelled) = (0, 0);
    for round in 0..120 {
        site.reset(round % 2 == 1);
        let before = site.state();
        let mut config = Setup::new(Archive::File(archive.clone()), site.output());
        config.pass.resources.memory_budget = Some(8 << 20);
        config.pass.io.engine = engines[round % engines.len()].clone();
        let unpacker = config.unpacker().unwrap();
        let token = unpacker.handles().cancel;
        let delay = Duration::from_micros(random.log_uniform(17));
        let canceller = thread::spawn(move || {
            thread::sleep(delay);
            token.cancel();
        });
        let what = format!("round {round}, cancelled after {delay:?}, seed {seed}");
        match within(move || unpacker.run()) {
            Ok(_) => {
                assert_holds(&site.output(), &expected, &what);
                finished += 1;
            }
            Err(UnpackError::Pass(PassError::Cancelled)) => {
                site.assert_untouched(&before, &what);
                cancelled += 1;
            }
            Err(error) => panic!("{what}: {error}"),
        }
        canceller.join().unwrap();
    }
    assert!(cancelled > 0, "never cancelled in time ({finished} finished)");
}

#[test]
fn killed_at_any_moment_it_leaves_all_or_nothing() {
    let seed = seed("killed_at_any_moment_it_leaves_all_or_nothing");
    let mut random = Random::new(seed);
    let site = Site::new();
    let archive = genuine_full();
    let expected = expected_tree_of(&archive);
    for round in 0..60 {
        let empty = round % 2 == 1;
        site.reset(empty);
        let mut child = tool(&archive, &site.output())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_micros(random.below(40_000)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let what = format!("round {round}, seed {seed}, {status:?}");
        let found = read_tree(&site.output()).unwrap_or_default();
        if found.is_empty() {
            assert_eq!(site.output().exists(), empty, "{what}");
        } else {
            assert_holds(&site.output(), &expected, &what);
            site.reset(empty);
        }
        // Whatever it left, the next run copes with.
        if round % 10 == 9 {
            run(&mut tool(&archive, &site.output())).assert_code(0);
            assert_holds(&site.output(), &expected, &what);
            assert!(!site.place().join(".output.unsnap-staging").exists(), "{what}");
        }
    }
}

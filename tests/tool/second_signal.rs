//! A second signal: the process ends although it has not removed its files, and says where they are.
//!
//! strace keeps the removal from ending, so that nothing here depends on time.

use std::{
    fs::{self, File},
    io::{self, PipeWriter, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    process::{Pid, Signal, kill_process},
};
use unsnap_test_support::{
    Outcome, Site, cleaned, finish, has_tool, is_ignored, ledger_tool, ledger_tool_path, run, until,
};
use unsnap_testkit::spec::ArchiveSpec;

/// Half an archive that is being unpacked from standard input.
struct Half {
    tool: Child,
    _feed: ChildStdin,
    output: PathBuf,
    staging: PathBuf,
}

/// An archive of which half is many times what is read at once.
fn archive(site: &Site) -> PathBuf {
    site.archive(&ArchiveSpec { total_bytes: 40_000_000, ..ArchiveSpec::default() })
}

fn words(output: &Path) -> [&Path; 6] {
    let [unpack, input, flag, quiet, lines] =
        ["unpack", "-", "--output", "--quiet", "--no-progress"].map(Path::new);
    [unpack, input, flag, output, quiet, lines]
}

impl Half {
    /// Starts unpacking, and waits until a file is there. Its removal claims to succeed and removes
    /// nothing, so the program never has an empty directory.
    fn start(site: &Site, stderr: impl Into<Stdio>) -> Self {
        let output = site.output();
        let staging = site.place().join(".output.unsnap-staging");
        let mut command = Command::new("strace");
        // A tracer that is not the parent: signals and the exit status are the tool's own.
        command.args(["-D", "-f", "-qq", "-o", "/dev/null"]);
        // The path as it is in the call: relative to the directory.
        command.args(["-P", "version"]);
        command.args(["-e", "trace=unlinkat", "-e", "inject=unlinkat:retval=0"]);
        let mut command = cleaned(command);
        command.arg(ledger_tool_path()).args(words(&output)).stdin(Stdio::piped());
        let mut tool = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut feed = tool.stdin.take().unwrap();
        let archive = fs::read(archive(site)).unwrap();
        feed.write_all(&archive[..archive.len() / 2]).unwrap();
        until("a file is staged", || staging.join("version").exists());
        Self { tool, _feed: feed, output, staging }
    }

    /// Sends two signals. They are different, so the kernel does not take them for one. On a busy machine
    /// two threads may be told of them at the same time, so either may be the second.
    #[track_caller]
    fn interrupt_twice(self, signals: [Signal; 2]) -> Outcome {
        for signal in signals {
            kill_process(Pid::from_child(&self.tool), signal).unwrap();
        }
        let outcome = finish(self.tool);
        let ended_by = outcome.status.signal();
        assert!(signals.iter().any(|signal| Some(signal.as_raw()) == ended_by), "{outcome:#?}");
        assert!(!self.output.exists(), "it was published: {outcome:#?}");
        assert!(self.staging.join("version").exists(), "it was removed: {outcome:#?}");
        outcome
    }
}

fn can_run() -> bool {
    has_tool("strace", "--version") && ![Signal::HUP, Signal::INT].into_iter().any(is_ignored)
}

#[test]
fn a_second_signal_names_what_stays_and_who_removes_it() {
    if !can_run() {
        return;
    }
    let site = Site::new();
    let before = site.state();
    let left = site.place().join(".output.unsnap-staging");
    let left = left.to_str().unwrap();
    // 130 and 143 to a shell.
    for signals in [[Signal::HUP, Signal::INT], [Signal::INT, Signal::TERM]] {
        // One of the two ways; at the end of this test it is the other.
        let _ = fs::remove_dir_all(left);
        let outcome = Half::start(&site, Stdio::piped()).interrupt_twice(signals);
        let outcome = outcome.assert_error(&[
            &format!("{left} is left behind"),
            "the next run of the same command removes",
            &format!("rm -r {left}"),
        ]);
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.lines().count()), ("", 2));
    }
    let archive = File::open(archive(&site)).unwrap();
    run(ledger_tool().args(words(&site.output())).stdin(archive)).assert_code(0);
    fs::remove_dir_all(site.output()).unwrap();
    site.assert_untouched(&before, "what was left behind");
}

#[test]
fn a_second_signal_ends_a_process_whose_messages_nobody_reads() {
    if !can_run() {
        return;
    }
    let site = Site::new();
    let (_reader, writer) = io::pipe().unwrap();
    fill(&writer);
    Half::start(&site, writer).interrupt_twice([Signal::INT, Signal::TERM]);
}

/// Fills a pipe, so that the next write to it waits.
fn fill(mut pipe: &PipeWriter) {
    let flags = fcntl_getfl(pipe).unwrap();
    fcntl_setfl(pipe, flags | OFlags::NONBLOCK).unwrap();
    for bytes in [&[b'\n'; 4096][..], b"\n"] {
        while pipe.write(bytes).is_ok() {}
    }
    fcntl_setfl(pipe, flags).unwrap();
}

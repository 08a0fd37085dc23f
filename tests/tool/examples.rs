//! Every example of every `--help` does what it says: it is run by a shell, on genuine archives.
//!
//! What an example needs is laid out below a scratch directory, which stands for the root of the file
//! system; [`Ground::replaced`] has the table of everything that is replaced. The exit code must be 0, or
//! what the example states ("exit code 3 if something is wrong").

use std::{
    fs::{self, File},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use unsnap_cli::examples::{Example, examples};
use unsnap_test_support::{
    Site, cleaned, daemon::Daemon, genuine, has_tool, ledger_tool, run, skip_unsupported, until,
    wait,
};
use unsnap_testkit::spec::ArchiveSpec;

use crate::programs::{PROGRAMS, commands, help, path};

/// Columns of a terminal that every example fits into: `--help` breaks longer lines where it likes.
const COLUMNS: usize = 80;

/// Examples of a command's `--help`, which must have some.
fn examples_of(words: &[String]) -> Vec<Example> {
    let help = help(words).stdout;
    let found = examples(&help);
    assert!(!found.is_empty(), "{words:?} has no examples");
    for Example { what, lines } in &found {
        assert!(!lines.is_empty(), "{words:?}: {what}: nothing to type");
        let own = lines.iter().any(|line| line.contains(&words.join(" ")));
        assert!(own, "{words:?}: {what}: is about something else: {lines:?}");
        assert!(what.len() + 2 <= COLUMNS, "{words:?}: too long: {what}");
        for line in lines {
            assert!(line.len() + 4 <= COLUMNS, "{words:?}: too long: {line}");
        }
    }
    found
}

/// Runs all examples of the commands that `of` picks; says how many.
fn run_all(program: &str, of: impl Fn(&[String]) -> bool) -> usize {
    let commands = commands(program);
    let mut count = 0;
    for words in commands.iter().filter(|words| of(words)) {
        for example in examples_of(words) {
            Ground::of(words).run(&example);
            count += 1;
        }
    }
    count
}

fn is(words: &[String], first: &str) -> bool {
    words.get(1).is_some_and(|word| word == first)
}

#[test]
fn examples_of_ledger_tool() {
    let count = run_all("ledger-tool", |words| {
        !is(words, "service") && !is(words, "fastboot") && !is(words, "bench")
    });
    assert!(count > 35, "only {count}");
}

#[test]
fn examples_of_bench() {
    assert!(run_all("ledger-tool", |words| is(words, "bench")) > 3);
}

#[test]
fn examples_of_fastboot() {
    assert!(run_all("ledger-tool", |words| is(words, "fastboot")) > 10);
}

#[test]
fn examples_of_service() {
    assert!(run_all("ledger-tool", |words| is(words, "service")) > 10);
}

#[test]
fn examples_of_validator_and_unpackd() {
    assert!(run_all("unsnap-validator", |_| true) > 3);
    assert!(run_all("unpackd", |_| true) > 2);
}

/// What an example needs.
struct Ground {
    site: Site,
    daemon: Option<Daemon>,
    full: PathBuf,
    incremental: PathBuf,
    /// Another snapshot, of slot 139.
    other: PathBuf,
}

impl Ground {
    /// For the examples of a command.
    fn of(words: &[String]) -> Self {
        let site = Site::new();
        for directory in [
            "bin",
            "work",
            "tmp",
            "home/sol/bin",
            "mnt/ledger",
            "mnt/accounts",
            "mnt/accounts2",
            "mnt/archives",
            "mnt/repacked",
            "mnt/snapshots",
            "usr/local/share/man/man1",
            "usr/local/share/zsh/site-functions",
        ] {
            fs::create_dir_all(site.path(directory)).unwrap();
        }
        for program in PROGRAMS {
            std::os::unix::fs::symlink(path(program), site.path("bin").join(program)).unwrap();
        }
        let place = |path: &Path, to: &str| {
            let copy = site.path(to).join(path.file_name().unwrap());
            fs::copy(path, &copy).unwrap();
            copy
        };
        let [full, incremental] = ["snapshot-39-", "incremental-snapshot-39-"].map(|prefix| {
            let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            genuine().into_iter().find(|path| name(path).starts_with(prefix)).unwrap()
        });
        for to in ["mnt/ledger", "mnt/snapshots"] {
            place(&full, to);
            place(&incremental, to);
        }
        if is(words, "diff") {
            place(&full, "mnt/repacked");
        }
        let (full, incremental) = (place(&full, "work"), place(&incremental, "work"));
        let spec = ArchiveSpec { slot: 139, total_bytes: 300_000, ..ArchiveSpec::default() };
        let other = site.path("work").join(site.archive(&spec).file_name().unwrap());
        fs::rename(site.path(&spec.name()), &other).unwrap();
        let daemon = (words[0] == "unpackd" || is(words, "service")).then(Daemon::new);
        let mut ground = Self { site, daemon, full, incremental, other };
        ground.given(words);
        ground
    }

    /// What has been done before somebody types this.
    fn given(&mut self, words: &[String]) {
        let (ledger, accounts) = (self.site.path("mnt/ledger"), self.site.path("mnt/accounts"));
        let prepare = || {
            let mut tool = ledger_tool();
            tool.args(["fastboot", "prepare", "--quiet", "--ledger"]).arg(&ledger);
            run(tool.arg("--accounts").arg(&accounts)).assert_code(0);
        };
        if is(words, "fastboot") && words.get(2).is_none_or(|word| word != "prepare") {
            prepare();
        }
        if is(words, "create") {
            for (archive, output) in [(&self.full, "unpacked"), (&self.incremental, "unpacked-47")]
            {
                let mut tool = ledger_tool();
                tool.args(["unpack", "--quiet", "--output"]).arg(ledger.join(output));
                run(tool.arg(archive)).assert_code(0);
            }
            // Without the incremental archive it is a state of slot 39.
            fs::remove_file(ledger.join(self.incremental.file_name().unwrap())).unwrap();
            prepare();
        }
        if is(words, "check-export") || is(words, "lookup") {
            let mut tool = ledger_tool();
            tool.args(["export", "--quiet", "--newest", "--output"])
                .arg(self.site.path("mnt/tables"));
            tool.arg("--incremental").arg(&self.incremental);
            run(tool.arg(&self.full)).assert_code(0);
        }
        // A validator, and the script that starts it: they want to be told where the ledger is.
        let validator = "#!/bin/sh\ntest -d \"$LEDGER/snapshots/47\"\n";
        for path in ["bin/agave-validator", "home/sol/bin/validator.sh"] {
            self.executable(path, validator);
        }
        // What systemd says of its unit.
        let (ledger, accounts) = (ledger.display(), accounts.display());
        let line = format!("agave-validator --ledger {ledger} --accounts {accounts}");
        let systemctl = format!(
            "#!/bin/sh\necho LoadState=loaded\n\
             echo 'ExecStart={{ path=/x ; argv[]={line} ; ignore_errors=no ; }}'\n"
        );
        self.executable("bin/systemctl", &systemctl);
        if is(words, "service") {
            let daemon = self.daemon.as_mut().unwrap();
            let targets = [("validator", "trees"), ("tree", "stock")];
            let targets = targets.map(|(name, place)| daemon.tree_target(name, place, 1));
            daemon.configure(&targets.concat());
            daemon.start();
            if words.get(2).is_none_or(|word| word == "prepare") {
                daemon.drop_in(&self.full);
                daemon.until_settled("validator", 39);
            }
        }
    }

    fn executable(&self, path: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.site.path(path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Everything that an example says and that is elsewhere here, or different.
    fn replaced(&self, text: &str) -> String {
        let root = self.site.path("");
        let root = root.to_str().unwrap().trim_end_matches('/');
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let config = self.daemon.as_ref().map(|daemon| daemon.path("unpackd.toml"));
        let config = config.map(|path| path.display().to_string()).unwrap_or_default();
        // Directories first: what takes the place of the rest may be in one of that name.
        let below = ["mnt", "tmp", "home", "usr/local"].into_iter();
        let text = below.fold(text.to_owned(), |text, directory| {
            text.replace(&format!("/{directory}/"), &format!("\0/{directory}/"))
        });
        let text = [
            ("\0", root.to_owned()),
            ("incremental-snapshot-39-47-<HASH>.tar.zst", name(&self.incremental)),
            ("snapshot-39-<HASH>.tar.zst", name(&self.full)),
            ("snapshot-139-<HASH>.tar.zst", name(&self.other)),
            ("<URL>", format!("file://{}", self.full.display())),
            ("blake3:<HEX>", if text.contains("<HEX>") { self.digest() } else { String::new() }),
            ("service cancel 12", format!("service cancel {}", self.job(&text))),
            ("/etc/unsnap/unpackd.toml", config),
            // The rest of a command line that is somebody's own.
            (" ...", String::new()),
            // Gigabytes would be measured.
            ("ledger-tool bench ", "ledger-tool bench --rounds 1 --size 1MiB ".to_owned()),
            (" --size 10GB", String::new()),
            (" --rounds 5", String::new()),
        ]
        .into_iter()
        .fold(text, |text, (placeholder, real)| text.replace(placeholder, &real));
        assert!(!text.contains('<'), "a placeholder is left: {text}");
        text
    }

    /// What `--expect-digest` is to be told.
    fn digest(&self) -> String {
        let mut tool = ledger_tool();
        tool.args(["unpack", "--dry-run", "--digest", "blake3", "--format", "json"]);
        let report = run(tool.arg(&self.full)).assert_code(0).json();
        report["digest"].as_str().unwrap().to_owned()
    }

    /// A job that waits, if the example is about one.
    fn job(&self, text: &str) -> u64 {
        match &self.daemon {
            Some(daemon) if text.contains("service cancel") => {
                daemon.ask(&json!({"request": "pause"})).unwrap();
                let submit = json!({"request": "submit", "target": "tree", "archive": self.full});
                daemon.ask(&submit).unwrap()["jobs"][0]["id"].as_u64().unwrap()
            }
            _ => 0,
        }
    }

    fn run(&self, example: &Example) {
        let Example { what, lines } = example;
        let script = self.replaced(&lines.join("\n"));
        let mut shell = self.shell(&format!("{}{script}", stand_ins(&script)));
        let output = self.site.path("output");
        let file = || File::options().create(true).append(true).open(&output).unwrap();
        let mut child = shell.stdout(file()).stderr(file()).process_group(0).spawn().unwrap();
        let said = || fs::read_to_string(&output).unwrap();
        if what.contains("until interrupted") {
            until(what, || {
                self.let_something_happen();
                !said().is_empty() || child.try_wait().unwrap().is_some()
            });
            kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        }
        let status = wait(&mut child);
        let code = exit_code(status);
        let is_fine = code == 0 || what.contains(&format!("exit code {code}"));
        assert!(is_fine, "exit code {code} of: {what}\n{script}\n{}", said());
        let is_stated = !what.contains("until interrupted (exit code") || code != 0;
        assert!(is_stated, "it did not go on until it was interrupted: {what}\n{}", said());
    }

    fn shell(&self, script: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.site.path("bin");
        let mut shell = Command::new("bash");
        shell.args(["-e", "-o", "pipefail", "-c", script]).current_dir(self.site.path("work"));
        shell
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", self.site.path("home/sol"));
        shell.env("LEDGER", self.site.path("mnt/ledger")).stdin(Stdio::null());
        shell.env_remove("UNPACKD_CONTROL_SOCKET");
        if let Some(daemon) = &self.daemon {
            shell.env("UNPACKD_CONTROL_SOCKET", daemon.path("socket"));
        }
        cleaned(shell)
    }

    /// Ends a job, for whoever waits to see one end.
    fn let_something_happen(&self) {
        let Some(daemon) = &self.daemon else { return };
        let submit = json!({"request": "submit", "target": "tree", "archive": self.full});
        if let Ok(submitted) = daemon.ask(&submit) {
            let job = submitted["jobs"][0]["id"].clone();
            // Whether it is running, waiting or done by then does not matter.
            let _ = daemon.ask(&json!({"request": "cancel", "job": job}));
        }
    }
}

/// What takes the place of tools that are not here, as functions of the shell: the example's own part is
/// run all the same.
fn stand_ins(script: &str) -> String {
    let mut functions = String::new();
    for (tool, probe, stand_in) in [
        ("jq", "--version", "{ cat; }"),
        ("curl", "--version", "{ for url; do :; done; cat \"${url#file://}\"; }"),
        ("man", "--version", "{ cat; }"),
    ] {
        if script.contains(&format!("{tool} -")) && !has_tool(tool, probe) {
            functions.extend([tool, "() ", stand_in, "\n"]);
        }
    }
    if script.contains("systemd-run") {
        // systemd does not run where tests do; what it would start is run.
        skip_unsupported(
            "systemd-run, which needs systemd and a user sol: only what it runs is run",
        );
        functions.push_str("systemd-run() { while [[ $1 == --* ]]; do shift; done; \"$@\"; }\n");
    }
    functions
}

/// As a shell has it.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

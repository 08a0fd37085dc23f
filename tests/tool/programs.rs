//! The three programs as their own `--help` tells of them.

use std::{path::Path, process::Command};

use unsnap_test_support::{Outcome, cleaned, ledger_tool_path, run, unpackd_path, validator_path};

/// What people type, which the Debian package installs so, and the program that is.
pub const PROGRAMS: [&str; 3] = ["ledger-tool", "unsnap-validator", "unpackd"];

/// The program of that name.
pub fn path(program: &str) -> &'static Path {
    match program {
        "ledger-tool" => ledger_tool_path(),
        "unpackd" => unpackd_path(),
        _ => validator_path(),
    }
}

/// The program, called by that name.
pub fn program(name: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(path(name));
    command.arg0(name).env_remove("UNPACKD_CONTROL_SOCKET");
    cleaned(command)
}

/// `--help` of a program or of one of its commands.
pub fn help(words: &[String]) -> Outcome {
    run(program(&words[0]).args(&words[1..]).arg("--help")).assert_code(0)
}

/// A program and all its commands, those below them included: as the words to type.
pub fn commands(program: &str) -> Vec<Vec<String>> {
    let mut all = vec![vec![program.to_owned()]];
    let mut next = 0;
    while let Some(words) = all.get(next).cloned() {
        for inner in subcommands(&help(&words).stdout) {
            all.push([&words[..], &[inner]].concat());
        }
        next += 1;
    }
    all
}

/// The words below "Commands:".
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?;
        // What is indented further goes on with a description.
        (!name.starts_with(' ')).then(|| name.split(' ').next().map(str::to_owned)).flatten()
    });
    names.filter(|name| name != "help").collect()
}

/// Long options of a command: each begins a line of its help.
pub fn options(help: &str) -> Vec<String> {
    let begins = |line: &str| line.starts_with("  -") || line.starts_with("      --");
    let name = |line: &str| {
        let option = &line[line.find("--")?..];
        let end = option.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        Some(option[..end.unwrap_or(option.len())].to_owned())
    };
    // Lines of examples may look the same.
    let lines = help.lines().take_while(|line| *line != "Examples:");
    lines.filter(|line| begins(line)).filter_map(name).collect()
}

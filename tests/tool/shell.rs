//! Completions and manual pages, held to what `--help` tells: by the shells themselves, and by man.
//!
//! That the files are those of the programs, unit tests of the programs prove.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use unsnap_test_support::{has_tool, ledger_tool, run, skip};

use crate::programs::{PROGRAMS, commands, help, options, program};

/// What is checked in for packages.
fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

/// Commands of all programs.
fn all_commands() -> impl Iterator<Item = Vec<String>> {
    PROGRAMS.into_iter().flat_map(commands)
}

/// Completes the last of its arguments as bash does when somebody presses the key, and prints what
/// would be offered, each on a line. The first argument is the script that the shell sources.
const BASH: &str = r#"
source "$1"; shift
function=$(complete -p "$1"); function=${function##*-F }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
"${function% *}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

fn bash_offers(words: &[&str]) -> String {
    let script = deploy("completions/bash").join(words[0]);
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", BASH, "bash"]).arg(script).args(words).current_dir(deploy(""));
    run(&mut bash).assert_code(0).stdout
}

#[test]
fn bash_completes_what_help_tells() {
    for words in all_commands() {
        let line: Vec<&str> = words.iter().map(String::as_str).chain(["--"]).collect();
        assert_completes(&words, &bash_offers(&line));
    }
    // Commands, values and files, too.
    assert_eq!(bash_offers(&["ledger-tool", "fastboot", "wi"]), "withdraw\n");
    assert_eq!(bash_offers(&["ledger-tool", "diff", "--format", "js"]), "json\njson-lines\n");
    assert_eq!(bash_offers(&["ledger-tool", "unpack", "a", "--manifest", "READ"]), "README.md\n");
    // What bash takes for three words.
    let direct = ["ledger-tool", "unpack", "--use-direct-io", "="];
    assert_eq!(bash_offers(&direct), "auto\non\noff\n");
    assert_eq!(bash_offers(&[&direct[..], &["of"]].concat()), "off\n");
    // Pages have the names of commands.
    assert_eq!(bash_offers(&["ledger-tool", "man", "fast"]), "fastboot\n");
    assert_eq!(bash_offers(&["ledger-tool", "man", "fastboot", "wi"]), "withdraw\n");
    // Directories bash adds by itself.
    assert_eq!(bash_offers(&["ledger-tool", "unpack", "a", "--output", "READ"]), "\n");
}

#[test]
fn fish_completes_what_help_tells() {
    if !has_tool("fish", "--version") {
        return;
    }
    for words in all_commands() {
        let script = deploy("completions/fish").join(format!("{}.fish", words[0]));
        let complete = format!("source {}; complete -C '{} --'", script.display(), words.join(" "));
        let home = tempfile::tempdir().unwrap();
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", &complete]).env("HOME", home.path());
        let said = run(&mut fish).assert_code(0).stdout;
        // Each with what it is for.
        let names: Vec<&str> = said.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_completes(&words, &names.join("\n"));
    }
}

/// What zsh does to complete the options of a command: it calls the script's function, which tells
/// `_arguments` all there are, one level of commands after the other. Arguments: the script, and
/// the words.
const ZSH: &str = r#"
script=$1; shift; asked=("$@"); level=0
compdef() { [[ $2 == $asked[1] ]] || print "completes $2"; }
_arguments() {
    (( ++level ))
    (( level < $#asked )) || { print -rl -- "$@"; return }
    state=${${(M)@:#*->*}##*->} line=($asked[level+1])
}
source $script
_$asked[1]
"#;

#[test]
fn zsh_completes_what_help_tells() {
    if !has_tool("zsh", "--version") {
        return;
    }
    for words in all_commands() {
        let script = deploy("completions/zsh").join(format!("_{}", words[0]));
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-c", ZSH, "zsh"]).arg(script).args(&words);
        let said = run(&mut zsh).assert_code(0);
        assert_eq!(said.stderr, "", "{words:?}");
        // "(--not-with)*--option=[what it is for]:...", and lines of what values are for.
        let names = said.stdout.lines().filter_map(|spec| {
            let spec = if spec.starts_with('(') { spec.split_once(')')?.1 } else { spec };
            let name = spec.trim_start_matches('*').split(['=', '[', '+']).next();
            name.filter(|name| name.starts_with('-'))
        });
        assert_completes(&words, &names.collect::<Vec<&str>>().join("\n"));
    }
}

/// Every option of the command's help, and no other, is among what a shell offers.
#[track_caller]
fn assert_completes(words: &[String], offered: &str) {
    let is_long = |word: &&str| word.starts_with("--") && word.len() > 2;
    let offered: BTreeSet<&str> =
        offered.split_whitespace().map(|word| word.trim_end_matches('=')).filter(is_long).collect();
    let options = options(&help(words).stdout);
    let expected: BTreeSet<&str> = options.iter().map(String::as_str).collect();
    assert!(expected.contains("--help"), "{words:?}: {expected:?}");
    assert_eq!(offered, expected, "{words:?}");
}

#[test]
fn manual_pages_have_what_help_tells_and_man_shows_them() {
    let has_man = has_tool("man", "--version");
    let mut pages = BTreeSet::new();
    for words in all_commands() {
        let section = if words[0] == "unpackd" { 8 } else { 1 };
        let name = format!("{}.{section}", words.join("-"));
        let path = deploy(&format!("man/man{section}")).join(&name);
        let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        pages.insert(name.clone());
        let bare = page.replace('\\', "");
        for option in options(&help(&words).stdout) {
            let is_there = bare
                .lines()
                .any(|line| line.starts_with("fB-") && line.contains(&format!("fB{option}fR")));
            assert!(is_there, "{name}: {option}");
        }
        for heading in
            ["NAME", "SYNOPSIS", "DESCRIPTION", "\"EXIT STATUS\"", "EXAMPLES", "\"SEE ALSO\""]
        {
            assert!(page.contains(&format!("\n.SH {heading}\n")), "{name}: {heading}");
        }
        if has_man {
            let mut man = Command::new("man");
            man.args(["--warnings", "--local-file"]).arg(&path).env("MANWIDTH", "80");
            let shown = run(man.env("LC_ALL", "C.UTF-8").env("MANROFFOPT", "-c")).assert_code(0);
            assert_eq!(shown.stderr, "", "{name}");
            let mut shown = shown.stdout.lines().skip_while(|line| *line != "NAME").skip(1);
            let about: Vec<&str> = shown.next().unwrap().split_whitespace().collect();
            assert_eq!(about[..2], [&words.join("-"), "-"], "{name}");
        }
    }
    // And there are no others.
    let found = ["man/man1", "man/man8"].into_iter().flat_map(|directory| {
        let entries = fs::read_dir(deploy(directory)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
    });
    assert_eq!(found.collect::<BTreeSet<String>>(), pages);
}

#[test]
fn mandoc_has_nothing_against_manual_pages() {
    let Ok(probe) = Command::new("mandoc").args(["-T", "lint", "/dev/null"]).output() else {
        skip("mandoc is not installed");
        return;
    };
    drop(probe);
    for directory in ["man/man1", "man/man8"] {
        for entry in fs::read_dir(deploy(directory)).unwrap() {
            let mut mandoc = Command::new("mandoc");
            let said = run(mandoc.args(["-T", "lint", "-W", "warning"]).arg(entry.unwrap().path()));
            // Pages tell the version instead.
            let has_date = |line: &&str| !line.contains("missing date");
            assert_eq!(said.stdout.lines().find(has_date), None);
        }
    }
}

#[test]
fn programs_print_what_is_checked_in() {
    for (shell, file) in [
        ("bash", "bash/ledger-tool"),
        ("zsh", "zsh/_ledger-tool"),
        ("fish", "fish/ledger-tool.fish"),
    ] {
        let printed = run(ledger_tool().args(["completions", shell])).assert_code(0).stdout;
        assert_eq!(printed, fs::read_to_string(deploy("completions").join(file)).unwrap());
    }
    for words in commands("ledger-tool") {
        let printed = run(ledger_tool().arg("man").args(&words[1..])).assert_code(0).stdout;
        let file = deploy("man/man1").join(format!("{}.1", words.join("-")));
        assert_eq!(printed, fs::read_to_string(file).unwrap());
    }
    run(ledger_tool().args(["man", "dance"])).assert_code(2).assert_error(&["dance"]);
    run(ledger_tool().args(["completions", "tcsh"])).assert_code(2);
    // A program goes by the name that it was called by.
    for name in ["validator", "unsnap-validator"] {
        let mut command = program("unsnap-validator");
        let help = run(std::os::unix::process::CommandExt::arg0(&mut command, name).arg("--help"));
        assert!(help.stdout.contains(&format!("\nUsage: {name} [OPTIONS]")), "{}", help.stdout);
        assert!(help.stdout.contains(&format!("    {name} --deadline 10m")), "{}", help.stdout);
    }
}

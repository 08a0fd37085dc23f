//! Completions and manual pages, held to what `--help` tells: by the shells themselves, and by man.
//!
//! That the files are those of the programs, unit tests of the programs prove.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    programs::{PROGRAMS, commands, help, options, program},
    support::{has_tool, ledger_tool, run, skip},
};

/// What is checked in for packages.
fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

/// Commands of all programs.
fn all_commands() -> impl Iterator<Item = Vec<String>> {
    PROGRAMS.into_iter().flat_map(commands)
}

#[test]
fn bash_completes_what_help_tells() {
    for words in all_commands() {
        let script = deploy("completions/bash").join(&words[0]);
        // As bash does when somebody presses the key behind "--".
        let complete = "source \"$1\"; shift; COMP_WORDS=(\"$@\" --); COMP_CWORD=$#; \
                        \"_$1\" \"$1\" -- \"${!#}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", complete, "bash"]).arg(script).args(&words);
        assert_completes(&words, &run(&mut bash).assert_code(0).stdout);
    }
    // Values and files, too.
    let complete = |words: &str| {
        let script = deploy("completions/bash/ledger-tool");
        let complete = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _ledger-tool ledger-tool \"${{COMP_WORDS[COMP_CWORD]}}\" \
             \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let mut bash = Command::new("bash");
        run(bash.args(["--norc", "-c", &complete]).current_dir(deploy(""))).assert_code(0).stdout
    };
    assert_eq!(complete("ledger-tool diff --format js"), "json json-lines\n");
    assert_eq!(complete("ledger-tool fastboot wi"), "withdraw\n");
    assert_eq!(
        complete("ledger-tool unpack a --output ''"),
        complete("ledger-tool unpack a -o ''")
    );
    assert!(complete("ledger-tool unpack a --output ''").contains("man"));
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

/// Zsh has a completer only on a terminal of its own: its module zpty makes one.
#[test]
fn zsh_completes_what_help_tells() {
    if !has_tool("zsh", "--version") {
        return;
    }
    let probe =
        run(Command::new("zsh").args(["-f", "-c", "zmodload zsh/zpty && autoload -U +X compinit"]));
    if !probe.status.success() {
        skip(format_args!("zsh has no zpty or no compinit: {}", probe.stderr));
        return;
    }
    for program in PROGRAMS {
        let home = tempfile::tempdir().unwrap();
        let words = commands(program);
        let lines: Vec<String> = words.iter().map(|words| words.join(" ") + " --").collect();
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-c", ZSH, "zsh"]).arg(deploy("completions/zsh")).args(&lines);
        let said = run(zsh.env("HOME", home.path()).env("TERM", "dumb")).assert_code(0).stdout;
        let mut answers = said.split("\u{1}\n");
        for words in words {
            assert_completes(&words, answers.next().unwrap_or_default());
        }
    }
}

/// Completes each of its arguments, and prints what it was offered, each word on a line; answers end in
/// a byte 1. The first argument is the directory of completions.
const ZSH: &str = r#"
zmodload zsh/zpty
fpath=($1 $fpath); shift
zpty z "zsh -f -i"
zpty -w z "PROMPT=; fpath=(${(q)fpath}); autoload -U compinit; compinit -u -D"
# compadd is what all completions end in: it tells instead.
zpty -w z 'compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)* ]] { builtin compadd "$@"; return }
    local -a __found; builtin compadd -A __found "$@"; print -rl -- $__found
}'
zpty -w z 'tell() { print -r -- "<begin>"; _main_complete; print -r -- "<end>"; zle -I; BUFFER=; }'
zpty -w z 'zle -C tell-all complete-word tell; bindkey "^X" tell-all; print "<re""ady>"'
zpty -r -m z ready "*<ready>*"
for line in "$@"; do
    zpty -w -n z "$line"$'\x18'
    zpty -r -m z answer "*<begin>*<end>*"
    answer=${${answer#*<begin>}%<end>*}
    print -r -- ${answer//$'\r'/}
    print -r -- $'\x01'
    zpty -w -n z $'\x15'
done
zpty -d z
"#;

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
            let name = words.join("-");
            assert!(shown.stdout.contains(&format!("{name} - ")), "{name}: {}", shown.stdout);
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
        skip("there is no mandoc");
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

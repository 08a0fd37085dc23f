//! Shell completions, generated from a program's command line.

use clap::{Command, ValueEnum, ValueHint};
use clap_complete::{Generator, shells};

/// A shell that completes command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU Bash, with bash-completion or without
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

/// The line of a bash script that takes the word before the cursor's.
const PREVIOUS_WORD: &str = "    prev=\"$3\"\n";

/// Bash splits `--option=value` into three words.
const JOIN_VALUES: &str = r#"    if [[ "${cur}" == "=" ]]; then
        cur=""
    elif [[ "${prev}" == "=" ]]; then
        prev="${COMP_WORDS[COMP_CWORD-2]}"
    fi
"#;

impl Shell {
    /// All shells.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// Returns the script that the shell sources to complete the arguments of `program`, whose
    /// command line is `command`.
    pub fn script(self, mut command: Command, program: &'static str) -> String {
        command = with_pages(with_hints(command));
        // For bash, clap_complete 4.6.11 does not find the subcommands of a program with "-" in its
        // name, because two of its functions replace the "-" in different ways. The last line of
        // the script names the program that bash completes.
        let plain = match self {
            Self::Bash => program.replace('-', "_"),
            Self::Zsh | Self::Fish => program.to_owned(),
        };
        command.set_bin_name(&plain);
        command.build();
        let mut script = Vec::new();
        match self {
            Self::Bash => shells::Bash.generate(&command, &mut script),
            Self::Zsh => shells::Zsh.generate(&command, &mut script),
            Self::Fish => shells::Fish.generate(&command, &mut script),
        }
        let script = String::from_utf8_lossy(&script);
        let script = script.replace(&format!(" {plain}\n"), &format!(" {program}\n"));
        match self {
            Self::Bash => script.replace(PREVIOUS_WORD, &format!("{PREVIOUS_WORD}{JOIN_VALUES}")),
            Self::Zsh | Self::Fish => script,
        }
    }

    /// Returns the name of the file that the shell looks for to complete arguments of `program`.
    pub fn file_name(self, program: &str) -> String {
        match self {
            Self::Bash => shells::Bash.file_name(program),
            Self::Zsh => shells::Zsh.file_name(program),
            Self::Fish => shells::Fish.file_name(program),
        }
        // bash-completion 2 loads files by the program's name.
        .trim_end_matches(".bash")
        .to_owned()
    }
}

/// Has `man` complete the names of all other commands, like `help`: its arguments are such names. A
/// `man` below `man` would hide its options from fish, which looks only at the words of a line.
fn with_pages(command: Command) -> Command {
    fn names(command: &Command) -> Vec<Command> {
        let named = |inner: &Command| {
            let about = inner.get_about().cloned().unwrap_or_default();
            // Names are static text, once for each script.
            let name: &'static str = inner.get_name().to_owned().leak();
            let name = Command::new(name).about(about);
            name.subcommands(names(inner)).disable_help_flag(true).disable_help_subcommand(true)
        };
        let others = command.get_subcommands().filter(|inner| inner.get_name() != "man");
        others.map(named).collect()
    }
    let names = names(&command);
    match command.find_subcommand("man") {
        None => command,
        Some(_) => command.mut_subcommand("man", |man| {
            man.mut_args(|argument| argument.hide(true))
                .subcommands(names)
                .disable_help_subcommand(true)
        }),
    }
}

/// Adds hints about directories and files, which follow from the names of values in help texts.
fn with_hints(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let hint = match argument.get_value_names().unwrap_or_default() {
            [name] if name == "DIR" => ValueHint::DirPath,
            [name] if name == "ARCHIVE" || name == "FILE" => ValueHint::FilePath,
            _ => return argument,
        };
        argument.value_hint(hint)
    });
    command.mut_subcommands(with_hints)
}

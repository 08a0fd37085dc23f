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

impl Shell {
    /// All shells.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// Returns the script that the shell sources to complete the arguments of `program`, whose
    /// command line is `command`.
    pub fn script(self, mut command: Command, program: &'static str) -> String {
        command = with_hints(command);
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
        String::from_utf8_lossy(&script).replace(&format!(" {plain}\n"), &format!(" {program}\n"))
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

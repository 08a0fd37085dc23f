//! Completions of command lines by shells, generated from what a program takes.

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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// What the shell sources to complete the arguments of `program`. `command` is what that takes.
    pub fn script(self, mut command: Command, program: &'static str) -> String {
        command = hinted(command);
        // For bash, clap_complete 4.6.11 does not find subcommands of a program with "-" in its name: two
        // of its functions make different words of it. What bash completes is said at the script's end.
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

    /// Name of the file that the shell looks for when it is to complete arguments of `program`.
    pub fn file_name(self, program: &str) -> String {
        match self {
            Self::Bash => shells::Bash.file_name(program),
            Self::Zsh => shells::Zsh.file_name(program),
            Self::Fish => shells::Fish.file_name(program),
        }
        // The one of bash-completion 2, which loads files by the program's name.
        .trim_end_matches(".bash")
        .to_owned()
    }
}

/// Says of arguments what they name, by what they are called in help texts.
fn hinted(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let hint = match argument.get_value_names().unwrap_or_default() {
            [name] if name == "DIR" => ValueHint::DirPath,
            [name] if name == "ARCHIVE" || name == "FILE" => ValueHint::FilePath,
            _ => return argument,
        };
        argument.value_hint(hint)
    });
    command.mut_subcommands(hinted)
}

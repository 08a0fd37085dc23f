//! What can be typed after `completions` and `man`.

use clap::Args;
use unsnap_cli::completions::Shell;

pub const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  For yourself, in bash:
    mkdir -p ~/.local/share/bash-completion/completions
    ledger-tool completions bash \\
      >~/.local/share/bash-completion/completions/ledger-tool

  In zsh, for everybody: into a directory of $fpath
    ledger-tool completions zsh \\
      >/usr/local/share/zsh/site-functions/_ledger-tool

  For yourself, in fish:
    mkdir -p ~/.config/fish/completions
    ledger-tool completions fish >~/.config/fish/completions/ledger-tool.fish";

pub const MAN_EXAMPLES: &str = "\
Examples:
  Read the page of a command:
    ledger-tool man fastboot prepare | man -l -

  The page of ledger-tool itself, for everybody:
    ledger-tool man >/usr/local/share/man/man1/ledger-tool.1";

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command that it is about, such as `fastboot prepare` [default: ledger-tool itself]
    pub command: Vec<String>,
}

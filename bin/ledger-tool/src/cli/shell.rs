//! Command line of `completions` and `man`.

use clap::Args;
use unsnap_cli::completions::Shell;

pub const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  bash, for yourself:
    mkdir -p ~/.local/share/bash-completion/completions
    ledger-tool completions bash \\
      >~/.local/share/bash-completion/completions/ledger-tool

  zsh, for all users, into a directory of $fpath:
    ledger-tool completions zsh \\
      >/usr/local/share/zsh/site-functions/_ledger-tool

  fish, for yourself:
    mkdir -p ~/.config/fish/completions
    ledger-tool completions fish >~/.config/fish/completions/ledger-tool.fish";

pub const MAN_EXAMPLES: &str = "\
Examples:
  Read the page of a command:
    ledger-tool man fastboot prepare | man -l -

  Install the page of ledger-tool itself for all users:
    ledger-tool man >/usr/local/share/man/man1/ledger-tool.1";

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to complete command lines in
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command, such as `fastboot prepare` [default: ledger-tool itself]
    pub command: Vec<String>,
}

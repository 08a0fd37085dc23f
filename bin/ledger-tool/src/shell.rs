//! `ledger-tool completions` and `ledger-tool man`.

use clap::CommandFactory;
use unsnap_cli::{exit::EXIT_STATUS, manual::Manual, printer::data};

use crate::{
    cli::{Cli, CompletionsArgs, ManArgs},
    settings::RequestError,
};

const MANUAL: Manual = Manual {
    program: "ledger-tool",
    section: "1",
    exit_status: &EXIT_STATUS,
    see_also: &["unsnap-validator(1)", "unpackd(8)"],
};

pub fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    Ok(data(&args.shell.script(Cli::command(), MANUAL.program))?)
}

pub fn man(args: &ManArgs) -> anyhow::Result<()> {
    let mut pages = MANUAL.pages(Cli::command()).into_iter();
    let page = pages
        .find(|page| page.words[1..] == args.command)
        .ok_or_else(|| RequestError(format!("unknown command \"{}\"", args.command.join(" "))))?;
    Ok(data(&page.text)?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unsnap_cli::generated;

    use super::*;

    #[test]
    fn checked_in_files_are_up_to_date() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        generated::hold(&deploy, &Cli::command(), &MANUAL).unwrap();
    }
}

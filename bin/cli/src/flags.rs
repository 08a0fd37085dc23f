//! Command-line flags for the options that remedies name.

use std::collections::BTreeSet;

use unsnap_failure::{Knob, Vocabulary};

/// Names options by the flags of one command, so that a hint never names another command's flag.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Long names, without dashes.
    flags: BTreeSet<String>,
    /// Whether hints may name commands of `ledger-tool`.
    is_ledger_tool: bool,
}

impl Flags {
    /// Returns the flags of a command.
    pub fn of(command: &clap::Command, is_ledger_tool: bool) -> Self {
        let longs = command.get_arguments().filter_map(clap::Arg::get_long).map(str::to_owned);
        Self { flags: longs.collect(), is_ledger_tool }
    }

    /// Returns the flags of the subcommand that was called, such as `fastboot prepare`.
    pub fn of_call(root: &clap::Command, matches: &clap::ArgMatches) -> Self {
        let (mut command, mut matches) = (root, matches);
        while let Some((name, inner)) = matches.subcommand()
            && let Some(next) = command.find_subcommand(name)
        {
            (command, matches) = (next, inner);
        }
        Self::of(command, true)
    }

    fn flag(&self, long: &str) -> Option<String> {
        self.flags.contains(long).then(|| format!("--{long}"))
    }
}

impl Vocabulary for Flags {
    fn name(&self, knob: Knob) -> Option<String> {
        let elsewhere = |command: &str| self.is_ledger_tool.then(|| command.to_owned());
        match knob {
            Knob::Limits => self.flag("config"),
            Knob::AnyLayout => self.flag("layout").map(|flag| format!("{flag} any")),
            Knob::NoIndex => self.flag("no-index"),
            Knob::MakeIndex => elsewhere("ledger-tool index"),
            Knob::IoEngine => self.flag("io-engine"),
            Knob::DirectIo => self.flag("use-direct-io"),
            Knob::MemoryBudget => self.flag("memory-budget"),
            Knob::DecodeThreads => self.flag("decode-threads"),
            Knob::NoPreflight => self.flag("no-preflight"),
            Knob::MinFree => self.flag("min-free"),
            Knob::Resume => self.flag("resume"),
            Knob::Beside => {
                self.flag("beside").or_else(|| elsewhere("ledger-tool fastboot prepare --beside"))
            }
            Knob::Snapshots => self.flag("snapshots"),
            Knob::Accounts => self.flag("accounts"),
            Knob::Replace => self.flag("force"),
            Knob::Output => self.flag("output"),
            Knob::FrameSize => self.flag("frame-size"),
            Knob::SeekTable => self.flag("seek-table"),
            Knob::Newest => self.flag("newest"),
            Knob::Incremental => self.flag("incremental"),
            Knob::VerifyMemory => self.flag("verify-memory"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_subcommand_that_is_called() {
        let flag = |name: &'static str| clap::Arg::new(name).long(name);
        let root = clap::Command::new("tool")
            .subcommand(clap::Command::new("one").arg(flag("force")))
            .subcommand(clap::Command::new("two").arg(flag("no-index")));
        let matches = root.clone().get_matches_from(["tool", "two"]);
        let flags = Flags::of_call(&root, &matches);
        assert_eq!(flags.name(Knob::NoIndex).as_deref(), Some("--no-index"));
        assert_eq!(flags.name(Knob::Replace), None);
        assert_eq!(flags.name(Knob::MakeIndex).as_deref(), Some("ledger-tool index"));
    }
}

//! The validator's command line: what it says of where things are, and what is added to it.
//!
//! It is read as `agave-validator` 4.2 reads it, with clap 2: `--x V`, `--x=V`, `-l V`, `-lV` and
//! `-l=V`, in any order, before and after a subcommand. What is not known is passed over: it is the
//! validator's to judge.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// The flag that says whether a validator looks at states.
const AT_STARTUP: &str = "--use-snapshot-archives-at-startup";

/// Start from a state if it is as new as the newest archive: the validator's default, said aloud.
const WHEN_NEWEST: &str = "when-newest";

/// The subcommands of `agave-validator` 4.2 (`cli.rs`); it also takes whatever only one of them
/// begins with.
const SUBCOMMANDS: &[&str] = &[
    "authorized-voter",
    "contact-info",
    "exit",
    "help",
    "init",
    "manage-block-production",
    "monitor",
    "plugin",
    "repair-shred-from-peer",
    "repair-whitelist",
    "run",
    "set-identity",
    "set-log-filter",
    "set-public-address",
    "staked-nodes-overrides",
    "wait-for-restart-window",
];

/// Those that load a ledger. So does no subcommand.
const STARTING: [&str; 2] = ["init", "run"];

/// Flags of `agave-validator` that take no value (`commands/run/args.rs`, some of older and newer
/// releases): a word behind another flag is taken for its value, and not for a subcommand. One that
/// is missing here costs nothing as long as no subcommand follows it.
const SWITCHES: &[&str] = &[
    "accounts-db-test-hash-calculation",
    "accounts-db-verify-refcounts",
    "allow-private-addr",
    "cuda",
    "delay-leader-block-for-pending-fork",
    "disable-banking-trace",
    "enable-accounts-disk-index",
    "enable-bigtable-ledger-upload",
    "enable-cpi-and-log-storage",
    "enable-extended-tx-metadata-storage",
    "enable-rpc-bigtable-ledger-storage",
    "enable-rpc-transaction-history",
    "full-rpc-api",
    "geyser-plugin-always-enabled",
    "no-accounts-db-snapshots-direct-io",
    "no-check-vote-account",
    "no-genesis-fetch",
    "no-incremental-snapshots",
    "no-os-cpu-stats-reporting",
    "no-os-disk-stats-reporting",
    "no-os-memory-stats-reporting",
    "no-os-network-limits-test",
    "no-os-network-stats-reporting",
    "no-poh-speed-test",
    "no-port-check",
    "no-skip-initial-accounts-db-clean",
    "no-snapshot-fetch",
    "no-snapshots",
    "no-voting",
    "no-wait-for-vote-to-start-leader",
    "only-known-rpc",
    "private-rpc",
    "process-ledger-before-services",
    "require-tower",
    "restricted-repair-only-mode",
    "rpc-pubsub-enable-block-subscription",
    "rpc-pubsub-enable-vote-subscription",
    "rpc-scan-and-fix-roots",
    "rpc-send-transaction-also-leader",
    "skip-preflight-health-check",
    "skip-seed-phrase-validation",
    "skip-startup-ledger-verification",
    "tpu-disable-quic",
    "tpu-enable-udp",
];

/// What the validator is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Load a ledger.
    #[default]
    Start,
    /// Something else: help, or a message to a validator that is running.
    Other(OsString),
}

/// Whether the validator looks at states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtStartup {
    /// If they are as new as the newest archives.
    WhenNewest,
    /// Never: it always takes the archives.
    Archives,
    /// Always: it never takes the archives.
    State,
}

/// What the arguments say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub purpose: Purpose,
    pub ledger: Option<PathBuf>,
    pub snapshots: Option<PathBuf>,
    pub full_archives: Option<PathBuf>,
    pub incremental_archives: Option<PathBuf>,
    pub accounts: Vec<PathBuf>,
    /// `None` if it is left to the default.
    pub at_startup: Option<AtStartup>,
    /// Where an argument can be put in.
    insert_at: usize,
}

impl Said {
    /// Reads the arguments behind the program's name.
    pub fn by(arguments: &[OsString]) -> Self {
        let mut said = Self { insert_at: arguments.len(), ..Self::default() };
        let mut words = Words { arguments, next: 0 };
        let mut subcommand = false;
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            match bytes {
                b"--" => {
                    said.insert_at = said.insert_at.min(words.next - 1);
                    break;
                }
                [b'-', b'-', flag @ ..] => said.long(flag, &mut words),
                [b'-', short, rest @ ..] => said.short(*short, rest, &mut words),
                _ if subcommand => {}
                _ => {
                    let Some(found) = subcommand_of(bytes) else { continue };
                    subcommand = true;
                    said.insert_at = words.next - 1;
                    if !STARTING.contains(&found) {
                        said.purpose = Purpose::Other(word.clone());
                    }
                }
            }
            if said.purpose != Purpose::Start {
                break;
            }
        }
        said
    }

    fn long(&mut self, flag: &[u8], words: &mut Words<'_>) {
        let (name, attached) = match flag.iter().position(|byte| *byte == b'=') {
            Some(at) => (&flag[..at], Some(without_equals(&flag[at..]))),
            None => (flag, None),
        };
        let path = |words: &mut Words<'_>| {
            attached.map(OsStr::from_bytes).or_else(|| words.value()).map(PathBuf::from)
        };
        match name {
            b"ledger" => self.ledger = path(words),
            b"snapshots" => self.snapshots = path(words),
            b"full-snapshot-archive-path" => self.full_archives = path(words),
            b"incremental-snapshot-archive-path" => self.incremental_archives = path(words),
            b"accounts" => match attached {
                Some(list) => self.add_accounts(list),
                // As many as there are.
                None => {
                    while let Some(list) = words.value() {
                        self.add_accounts(list.as_bytes());
                    }
                }
            },
            _ if name == &AT_STARTUP.as_bytes()[2..] => {
                let value = attached.or_else(|| words.value().map(OsStr::as_bytes));
                self.at_startup = Some(match value {
                    Some(b"always") => AtStartup::Archives,
                    Some(b"never") => AtStartup::State,
                    _ => AtStartup::WhenNewest,
                });
            }
            b"help" | b"version" => self.purpose = Purpose::Other(words.last()),
            _ => {
                let switch = SWITCHES.iter().any(|switch| switch.as_bytes() == name);
                if attached.is_none() && !switch {
                    words.value();
                }
            }
        }
    }

    fn short(&mut self, short: u8, rest: &[u8], words: &mut Words<'_>) {
        match (short, rest) {
            (b'h' | b'V', _) => self.purpose = Purpose::Other(words.last()),
            (b'l', []) => self.ledger = words.value().map(PathBuf::from),
            (b'l', rest) => self.ledger = Some(OsStr::from_bytes(without_equals(rest)).into()),
            // All that there are take a value, but for what is a negative number.
            (short, []) if !short.is_ascii_digit() => drop(words.value()),
            (_, _) => {}
        }
    }

    fn add_accounts(&mut self, list: &[u8]) {
        let paths = list.split(|byte| *byte == b',').filter(|path| !path.is_empty());
        self.accounts.extend(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))));
    }

    /// The arguments, and that the validator is to take a state: unless they speak of that.
    pub fn with_when_newest(&self, arguments: &[OsString]) -> Vec<OsString> {
        let mut arguments = arguments.to_vec();
        if self.at_startup.is_none() {
            let at = self.insert_at;
            arguments.splice(at..at, [AT_STARTUP.into(), WHEN_NEWEST.into()]);
        }
        arguments
    }
}

struct Words<'a> {
    arguments: &'a [OsString],
    next: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a OsString> {
        let word = self.arguments.get(self.next)?;
        self.next += 1;
        Some(word)
    }

    /// The next word, if it can be the value of a flag: to clap 2 what begins like a flag is one.
    fn value(&mut self) -> Option<&'a OsStr> {
        let word = self.arguments.get(self.next)?;
        if word.as_bytes().starts_with(b"-") && word != "-" {
            return None;
        }
        self.next += 1;
        Some(word)
    }

    /// The word that was given last.
    fn last(&self) -> OsString {
        self.arguments[self.next - 1].clone()
    }
}

/// The name that a word stands for.
fn subcommand_of(word: &[u8]) -> Option<&'static str> {
    if word.is_empty() {
        return None;
    }
    let mut beginning = SUBCOMMANDS.iter().filter(|name| name.as_bytes().starts_with(word));
    match (beginning.next(), beginning.next()) {
        (Some(only), None) => Some(only),
        _ => SUBCOMMANDS.iter().find(|name| name.as_bytes() == word).copied(),
    }
}

fn without_equals(value: &[u8]) -> &[u8] {
    let at = value.iter().position(|byte| *byte != b'=').unwrap_or(value.len());
    &value[at..]
}

#[cfg(test)]
mod tests;

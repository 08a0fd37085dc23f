//! The validator's arguments: the directories that they name, and the flag that is added to them.
//!
//! They are parsed as by `agave-validator` 4.2, which uses clap 2: `--x V`, `--x=V`, `-l V`, `-lV` and
//! `-l=V`, in any order, before and after a subcommand. Unknown arguments are skipped: the validator
//! judges them.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use unsnap_fastboot::ExpectedCluster;
use unsnap_layout::ArchiveHash;

/// The flag that decides whether a validator uses states.
const ARCHIVE_USE_FLAG: &str = "--use-snapshot-archives-at-startup";

/// The subcommands of `agave-validator` 4.2 (`cli.rs`). It also accepts unambiguous prefixes of them.
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

/// Subcommands that load a ledger. Without a subcommand the validator loads it too.
const STARTING: [&str; 2] = ["init", "run"];

/// Flags of `agave-validator` without a value (`commands/run/args.rs`, and some of older and newer
/// releases). A word behind any other flag is taken for its value, not for a subcommand. A flag
/// that is missing here matters only if a subcommand follows it.
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

/// Purpose of the validator's command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Load a ledger.
    #[default]
    Start,
    /// Something else: help, or a message to a running validator. Holds the word that says so.
    Other(OsString),
}

/// Whether the validator unpacks the archives at startup instead of using a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveUse {
    /// Only if they are newer than the newest state. The validator's default.
    WhenNewest,
    /// Always: it ignores states.
    Always,
    /// Never: it ignores archives.
    Never,
}

impl ArchiveUse {
    /// Returns the value of the validator's flag.
    fn name(self) -> &'static str {
        match self {
            Self::WhenNewest => "when-newest",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// The relevant part of the validator's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidatorArgs {
    /// What it asks for.
    pub purpose: Purpose,
    /// `--ledger`
    pub ledger: Option<PathBuf>,
    /// `--snapshots`
    pub snapshots: Option<PathBuf>,
    /// `--full-snapshot-archive-path`
    pub full_archives: Option<PathBuf>,
    /// `--incremental-snapshot-archive-path`
    pub incremental_archives: Option<PathBuf>,
    /// `--accounts`, from all its occurrences.
    pub accounts: Vec<PathBuf>,
    /// `None` if the flag is missing.
    pub archive_use: Option<ArchiveUse>,
    /// `--expected-genesis-hash`, `--expected-shred-version` and `--hard-fork`. A value that the
    /// validator will refuse counts as missing.
    pub cluster: ExpectedCluster,
    /// Whether there are words that are neither flags, nor values, nor the subcommand.
    pub has_stray_words: bool,
    /// Index at which a flag can be inserted.
    insert_at: usize,
}

impl ValidatorArgs {
    /// Parses the arguments behind the program's name.
    pub fn parse(arguments: &[OsString]) -> Self {
        let mut parsed = Self { insert_at: arguments.len(), ..Self::default() };
        let mut words = Words { arguments, next: 0 };
        let mut subcommand = false;
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            match bytes {
                b"--" => {
                    parsed.insert_at = parsed.insert_at.min(words.next - 1);
                    break;
                }
                [b'-', b'-', flag @ ..] => parsed.long(flag, &mut words),
                [b'-', short, rest @ ..] => parsed.short(*short, rest, &mut words),
                _ if subcommand => parsed.has_stray_words = true,
                _ => {
                    let Some(found) = subcommand_of(bytes) else {
                        parsed.has_stray_words = true;
                        continue;
                    };
                    subcommand = true;
                    parsed.insert_at = words.next - 1;
                    if !STARTING.contains(&found) {
                        parsed.purpose = Purpose::Other(word.clone());
                    }
                }
            }
            if parsed.purpose != Purpose::Start {
                break;
            }
        }
        parsed
    }

    fn long<'a>(&mut self, flag: &'a [u8], words: &mut Words<'a>) {
        let (name, attached) = match flag.iter().position(|byte| *byte == b'=') {
            Some(at) => (&flag[..at], Some(without_equals(&flag[at..]))),
            None => (flag, None),
        };
        let path = |words: &mut Words<'a>| {
            attached.map(OsStr::from_bytes).or_else(|| words.value()).map(PathBuf::from)
        };
        let text = |words: &mut Words<'a>| {
            attached.map(OsStr::from_bytes).or_else(|| words.value()).and_then(OsStr::to_str)
        };
        match name {
            b"ledger" => self.ledger = path(words),
            b"snapshots" => self.snapshots = path(words),
            b"full-snapshot-archive-path" => self.full_archives = path(words),
            b"incremental-snapshot-archive-path" => self.incremental_archives = path(words),
            b"accounts" => match attached {
                Some(list) => self.add_accounts(list),
                // The flag takes all values that follow it.
                None => {
                    while let Some(list) = words.value() {
                        self.add_accounts(list.as_bytes());
                    }
                }
            },
            b"expected-genesis-hash" => {
                self.cluster.genesis_hash = text(words).and_then(ArchiveHash::parse);
            }
            b"expected-shred-version" => {
                self.cluster.shred_version = text(words).and_then(|text| text.parse().ok());
            }
            b"hard-fork" => match attached {
                Some(slot) => self.add_hard_fork(OsStr::from_bytes(slot)),
                None => {
                    while let Some(slot) = words.value() {
                        self.add_hard_fork(slot);
                    }
                }
            },
            _ if name == &ARCHIVE_USE_FLAG.as_bytes()[2..] => {
                let value = attached.or_else(|| words.value().map(OsStr::as_bytes));
                self.archive_use = Some(match value {
                    Some(b"always") => ArchiveUse::Always,
                    Some(b"never") => ArchiveUse::Never,
                    // Also for a value that the validator will refuse.
                    _ => ArchiveUse::WhenNewest,
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
            // All short flags take a value. A digit begins a negative number instead.
            (short, []) if !short.is_ascii_digit() => drop(words.value()),
            (_, _) => {}
        }
    }

    fn add_accounts(&mut self, list: &[u8]) {
        let paths = list.split(|byte| *byte == b',').filter(|path| !path.is_empty());
        self.accounts.extend(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))));
    }

    fn add_hard_fork(&mut self, slot: &OsStr) {
        self.cluster.hard_forks.extend(slot.to_str().and_then(|slot| slot.parse::<u64>().ok()));
    }

    /// Returns the arguments with a flag that tells the validator to use states in this way, unless
    /// they contain that flag.
    pub fn with_archive_use(
        &self,
        arguments: &[OsString],
        archive_use: ArchiveUse,
    ) -> Vec<OsString> {
        let mut arguments = arguments.to_vec();
        if self.archive_use.is_none() {
            let at = self.insert_at;
            arguments.splice(at..at, [ARCHIVE_USE_FLAG.into(), archive_use.name().into()]);
        }
        arguments
    }
}

/// The arguments, read one after the other.
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

    /// Returns the next word if it can be the value of a flag. clap 2 takes a word that begins like a
    /// flag for a flag.
    fn value(&mut self) -> Option<&'a OsStr> {
        let word = self.arguments.get(self.next)?;
        if word.as_bytes().starts_with(b"-") && word != "-" {
            return None;
        }
        self.next += 1;
        Some(word)
    }

    /// Returns the word that was read last.
    fn last(&self) -> OsString {
        self.arguments[self.next - 1].clone()
    }
}

/// Returns the subcommand that a word names or abbreviates.
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

//! Names of remedies' options in the service's configuration.

use unsnap_failure::{Knob, Vocabulary};

/// Names options by the keys of `unpackd.toml`.
pub struct ConfigKeys;

impl Vocabulary for ConfigKeys {
    fn name(&self, knob: Knob) -> Option<String> {
        let key = match knob {
            Knob::Limits => "section [limits]",
            Knob::IoEngine => "io-engine in [unpack]",
            Knob::DirectIo => "direct-io in [unpack]",
            Knob::MemoryBudget => "memory-budget in [unpack]",
            Knob::DecodeThreads => "decode-threads in [unpack]",
            Knob::MinFree => "min-free in [neighbour]",
            Knob::Beside => "beside = true in [[target]]",
            Knob::Snapshots => "snapshots in [[target]]",
            Knob::Accounts => "accounts in [[target]]",
            // The service has no such option.
            _ => return None,
        };
        Some(key.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use unsnap_failure::Remedy;

    use super::*;

    #[test]
    fn a_hint_names_keys_and_never_a_flag() {
        let all = [
            Remedy::MakeRoom { inodes: false, unpacking: false },
            Remedy::LowerMinFree { unpacking: true },
            Remedy::LessMemory,
            Remedy::OtherEngine,
            Remedy::BufferedIo,
            Remedy::AllowAnyLayout,
            Remedy::IgnoreIndex,
            Remedy::RemakeIndex,
            Remedy::StartOver,
            Remedy::StopValidator,
            Remedy::RaiseLimits(&["entries_max"]),
        ];
        let config = include_str!("../../../config/unpackd.toml");
        for remedy in all {
            let words = remedy.words(&ConfigKeys).unwrap_or_default();
            assert!(!words.contains("--"), "{words}");
        }
        for key in
            ["io-engine", "direct-io", "memory-budget", "decode-threads", "min-free", "beside"]
        {
            assert!(config.contains(&format!("{key} = ")), "{key}");
        }
    }
}

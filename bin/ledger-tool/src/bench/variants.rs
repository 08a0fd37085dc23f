//! Variants of flags to measure.

use unsnap_pass::{DirectMode, IoEngine, Options};

/// A combination of flags.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name in the result.
    pub name: &'static str,
    /// The flags for it; empty for the default.
    pub flags: String,
    change: Change,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    Engine(Engine),
    Direct(DirectMode),
    DecodeThreads(usize),
}

#[derive(Clone, Copy, Debug)]
enum Engine {
    Uring,
    Threads,
}

/// Returns all variants worth measuring, the default first. `cores` is the default number of decoding
/// threads; `frames_in_parallel` says whether several threads can decode the archive.
pub fn variants(cores: usize, frames_in_parallel: bool) -> Vec<Variant> {
    let variant = |name, flags: &str, change| Variant { name, flags: flags.to_owned(), change };
    let mut variants = vec![
        variant("default", "", Change::Nothing),
        variant("ring", "--io-engine uring", Change::Engine(Engine::Uring)),
        variant("plain threads", "--io-engine threads", Change::Engine(Engine::Threads)),
        variant("page cache", "--use-direct-io=off", Change::Direct(DirectMode::Off)),
        variant("direct", "--use-direct-io=on", Change::Direct(DirectMode::On)),
    ];
    if frames_in_parallel {
        let threads = |name, count: usize| {
            variant(name, &format!("--decode-threads {count}"), Change::DecodeThreads(count))
        };
        if cores > 1 {
            variants.push(threads("half the decoders", cores / 2));
        }
        variants.push(threads("twice the decoders", (cores * 2).min(256)));
    }
    variants
}

impl Variant {
    pub fn is_default(&self) -> bool {
        self.flags.is_empty()
    }

    pub fn apply(&self, options: &mut Options) {
        match self.change {
            Change::Nothing => {}
            Change::Engine(Engine::Uring) => options.io.engine = IoEngine::Uring,
            Change::Engine(Engine::Threads) => options.io.engine = IoEngine::Threads,
            Change::Direct(mode) => options.io.direct = mode,
            Change::DecodeThreads(count) => options.resources.decode_threads = Some(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{
        cli::{Cli, Command},
        settings,
    };

    /// The recommended flags are valid, and have the measured effect.
    #[test]
    fn flags_have_the_measured_effect() {
        for variant in variants(4, true) {
            let words = ["ledger-tool", "unpack", "a", "--output", "b"].into_iter();
            let Command::Unpack(args) =
                Cli::parse_from(words.chain(variant.flags.split_whitespace())).command
            else {
                unreachable!()
            };
            let archive = settings::local_archive(args.archive.as_deref().unwrap());
            let typed = settings::unpacking(&args, (archive, None), None).unwrap();
            let mut tried = typed.clone();
            variant.apply(&mut tried.pass);
            assert_eq!(format!("{typed:?}"), format!("{tried:?}"), "{}", variant.name);
        }
        assert_eq!(variants(4, false).len(), 5);
        assert_eq!(variants(1, true).len(), 6);
        assert!(variants(8, true)[0].is_default());
    }
}

//! Runs every target on stable Rust: its checked-in seeds, and a bounded number of mutations of
//! them.
//!
//! Each mutation depends only on a fixed seed and its number, so that a failure is reproducible.
//! The test prints the seed, the number and the input. `SMOKE_SEED` selects other mutations, and
//! `SMOKE_FACTOR` multiplies their number.
#![allow(clippy::print_stdout)] // clippy does not treat test helpers as tests

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
};

use unsnap_fuzz_targets::{TARGETS, Target, seeds};
use unsnap_testkit::random::Random;

/// The seed of all mutations, unless `SMOKE_SEED` is set.
const SEED: u64 = 20_261_121;

/// Largest input length that mutations can reach.
const INPUT_BYTES_MAX: usize = 16 << 10;

macro_rules! smoke {
    ($($target:ident)*) => {
        $(#[test] fn $target() { smoke(stringify!($target)); })*

        #[test]
        fn no_target_is_left_out() {
            let tested = [$(stringify!($target)),*];
            assert_eq!(tested, TARGETS.map(|target| target.name));
        }
    };
}

smoke! {
    archive_name bank control_request decode_lz4 decode_own decode_zstd fastboot layout_any
    layout_snapshot
    report seek_table side_car storage
    tar_differential tar_header tar_pax tar_walk zstd_own zstd_scan
}

fn smoke(name: &str) {
    let target = TARGETS.into_iter().find(|target| target.name == name).expect("a target");
    let corpus = checked_in(name);
    assert!(corpus.len() >= 5, "{name} has seeds");
    for (path, input) in &corpus {
        run(target, input, &path.display().to_string());
    }
    let tokens = dictionary();
    let seed = setting("SMOKE_SEED").unwrap_or(SEED);
    let inputs = target.smoke_inputs * setting("SMOKE_FACTOR").unwrap_or(1);
    println!("{name}: {} seeds, {inputs} mutations from seed {seed}", corpus.len());
    for number in 0..inputs {
        let mut random = Random::of(&[seed, number]);
        let input = mutate(&corpus, &tokens, &mut random);
        run(target, &input, &format!("mutation {number} from seed {seed}"));
    }
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

fn run(target: Target, input: &[u8], origin: &str) {
    // A failed assertion leaves no relevant state in a target.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let shown: Vec<String> = input.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = shown.concat();
        println!("{}: {origin} is a finding; in hexadecimal: {shown}", target.name);
        resume_unwind(panic);
    }
}

fn checked_in(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(seeds::folder(target)).expect("seeds are checked in");
    let mut corpus: Vec<_> = files
        .map(|file| file.expect("a readable folder").path())
        .map(|path| (path.clone(), fs::read(path).expect("a readable seed")))
        .collect();
    corpus.sort();
    corpus
}

#[test]
fn checked_in_seeds_match_the_code_and_are_small() {
    let mut bytes = 0;
    for target in TARGETS {
        for (name, seed) in seeds::of(target.name) {
            let path = seeds::folder(target.name).join(name);
            let found = fs::read(&path).unwrap_or_default();
            assert!(found == seed, "{} is outdated: run make-seeds", path.display());
        }
        bytes += checked_in(target.name).iter().map(|(_, seed)| seed.len()).sum::<usize>();
    }
    assert!(bytes < 1 << 20, "{bytes} bytes of seeds");
}

#[test]
fn every_target_has_its_program() {
    let fuzz = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("the workspace");
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
    for Target { name, .. } in TARGETS {
        let path = format!("fuzz_targets/{name}.rs");
        assert!(manifest.contains(&format!("path = \"{path}\"")), "{name}");
        let program = fs::read_to_string(fuzz.join(path)).expect("the program");
        assert!(program.contains(&format!("unsnap_fuzz_targets::{name}(data)")), "{name}");
    }
}

/// Returns one of the seeds after one to eight changes.
fn mutate(corpus: &[(PathBuf, Vec<u8>)], tokens: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = random.pick(corpus).1.clone();
    for _ in 0..=random.index(8) {
        let length = input.len();
        let at = random.index(length + 1);
        match random.below(9) {
            0 if length > 0 => input[at.min(length - 1)] ^= 1 << random.below(8),
            1 if length > 0 => input[at.min(length - 1)] = random.bytes::<1>()[0],
            2 => input.truncate(at),
            3 => {
                let end = (at + random.index(600)).min(length);
                input.drain(at..end);
            }
            4 => {
                let end = (at + random.index(600)).min(length);
                let copy = input[at..end].to_vec();
                let to = random.index(length + 1);
                input.splice(to..to, copy);
            }
            5 => {
                let other = &random.pick(corpus).1;
                let from = random.index(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            6 => {
                let token = random.pick(tokens);
                let end = (at + token.len()).min(length);
                input.splice(at..end, token.iter().copied());
            }
            7 => {
                let token = random.pick(tokens);
                input.splice(at..at, token.iter().copied());
            }
            _ => {
                let some = &random.bytes::<4>()[..random.index(5)];
                input.splice(at..at, some.iter().copied());
            }
        }
        input.truncate(INPUT_BYTES_MAX);
    }
    input
}

/// Returns the tokens of all dictionaries, in libFuzzer's format: one quoted string per line, with
/// `\xNN`.
fn dictionary() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../dictionaries");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("dictionaries are checked in")
        .map(|file| file.expect("a readable folder").path())
        .collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).expect("text"));
    let tokens: Vec<Vec<u8>> = texts
        .flat_map(|text| {
            text.lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(token)
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(tokens.len() > 20);
    tokens
}

fn token(line: &str) -> Vec<u8> {
    let quoted = line.split_once('=').filter(|(name, _)| !name.contains('"'));
    let text = quoted.map_or(line, |(_, text)| text);
    let mut rest = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).expect(line);
    let mut token = Vec::new();
    while let Some((before, after)) = rest.split_once('\\') {
        token.extend_from_slice(before.as_bytes());
        if let Some(digits) = after.strip_prefix('x') {
            token.push(u8::from_str_radix(&digits[..2], 16).expect(line));
            rest = &digits[2..];
        } else {
            token.extend_from_slice(&after.as_bytes()[..1]);
            rest = &after[1..];
        }
    }
    token.extend_from_slice(rest.as_bytes());
    token
}

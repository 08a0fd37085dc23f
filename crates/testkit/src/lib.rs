//! Archives for the tests and benchmarks of unsnap.
//!
//! Test support beyond the archive generator is behind the feature `harness`, which is on by
//! default. `ledger-tool bench` ships the generator alone.
//!
//! | module | provides |
//! |---|---|
//! | [`archive`] | deterministic snapshot archives of any size; also the program `make-archive` |
//! | [`spec`] | the specification of such an archive |
//! | [`tar`] | tar archives built by hand: good, odd and hostile |
//! | [`hostile`] | one archive for each construct that has broken some archive reader |
//! | [`compress`] | zstd and lz4 streams of every shape |
//! | [`tree`] | reference extraction, comparison with a directory |
//! | [`scratch`] | scratch file systems for tests that run as root |
//! | [`skip`] | the one way for a test to report that it cannot run here |
//! | [`table`] | tables of verdicts in Markdown files |
//! | [`random`] | the pseudo-random numbers of all other modules |
//! | [`bank`], [`content`], [`firedancer`], [`image`], [`plan`] | the parts of an archive |
//! | [`proxy`] | a web proxy |
//! | [`server`] | a web server that sends one file, as well or as badly as a test wants |
//! | [`series`] | successive snapshots of one ledger, every byte of which follows from slots |
//! | [`lattice`] | the true lattice hash and capitalization of accounts |
//! | [`answers`] | every account of generated archives, and the answers to queries about them |
//! | [`ordered`], [`size`] | parallel work with ordered results; sizes with units |
//!
//! Two archives of one [`spec::ArchiveSpec`] are equal byte for byte, on any machine and with any
//! number of threads (given the same release of libzstd). Nothing here shares code with the
//! unpacker, so neither can hide the other's mistakes.
//!
//! ```
//! use unsnap_testkit::archive::{expected_files, write_archive};
//! use unsnap_testkit::spec::ArchiveSpec;
//! use unsnap_testkit::tree::{files, reference_entries};
//!
//! let spec = ArchiveSpec { total_bytes: 300_000, ..ArchiveSpec::default() };
//! let mut archive = Vec::new();
//! write_archive(&spec, &mut archive)?;
//! assert_eq!(files(reference_entries(&archive)?), expected_files(&spec)?.collect());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "shares no code with the data path")]

#[cfg(feature = "harness")]
pub mod answers;
pub mod archive;
pub mod bank;
pub mod compress;
pub mod content;
pub mod firedancer;
mod framing;
#[cfg(feature = "harness")]
pub mod hostile;
pub mod image;
pub mod lattice;
mod mainnet;
#[cfg(feature = "harness")]
mod manifest;
mod name;
pub mod ordered;
pub mod plan;
pub mod proxy;
pub mod random;
#[cfg(feature = "harness")]
pub mod scratch;
#[cfg(feature = "harness")]
pub mod series;
#[cfg(feature = "harness")]
pub mod server;
pub mod size;
#[cfg(feature = "harness")]
pub mod skip;
pub mod spec;
#[cfg(feature = "harness")]
pub mod table;
pub mod tar;
#[cfg(feature = "harness")]
pub mod tree;

/// Converts a length in memory.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("lengths in memory fit a usize")
}

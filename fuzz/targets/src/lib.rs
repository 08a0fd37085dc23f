//! The assertions of the fuzz targets, as plain functions over bytes.
//!
//! Each target takes arbitrary bytes and panics if a property that must hold for all bytes is
//! violated: not only that nothing panics, but that two ways to the same answer agree. The
//! libFuzzer programs in `../fuzz_targets` call these functions. So does the smoke test in
//! `tests/smoke.rs`, on stable Rust, with the checked-in seeds and a bounded number of mutations.
//!
//! | target | compared with |
//! |---|---|
//! | [`tar_header`] | an independent parser of one header block |
//! | [`tar_pax`] | an independent parser of PAX records |
//! | [`tar_walk`] | the same stream cut into other pieces, and truncated |
//! | [`tar_differential`] | the crate `tar-core`, with a list of allowed differences |
//! | [`zstd_own`] | libzstd, and numbers of threads with each other |
//! | [`zstd_scan`] | libzstd's own parsing of frame headers and lengths |
//! | [`decode_own`] | libzstd, and numbers of threads and chunks with each other |
//! | [`decode_zstd`] | libzstd, and the engines with each other |
//! | [`decode_lz4`] | `lz4_flex` on whole frames, found by a walk of their blocks |
//! | [`archive_name`] | an independent parser of the grammar |
//! | [`control_request`] | an independent parser of requests, and a round trip |
//! | [`layout_snapshot`], [`layout_any`] | a model that remembers whole paths |
//! | [`bank`] | the same file in other pieces, and a second walk to its slot |
//! | [`fastboot`] | an independent parser of the lists, and the encoders' output |
//! | [`seek_table`] | an independent parser of the table, and a round trip |
//! | [`side_car`] | properties of any index, and a round trip |
//! | [`storage`] | an independent parser of the whole storage |
//! | [`report`] | a round trip of escapes and JSON |

mod archive_name;
mod bank;
mod blocks;
mod control_request;
mod decode_lz4;
mod decode_own;
mod decode_zstd;
mod engines;
mod fastboot;
mod layout;
mod pieces;
mod reference;
mod report;
#[cfg(feature = "seeds")]
pub mod seeds;
mod seek_table;
mod side_car;
mod storage;
mod tables;
mod tar_differential;
mod tar_header;
mod tar_pax;
mod tar_walk;
mod text;
mod walk;
mod zstd_own;
mod zstd_scan;

pub use archive_name::archive_name;
pub use bank::bank;
pub use control_request::control_request;
pub use decode_lz4::decode_lz4;
pub use decode_own::decode_own;
pub use decode_zstd::decode_zstd;
pub use fastboot::fastboot;
pub use layout::{layout_any, layout_snapshot};
pub use report::report;
pub use seek_table::seek_table;
pub use side_car::side_car;
pub use storage::storage;
pub use tar_differential::{ALLOWED, Allowed, tar_differential};
pub use tar_header::tar_header;
pub use tar_pax::tar_pax;
pub use tar_walk::tar_walk;
pub use zstd_own::zstd_own;
pub use zstd_scan::zstd_scan;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also the name of its program and of its seed directory.
    pub name: &'static str,
    /// Its body.
    pub run: fn(&[u8]),
    /// Number of mutated inputs in the smoke test: a second or two in a debug build.
    pub smoke_inputs: u64,
}

/// All targets, by name.
pub const TARGETS: [Target; 19] = [
    target("archive_name", archive_name, 20_000),
    target("bank", bank, 4_000),
    target("control_request", control_request, 20_000),
    target("decode_lz4", decode_lz4, 400),
    target("decode_own", decode_own, 300),
    target("decode_zstd", decode_zstd, 300),
    target("fastboot", fastboot, 10_000),
    target("layout_any", layout_any, 4_000),
    target("layout_snapshot", layout_snapshot, 4_000),
    target("report", report, 10_000),
    target("seek_table", seek_table, 10_000),
    target("side_car", side_car, 10_000),
    target("storage", storage, 4_000),
    target("tar_differential", tar_differential, 4_000),
    target("tar_header", tar_header, 10_000),
    target("tar_pax", tar_pax, 10_000),
    target("tar_walk", tar_walk, 600),
    target("zstd_own", zstd_own, 1_000),
    target("zstd_scan", zstd_scan, 4_000),
];

const fn target(name: &'static str, run: fn(&[u8]), smoke_inputs: u64) -> Target {
    Target { name, run, smoke_inputs }
}

/// Longer inputs are ignored: small ones find the same defects sooner.
const INPUT_BYTES_MAX: usize = 64 << 10;

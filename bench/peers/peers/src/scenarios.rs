//! The table of what is measured: archives, scenarios, tools and goals.

use crate::goals::{Against, Goal};

/// An archive to make.
#[derive(Debug, PartialEq)]
pub struct Archive {
    /// Its name, also that of its directory.
    pub id: &'static str,
    sizes: Sizes,
    arguments: &'static [&'static str],
    /// What `ledger-tool repack` is told to make of it, if it is repacked.
    pub repack: Option<&'static [&'static str]>,
}

#[derive(Debug, PartialEq)]
enum Sizes {
    /// Account files of this many bytes in all, as long as those of mainnet.
    Mainnet(u64),
    /// This many bytes each, and this many files, which is what a scaled archive has fewer of.
    Many(u64, u64),
    /// The same, but it is the bytes that a scaled archive has fewer of.
    Few(u64, u64),
}

impl Archive {
    /// Arguments of `make-archive`, with sizes multiplied by `scale`.
    pub fn arguments(&self, scale: f64) -> Vec<String> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a size, at least 1
        let scaled = |size: u64| ((size as f64 * scale) as u64).max(1);
        let fixed = |bytes: u64, files: u64| {
            vec![format!("--file-sizes=fixed:{bytes}"), format!("--files={files}")]
        };
        let mut arguments = match self.sizes {
            Sizes::Mainnet(total) => vec![format!("--total-size={}", scaled(total))],
            Sizes::Many(bytes, files) => fixed(bytes, scaled(files)),
            Sizes::Few(bytes, files) => fixed(scaled(bytes), files),
        };
        arguments.extend(self.arguments.iter().map(|argument| (*argument).to_owned()));
        arguments
    }
}

/// Where the output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The disk, with a cold page cache.
    Disk,
    /// A tmpfs, with the archive in the page cache.
    Memory,
    /// Nowhere, with the archive in the page cache.
    Nowhere,
}

/// An archive and what is done with it.
pub struct Scenario {
    /// Its name on the command line and in results.
    pub id: &'static str,
    /// What it is, as a heading.
    pub title: &'static str,
    /// The archive.
    pub archive: &'static Archive,
    /// Where the output goes.
    pub place: Place,
    /// Tools, in the order of the report.
    pub tools: &'static [&'static str],
    /// The tool that others are compared with.
    pub baseline: &'static str,
    /// Goals, beside those of every scenario.
    pub goals: &'static [Goal],
}

const ONE: Archive = made("one", Sizes::Mainnet(6_000_000_000), &["--frames=one"]);
const FRAMES: Archive = made("frames", Sizes::Mainnet(6_000_000_000), &["--frames=agave"]);
const FIREDANCER: Archive =
    made("firedancer", Sizes::Mainnet(6_000_000_000), &["--frames=firedancer"]);
const REPACKED: Archive = Archive {
    repack: Some(&["--seek-table"]),
    ..made("repacked", Sizes::Mainnet(6_000_000_000), &["--frames=one"])
};
const SMALL: Archive = made("small", Sizes::Many(8 << 10, 200_000), &["--frames=one"]);
const LARGE: Archive = made("large", Sizes::Few(300_000_000, 12), &["--frames=one"]);
const HUFF_ONE: Archive =
    made("huff-one", Sizes::Mainnet(4_000_000_000), &["--content=huffman", "--frames=one"]);
const HUFF_FRAMES: Archive =
    made("huff-frames", Sizes::Mainnet(4_000_000_000), &["--content=huffman", "--frames=agave"]);

/// An archive as `make-archive` makes it.
const fn made(id: &'static str, sizes: Sizes, arguments: &'static [&'static str]) -> Archive {
    Archive { id, sizes, arguments, repack: None }
}

const UNPACKERS: &[&str] = &[
    "unsnap",
    "unsnap-uring",
    "unsnap-threads",
    "agave",
    "tar-rs",
    "zstd-tar",
    "bsdtar",
    "floor-decode",
    "floor-mixed",
];
const UNPACKERS_AND_WRITERS: &[&str] = &[
    "unsnap",
    "unsnap-uring",
    "unsnap-threads",
    "agave",
    "tar-rs",
    "zstd-tar",
    "bsdtar",
    "floor-decode",
    "floor-mixed",
    "floor-write-growing",
    "floor-write-prealloc",
    "floor-write-files",
];
const FEW: &[&str] = &["unsnap", "agave", "zstd-tar", "floor-decode", "floor-mixed"];
const IN_MEMORY: &[&str] = &["unsnap", "agave"];
const DRY: &[&str] = &["unsnap", "zstd-d"];
const DRY_ON_ALL_CORES: &[&str] = &["unsnap", "zstd-d", "zstd-d-twice"];

const AGAVE: Against = Against::Tool("agave");

/// Everything that is measured, in the order in which it is. The one whose outputs take longest to
/// delete comes last.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "one",
        title: "6 GB in files as on mainnet, one frame (Agave ≤ 4.2)",
        archive: &ONE,
        place: Place::Disk,
        tools: UNPACKERS_AND_WRITERS,
        baseline: "agave",
        goals: &[
            Goal::Time(0.68, AGAVE),
            Goal::Time(1.15, Against::Slowest(&["floor-mixed", "floor-decode"])),
            Goal::Peak(160.0),
        ],
    },
    Scenario {
        id: "one-tmpfs",
        title: "The same archive, page-cached, into a tmpfs",
        archive: &ONE,
        place: Place::Memory,
        tools: IN_MEMORY,
        baseline: "agave",
        goals: &[Goal::Time(0.55, AGAVE)],
    },
    Scenario {
        id: "one-dry",
        title: "The same archive, page-cached, decoded and checked only",
        archive: &ONE,
        place: Place::Nowhere,
        tools: DRY,
        baseline: "zstd-d",
        goals: &[Goal::Rate(1.05, "zstd-d")],
    },
    Scenario {
        id: "frames",
        title: "6 GB in files as on mainnet, 32 MiB frames (Agave ≥ 4.3)",
        archive: &FRAMES,
        place: Place::Disk,
        tools: UNPACKERS,
        baseline: "agave",
        goals: &[Goal::Time(0.65, AGAVE), Goal::Time(1.10, Against::Tool("floor-mixed"))],
    },
    Scenario {
        id: "frames-tmpfs",
        title: "The same archive, page-cached, into a tmpfs",
        archive: &FRAMES,
        place: Place::Memory,
        tools: IN_MEMORY,
        baseline: "agave",
        goals: &[Goal::Time(0.40, AGAVE)],
    },
    Scenario {
        id: "frames-dry",
        title: "The same archive, page-cached, decoded and checked only",
        archive: &FRAMES,
        place: Place::Nowhere,
        tools: DRY_ON_ALL_CORES,
        baseline: "zstd-d",
        goals: &[Goal::Rate(1.8, "zstd-d")],
    },
    Scenario {
        id: "repacked",
        title: "6 GB in files as on mainnet, one frame, repacked with a seek table",
        archive: &REPACKED,
        place: Place::Disk,
        tools: FEW,
        baseline: "agave",
        goals: &[Goal::Time(0.65, AGAVE), Goal::Time(1.10, Against::Tool("floor-mixed"))],
    },
    Scenario {
        id: "repacked-dry",
        title: "The same archive, page-cached, decoded and checked only",
        archive: &REPACKED,
        place: Place::Nowhere,
        tools: DRY_ON_ALL_CORES,
        baseline: "zstd-d",
        goals: &[Goal::Rate(1.8, "zstd-d")],
    },
    Scenario {
        id: "firedancer",
        title: "6 GB in files as on mainnet, Firedancer's frames",
        archive: &FIREDANCER,
        place: Place::Disk,
        tools: FEW,
        baseline: "agave",
        goals: &[],
    },
    Scenario {
        id: "large",
        title: "12 files of 300 MB, one frame",
        archive: &LARGE,
        place: Place::Disk,
        tools: UNPACKERS,
        baseline: "agave",
        goals: &[Goal::Time(0.75, AGAVE)],
    },
    Scenario {
        id: "huff-one",
        title: "4 GB of Huffman-coded literals in files as on mainnet, one frame",
        archive: &HUFF_ONE,
        place: Place::Disk,
        tools: UNPACKERS,
        baseline: "agave",
        goals: &[Goal::Time(1.05, Against::Tool("floor-decode"))],
    },
    Scenario {
        id: "huff-frames",
        title: "4 GB of Huffman-coded literals in files as on mainnet, 32 MiB frames",
        archive: &HUFF_FRAMES,
        place: Place::Disk,
        tools: UNPACKERS,
        baseline: "agave",
        goals: &[Goal::Time(0.60, AGAVE)],
    },
    Scenario {
        id: "small",
        title: "200,000 files of 8 KiB, one frame",
        archive: &SMALL,
        place: Place::Disk,
        tools: UNPACKERS,
        baseline: "agave",
        goals: &[
            Goal::Time(0.60, Against::Fastest(&["zstd-tar", "bsdtar", "tar-rs"])),
            Goal::Time(0.30, AGAVE),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baselines_are_among_the_tools() {
        for scenario in SCENARIOS {
            assert!(scenario.tools.contains(&scenario.baseline), "{}", scenario.id);
            assert!(scenario.tools.contains(&"unsnap"), "{}", scenario.id);
        }
    }

    #[test]
    fn scaling_takes_what_can_be_taken() {
        assert_eq!(ONE.arguments(0.01), ["--total-size=60000000", "--frames=one"]);
        assert_eq!(SMALL.arguments(0.01)[..2], ["--file-sizes=fixed:8192", "--files=2000"]);
        assert_eq!(LARGE.arguments(0.01)[..2], ["--file-sizes=fixed:3000000", "--files=12"]);
    }
}

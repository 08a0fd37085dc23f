//! Every hostile construct of testkit becomes what must become of it: refused for its own reason, at
//! its place, without a trace inside or outside the destination, in bounded memory; or unpacked.
//!
//! And somebody else's hands in the destination do not lead outside either.

use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use unsnap_failure::{Failure, Family};
use unsnap_pass::LayoutKind;
use unsnap_test_support::Setup;
use unsnap_test_support::{
    HalfWay, Outcome, Site, assert_holds, expected_tree_of, finish, genuine_full, ledger_tool,
    ledger_tool_after, run, shapes, small, unpack,
};
use unsnap_testkit::{
    hostile::{CANARY, Construct, THEMES, Verdict},
    spec::{ArchiveSpec, Frames},
    tree::{Node, Tree, read_tree},
};
use unsnap_unpack::Verify;

/// Memory for reading ahead and for decoded data.
const BUDGET_MIB: u64 = 32;

/// What the program may have beyond the budget (code and stacks aside): its own tables, libzstd's
/// contexts, 2 MiB of stack for each of about 20 threads.
const BEYOND_MIB: u64 = 96;

const LAYOUTS: [(&str, LayoutKind); 2] =
    [("snapshot", LayoutKind::Snapshot), ("any", LayoutKind::Any)];

/// A site with something outside that must not change.
struct Ground {
    site: Site,
    before: (Tree, Tree, Vec<String>),
}

impl Ground {
    fn new() -> Self {
        let site = Site::new();
        let canary = site.path(CANARY);
        fs::create_dir(canary.parent().unwrap()).unwrap();
        fs::write(canary, "sings").unwrap();
        fs::create_dir(site.path("archives")).unwrap();
        let before = surroundings(&site);
        Self { site, before }
    }

    fn write(&self, construct: &Construct) -> PathBuf {
        let path = self.site.path("archives").join(&construct.file_name);
        fs::write(&path, &construct.archive).unwrap();
        path
    }

    /// Panics if anything but the destination has changed; an empty destination may be there.
    #[track_caller]
    fn assert_untouched(&self, empty: bool, what: &str) {
        let mut after = surroundings(&self.site);
        if empty {
            let output = after.0.remove("output");
            assert!(matches!(output, Some(Node::Dir { .. })), "{what}: output is {output:?}");
        }
        assert!(after == self.before, "{what}: was {:?}, is {after:?}", self.before);
    }

    /// Unpacks by the program, which is not given more memory than it may have.
    fn unpack(&self, archive: &Path, layout: &str, limits: Option<&str>) -> Outcome {
        let data_kib = (BUDGET_MIB + BEYOND_MIB) << 10;
        let mut tool = ledger_tool_after(&format!("ulimit -d {data_kib}"));
        tool.arg("unpack").arg(archive).arg("--output").arg(self.site.output());
        // Most bank files are not genuine, so that content is checked only where the name matters.
        let verify = if name_is_checked(archive) { "structure" } else { "none" };
        tool.args(["--layout", layout, "--decode-threads", "2", "--verify", verify]);
        tool.arg(format!("--memory-budget={BUDGET_MIB}MiB"));
        if let Some(toml) = limits {
            let config = self.site.path("archives").join("limits.toml");
            fs::write(&config, toml).unwrap();
            tool.arg("--config").arg(config);
        }
        run(tool.current_dir(self.site.path("")))
    }

    /// Unpacks in this process.
    fn config(&self, archive: &Path, layout: LayoutKind) -> Setup {
        let mut config = small(archive, &self.site.output());
        config.layout = layout;
        if layout == LayoutKind::Snapshot && name_is_checked(archive) {
            config.verify = Verify::Structure;
        }
        config
    }
}

/// Returns whether the archive is refused for its name, which belongs to another slot. Without
/// verification, names do not matter.
fn name_is_checked(archive: &Path) -> bool {
    let name = archive.file_name().unwrap().to_str().unwrap();
    name.starts_with("snapshot-101-")
}

/// Everything around the destination, and in it.
fn surroundings(site: &Site) -> (Tree, Tree, Vec<String>) {
    let outside = read_tree(&site.path("outside")).unwrap();
    let mut names: Vec<String> = fs::read_dir(site.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    (site.state(), outside, names)
}

fn verdict(construct: &Construct, layout: LayoutKind) -> &Verdict {
    match layout {
        LayoutKind::Snapshot => &construct.snapshot,
        LayoutKind::Any => &construct.any,
    }
}

fn tree(construct: &Construct, files: &[(String, Vec<u8>)], layout: LayoutKind) -> Tree {
    let mut tree = Tree::new();
    // Whether or not an entry says so.
    let always: &[&str] = if files.is_empty() || layout == LayoutKind::Any {
        &[]
    } else {
        &["accounts", "snapshots", "snapshots/100"]
    };
    for path in construct.directories.iter().chain(always) {
        tree.insert((*path).to_owned(), Node::Dir { mode: 0o755 });
    }
    for (path, bytes) in files {
        for (end, _) in path.match_indices('/') {
            tree.insert(path[..end].to_owned(), Node::Dir { mode: 0o755 });
        }
        // As `read_tree` says it.
        let path = path.as_bytes().escape_ascii().to_string();
        tree.insert(path, Node::File { mode: 0o644, bytes: bytes.clone() });
    }
    tree
}

/// Panics unless a message gives the reason, the position and the entry, and nothing that a
/// terminal would obey.
#[track_caller]
fn assert_says(message: &str, construct: &Construct, reason: &str, at: Option<usize>, what: &str) {
    assert!(message.contains(reason), "{what}: no {reason:?} in {message:?}");
    if let Some(entry) = &construct.entry {
        assert!(message.contains(entry.as_str()), "{what}: no {entry:?} in {message:?}");
    }
    if let Some(at) = at {
        let place = format!("byte {at}");
        let told = message.match_indices(&place).any(|(start, _)| {
            !message[start + place.len()..].starts_with(|next: char| next.is_ascii_digit())
        });
        assert!(told, "{what}: no {place:?} in {message:?}");
    }
    let obeyed = |character: char| {
        character != '\n'
            && (character.is_control() || ('\u{2028}'..='\u{202e}').contains(&character))
    };
    assert!(!message.contains(obeyed), "{what}: {message:?}");
}

/// Unpacks each construct of a theme by the program, in both layouts.
fn judge(theme: &str) {
    let (_, constructs) = THEMES.iter().find(|(name, _)| *name == theme).unwrap();
    let ground = Ground::new();
    for (index, (name, make)) in constructs.iter().enumerate() {
        let construct = make();
        let archive = ground.write(&construct);
        for (layout_name, layout) in LAYOUTS {
            let what = format!("{theme}/{name} with --layout {layout_name}");
            let empty = index % 2 == 1;
            ground.site.reset(empty);
            let outcome = ground.unpack(&archive, layout_name, construct.limits);
            match verdict(&construct, layout) {
                Verdict::Refused { reason, at } => {
                    assert_eq!(outcome.status.code(), Some(1), "{what}: {outcome:#?}");
                    assert_eq!(outcome.stdout, "", "{what}");
                    assert_says(&outcome.stderr, &construct, reason, *at, &what);
                    let told = outcome.stderr.lines().filter(|line| line.starts_with("error: "));
                    assert_eq!(told.count(), 1, "{what}: {outcome:#?}");
                    ground.assert_untouched(empty, &what);
                }
                Verdict::Accepted { files } => {
                    assert_eq!(outcome.status.code(), Some(0), "{what}: {outcome:#?}");
                    let expected = tree(&construct, files, layout);
                    assert_holds(&ground.site.output(), &expected, &what);
                    ground.site.reset(false);
                    ground.assert_untouched(false, &what);
                }
            }
        }
        fs::remove_file(&archive).unwrap();
    }
}

/// A test for each theme, so that they run side by side, and one that none is left out.
macro_rules! judged {
    ($($theme:ident),*) => {
        $(#[test]
        fn $theme() {
            judge(stringify!($theme));
        })*

        #[test]
        fn every_theme_is_judged() {
            let themes: Vec<&str> = THEMES.iter().map(|(theme, _)| *theme).collect();
            assert_eq!(themes, [$(stringify!($theme)),*]);
        }
    };
}
judged!(paths, links, pax, extensions, numbers, sparse, ends, kinds, zstd, lz4, solana);

/// All constructs that are no stream of zstd or lz4.
fn plain() -> impl Iterator<Item = (&'static str, Construct)> {
    let all = THEMES.iter().flat_map(|(_, constructs)| constructs.iter());
    all.filter_map(|(name, make)| {
        let construct = make();
        let compressed = [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0x04, 0x22, 0x4d, 0x18]]
            .iter()
            .any(|magic| construct.archive.starts_with(magic));
        let is_tar = construct.archive.len() >= 512 && !compressed && construct.limits.is_none();
        is_tar.then_some((*name, construct))
    })
}

#[test]
fn compression_hides_nothing() {
    let ground = Ground::new();
    for (name, construct) in plain() {
        let path = ground.site.path("archives").join(&construct.file_name);
        for (shape, archive) in shapes(&construct.archive) {
            fs::write(&path, archive).unwrap();
            for (layout_name, layout) in LAYOUTS {
                let what = format!("{name} as {shape} with --layout {layout_name}");
                let mut config = ground.config(&path, layout);
                config.dry_run = true;
                match (unpack(&config), verdict(&construct, layout)) {
                    (Ok(report), Verdict::Accepted { files }) => {
                        assert_eq!(report.files, files.len() as u64, "{what}");
                    }
                    (Err(error), Verdict::Refused { reason, at }) => {
                        assert_eq!(error.family(), Family::BadArchive, "{what}: {error}");
                        assert_says(&error.to_string(), &construct, reason, *at, &what);
                    }
                    (outcome, _) => panic!("{what}: {outcome:?}"),
                }
            }
        }
        fs::remove_file(&path).unwrap();
    }
    ground.assert_untouched(false, "dry runs");
}

#[test]
fn a_dry_run_refuses_in_the_same_words() {
    let ground = Ground::new();
    for (name, construct) in plain() {
        let archive = ground.write(&construct);
        for (_, layout) in LAYOUTS {
            let mut config = ground.config(&archive, layout);
            let written = unpack(&config).map_err(|error| error.to_string());
            ground.site.reset(false);
            config.dry_run = true;
            let checked = unpack(&config).map_err(|error| error.to_string());
            assert_eq!(written.err(), checked.err(), "{name}");
        }
        fs::remove_file(&archive).unwrap();
    }
}

/// If the limit did not bind, nothing would be proven by it.
#[test]
fn the_limit_of_memory_binds() {
    let ground = Ground::new();
    // Frames are decoded into all of the budget.
    let spec =
        ArchiveSpec { frames: Frames::AGAVE, total_bytes: 300_000, ..ArchiveSpec::default() };
    let archive = ground.site.archive(&spec);
    let needed = BUDGET_MIB + BEYOND_MIB;
    ground.unpack(&archive, "snapshot", None).assert_code(0);
    ground.site.reset(false);
    let limited = |budget_mib: u64| {
        let mut tool = ledger_tool_after(&format!("ulimit -d {}", needed << 10));
        tool.args(["unpack", "--dry-run", "--decode-threads", "2"]).arg(&archive);
        run(tool.arg(format!("--memory-budget={budget_mib}MiB")))
    };
    limited(needed).assert_code(3).assert_error(&["memory"]);
    limited(BUDGET_MIB).assert_code(0);
}

#[test]
fn what_one_archive_plants_another_does_not_find() {
    let ground = Ground::new();
    for name in ["link_in_place_of_the_accounts", "link_and_then_a_directory_of_its_name"] {
        let (_, constructs) = THEMES.iter().find(|(theme, _)| *theme == "links").unwrap();
        let (_, make) = constructs.iter().find(|(found, _)| *found == name).unwrap();
        let first = ground.write(&make());
        for layout in ["snapshot", "any"] {
            ground.unpack(&first, layout, None).assert_code(1);
            ground.unpack(&genuine_full(), "snapshot", None).assert_code(0);
            let expected = expected_tree_of(&genuine_full());
            assert_holds(&ground.site.output(), &expected, name);
            ground.site.reset(false);
            ground.assert_untouched(false, name);
        }
        fs::remove_file(first).unwrap();
    }
    // GNU tar CVE-2025-45582: planted by somebody else.
    ground.site.reset(true);
    symlink(ground.site.path("outside"), ground.site.output().join("accounts")).unwrap();
    for layout in ["snapshot", "any"] {
        ground.unpack(&genuine_full(), layout, None).assert_code(4).assert_error(&["is not empty"]);
    }
    fs::remove_dir_all(ground.site.output()).unwrap();
    ground.assert_untouched(false, "a planted link");
}

/// The staging directory of a run to the site's output.
fn staging(site: &Site) -> PathBuf {
    site.place().join(".output.unsnap-staging")
}

/// Half of a run; then somebody exchanges a directory for a link; then the rest of the run.
fn swapped(ground: &Ground, directory: &Path, target: &Path, engine: &str) -> Outcome {
    let mut tool = ledger_tool();
    tool.args(["unpack", "-", "--io-engine", engine, "--output"]).arg(ground.site.output());
    let HalfWay { tool, mut feed, rest } = HalfWay::start(&mut tool, &ground.site);
    let trap = ground.site.path("trap");
    symlink(target, &trap).unwrap();
    renameat_with(CWD, &trap, CWD, directory, RenameFlags::EXCHANGE).unwrap();
    // It may have ended already, and so have closed the pipe.
    let _ = feed.write_all(&rest);
    drop(feed);
    let outcome = finish(tool);
    fs::remove_dir_all(trap).unwrap();
    fs::remove_file(ground.site.path(&HalfWay::spec().name())).unwrap();
    outcome
}

#[test]
fn a_directory_that_becomes_a_link_meanwhile_is_not_followed() {
    let ground = Ground::new();
    let staging = staging(&ground.site);
    // Out of the destination, and within it: no link is followed, wherever it leads.
    let targets = [ground.site.path("outside"), PathBuf::from("snapshots")];
    for target in targets {
        for engine in ["threads", "auto"] {
            let what = format!("a link to {}, {engine}", target.display());
            let outcome = swapped(&ground, &staging.join("accounts"), &target, engine);
            let outcome = outcome.assert_code(3);
            // Or the sandbox has noticed that the directory is no longer where it was.
            let refused = ["symbolic links", "Permission denied"];
            let told = refused.iter().any(|reason| outcome.stderr.contains(reason));
            assert!(told, "{what}: {outcome:#?}");
            ground.assert_untouched(false, &what);
        }
    }
}

#[test]
fn a_staging_directory_that_becomes_a_link_meanwhile_is_not_published() {
    let ground = Ground::new();
    let staging = staging(&ground.site);
    let outcome = swapped(&ground, &staging, &ground.site.path("outside"), "auto");
    let outcome = outcome.assert_code(4).assert_error(&["replaced by another process"]);
    assert!(!ground.site.output().exists(), "{outcome:#?}");
    // What somebody else has put there is not ours to remove.
    assert!(staging.is_symlink());
    fs::remove_file(staging).unwrap();
    ground.assert_untouched(false, "a staging directory swapped");
}

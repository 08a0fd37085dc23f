//! `repack`: the same tar stream in frames that begin with entries, or nothing.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use unsnap_test_support::{
    Site, finish, genuine, genuine_full, has_tool, ledger_tool, ledger_tool_after, run,
    snapshot_shapes, until,
};
use unsnap_testkit::{
    compress,
    spec::{ArchiveSpec, FileSizes},
    tar::{TarBuilder, account_path, snapshot_head},
    tree::decompress,
};
use zstd::zstd_safe;

const MIB: u64 = 1 << 20;

fn repack(archive: &Path, output: &Path, more: &[&str]) -> Command {
    let mut command = ledger_tool();
    command.arg("repack").arg(archive).arg("--output").arg(output).args(more);
    command
}

/// A frame of an archive, as libzstd sees it.
struct Frame {
    /// Where it begins in the decoded stream.
    raw_offset: u64,
    /// What it declares; `None` for a skippable frame.
    raw_bytes: Option<u64>,
    bytes: Vec<u8>,
}

fn frames(mut archive: &[u8]) -> Vec<Frame> {
    let (mut frames, mut raw_offset) = (Vec::new(), 0);
    while !archive.is_empty() {
        let length = zstd_safe::find_frame_compressed_size(archive).unwrap();
        let (frame, rest) = archive.split_at(length);
        let skippable = frame[1..4] == [0x2A, 0x4D, 0x18];
        let raw_bytes = (!skippable).then(|| {
            let declared = zstd_safe::get_frame_content_size(frame).unwrap();
            declared.expect("every frame declares its size")
        });
        frames.push(Frame { raw_offset, raw_bytes, bytes: frame.to_owned() });
        raw_offset += raw_bytes.unwrap_or(0);
        archive = rest;
    }
    frames
}

/// Where entries begin and end in a tar stream, with their headers and padding.
fn entries(tar: &[u8]) -> Vec<(u64, u64)> {
    let mut archive = tar::Archive::new(tar);
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let end = entry.raw_file_position() + entry.size().next_multiple_of(512);
        (entry.raw_header_position(), end)
    });
    entries.collect()
}

/// Names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_shape_becomes_the_same_stream() {
    let site = Site::new();
    let tar = decompress(&fs::read(genuine_full()).unwrap()).unwrap();
    for (index, (shape, bytes)) in snapshot_shapes(&tar).into_iter().enumerate() {
        let archive = site.write("archive", &bytes);
        let output = site.path(&format!("{index}.tar.zst"));
        run(&mut repack(&archive, &output, &["--quiet"])).assert_code(0);
        let repacked = fs::read(&output).unwrap();
        assert!(decompress(&repacked).unwrap() == tar, "{shape}");
        assert_eq!(repacked[..4], [0x28, 0xB5, 0x2F, 0xFD], "{shape}");
    }
}

#[test]
fn genuine_archives_keep_their_names_and_prove_themselves() {
    let site = Site::new();
    for archive in genuine() {
        let output = site.path("repacked");
        fs::create_dir(&output).unwrap();
        let outcome = run(&mut repack(&archive, &output, &["--format", "json"])).assert_code(0);
        let name = archive.file_name().unwrap().to_str().unwrap().replace(".lz4", ".zst");
        assert_eq!(names(&output), std::slice::from_ref(&name));
        let report = outcome.json();
        let written = fs::read(output.join(&name)).unwrap();
        assert_eq!(report["bytes_written"], written.len());
        assert_eq!(report["raw_bytes"], decompress(&written).unwrap().len());
        assert_eq!(
            report["archive"]["hash"],
            name.rsplit('-').next().unwrap()[..].trim_end_matches(".tar.zst")
        );
        let mut check = ledger_tool();
        check.arg("unpack").arg(output.join(&name)).args(["--dry-run", "--format", "json"]);
        if name.starts_with("snapshot-") {
            check.args(["--verify", "accounts"]);
        }
        let checked = run(&mut check).assert_code(0).json();
        assert_eq!(checked["decode_engine"], "frame-parallel", "{name}");
        fs::remove_dir_all(&output).unwrap();
    }
}

/// A snapshot with an entry that is larger than three of the smallest frames.
fn with_a_large_entry() -> Vec<u8> {
    let mut tar = snapshot_head(900, &[1; 9_000], &[2; 800]);
    for slot in 0..30_u32 {
        let bytes = if slot == 12 { 14 << 20 } else { 300_000 + slot * 777 };
        let bytes = usize::try_from(bytes).unwrap();
        // Rows of zeros are no accounts, but an end of accounts.
        tar = tar.account(&account_path(slot.into(), 1), &vec![0; bytes]);
    }
    tar.finish()
}

#[test]
fn frames_begin_with_entries_and_declare_their_sizes() {
    let site = Site::new();
    let tar = with_a_large_entry();
    let archive = site.write("archive.tar", &tar);
    let output = site.path("repacked.tar.zst");
    let more = ["--frame-size", "4MiB", "--checksums", "--seek-table", "--threads", "3", "--quiet"];
    run(&mut repack(&archive, &output, &more)).assert_code(0);
    let repacked = fs::read(&output).unwrap();
    assert!(decompress(&repacked).unwrap() == tar);

    let mut frames = frames(&repacked);
    let table = frames.pop().unwrap();
    assert!(table.raw_bytes.is_none(), "the table is last");
    let entries = entries(&tar);
    for frame in &frames {
        let size = frame.raw_bytes.expect("nothing else can be passed over");
        assert!(size <= 4 * MIB, "{size}");
        assert_ne!(frame.bytes[4] & 0x04, 0, "a checksum");
        let begins_entry = entries.iter().any(|entry| entry.0 == frame.raw_offset);
        let inside_large = entries.iter().any(|(begin, end)| {
            (*begin..*end).contains(&frame.raw_offset) && end - begin > 4 * MIB
        });
        assert!(begins_entry || inside_large, "a frame begins at {}", frame.raw_offset);
    }
    // 4, 4, 4 and 2 MiB of the large one, and the others in as few frames as they fit into.
    assert!(frames.len() <= 8, "{}", frames.len());
    assert_seek_table(&table.bytes, &frames);
}

/// By the format's own document (zstd, `contrib/seekable_format`).
fn assert_seek_table(table: &[u8], frames: &[Frame]) {
    let number = |at: usize| u32::from_le_bytes(table[at..at + 4].try_into().unwrap());
    let end = table.len();
    assert_eq!(number(0), 0x184D_2A5E);
    assert_eq!(number(4) as usize, end - 8);
    assert_eq!(number(end - 4), 0x8F92_EAB1);
    assert_eq!(table[end - 5], 0x80, "checksums, and nothing that is reserved");
    assert_eq!(number(end - 9) as usize, frames.len());
    assert_eq!(end, 8 + 12 * frames.len() + 9);
    for (index, frame) in frames.iter().enumerate() {
        let at = 8 + 12 * index;
        assert_eq!(number(at) as usize, frame.bytes.len());
        assert_eq!(u64::from(number(at + 4)), frame.raw_bytes.unwrap());
        assert_eq!(table[at + 8..at + 12], frame.bytes[frame.bytes.len() - 4..]);
    }
}

#[test]
fn other_tools_read_what_was_repacked() {
    if !has_tool("zstd", "--version") || !has_tool("tar", "--version") {
        return;
    }
    let site = Site::new();
    let output = site.path("repacked");
    fs::create_dir(&output).unwrap();
    let more = ["--checksums", "--seek-table", "--quiet"];
    run(&mut repack(&genuine_full(), &output, &more)).assert_code(0);
    let list = |archive: &Path| {
        let script = "set -o pipefail; zstd -dc \"$0\" | tar tf -";
        let outcome = run(Command::new("bash").args(["-c", script]).arg(archive));
        outcome.assert_code(0).stdout
    };
    let repacked = output.join(genuine_full().file_name().unwrap());
    assert_eq!(list(&repacked), list(&genuine_full()));
}

#[test]
fn what_is_repacked_twice_is_the_same() {
    let site = Site::new();
    let spec = ArchiveSpec { file_sizes: FileSizes::Fixed(200_000), ..ArchiveSpec::default() };
    let (archive, place) = (site.archive(&spec), site.place());
    let once = |threads: &str| {
        let more = ["--frame-size", "4MiB", "--threads", threads, "--force", "--quiet"];
        run(&mut repack(&archive, &place, &more)).assert_code(0);
        fs::read(place.join(spec.name())).unwrap()
    };
    let first = once("1");
    assert!(once("4") == first, "threads make no difference");
    // In place, and then once more what has become of it.
    let again = place.join(spec.name());
    let more = ["--frame-size", "4MiB", "--force", "--quiet"];
    run(&mut repack(&again, &place, &more)).assert_code(0);
    assert!(fs::read(&again).unwrap() == first);
}

#[test]
fn bad_archives_become_nothing() {
    let site = Site::new();
    let good = fs::read(genuine_full()).unwrap();
    let name = genuine_full().file_name().unwrap().to_owned();
    let tar = decompress(&good).unwrap();
    let without_end = compress::zstd_frames(&tar[..tar.len() - 1024], 1 << 20, 1);
    let link = TarBuilder::new().symlink("version", "/etc/passwd").finish();
    let bad = [
        ("cut", good[..good.len() - 9].to_vec()),
        ("without an end", without_end),
        ("followed by something", [&good[..], b"more"].concat()),
        ("a link", compress::zstd_one_frame(&link, 1, None, false, false)),
        ("nothing", Vec::new()),
    ];
    let before = site.state();
    for (what, bytes) in bad {
        let archive = site.path(name.to_str().unwrap());
        fs::write(&archive, bytes).unwrap();
        run(&mut repack(&archive, &site.place(), &[])).assert_code(1).assert_error(&[]);
        site.assert_untouched(&before, what);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let site = Site::new();
    let full = genuine_full();
    let place = site.place();
    let before = site.state();
    let refused = |output: &Path, more: &[&str], code, parts: &[&str]| {
        run(&mut repack(&full, output, more)).assert_code(code).assert_error(parts);
        site.assert_untouched(&before, format_args!("{output:?} {more:?}"));
    };
    refused(&place.join("other.tar.zst"), &[], 2, &["does not match that of", "hint: "]);
    refused(&place, &["--frame-size", "1MiB"], 2, &["4 to 32 MiB"]);
    refused(&place, &["--frame-size", "33MiB"], 2, &["4 to 32 MiB"]);
    refused(
        &place.join("missing").join(full.file_name().unwrap()),
        &[],
        2,
        &["missing does not exist"],
    );
    for level in ["0", "23"] {
        run(&mut repack(&full, &place, &["--level", level])).assert_code(2);
    }
    // What is there stays, whatever it is, unless it is to be replaced.
    let there = site.path("there");
    fs::create_dir(&there).unwrap();
    fs::write(there.join(full.file_name().unwrap()), "precious").unwrap();
    run(&mut repack(&full, &there, &[])).assert_code(4).assert_error(&["exists", "--force"]);
    assert_eq!(fs::read(there.join(full.file_name().unwrap())).unwrap(), b"precious");
    run(&mut repack(&full, &there, &["--force"])).assert_code(0);
    assert_eq!(names(&there).len(), 1);
}

#[test]
fn a_file_that_cannot_be_written_leaves_nothing() {
    let site = Site::new();
    let before = site.state();
    // In units of 512 or 1024 bytes: far below what the archive becomes.
    let mut command = ledger_tool_after("ulimit -f 100");
    command.arg("repack").arg(genuine_full()).arg("--output").arg(site.place());
    run(&mut command)
        .assert_code(3)
        .assert_error(&["cannot write", "hint: raise the limit on file sizes (ulimit -f"]);
    site.assert_untouched(&before, "a limit of file sizes");
}

/// A run on standard input that waits for the rest of its archive.
struct Waiting {
    tool: Child,
    feed: ChildStdin,
    rest: Vec<u8>,
    output: PathBuf,
    partial: PathBuf,
}

impl Waiting {
    fn start(site: &Site) -> Self {
        let output = site.place().join("fed.tar.zst");
        let mut archive = fs::read(genuine_full()).unwrap();
        let rest = archive.split_off(archive.len() / 2);
        let mut tool = repack(Path::new("-"), &output, &[])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut feed = tool.stdin.take().unwrap();
        feed.write_all(&archive).unwrap();
        let partial = site.place().join(".fed.tar.zst.unsnap-partial");
        until("the output is begun", || partial.exists());
        Self { tool, feed, rest, output, partial }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.tool), signal).unwrap();
    }
}

#[test]
fn what_is_killed_leaves_no_archive_and_the_next_run_clears_up() {
    let site = Site::new();
    let mut waiting = Waiting::start(&site);
    let archive = site.write("archive", &fs::read(genuine_full()).unwrap());
    // Nobody else works on the same archive meanwhile.
    run(&mut repack(&archive, &waiting.output, &[])).assert_code(4);
    waiting.signal(Signal::KILL);
    waiting.tool.wait().unwrap();
    assert!(!waiting.output.exists() && waiting.partial.exists());
    run(&mut repack(&archive, &waiting.output, &[])).assert_code(0);
    assert_eq!(names(&site.place()), ["fed.tar.zst", "neighbour"]);
}

#[test]
fn a_signal_takes_everything_back() {
    let site = Site::new();
    let before = site.state();
    let waiting = Waiting::start(&site);
    waiting.signal(Signal::TERM);
    let outcome = finish(waiting.tool);
    let signal = std::os::unix::process::ExitStatusExt::signal(&outcome.status);
    assert_eq!(signal, Some(Signal::TERM.as_raw()), "{outcome:?}");
    drop(waiting.feed);
    site.assert_untouched(&before, "SIGTERM");
}

#[test]
fn standard_input_is_repacked() {
    let site = Site::new();
    let mut waiting = Waiting::start(&site);
    waiting.feed.write_all(&waiting.rest).unwrap();
    drop(waiting.feed);
    finish(waiting.tool).assert_code(0);
    let tar = |path: &Path| decompress(&fs::read(path).unwrap()).unwrap();
    assert!(tar(&waiting.output) == tar(&genuine_full()));
}

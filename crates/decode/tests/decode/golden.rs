//! Tests with the zstd project's good and bad frames: every engine must decode or refuse them as
//! libzstd does. The table `tests/data/zstd-golden/verdicts.md` lists the result of each decoder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use unsnap_testkit::table::{Table, is_blessing, plain};

use crate::support::{Outcome, Setup, assert_same};

const COMMAND: &str = "UNSNAP_BLESS=1 cargo test -p unsnap-decode --test decode golden";

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/zstd-golden")
}

/// Returns the files of a directory by their path below `zstd-golden`.
fn frames(directory: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(data().join(directory))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "zst"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (format!("{directory}/{name}"), fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn good() -> Vec<(String, Vec<u8>)> {
    let files = frames("golden-decompression");
    assert_eq!(files.len(), 4);
    files
}

fn bad() -> Vec<(String, Vec<u8>)> {
    let files = frames("golden-decompression-errors");
    assert_eq!(files.len(), 3);
    files
}

fn libzstd(archive: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut decoded = Vec::with_capacity(4 << 20);
    match zstd_safe::decompress(&mut decoded, archive) {
        Ok(_) => Ok(decoded),
        Err(code) => Err(zstd_safe::get_error_name(code)),
    }
}

#[test]
fn golden_files_decode_as_libzstd_does() {
    for (name, archive) in good() {
        let expected = libzstd(&archive).unwrap();
        for threads in [1, 2, 8] {
            for segment_bytes in [None, Some(1), Some(1000), Some(300_000)] {
                for span_bytes in [1, 1 << 20] {
                    if segment_bytes == Some(1) && expected.len() > 100_000 {
                        continue;
                    }
                    let setup = Setup::new(threads).spans(span_bytes);
                    for setup in (Setup { segment_bytes, ..setup }).both() {
                        let outcome = setup.decode(&archive);
                        assert!(outcome.result.is_ok(), "{name}: {:?}", outcome.result);
                        assert_same(&outcome.bytes, &expected);
                    }
                }
            }
        }
    }
}

#[test]
fn golden_errors_are_refused() {
    for (name, archive) in bad() {
        libzstd(&archive).unwrap_err();
        for threads in [1, 2, 8] {
            for segment_bytes in [None, Some(1), Some(1000)] {
                for setup in (Setup { segment_bytes, ..Setup::new(threads) }).both() {
                    let error = setup.decode(&archive).result.expect_err(&name);
                    assert!(error.is_bad_archive(), "{name}: {error}");
                }
            }
        }
    }
}

/// Returns the verdict of the streaming engine.
fn streaming(archive: &[u8]) -> String {
    verdict(&Setup::new(1).decode(archive))
}

/// Returns the verdict of a worker. Workers get only frames that declare their size, so a header
/// without one gets a size field of eight bytes.
fn parallel(archive: &[u8]) -> String {
    let descriptor = archive[4];
    let declares_size = descriptor >> 6 != 0 || descriptor & 0x20 != 0;
    let mut frame = archive.to_vec();
    if !declares_size {
        // After magic number, descriptor and window; there is no dictionary.
        assert_eq!(descriptor & 3, 0);
        let size = libzstd(archive).map_or(100, |decoded| decoded.len() as u64);
        frame[4] |= 0xc0;
        frame.splice(6..6, size.to_le_bytes());
    }
    let outcome = Setup::new(2).decode(&frame);
    if let Ok(summary) = &outcome.result {
        assert_eq!(summary.parallel_frames, 1);
    }
    verdict(&outcome) + if declares_size { "" } else { " (size added)" }
}

fn verdict(outcome: &Outcome) -> String {
    match &outcome.result {
        Err(error) => format!("refused: {}", plain(&error.to_string())),
        Ok(_) => format!("{} bytes", outcome.bytes.len()),
    }
}

/// Returns the version of the program `zstd`, if it is installed.
fn cli_version() -> Option<String> {
    let output = Command::new("zstd").args(["-q", "--version"]).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let number = said.split(|c: char| !c.is_ascii_digit() && c != '.').find(|n| n.contains('.'))?;
    Some(format!("zstd CLI {number}"))
}

fn cli(path: &Path) -> String {
    let mut zstd = Command::new("zstd");
    let output = zstd.args(["-q", "-d", "-c"]).arg(path).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Without the name of the file, which it prints first.
    let reason = said.rsplit(" : ").next().unwrap_or_default();
    if output.status.success() {
        format!("{} bytes", output.stdout.len())
    } else {
        format!("refused: {}", plain(reason))
    }
}

const TITLES: [&str; 4] = ["file", "unsnap, streaming", "unsnap, frame-parallel", "libzstd"];
const CLI: usize = 4;
const WHY: usize = 5;

#[test]
fn the_table_of_golden_verdicts_is_true() {
    let path = data().join("verdicts.md");
    let old = Table::read(&path).unwrap();
    let cli_now = if is_blessing() { cli_version() } else { None };
    let mut now = Table { introduction: old.introduction.clone(), ..Table::default() };
    now.titles = TITLES.map(str::to_owned).to_vec();
    let version = zstd_safe::version_number();
    let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
    now.titles[3] = format!("libzstd {major}.{minor}.{patch}");
    now.titles
        .push(cli_now.clone().unwrap_or_else(|| old.titles.get(CLI).cloned().unwrap_or_default()));
    now.titles.push("remark".to_owned());
    for (name, archive) in good().into_iter().chain(bad()) {
        let kept = |column| old.cell(&name, column).unwrap_or_default().to_owned();
        let by_libzstd = match libzstd(&archive) {
            Ok(decoded) => format!("{} bytes", decoded.len()),
            Err(reason) => format!("refused: {}", plain(reason)),
        };
        let by_cli = if cli_now.is_some() { cli(&data().join(&name)) } else { kept(CLI) };
        let why = kept(WHY);
        let (streaming, parallel) = (streaming(&archive), parallel(&archive));
        now.rows.push(vec![name, streaming, parallel, by_libzstd, by_cli, why]);
    }
    if is_blessing() {
        now.write(&path).unwrap();
    }
    let written = Table::read(&path).unwrap();
    let differences = written.differences(&now, &[0, 1, 2, 3]);
    assert!(
        differences.is_empty(),
        "tests/data/zstd-golden/verdicts.md is not true any more; `{COMMAND}` rewrites it:\n{}",
        differences.join("\n")
    );
    // The number of bytes, or "refused:".
    let first = |cell: &str| cell.split(' ').next().unwrap_or_default().to_owned();
    for row in &written.rows {
        assert_eq!(first(&row[1]), first(&row[3]), "{}: not as libzstd", row[0]);
        assert_eq!(first(&row[2]), first(&row[3]), "{}: not as libzstd", row[0]);
        let differs = first(&row[1]) != first(&row[CLI]);
        assert!(!differs || !row[WHY].is_empty(), "{}: the remark must say why", row[0]);
    }
}

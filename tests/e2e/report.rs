//! What is told, on which stream, with which exit code.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::Stdio,
};

use serde_json::Value;
use unsnap_test_support::{
    Outcome, Site, expected_tree_of, genuine, genuine_full, ledger_tool, run, skip_unsupported,
    wait,
};
use unsnap_testkit::{
    spec::ArchiveSpec,
    tar::TarBuilder,
    tree::{Kind, reference_entries_of_file},
};

fn unpack(archive: &Path, site: &Site, flags: &[&str]) -> Outcome {
    site.reset(false);
    run(ledger_tool().arg("unpack").arg(archive).arg("--output").arg(site.output()).args(flags))
}

#[test]
fn the_json_report_has_every_field_with_a_sane_value() {
    let site = Site::new();
    for archive in genuine() {
        let file_name = archive.file_name().unwrap().to_str().unwrap();
        let name = file_name.split('.').next().unwrap();
        let parts: Vec<&str> = name.split('-').collect();
        let incremental = parts[0] == "incremental";
        let slot: u64 = parts[parts.len() - 2].parse().unwrap();
        let entries = reference_entries_of_file(&archive).unwrap();
        let files = entries.iter().filter(|entry| entry.kind == Kind::File);
        let file_bytes: usize = files.clone().map(|entry| entry.bytes.len()).sum();
        let directories = expected_tree_of(&archive).len() - files.clone().count();
        let raw = unsnap_testkit::tree::decompress(&fs::read(&archive).unwrap()).unwrap();

        for dry_run in [false, true] {
            let flags: &[&str] =
                if dry_run { &["--format", "json", "--dry-run"] } else { &["--format=json"] };
            let outcome = unpack(&archive, &site, flags).assert_code(0);
            assert_eq!(outcome.stderr, "");
            let report = outcome.json();
            let number = |field: &str| {
                report[field].as_u64().unwrap_or_else(|| panic!("{field} in {report:#}"))
            };
            let flag = |field: &str| {
                report[field].as_bool().unwrap_or_else(|| panic!("{field} in {report:#}"))
            };
            assert_eq!(report["archive"], archive.to_str().unwrap());
            assert_eq!(report["kind"], if incremental { "incremental" } else { "full" });
            assert_eq!(number("slot"), slot);
            let base_slot = incremental.then(|| parts[2].parse::<u64>().unwrap());
            assert_eq!(report["base_slot"], Value::from(base_slot));
            assert_eq!(report["hash"], parts[parts.len() - 1]);
            assert_eq!(flag("dry_run"), dry_run);
            assert_eq!(number("files"), files.clone().count() as u64);
            if !dry_run {
                assert_eq!(number("directories"), directories as u64);
            }
            assert_eq!(number("bytes_read"), fs::metadata(&archive).unwrap().len());
            assert_eq!(number("bytes_decoded"), raw.len() as u64);
            assert_eq!(number("bytes_written"), if dry_run { 0 } else { file_bytes as u64 });
            assert_eq!(number("frames"), 1);
            assert!(number("elapsed_ms") >= number("sync_ms"));
            assert!(number("elapsed_ms") < 600_000);
            assert_eq!(report["decode_engine"], "streaming");
            assert_eq!(number("decode_threads"), 1);
            let engine = report["io_engine"].as_str().unwrap();
            assert!(["uring", "threads", "uring+threads"].contains(&engine));
            flag("direct_read");
            assert!(number("bytes_from_cache") <= number("bytes_read"));
            assert!(!(dry_run && flag("direct_write")));
            let pages = report["huge_pages"].as_str().unwrap();
            assert!(["transparent", "hugetlb", "none"].contains(&pages));
            flag("registered_buffers");
            assert!(report["fallbacks"].as_array().unwrap().iter().all(Value::is_string));
            assert_preflight(&report, file_bytes as u64, files.clone().count() + directories);
            let limited_by = report["limited_by"].as_str().unwrap();
            assert!(
                ["source", "decode", "walk", "create", "sync", "rate limit"].contains(&limited_by)
            );
            assert_threads_add_up(&report);
            let peak = number("peak_rss_bytes");
            assert!((1 << 20..1 << 30).contains(&peak), "{report:#}");
            assert_eq!(site.output().exists(), !dry_run);
        }
    }
}

/// What was needed is known exactly, and was there.
fn assert_preflight(report: &Value, file_bytes: u64, inodes: usize) {
    let preflight = &report["preflight"];
    assert_eq!(preflight["basis"], "walked");
    assert_eq!(preflight["bytes_exact"], true);
    assert_eq!(preflight["tar_bytes_exact"], true);
    assert!(preflight["tar_bytes"].as_u64().unwrap() > file_bytes, "{preflight:#}");
    assert_eq!(preflight["inodes_needed"], inodes);
    assert_eq!(preflight["skipped"], Value::Null);
    assert_eq!(preflight["warnings"], Value::Array(Vec::new()));
    let needed = preflight["bytes_needed"].as_u64().unwrap();
    assert!((file_bytes..file_bytes + inodes as u64 * 65_536).contains(&needed), "{preflight:#}");
    let [system] = preflight["file_systems"].as_array().unwrap().as_slice() else {
        panic!("{preflight:#}")
    };
    assert_eq!(system["bytes_needed"], needed);
    assert!(system["bytes_available"].as_u64().unwrap() > needed);
}

/// What a thread was busy and what it waited for is all of its time; the main thread's is the
/// run's.
fn assert_threads_add_up(report: &Value) {
    let threads = report["threads"].as_array().unwrap();
    for thread in threads {
        let part =
            |field: &str| thread[field].as_u64().unwrap_or_else(|| panic!("{field} in {thread:#}"));
        let waiting = part("waiting_for_input_ms")
            + part("waiting_for_output_ms")
            + part("waiting_for_io_ms");
        assert_eq!(part("busy_ms") + waiting, part("total_ms"), "{thread:#}");
        assert!(part("total_ms") <= report["elapsed_ms"].as_u64().unwrap(), "{report:#}");
    }
    let stages = ["source", "decode", "walk", "create", "sync"];
    let place = |stage: &Value| stages.iter().position(|known| stage == known);
    let order: Vec<_> = threads.iter().map(|thread| place(&thread["stage"])).collect();
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{threads:#?}");
    let main: Vec<_> = threads.iter().filter(|thread| thread["name"] == "main").collect();
    assert_eq!(main.len(), 1);
    assert_eq!(main[0]["total_ms"], report["elapsed_ms"]);
}

/// The other stages cannot be made slow for certain: their rule is tested where it stands.
#[test]
fn a_slow_sender_is_what_limits() {
    let site = Site::new();
    let spec = ArchiveSpec { total_bytes: 60_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let bytes = fs::read(&archive).unwrap();
    let mut tool = ledger_tool()
        .args(["unpack", "-", "--dry-run", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = tool.stdin.take().unwrap();
    for part in bytes.chunks(bytes.len() / 20) {
        std::thread::sleep(std::time::Duration::from_millis(50));
        pipe.write_all(part).unwrap();
    }
    drop(pipe);
    let output = tool.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_threads_add_up(&report);
    assert_eq!(report["limited_by"], "source", "{report:#}");
}

#[test]
fn an_archive_in_the_page_cache_is_read_from_there() {
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes: 9_000_000, ..ArchiveSpec::default() });
    let is_cached = || {
        let bytes = fs::metadata(&archive).unwrap().len();
        unsnap_ring::is_cached(fs::File::open(&archive).unwrap(), 0, bytes) == Some(true)
    };
    let read = |flags: &[&str]| {
        let flags = [&["--dry-run", "--format", "json"], flags].concat();
        let report = unpack(&archive, &site, &flags).assert_code(0).json();
        let number = |field: &str| report[field].as_u64().unwrap();
        (report["direct_read"] == true, number("bytes_from_cache"), number("bytes_read"))
    };
    let (direct, from_cache, all) = read(&[]);
    if !direct {
        return skip_unsupported("no direct I/O on this file system");
    }
    if !is_cached() {
        // No cachestat, or memory is short.
        return skip_unsupported("the kernel does not report the archive as cached");
    }
    assert_eq!(from_cache, all, "it was written a moment ago");
    assert_eq!(read(&["--use-direct-io=on"]).1, 0, "where direct I/O is demanded, all is direct");
}

#[test]
fn the_report_tells_which_engines_worked() {
    let site = Site::new();
    let spec = ArchiveSpec {
        total_bytes: 3_000_000,
        frames: unsnap_testkit::spec::Frames::Sized(500_000),
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let report = |flags: &[&str]| {
        let flags = [&["--format", "json"], flags].concat();
        unpack(&archive, &site, &flags).assert_code(0).json()
    };
    let many = report(&["--decode-threads", "3", "--io-engine", "threads"]);
    assert_eq!(many["decode_engine"], "frame-parallel");
    assert_eq!(many["decode_threads"], 3);
    assert_eq!(many["io_engine"], "threads");
    assert!(many["frames"].as_u64().unwrap() > 5);
    assert_eq!((&many["decoder"], &many["own_frames"]), (&"libzstd".into(), &0.into()));
    let own = report(&["--decode-threads", "1", "--decoder", "own"]);
    assert_eq!((&own["decoder"], &own["own_frames"]), (&"own".into(), &own["frames"]));
    assert_eq!(own["decode_engine"], "block-parallel");
    let one = report(&["--decode-threads", "1", "--use-direct-io=off"]);
    assert_eq!(one["decode_engine"], "streaming");
    assert_eq!(one["direct_read"], false);
    assert_eq!(one["direct_write"], false);
    assert_eq!(one["fallbacks"], Value::Array(Vec::new()), "what was asked for is no fallback");
}

#[test]
fn the_text_report_is_for_people() {
    let site = Site::new();
    let outcome = unpack(&genuine_full(), &site, &[]).assert_code(0);
    let first = outcome.stdout.lines().next().unwrap();
    assert!(first.starts_with("unpacked full snapshot of slot 39: 43 files, "), "{first}");
    assert!(outcome.stdout.contains("peak memory"), "{outcome:?}");
    assert_eq!(outcome.stderr, "", "a short run has no progress to log");
    let outcome = unpack(&genuine_full(), &site, &["--dry-run"]).assert_code(0);
    assert!(outcome.stdout.starts_with("checked full snapshot of slot 39: "), "{outcome:?}");
    assert!(!outcome.stdout.contains('\x1b'));
}

#[test]
fn quiet_is_silent() {
    let site = Site::new();
    for flag in ["--quiet", "-q", "-qq"] {
        let outcome = unpack(&genuine_full(), &site, &[flag]).assert_code(0);
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""));
    }
    // Data that was asked for is given, and errors are told.
    let outcome = unpack(&genuine_full(), &site, &["-q", "--format", "json"]).assert_code(0);
    assert_eq!(outcome.json()["files"], 43);
    unpack(Path::new("no such archive"), &site, &["-q"])
        .assert_code(3)
        .assert_error(&["no such archive"]);
}

#[test]
fn colors_are_used_only_where_wanted() {
    let site = Site::new();
    let missing = Path::new("no such archive");
    assert!(!unpack(missing, &site, &[]).stderr.contains('\x1b'), "not a terminal");
    assert!(unpack(missing, &site, &["--color", "always"]).stderr.contains('\x1b'));
    assert!(!unpack(missing, &site, &["--color", "never"]).stderr.contains('\x1b'));
}

#[test]
fn listings_name_every_entry() {
    for archive in genuine() {
        let expected: Vec<(String, &str, u64)> = reference_entries_of_file(&archive)
            .unwrap()
            .into_iter()
            .map(|entry| {
                let kind = if entry.kind == Kind::Directory { "directory" } else { "file" };
                (entry.path, kind, entry.bytes.len() as u64)
            })
            .collect();
        let list = |format: &str| {
            run(ledger_tool().arg("list").arg(&archive).args(["--format", format])).assert_code(0)
        };
        let found = |entry: &Value| {
            let (path, kind) = (entry["path"].as_str().unwrap(), entry["type"].as_str().unwrap());
            let offsets = [&entry["header_offset"], &entry["payload_offset"]];
            let [header, payload] = offsets.map(|offset| offset.as_u64().unwrap());
            assert!(payload >= header + 512 && header % 512 == 0);
            (path.to_owned(), kind.to_owned(), entry["bytes"].as_u64().unwrap())
        };
        let same = |found: Vec<(String, String, u64)>| {
            let found: Vec<_> = found.iter().map(|(p, k, s)| (p.clone(), k.as_str(), *s)).collect();
            assert_eq!(found, expected);
        };
        let json = list("json").json();
        same(json.as_array().unwrap().iter().map(found).collect());
        let lines = list("json-lines").stdout;
        assert_eq!(lines.lines().count(), expected.len());
        same(lines.lines().map(|line| found(&serde_json::from_str(line).unwrap())).collect());
        let text = list("text").stdout;
        assert_eq!(text.lines().count(), expected.len());
        for (line, (path, kind, size)) in text.lines().zip(&expected) {
            let letter = if *kind == "directory" { "d" } else { "-" };
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words, [letter, &size.to_string(), path]);
        }
    }
}

#[test]
fn listings_show_what_unpacking_would_refuse() {
    let site = Site::new();
    let tar = TarBuilder::new()
        .symlink("link", "../../etc/passwd")
        .hard_link("hard", "link")
        .file("../\x1b[31mred\nline", b"x")
        .finish();
    let archive = site.write("hostile.tar", &tar);
    let text = run(ledger_tool().arg("list").arg(&archive)).assert_code(0).stdout;
    assert!(text.contains("link -> ../../etc/passwd"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(!text.contains('\x1b'), "control characters do not reach the terminal: {text}");
    let json = run(ledger_tool().arg("list").arg(&archive).args(["--format", "json"])).json();
    assert_eq!(json[0]["link"], "../../etc/passwd");
    assert_eq!(json[1]["type"], "hard_link");
}

#[test]
fn an_empty_listing_is_still_json() {
    let site = Site::new();
    let archive = site.write("empty.tar", &TarBuilder::new().finish());
    let list = |format| run(ledger_tool().arg("list").arg(&archive).args(["--format", format]));
    assert_eq!(list("json").assert_code(0).json(), Value::Array(Vec::new()));
    assert_eq!(list("json-lines").assert_code(0).stdout, "");
}

#[test]
fn a_cut_listing_shows_what_there_is_and_fails() {
    let site = Site::new();
    let tar = TarBuilder::new().file("a", b"x").file("b", b"y").into_bytes();
    let archive = site.write("cut.tar", &tar);
    let outcome = run(ledger_tool().arg("list").arg(&archive)).assert_code(1).assert_error(&[]);
    assert_eq!(outcome.stdout.lines().count(), 2);
}

#[test]
fn a_closed_pipe_ends_a_listing_quietly() {
    let site = Site::new();
    let tar = (0..5000).fold(TarBuilder::new(), |tar, n| tar.file(&format!("file {n}"), b""));
    let archive = site.write("many.tar", &tar.finish());
    for format in ["text", "json", "json-lines"] {
        let mut tool = ledger_tool()
            .arg("list")
            .arg(&archive)
            .args(["--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(tool.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty());
        let status = wait(&mut tool);
        let stderr = std::io::read_to_string(tool.stderr.take().unwrap()).unwrap();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{format}");
    }
}

#[test]
fn help_and_version_are_given() {
    for words in [&["--help"][..], &["unpack", "--help"], &["list", "--help"], &["-h"]] {
        let outcome = run(ledger_tool().args(words)).assert_code(0);
        assert!(outcome.stdout.contains("Usage: ledger-tool"), "{outcome:?}");
    }
    let help = run(ledger_tool().arg("--help")).stdout;
    assert!(help.contains("Exit codes: 0 success; 1 bad archive; 2 invalid request; 3"), "{help}");
    let version = run(ledger_tool().arg("--version")).assert_code(0).stdout;
    assert!(version.starts_with("ledger-tool "), "{version}");
}

#[test]
fn requests_without_sense_end_with_2() {
    let site = Site::new();
    let archive = genuine_full();
    let archive = archive.to_str().unwrap();
    let output = site.output();
    let output = output.to_str().unwrap();
    let accounts = site.place().join("accounts");
    let accounts = accounts.to_str().unwrap();
    let before = site.state();
    let requests: &[&[&str]] = &[
        &[],
        &["frobnicate"],
        &["unpack"],
        &["unpack", archive],
        &["unpack", archive, "--output", output, "--no-such-flag"],
        &["unpack", archive, "--output", output, "--decode-threads", "0"],
        &["unpack", archive, "--output", output, "--memory-budget", "much"],
        &["unpack", archive, "--output", output, "--memory-budget", "3KiB"],
        &["unpack", archive, "--output", output, "--layout", "any", "--accounts", accounts],
        &["unpack", archive, "--output", output, "--config", "no such file"],
        &["unpack", archive, "--output", output, "-q", "-v"],
    ];
    for request in requests {
        let outcome = run(ledger_tool().args(*request)).assert_code(2);
        assert_eq!(outcome.stdout, "");
        assert!(!outcome.stderr.is_empty());
        site.assert_untouched(&before, format_args!("{request:?}"));
    }
}

#[test]
fn a_missing_archive_ends_with_3_and_a_directory_with_2() {
    let site = Site::new();
    let before = site.state();
    for (path, code, words) in [("no such archive", 3, "No such file"), ("/", 2, "is a directory")]
    {
        unpack(Path::new(path), &site, &[]).assert_code(code).assert_error(&[path, words]);
        site.assert_untouched(&before, path);
    }
}

#[test]
fn limits_come_from_a_file() {
    let site = Site::new();
    let before = site.state();
    let config = |text: &str| site.write("limits.toml", text.as_bytes());
    let with = |path: &Path| unpack(&genuine_full(), &site, &["--config", path.to_str().unwrap()]);

    with(&config("[limits]\nentries_max = 3\n")).assert_code(1).assert_error(&[
        "snapshots/39",
        "limit is 3",
        "entries_max",
    ]);
    site.assert_untouched(&before, "too many entries");
    with(&config("[limits]\nraw_bytes_max = \"1MiB\"\n"))
        .assert_code(1)
        .assert_error(&["raw_bytes_max", "limit is 1048576"]);
    site.assert_untouched(&before, "too many bytes");
    with(&config("[limits]\nstorage_bytes_max = 1000\n")).assert_code(1).assert_error(&[
        "accounts/",
        "limit is 1000",
        "storage_bytes_max",
    ]);
    site.assert_untouched(&before, "too large a storage");

    with(&config("[limits]\nframe_max = 3\n")).assert_code(2).assert_error(&["frame_max"]);
    with(&config("[limit]\n")).assert_code(2).assert_error(&["limit"]);
    with(&config("entries_max 3")).assert_code(2).assert_error(&["limits.toml"]);
    site.assert_untouched(&before, "a bad configuration");

    // From the environment; a flag has precedence.
    let few = config("[limits]\nentries_max = 3\n");
    let environment = |flags: &[&str]| {
        run(ledger_tool()
            .env("UNSNAP_CONFIG", &few)
            .arg("unpack")
            .arg(genuine_full())
            .arg("--output")
            .arg(site.output())
            .args(flags))
    };
    environment(&[]).assert_code(1);
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/ledger-tool.toml");
    environment(&["--config", shipped.to_str().unwrap()]).assert_code(0);
    // An empty variable is as good as none.
    let mut verify = ledger_tool();
    run(verify.env("UNSNAP_CONFIG", "").arg("verify").arg(genuine_full())).assert_code(0);
    run(verify.env("UNSNAP_CONFIG", &few)).assert_code(1);
}

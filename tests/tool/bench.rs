//! `ledger-tool bench`.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use unsnap_test_support::{
    Outcome, Site, cleaned, finish, genuine_full, has_tool, ledger_tool, ledger_tool_path, run,
    until,
};
use unsnap_testkit::spec::{ArchiveSpec, FileSizes};

/// A site with an empty directory to measure.
fn ground() -> (Site, PathBuf) {
    let site = Site::new();
    let output = site.path("measured");
    fs::create_dir(&output).unwrap();
    (site, output)
}

fn bench(output: &Path, arguments: &[&str]) -> Command {
    let mut tool = ledger_tool();
    tool.arg("bench").args(arguments).arg("--output").arg(output);
    tool
}

#[track_caller]
fn assert_empty(directory: &Path) {
    let names: Vec<_> = fs::read_dir(directory).unwrap().map(|one| one.unwrap().path()).collect();
    assert!(names.is_empty(), "{names:?}");
}

/// Every measurement is there, and the ratios follow from them.
fn assert_measured(result: &Value, rounds: usize) {
    let times = |of: &Value| {
        let times = of["elapsed_ms"].as_array().unwrap();
        assert_eq!(times.len(), rounds, "{of:#}");
        let spread = |field: &str| of["spread_ms"][field].as_f64().unwrap();
        assert!(spread("min") <= spread("median") && spread("median") <= spread("max"), "{of:#}");
        assert!(spread("min") > 0.0, "{of:#}");
    };
    let alone = result["alone"].as_array().unwrap();
    let stages: Vec<&str> = alone.iter().map(|one| one["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["read", "decode", "write"]);
    alone.iter().for_each(times);
    let variants = result["variants"].as_array().unwrap();
    assert_eq!((&variants[0]["name"], &variants[0]["flags"]), (&"default".into(), &"".into()));
    assert_eq!(variants[0]["skipped"], Value::Null);
    assert_eq!(variants[0]["ratio"]["median"], 1.0);
    assert!(variants.len() >= 5, "{result:#}");
    for variant in variants.iter().filter(|variant| variant["skipped"].is_null()) {
        times(variant);
        assert_eq!(variant["limited_by"].as_array().unwrap().len(), rounds);
    }
    let limit = result["limited_by"].as_str().unwrap();
    assert!(["source", "decode", "walk", "create", "sync"].contains(&limit), "{result:#}");
    for words in ["limit", "advice"] {
        assert!(result[words].as_str().unwrap().ends_with('.'), "{result:#}");
    }
    let flags = result["flags"].as_str().unwrap();
    assert!(variants.iter().any(|variant| variant["flags"] == flags), "{result:#}");
}

#[test]
fn a_generated_archive_is_measured_in_every_form() {
    let (site, output) = ground();
    let html = site.path("bench.html");
    let mut tool = bench(&output, &["--size", "4MiB", "--rounds", "2", "--format", "json"]);
    let outcome = run(tool.arg("--html").arg(&html)).assert_code(0);
    let result = outcome.json();
    assert_measured(&result, 2);
    assert_eq!(result["archive"]["generated"], true);
    assert_eq!(result["archive"]["whole"], true);
    let written = result["archive"]["bytes_written"].as_u64().unwrap();
    assert!(written >= 4 << 20, "{result:#}");
    assert_empty(&output);
    // The estimate comes first.
    assert!(outcome.stderr.contains("at 1 GB/s"), "{outcome:#?}");
    assert!(outcome.stderr.contains("round 2 of 2: default"), "{outcome:#?}");

    let page = fs::read_to_string(&html).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let page = roxmltree::Document::parse_with_options(&page, options).unwrap();
    let named = |name: &str| page.descendants().filter(|node| node.has_tag_name_of(name)).count();
    assert_eq!(named("svg"), 3);
    assert!(named("rect") >= 3 + 4 + 3, "a bar for each");
    assert_eq!(named("script") + named("link") + named("img") + named("iframe"), 0);
    let loads = |attribute: roxmltree::Attribute<'_, '_>| {
        ["src", "href"].contains(&attribute.name()) || attribute.name().starts_with("on")
    };
    assert!(!page.descendants().flat_map(|node| node.attributes()).any(loads));
    let left = fs::read_dir(html.parent().unwrap()).unwrap();
    let left = left.filter(|one| {
        one.as_ref().unwrap().file_name().to_str().unwrap().starts_with(".unsnap-bench-")
    });
    assert_eq!(left.count(), 0);
}

trait TagName {
    fn has_tag_name_of(&self, name: &str) -> bool;
}

impl TagName for roxmltree::Node<'_, '_> {
    /// Whatever the namespace.
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

#[test]
fn the_text_names_the_bottleneck_and_the_flags() {
    let (_site, output) = ground();
    let archive = genuine_full();
    let flags = ["--rounds", "1", "--color", "never", "--no-progress"];
    let mut tool = bench(&output, &flags);
    let outcome = run(tool.arg(&archive)).assert_code(0);
    assert_eq!(outcome.stderr, "");
    assert!(outcome.stdout.starts_with(archive.to_str().unwrap()), "{outcome:#?}");
    let lines =
        ["stage alone ", "  reading ", "  decoding ", "  writing ", "variant ", "  default "];
    for line in lines {
        assert!(
            outcome.stdout.lines().any(|found| found.starts_with(line)),
            "{line}: {outcome:#?}"
        );
    }
    for line in ["bottleneck: ", "flags: "] {
        assert!(
            outcome.stdout.lines().any(|found| found.starts_with(line)),
            "{line}: {outcome:#?}"
        );
    }
    assert!(outcome.stdout.contains("--rounds 3 or more"), "{outcome:#?}");
    assert_empty(&output);
}

#[test]
fn of_a_large_archive_the_beginning_is_measured() {
    let (site, output) = ground();
    let spec = ArchiveSpec {
        total_bytes: 40_000_000,
        file_sizes: FileSizes::Fixed(200_000),
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let before = fs::read(&archive).unwrap();
    let flags = ["--size", "8MiB", "--rounds", "1", "--format", "json"];
    let result = run(bench(&output, &flags).arg(&archive)).assert_code(0).json();
    assert_measured(&result, 1);
    let facts = &result["archive"];
    assert_eq!((&facts["generated"], &facts["whole"]), (&false.into(), &false.into()));
    let number = |field: &str| facts[field].as_u64().unwrap();
    // Files are whole, the last begins before the limit; headers and padding count towards it.
    assert!((7 << 20..9 << 20).contains(&number("bytes_written")), "{facts:#}");
    assert!(number("bytes_read") < number("bytes"), "{facts:#}");
    assert_eq!(number("bytes"), before.len() as u64);
    assert_empty(&output);
    assert_eq!(fs::read(&archive).unwrap(), before);
}

#[test]
fn unsupported_variants_are_skipped() {
    if !has_tool("strace", "--version") {
        return;
    }
    let (_site, output) = ground();
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=io_uring_setup", "-e"])
        .arg("inject=io_uring_setup:error=EPERM")
        .arg(ledger_tool_path())
        .args(["bench", "--size", "1MiB", "--rounds", "1", "--format", "json", "--output"])
        .arg(&output);
    let result = run(&mut cleaned(strace)).assert_code(0).json();
    assert_measured(&result, 1);
    let variants = result["variants"].as_array().unwrap();
    let ring = variants.iter().find(|variant| variant["name"] == "ring").unwrap();
    assert!(ring["skipped"].as_str().unwrap().contains("io_uring"), "{ring:#}");
    assert_eq!(variants[0]["io_engine"], "threads");
    assert_empty(&output);
}

#[test]
fn an_interruption_removes_everything() {
    let (site, output) = ground();
    let html = site.path("bench.html");
    for at in ["generating an archive", "round 1 of 100", "round 2 of 100: default"] {
        let mut tool = bench(&output, &["--size", "4MiB", "--rounds", "100"]);
        let log = site.path("log");
        let stderr = fs::File::create(&log).unwrap();
        let tool = tool.arg("--html").arg(&html).stdout(Stdio::piped()).stderr(stderr);
        let child = tool.spawn().unwrap();
        until(at, || fs::read_to_string(&log).unwrap().contains(at));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let outcome: Outcome = finish(child);
        // A shell calls this 130.
        assert_eq!(outcome.status.signal(), Some(2), "{at}: {outcome:#?}");
        assert_eq!(outcome.stdout, "", "{at}");
        assert_empty(&output);
        assert!(!html.exists(), "{at}");
        fs::remove_file(&log).unwrap();
        let left: Vec<_> =
            fs::read_dir(site.path("")).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left.len(), 2, "{at}: {left:?}");
    }
}

#[test]
fn the_next_bench_removes_the_files_of_a_killed_one() {
    let (site, output) = ground();
    let html = site.path("bench.html");
    let log = site.path("log");
    let stderr = fs::File::create(&log).unwrap();
    let mut tool = bench(&output, &["--size", "4MiB", "--rounds", "100"]);
    let tool = tool.arg("--html").arg(&html).stdout(Stdio::null()).stderr(stderr);
    let mut child = tool.spawn().unwrap();
    let at = "round 1 of 100";
    until(at, || fs::read_to_string(&log).unwrap().contains(at));
    // Of others that have names like these, nothing is removed.
    std::os::unix::fs::symlink(&log, output.join(".unsnap-bench-link")).unwrap();
    let left = || {
        [&output, html.parent().unwrap()].map(|directory| {
            let names = fs::read_dir(directory).unwrap().map(|one| one.unwrap().file_name());
            let names = names.map(|name| name.into_string().unwrap());
            names.filter(|name| name.starts_with(".unsnap-bench-")).count()
        })
    };
    // Refused only after what is left behind has been removed.
    let another = || {
        let mut tool = bench(&output, &["--size", "9000TiB"]);
        let parts = ["a smaller --size", "[no-space]"];
        run(tool.arg("--html").arg(&html)).assert_code(3).assert_error(&parts)
    };
    another();
    assert_eq!(left(), [2, 1], "of one that is at work, nothing is removed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(left(), [2, 1]);
    let outcome = another();
    assert!(outcome.stderr.contains("left by an interrupted bench"), "{outcome:?}");
    assert_eq!(left(), [1, 0]);
    assert!(log.exists() && !html.exists());
}

#[test]
fn bad_input_is_refused_and_leaves_nothing() {
    let (site, output) = ground();
    let absent = site.path("absent");
    let refused = |tool: &mut Command, code: i32, parts: &[&str]| {
        let outcome = run(tool).assert_code(code).assert_error(parts);
        assert_eq!(outcome.stdout, "");
        assert_empty(&output);
    };
    refused(&mut bench(&absent, &[]), 2, &["absent does not exist [request]", "mkdir -p"]);
    refused(&mut bench(&genuine_full(), &[]), 2, &["is not a directory"]);
    refused(bench(&output, &[]).arg(&absent), 2, &["is not a file"]);
    refused(bench(&output, &[]).arg("-"), 2, &["bench reads it repeatedly"]);
    refused(&mut bench(&output, &["--size", "1000"]), 2, &["at least 1MiB"]);
    refused(&mut bench(&output, &["--size", "9000TiB"]), 3, &["choose a smaller --size"]);
    let html = absent.join("bench.html");
    refused(
        bench(&output, &[]).arg("--html").arg(html),
        2,
        &["absent does not exist [request]", "mkdir -p"],
    );
    // An archive that breaks off.
    let mut cut = fs::read(genuine_full()).unwrap();
    cut.truncate(cut.len() / 2);
    let cut = site.write(genuine_full().file_name().unwrap().to_str().unwrap(), &cut);
    let mut tool = bench(&output, &["--rounds", "1"]);
    let page = site.path("bench.html");
    refused(tool.arg("--html").arg(&page).arg(&cut), 1, &[cut.to_str().unwrap()]);
    assert!(!page.exists());
    run(&mut bench(&output, &["--rounds", "0"])).assert_code(2);
}

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // helpers of tests are not seen to be tests
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]
//! The text of the metrics, the file for node_exporter, and the dashboard and alerts in deploy/.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::Duration,
};

use serde_json::Value;
use unsnap_control::{
    metrics::{JobCounts, OutcomeCounts, ProcessStats, Stats, TargetStats, Textfile, render},
    protocol::TargetState,
};

/// Returns metrics with every optional value set.
fn stats() -> Stats {
    let mut target = TargetStats::new("validator");
    target.state = TargetState::Failing;
    target.jobs = JobCounts { running: 1, queued: 2, ..JobCounts::default() };
    target.counts.ended = OutcomeCounts { done: 3, bad_archive: 1, ..OutcomeCounts::default() };
    target.counts.errors.environment = 4;
    target.counts.bytes_written = 1 << 40;
    target.counts.held_back_ms = 1500;
    target.progress = Some(0.25);
    target.last_success_unix_ms = Some(1_763_773_200_125);
    target.last_duration_ms = Some(90_500);
    target.ready_slot = Some(47);
    target.ready_unix_ms = Some(1_763_773_200_125);
    target.behind_slots = Some(5);
    target.leftover_bytes = 1 << 30;
    target.counts.ledger_locked_us = 40_000;
    target.newest_result_slot = Some(47);
    target.results = 2;
    target.counts.shadow_bytes = Some(1 << 30);
    target.counts.states_given_up = 7;
    target.counts.shadow_removed = 5;
    target.counts.ready_discarded = 6;
    target.counts.space_looks = 7;
    Stats {
        version: "0.1.0".to_owned(),
        started_unix_ms: 1_763_770_000_000,
        paused: true,
        newest_archive_slot: Some(52),
        bad_archives: 1,
        targets: vec![target, TargetStats::new("odd \"name\"\\\n")],
        process: Some(ProcessStats { max_fds: Some(1024), ..ProcessStats::now() }),
    }
}

/// Labels and value of each series, by name.
type Series = BTreeMap<String, Vec<(BTreeMap<String, String>, f64)>>;

/// Parses the series of a text.
fn series(text: &str) -> Series {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect(line);
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.strip_suffix('}').unwrap_or(labels);
        // No label of the sample holds `",`.
        let labels = labels.split("\",").filter(|label| !label.is_empty()).map(|label| {
            let (key, value) = label.split_once("=\"").expect(line);
            (key.to_owned(), value.trim_end_matches('"').to_owned())
        });
        let value = value.parse().expect(line);
        found.entry(name.to_owned()).or_default().push((labels.collect(), value));
    }
    found
}

#[test]
fn numbers_come_out_under_their_names() {
    let text = render(&stats());
    assert!(text.ends_with("\n# EOF\n"));
    for line in [
        "# TYPE unsnap_written_bytes counter",
        "# UNIT unsnap_written_bytes bytes",
        "unsnap_build_info{version=\"0.1.0\"} 1",
        "unsnap_paused 1",
        "unsnap_newest_archive_slot 52",
        "unsnap_bad_archives 1",
        "unsnap_target_state{target=\"validator\",state=\"failing\"} 1",
        "unsnap_target_state{target=\"validator\",state=\"idle\"} 0",
        "unsnap_jobs{target=\"validator\",state=\"queued\"} 2",
        "unsnap_jobs_ended_total{target=\"validator\",outcome=\"bad-archive\"} 1",
        "unsnap_errors_total{target=\"validator\",family=\"environment\"} 4",
        "unsnap_written_bytes_total{target=\"validator\"} 1099511627776",
        "unsnap_held_back_seconds_total{target=\"validator\"} 1.5",
        "unsnap_job_progress_ratio{target=\"validator\"} 0.25",
        "unsnap_last_success_timestamp_seconds{target=\"validator\"} 1763773200.125",
        "unsnap_last_duration_seconds{target=\"validator\"} 90.5",
        "unsnap_newest_result_slot{target=\"validator\"} 47",
        "unsnap_results{target=\"validator\"} 2",
        "unsnap_ready_slot{target=\"validator\"} 47",
        "unsnap_ready_timestamp_seconds{target=\"validator\"} 1763773200.125",
        "unsnap_behind_slots{target=\"validator\"} 5",
        "unsnap_ledger_locked_seconds_total{target=\"validator\"} 0.04",
        "unsnap_leftover_bytes{target=\"validator\"} 1073741824",
        "unsnap_shadow_bytes{target=\"validator\"} 1073741824",
        "unsnap_states_given_up_total{target=\"validator\"} 7",
        "unsnap_shadow_removed_total{target=\"validator\"} 5",
        "unsnap_ready_discarded_total{target=\"validator\"} 6",
        "unsnap_space_looks_total{target=\"validator\"} 7",
        "unsnap_results{target=\"odd \\\"name\\\"\\\\\\n\"} 0",
        "process_start_time_seconds 1763770000.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    // Unknown values are left out, and no others.
    let unknown = "unsnap_job_progress_ratio{target=\"odd";
    assert!(!text.contains(unknown));
}

#[test]
fn names_follow_the_conventions() {
    let text = render(&stats());
    let mut families = BTreeSet::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("# TYPE ") else { continue };
        let (name, kind) = rest.split_once(' ').unwrap();
        assert!(families.insert(name), "{name} comes twice");
        assert!(name.starts_with("unsnap_") || name.starts_with("process_"), "{name}");
        assert!(["counter", "gauge"].contains(&kind), "{line}");
        assert!(!name.ends_with("_total") && !name.contains("_ms"), "{name}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name} says what it is");
    }
    for (name, series) in series(&text) {
        let family = name.strip_suffix("_total").unwrap_or(&name);
        assert!(families.contains(family), "{name} belongs to no family");
        for (labels, _) in series {
            let allowed = ["target", "state", "outcome", "family", "version"];
            assert!(labels.keys().all(|label| allowed.contains(&label.as_str())), "{labels:?}");
        }
    }
}

#[test]
fn the_file_is_whole_readable_and_in_the_older_format() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("unsnap.prom");
    let mut file = Textfile::new(&path, Duration::from_secs(15)).unwrap();
    assert_eq!(file.next(), None);
    let text = render(&stats());
    for _ in 0..2 {
        file.write(&text).unwrap();
        assert!(file.next().is_some());
    }
    let found = fs::read_to_string(&path).unwrap();
    assert_eq!(series(&found), series(&text));
    assert!(found.contains("# TYPE unsnap_written_bytes_total counter\n"));
    assert!(found.contains("# TYPE unsnap_paused gauge\n"));
    for line in found.lines().filter(|line| line.starts_with('#')) {
        let mut words = line.split(' ').skip(1);
        let (what, name) = (words.next().unwrap(), words.next().unwrap());
        assert!(["HELP", "TYPE"].contains(&what), "{line}");
        let told = found.lines().any(|line| line.starts_with(name));
        assert!(told, "{name} is announced, and not there");
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    drop(file);
    assert!(!path.exists(), "numbers of a service that is gone would be taken for news");

    assert!(Textfile::new(&scratch.path().join("unsnap.txt"), Duration::ZERO).is_err());
    assert!(Textfile::new(&scratch.path().join(".prom"), Duration::ZERO).is_err());
    let nowhere = scratch.path().join("none").join("unsnap.prom");
    assert!(Textfile::new(&nowhere, Duration::ZERO).unwrap().write(&text).is_err());
}

fn deploy(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks that an expression names at least one series, and only existing series and labels.
fn check(expression: &str, known: &Series) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = 0;
    for (at, _) in expression.match_indices(|c: char| is_word(c)) {
        // Beginnings of words only.
        if expression[..at].ends_with(is_word) {
            continue;
        }
        let end = expression[at..].find(|c| !is_word(c)).map_or(expression.len(), |end| at + end);
        let (name, after) = (&expression[at..end], &expression[end..]);
        if !name.starts_with("unsnap_") && !name.starts_with("process_") {
            continue;
        }
        names += 1;
        let series = known.get(name).unwrap_or_else(|| panic!("no {name}: {expression}"));
        let Some(selector) = after.strip_prefix('{') else { continue };
        let (selector, _) = selector.split_once('}').expect(expression);
        for matcher in selector.split(',') {
            let label_end = matcher.find(['=', '!']).expect(expression);
            let (label, value) = matcher.split_at(label_end);
            let value = value.trim_matches(['=', '!', '~', '"']);
            // These two are Prometheus' own, and variables stand for values.
            let values = series.iter().filter_map(|(labels, _)| labels.get(label));
            let has = |value: &str| values.clone().any(|found| found == value);
            let good = ["job", "instance"].contains(&label)
                || has(value)
                || (value.starts_with('$') && values.clone().next().is_some());
            assert!(good, "{name} has no {label} {value}: {expression}");
        }
    }
    assert!(names > 0, "{expression}");
}

#[test]
fn the_dashboard_shows_what_there_is() {
    let mut known = series(&render(&stats()));
    known.extend(series_of_starts());
    let dashboard: Value = serde_json::from_str(&deploy("grafana/unsnap.json")).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 36));
    assert!(dashboard["id"].is_null(), "an id would be that of another dashboard");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let named: Vec<&str> = variables.iter().filter_map(|each| each["name"].as_str()).collect();
    for query in variables.iter().filter_map(|each| each["query"]["query"].as_str()) {
        check(query, &known);
        // label_values(metric, label)
        let label = query.rsplit([' ', ')']).nth(1).unwrap();
        assert!(["instance", "target"].contains(&label), "{query}");
    }
    let (mut ids, mut shown) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24 && place("h") > 0, "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            check(expression, &known);
            shown.extend(known.keys().filter(|name| expression.contains(*name)));
            for variable in expression.split('$').skip(1) {
                let name: String =
                    variable.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                assert!(name.starts_with("__") || named.contains(&name.as_str()), "${name}");
            }
            // {{label}} in legends.
            for label in target["legendFormat"].as_str().unwrap().split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                let there = known.iter().any(|(name, series)| {
                    expression.contains(name) && series[0].0.contains_key(label)
                });
                assert!(there || label == "instance", "{label}: {expression}");
            }
        }
    }
    let all = known.keys().filter(|name| name.starts_with("unsnap_"));
    let unseen: Vec<_> = all.filter(|name| !shown.contains(name)).collect();
    assert_eq!(unseen, ["unsnap_build_info"], "everything is on the dashboard");
}

/// The metrics of starts, which the validator's front end leaves: the names in its source, since no
/// crate depends on a program. Those without labels, and the one with the results.
fn series_of_starts() -> Series {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bin/validator/src/record.rs");
    let source = fs::read_to_string(path).unwrap();
    let names = source.lines().filter_map(|line| line.trim().strip_prefix("\"unsnap_start_"));
    let names =
        names.filter_map(|rest| rest.strip_suffix("\",")).filter(|rest| !rest.contains(' '));
    let found: Series =
        names.map(|rest| (format!("unsnap_start_{rest}"), vec![(BTreeMap::new(), 0.0)])).collect();
    assert!(found.len() >= 6, "{found:?}");
    let results = source.split("{result=\\\"").skip(1);
    let results: Vec<&str> = results.filter_map(|rest| rest.split("\\\"").next()).collect();
    assert!(results.contains(&"given-up") && source.contains("\"unsnap_starts_total\""));
    let of = |result: &&str| (BTreeMap::from([("result".to_owned(), (*result).to_owned())]), 0.0);
    let starts = ("unsnap_starts_total".to_owned(), results.iter().map(of).collect());
    found.into_iter().chain([starts]).collect()
}

#[test]
fn the_alerts_are_on_what_there_is() {
    #[derive(serde::Deserialize)]
    struct Rules {
        groups: Vec<Group>,
    }
    #[derive(serde::Deserialize)]
    struct Group {
        name: String,
        rules: Vec<Rule>,
    }
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rule {
        alert: String,
        expr: String,
        #[serde(default, rename = "for")]
        lasting: Option<String>,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
    }
    let mut known = series(&render(&stats()));
    known.extend(series_of_starts());
    let rules: Rules = serde_saphyr::from_str(&deploy("prometheus/alerts.yml")).unwrap();
    let mut names = BTreeSet::new();
    for rule in rules
        .groups
        .iter()
        .inspect(|group| assert_eq!(group.name, "unsnap"))
        .flat_map(|group| &group.rules)
    {
        check(&rule.expr, &known);
        assert!(names.insert(&rule.alert), "{} comes twice", rule.alert);
        assert!(["warning", "critical"].contains(&rule.labels["severity"].as_str()));
        for label in rule.annotations["summary"].split("$labels.").skip(1) {
            let label: String = label.chars().take_while(char::is_ascii_alphanumeric).collect();
            assert_eq!(label, "target");
        }
        let lasting = rule.lasting.as_deref().unwrap_or("1m");
        let (number, unit) = lasting.split_at(lasting.len() - 1);
        assert!(number.parse::<u32>().is_ok() && "mhd".contains(unit), "{lasting}");
    }
    assert_eq!(names.len(), 17);

    let scrape: Value = serde_saphyr::from_str(&deploy("prometheus/scrape.yml")).unwrap();
    let scrape = &scrape["scrape_configs"][0];
    assert_eq!(scrape["job_name"], "unsnap", "alerts and dashboard name it");
    let target = scrape["static_configs"][0]["targets"][0].as_str().unwrap();
    unsnap_control::ScrapeListener::address(target).unwrap();
}

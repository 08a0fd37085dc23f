//! What Prometheus and node_exporter are told.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use rustix::process::Signal;
use serde_json::json;
use unsnap_test_support::daemon::{Daemon, SLOW, full};

/// All that is longer is a hang.
const HANG: Duration = Duration::from_mins(2);

/// The loopback address that a process listens on, by what the kernel tells of its sockets. With port 0
/// configured no two tests want the same one.
pub fn address(daemon: &Daemon) -> Option<SocketAddr> {
    let proc = format!("/proc/{}", daemon.pid());
    let descriptors = fs::read_dir(format!("{proc}/fd")).unwrap();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let own: HashSet<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let table = fs::read_to_string(format!("{proc}/net/tcp")).unwrap();
    let port = table.lines().skip(1).find_map(|line| {
        // sl local_address rem_address st ... inode is the tenth; 0A is LISTEN.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_own = fields[3] == "0A" && own.contains(&format!("socket:[{}]", fields[9]));
        let (_, port) = fields[1].split_once(':').unwrap();
        is_own.then(|| u16::from_str_radix(port, 16).unwrap())
    });
    Some(SocketAddr::from(([127, 0, 0, 1], port?)))
}

/// Asks as Prometheus does, and gives the body.
fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    body.to_owned()
}

/// Values by name and labels, as they are written. Every one is of a family that was described, and
/// stands once.
fn samples(text: &str) -> BTreeMap<&str, &str> {
    let (mut samples, mut families) = (BTreeMap::new(), HashSet::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            if words.next() == Some("TYPE") {
                families.insert(words.next().unwrap());
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        let described = [Some(name), name.strip_suffix("_total")];
        assert!(described.iter().flatten().any(|name| families.contains(name)), "{line}");
        value.parse::<f64>().unwrap();
        assert!(samples.insert(sample, value).is_none(), "{line}");
    }
    samples
}

const DONE: &str = "unsnap_jobs_ended_total{target=\"tree\",outcome=\"done\"}";
const FILES: &str = "unsnap_files_created_total{target=\"tree\"}";
const WRITTEN: &str = "unsnap_written_bytes_total{target=\"tree\"}";
const SLOT: &str = "unsnap_newest_result_slot{target=\"tree\"}";
const SUCCESS: &str = "unsnap_last_success_timestamp_seconds{target=\"tree\"}";
const CANCELLED: &str = "unsnap_jobs_ended_total{target=\"tree\",outcome=\"cancelled\"}";
const REMOVED: &str = "unsnap_results_removed_total{target=\"tree\"}";

#[test]
fn counters_move_with_jobs_by_http_and_in_the_file() {
    let mut daemon = Daemon::new();
    let file = daemon.path("unpackd.prom");
    let metrics = |rest: &str| format!("[metrics]\nlisten = \"127.0.0.1:0\"\n{rest}");
    let textfile = format!("textfile = \"{}\"\ntextfile-every = \"1s\"\n", file.display());
    let tree = daemon.tree_target("tree", "trees", 1);
    daemon.configure(&[&*tree, &metrics("")].concat());
    daemon.start();
    // Clients are answered a moment before.
    daemon.until("it listens", |daemon| address(daemon).is_some());
    let address = address(&daemon).unwrap();
    let text = scrape(address);
    assert!(text.ends_with("# EOF\n"), "{text}");
    let before = samples(&text);
    assert_eq!((before[DONE], before[FILES], before.get(SLOT)), ("0", "0", None));

    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    let text = scrape(address);
    let first = samples(&text);
    assert_eq!((first[DONE], first[SLOT]), ("1", "1000000"));
    assert_eq!(first["unsnap_newest_archive_slot"], "1000000");
    let number = |text: &str| text.parse::<f64>().unwrap();
    assert!(number(first[FILES]) > 10.0 && number(first[WRITTEN]) > 100_000.0);

    // A file as well, from now on; scrapes go on where they were.
    daemon.configure(&[&*tree, &metrics(&textfile)].concat());
    daemon.signal(Signal::HUP);
    daemon.until("the file is there", |_| file.exists());
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("# EOF"), "node_exporter does not know it: {text}");
    assert!(!text.contains("process_"), "they would clash with node_exporter's own: {text}");
    assert_eq!(samples(&text)[DONE], "1");
    assert_eq!(samples(&scrape(address))[DONE], "1");

    daemon.drop_in(&daemon.make(&full(1_000_100, 2)));
    daemon.until("the file tells of it", |_| {
        let text = fs::read_to_string(&file).unwrap();
        let now = samples(&text);
        now[DONE] == "2" && now[SLOT] == "1000100" && now[REMOVED] == "1"
    });
    let text = scrape(address);
    assert!(number(samples(&text)[FILES]) > number(first[FILES]));
    // Nobody takes its numbers for those of one that runs.
    assert!(daemon.end(Signal::TERM).success());
    assert!(!file.exists());
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn what_a_job_writes_counts_while_it_runs_and_also_if_it_is_cancelled() {
    let mut daemon = Daemon::new();
    let tree = daemon.tree_target("tree", "trees", 1);
    daemon.configure(&[&*tree, SLOW].concat());
    daemon.start();
    let text = |daemon: &Daemon| {
        let metrics = daemon.ask(&json!({"request": "metrics"})).unwrap();
        metrics["text"].as_str().unwrap().to_owned()
    };
    let written = |text: &str| samples(text)[WRITTEN].parse::<u64>().unwrap();
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until("bytes are counted", |daemon| written(&text(daemon)) > 0);
    assert!(daemon.target("tree")["job"].is_object(), "of a job that runs");
    let job = daemon.target("tree")["job"]["id"].clone();
    let before = written(&text(&daemon));
    daemon.ask(&json!({"request": "cancel", "job": job})).unwrap();
    daemon.until("it has ended", |daemon| daemon.target("tree")["job"].is_null());
    let after = text(&daemon);
    assert!(written(&after) >= before && samples(&after)[CANCELLED] == "1", "{before}: {after}");
}

#[test]
fn the_time_of_the_last_success_outlives_a_restart() {
    let mut daemon = Daemon::new();
    daemon.start();
    daemon.drop_in(&daemon.make(&full(1_000_000, 1)));
    daemon.until_settled("tree", 1_000_000);
    let success = |daemon: &Daemon| {
        let metrics = daemon.ask(&json!({"request": "metrics"})).unwrap();
        samples(metrics["text"].as_str().unwrap()).get(SUCCESS).map(|it| (*it).to_owned())
    };
    let before = success(&daemon).unwrap();
    assert!(daemon.end(Signal::TERM).success());
    daemon.start();
    assert_eq!(success(&daemon), Some(before));
}

use crate::protocol::{
    ArchivesStatus, JobState, Origin, Outcome, PairName, ResultStatus, TargetKind,
};

use super::*;

const NOW: u64 = 1_800_000_000_000;

fn job() -> JobStatus {
    JobStatus {
        id: 7,
        target: "validator".to_owned(),
        slot: 120,
        base_slot: Some(100),
        archives: Vec::new(),
        origin: Origin::Found,
        state: JobState::Running,
        phase: Some("unpacking".to_owned()),
        attempt: 2,
        retry_in_ms: None,
        started_unix_ms: Some(NOW - 5000),
        last_error: Some("the disk was full".to_owned()),
        progress: Some(JobProgress {
            bytes_total: Some(1000),
            bytes_read: 250,
            bytes_written: 3 << 30,
            files: 5,
            rate_bytes_per_s: Some(1 << 20),
            eta_ms: Some(3_930_000),
        }),
    }
}

fn status() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        pid: 42,
        started_unix_ms: NOW - 90_000,
        paused: true,
        rate_limit: Some(100 << 20),
        archives: ArchivesStatus {
            directories: vec!["/mnt/<b>snapshots</b>".into()],
            newest: Some(PairName {
                slot: 120,
                base_slot: Some(100),
                full: "f".into(),
                incremental: Some("i".into()),
            }),
            rescan_ms: 60_000,
        },
        targets: vec![TargetStatus {
            name: "validator".to_owned(),
            kind: TargetKind::Fastboot,
            state: TargetState::Working,
            detail: None,
            results: vec![ResultStatus {
                slot: 100,
                base_slot: None,
                path: "/mnt/ready/100".into(),
                finished_unix_ms: NOW - 60_000,
                bytes: 0,
                files: 0,
            }],
            job: Some(job()),
            queued: vec![job()],
        }],
        bad: vec![BadArchive {
            path: "/mnt/snapshot-99".into(),
            reason: "<script>alert(1)</script>".to_owned(),
            seen_unix_ms: NOW - 1000,
        }],
        disks: vec![DiskStatus {
            path: "/mnt".into(),
            targets: vec!["validator".to_owned()],
            bytes: 1 << 40,
            bytes_available: 300 << 30,
            kept: vec![
                KeptStatus { target: "validator".to_owned(), what: Kept::Ready, bytes: 400 << 30 },
                KeptStatus { target: "validator".to_owned(), what: Kept::Shadow, bytes: 90 << 30 },
            ],
        }],
        recent: vec![
            EventLine { unix_ms: NOW - 9000, event: Event::Paused },
            EventLine {
                unix_ms: NOW - 4000,
                event: Event::JobEnded {
                    job: job(),
                    outcome: Outcome::BadArchive,
                    message: Some("cut".to_owned()),
                    elapsed_ms: 61_000,
                    exit_code: 1,
                },
            },
        ],
    }
}

#[test]
fn the_page_tells_what_runs_what_is_ready_and_what_is_wrong() {
    let page = render(&status(), NOW);
    for text in [
        "process 42, started 1m 30s ago, writes at most 100.0 MiB/s",
        "paused: no job runs until",
        "newest slot <b>120</b>, upon the full archive of slot 100",
        "job 7: slot 120, unpacking, attempt 2: 3.0 GiB written at 1.0 MiB/s, 1h 5m left",
        "<progress max=\"1000\" value=\"250\">",
        "the attempt before failed: the disk was full",
        "/mnt/snapshot-99: &lt;script",
        "1 more queued",
        "20 slots",
        "1m ago",
        "300.0 GiB",
        "validator: ready state, 400.0 GiB<br>validator: removed storages, by the shadow, 90.0 GiB",
        "job 7 of validator, slot 120: bad-archive after 1m 1s: cut",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    // The newest event comes first.
    assert!(page.find("bad-archive after") < page.find(">paused<"), "{page}");
}

#[test]
fn text_from_archives_and_paths_is_escaped() {
    let page = render(&status(), NOW);
    assert!(!page.contains("<script") && !page.contains("<b>snapshots"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let page = render(&status(), NOW);
    for forbidden in ["http:", "https:", "src=", "href=", "url(", "@import", "<form", "<link"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(HEADERS.starts_with("Content-Security-Policy: default-src 'none'"));
}

#[test]
fn an_empty_service_has_a_page_too() {
    let empty = Status {
        paused: false,
        rate_limit: None,
        archives: ArchivesStatus { directories: Vec::new(), newest: None, rescan_ms: 1 },
        targets: vec![TargetStatus {
            state: TargetState::Idle,
            results: Vec::new(),
            job: None,
            queued: Vec::new(),
            ..status().targets.remove(0)
        }],
        bad: Vec::new(),
        disks: Vec::new(),
        recent: Vec::new(),
        ..status()
    };
    let page = render(&empty, NOW);
    assert!(page.contains("no usable archive") && page.contains("nothing is ready yet"), "{page}");
    for absent in ["Disks", "Bad archives", "Last events", "paused"] {
        assert!(!page.contains(absent), "{absent}");
    }
}

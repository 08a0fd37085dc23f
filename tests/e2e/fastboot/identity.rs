//! What is prepared is what was in the archives, whatever the format, the engine and the paths.

use std::fs;

use unsnap_pass::{DirectMode, IoEngine};
use unsnap_state::Format;
use unsnap_test_support::{
    Site, genuine_pairs, has_uring,
    ledger::{Expected, Ledger},
};
use unsnap_testkit::spec::{ArchiveSpec, Compression, FileSizes, Frames};

use super::{fastboot, prepare_by, prepared, request};

#[test]
fn genuine_archives_become_states() {
    let mut ways = 0;
    for (full, incremental) in genuine_pairs() {
        for pair in [false, true] {
            let incremental = pair.then_some(incremental.as_path());
            let expected = Expected::of_files(&full, incremental);
            for accounts in 1..=3 {
                for major in [3, 5] {
                    let engine = match ways % 3 {
                        0 if has_uring() => "--io-engine=uring",
                        1 => "--io-engine=threads",
                        _ => "--io-engine=auto",
                    };
                    let direct = ["--use-direct-io=auto", "--use-direct-io=off"][ways / 3 % 2];
                    let threads = ["--decode-threads=1", "--decode-threads=2"][ways % 2];
                    let format = format!("--fastboot-format={major}");
                    let flags = [engine, direct, threads, format.as_str(), "--format=json"];
                    ways += 1;
                    let site = Site::new();
                    let ledger = Ledger::new(&site.place(), accounts);
                    ledger.add(&full);
                    incremental.map(|path| ledger.add(path));
                    let report = fastboot("prepare", &ledger, &flags).assert_code(0).json();
                    let what =
                        format!("{}, {incremental:?}, {accounts}, {flags:?}", full.display());
                    expected.assert_prepared(&ledger, major, &what);
                    assert_eq!(report["outcome"], "prepared", "{what}");
                    assert_eq!(report["slot"], expected.slot, "{what}");
                    let of_path = |index: usize| {
                        report["report"]["accounts_paths"][index]["files"].as_u64().unwrap()
                    };
                    let files: u64 = (0..accounts).map(of_path).sum();
                    assert_eq!(files, expected.storages() as u64, "{what}");
                    assert_eq!(report["report"]["incremental"].is_object(), pair, "{what}");
                    for path in &ledger.accounts {
                        assert!(path.join("snapshot").is_dir(), "{what}");
                    }
                }
            }
        }
    }
    assert_eq!(ways, 24);
}

fn spec(slot: u64, base_slot: Option<u64>, files: u64, lz4: bool) -> ArchiveSpec {
    ArchiveSpec {
        total_bytes: files * 2_500,
        file_sizes: FileSizes::Mainnet,
        files: Some(files),
        compression: if lz4 { Compression::Lz4 } else { Compression::Zstd },
        frames: if lz4 || files < 2000 { Frames::One } else { Frames::AGAVE },
        seed: slot,
        slot,
        base_slot,
        ..ArchiveSpec::default()
    }
}

/// Thousands of storages, so that both walks are under way at once for a while.
#[test]
fn made_pairs_of_thousands_of_storages_become_states() {
    for lz4 in [false, true] {
        let site = Site::new();
        let full = site.archive(&spec(50_000, None, 3000, lz4));
        let incremental = site.archive(&spec(53_000, Some(50_000), 1500, lz4));
        let expected = Expected::of_files(&full, Some(&incremental));
        assert_eq!(expected.storages(), 4500);
        let direct = [DirectMode::Auto, DirectMode::Off];
        let mut engines = vec![IoEngine::Threads];
        if has_uring() {
            engines.push(IoEngine::Uring);
        }
        for (index, engine) in engines.into_iter().enumerate() {
            let ledger = Ledger::new(&site.path(&format!("place-{index}")), 1 + index);
            ledger.add(&full);
            ledger.add(&incremental);
            let mut request = request(&ledger);
            request.pass.io.engine = engine;
            request.pass.io.direct = direct[index];
            request.pass.resources.decode_threads = Some(1 + index);
            request.format = [Format::V3, Format::V5][index];
            // Direct writes too.
            request.pass.tuning.direct_bytes_min = Some(4096);
            let report = prepared(prepare_by(&request, &unsnap_ring::Syscalls::default()));
            assert_eq!(report.slot, 53_000);
            expected.assert_prepared(&ledger, [3, 5][index], &format!("lz4: {lz4}, {index}"));
            fs::remove_dir_all(site.path(&format!("place-{index}"))).unwrap();
        }
    }
}

/// The smallest budget there may be has to do for two archives.
#[test]
fn the_smallest_memory_is_enough_for_a_pair() {
    for (full, incremental) in genuine_pairs() {
        let site = Site::new();
        let ledger = Ledger::new(&site.place(), 1);
        ledger.add(&full);
        ledger.add(&incremental);
        let refused = fastboot("prepare", &ledger, &["--memory-budget=1KiB"]).assert_code(2);
        let words: Vec<&str> = refused.stderr.split(' ').collect();
        let least = words.windows(2).find(|pair| pair[1].starts_with("bytes") && pair[0] != "1024");
        let least = format!("--memory-budget={}", least.unwrap()[0]);
        fastboot("prepare", &ledger, &[&least]).assert_code(0);
        Expected::of_files(&full, Some(&incremental)).assert_prepared(&ledger, 3, &least);
    }
}

//! Who is told of files as they become complete.

use std::{
    collections::BTreeMap, os::unix::fs::FileExt, sync::mpsc::sync_channel, thread, time::Duration,
};

use unsnap_failure::{Failure, Family};
use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;
use unsnap_test_support::{
    Site, genuine_pairs,
    ledger::{Expected, Ledger, small_pair},
    within,
};
use unsnap_unpack::{FileSink, FinishedFile};

use super::{prepare_by, prepared, request};

/// What it was told: names and contents, by destination.
fn contents(told: Vec<FinishedFile>) -> BTreeMap<(usize, String), Vec<u8>> {
    told.into_iter()
        .map(|told| {
            let file = std::fs::File::from(told.file.expect("an open descriptor"));
            let mut bytes = vec![0; usize::try_from(told.bytes).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(file.metadata().unwrap().len(), told.bytes, "{}", told.path);
            ((told.destination, told.path), bytes)
        })
        .collect()
}

#[test]
fn every_file_is_told_once_and_can_be_read() {
    for (shadow, pause) in [(true, None), (false, None), (true, Some(Duration::from_millis(3)))] {
        for (full, incremental) in genuine_pairs() {
            let site = Site::new();
            let ledger = Ledger::new(&site.place(), 2);
            ledger.add(&full);
            ledger.add(&incremental);
            let expected = Expected::of_files(&full, Some(&incremental));
            let mut request = request(&ledger);
            request.shadow = shadow;
            request.pass.tuning.direct_bytes_min = Some(4096);
            let (sender, finished) = sync_channel(2);
            request.files = Some(FileSink::open_files(sender));
            let consumer = thread::spawn(move || {
                let told = finished.into_iter();
                told.inspect(|_| pause.into_iter().for_each(thread::sleep)).collect::<Vec<_>>()
            });
            prepared(prepare_by(&request, &Syscalls::default()));
            drop(request);
            let told = consumer.join().unwrap();
            let count = told.len();
            let contents = contents(told);
            assert_eq!((count, contents.len()), (expected.storages() + 3, count));
            // As published: told by the destination that they are in.
            for ((destination, path), bytes) in contents {
                let place = match destination {
                    0 => ledger.state(expected.slot),
                    index => ledger.run(index - 1),
                };
                assert!(std::fs::read(place.join(&path)).unwrap() == bytes, "{path}");
            }
            expected.assert_prepared(&ledger, 3, "with a sink");
        }
    }
}

#[test]
fn without_a_receiver_nothing_is_prepared() {
    for shadow in [false, true] {
        let site = Site::new();
        let ledger = Ledger::new(&site.place(), 1);
        let (full, incremental) = small_pair(&ledger.snapshots);
        let mut request = request(&ledger);
        request.shadow = shadow;
        // The files are too few to fill the channel between creators and linker.
        let (sender, finished) = sync_channel(1);
        request.files = Some(FileSink::names(sender));
        let consumer = thread::spawn(move || drop(finished.recv()));
        let error = prepare_by(&request, &Syscalls::default()).unwrap_err();
        consumer.join().unwrap();
        assert!(error.to_string().contains("receiver of finished files"), "{shadow}: {error}");
        assert!(!ledger.state(110).exists(), "{shadow}");
        ledger.assert_tidy("without a receiver");
        request.files = None;
        prepared(prepare_by(&request, &Syscalls::default()));
        Expected::of_files(&full, Some(&incremental)).assert_prepared(&ledger, 3, "again");
    }
}

/// A receiver that takes nothing must not keep a run that was cancelled from ending.
#[test]
fn a_receiver_that_stands_still_does_not_hold_up_a_cancelled_run() {
    for shadow in [false, true] {
        let site = Site::new();
        let ledger = Ledger::new(&site.place(), 1);
        small_pair(&ledger.snapshots);
        let mut request = request(&ledger);
        request.shadow = shadow;
        let (sender, finished) = sync_channel(1);
        request.files = Some(FileSink::names(sender));
        let cancel = CancelToken::default();
        let canceller = cancel.clone();
        let stopper = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            canceller.cancel();
        });
        let result = within(move || {
            unsnap_fastboot::prepare(&request, &Syscalls::default(), &Progress::default(), &cancel)
        });
        let error = result.unwrap_err();
        assert_eq!(error.family(), Family::Cancelled, "{shadow}: {error}");
        stopper.join().unwrap();
        drop(finished);
        ledger.assert_tidy("cancelled");
    }
}

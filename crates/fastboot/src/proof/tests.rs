use std::{fs, num::NonZeroU64};

use super::*;
use crate::prepare;

/// A request for the state of the genuine archives, of slot 47, which exists.
fn state_of_47(ledger: &Path) -> Request {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/agave-tiny");
    for entry in fs::read_dir(data).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), ledger.join(entry.file_name())).unwrap();
    }
    let request = Request { suspects: vec![47], ..Request::new(Places::new(ledger)) };
    let (progress, cancel) = (Progress::default(), CancelToken::default());
    prepare(&request, &Syscalls::default(), &progress, &cancel).unwrap();
    request
}

#[test]
fn reading_is_held_to_the_rate_limit() {
    let scratch = tempfile::tempdir().unwrap();
    let mut request = state_of_47(scratch.path());
    let (pace, cancel) = (Pace::new(), CancelToken::default());
    pace.set_rate(NonZeroU64::new(1));
    request.pass.neighbour.pace = Some(pace.clone());
    let progress = Progress::default();
    let verifying = {
        let (progress, cancel) = (progress.clone(), cancel.clone());
        thread::spawn(move || withdraw_wrong(&request, &Syscalls::default(), &progress, &cancel))
    };
    while progress.snapshot().files_to_handle == 0 {
        assert!(!verifying.is_finished());
        thread::sleep(LOOK_EVERY);
    }
    // The second piece is due in hours; without a limit all storages are read in a moment.
    thread::sleep(LOOK_EVERY * 5);
    assert!(progress.snapshot().files_handled <= 1);
    // The limit may change, and the caller may ask to stop.
    pace.set_rate(None);
    assert!(!verifying.join().unwrap().unwrap());
    assert_eq!(progress.snapshot().files_handled, 48);
    cancel.cancel();
    let mut limited = Limited { pace: Some(&pace), buckets: BTreeMap::new(), cancel: &cancel };
    pace.pause();
    limited.admit(1, 1).unwrap_err();
}

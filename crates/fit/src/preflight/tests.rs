//! Preflight of real archives on made-up file systems.

use tempfile::TempDir;
use unsnap_pass::{DirectMode, Handles, IndexUse};
use unsnap_ring::Syscalls;
use unsnap_source::ArchiveFile;
use unsnap_testkit::{
    compress::{skippable_frame, zstd_frames, zstd_frames_unsized, zstd_one_frame},
    random::Random,
    tar::{account_path, snapshot_head},
};

use unsnap_failure::{Failure, Remedy};

use super::*;
use crate::{Announced, Kept, Reserve, Resource, beside::Decided, question::AMPLE};

/// Unlimited space.
const PLENTY: Free = Free {
    bytes: Some(1 << 50),
    common_bytes: Some(1 << 50),
    min_free: None,
    inodes: None,
    unit_bytes: 4096,
    total_bytes: 1 << 50,
    total_inodes: 0,
};

/// An archive, and all that surrounds its preflight.
struct Site {
    _directory: TempDir,
    file: ArchiveFile,
    systems: Vec<FileSystem>,
    options: Options,
    handles: Handles,
    mode: PreflightMode,
    accounts: usize,
    by_space: bool,
    kept: Vec<Kept>,
}

impl Site {
    /// Unpacks an archive to a single destination.
    fn new(archive: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive");
        std::fs::write(&path, archive).unwrap();
        let file = ArchiveFile::open(&Syscalls::default(), &path, DirectMode::Off).unwrap();
        let mut options = Options::default();
        options.io.index = IndexUse::Ignore;
        // Larger ones count as large.
        options.tuning.survey_whole_bytes = Some(1 << 20);
        Self {
            _directory: directory,
            file,
            systems: vec![FileSystem::made_up(0, &[0])],
            options,
            handles: Handles::default(),
            mode: PreflightMode::default(),
            accounts: 0,
            by_space: false,
            kept: Vec::new(),
        }
    }

    fn question(&self) -> Question<'_> {
        Question {
            archives: vec![(Some(&self.file), None)],
            announced: Vec::new(),
            systems: &self.systems,
            accounts: self.accounts,
            by_space: self.by_space,
            kept: &self.kept,
            mode: self.mode,
            options: &self.options,
            handles: &self.handles,
            may_walk_beside: false,
        }
    }

    fn answer(&self, free: &[Free]) -> Result<PreflightReport, FitError> {
        self.question().answer(free).map(|answer| answer.report)
    }

    /// Returns the report with plenty of space.
    fn report(&self) -> PreflightReport {
        self.answer(&vec![PLENTY; self.systems.len()]).unwrap()
    }

    /// Returns whether headers were walked for any time at all.
    fn has_walked(&self) -> bool {
        self.handles.progress.snapshot().headers_percent.is_some()
    }
}

fn with_bytes(bytes: u64) -> Free {
    Free { bytes: Some(bytes), common_bytes: Some(bytes), ..PLENTY }
}

fn with_inodes(inodes: u64) -> Free {
    Free { inodes: Some(inodes), ..PLENTY }
}

/// Two storages of two pages, and three other files of four pages, in three directories.
fn small() -> Vec<u8> {
    snapshot_head(100, &[1; 900], &[2; 5000])
        .account(&account_path(90, 1), &[3; 4097])
        .account(&account_path(91, 2), &[4; 8192])
        .finish()
}

/// Some 20 MB that do not compress.
fn large() -> Vec<u8> {
    let mut random = Random::new(3);
    let mut content = vec![0; 400_000];
    let mut tar = snapshot_head(100, &[1; 900], &[2; 5000]);
    for slot in 0..50 {
        random.fill(&mut content);
        tar = tar.account(&account_path(slot, 1), &content);
    }
    tar.finish()
}

fn shortage(result: Result<PreflightReport, FitError>) -> Shortage {
    match result {
        Err(FitError::NoSpace(shortage)) => *shortage,
        result => panic!("{result:?}"),
    }
}

#[test]
fn a_small_archive_is_known_exactly_and_refused_by_the_first_missing_byte() {
    let site = Site::new(&zstd_frames_unsized(&small(), 4096, 1));
    let pages = 2 + 2 + 4;
    let report = site.answer(&[with_bytes(pages * 4096)]).unwrap();
    assert_eq!((report.basis, report.sampled_since), ("walked", None));
    assert_eq!((report.tar_bytes, report.tar_bytes_exact), (Some(small().len() as u64), true));
    assert_eq!((report.bytes_needed, report.bytes_exact), (Some(pages * 4096), true));
    assert_eq!((report.inodes_needed, report.inodes_exact), (Some(2 + 3 + 3), true));
    assert_eq!(report.warnings.len(), 1, "nothing is left for the file system's overhead");
    assert!(!site.has_walked());

    let short = shortage(site.answer(&[with_bytes(pages * 4096 - 1)]));
    assert_eq!((short.resource, short.needed), (Resource::Bytes, Some(pages * 4096)));
    assert!(short.exact && !short.unpacking);
    assert!(site.answer(&[with_inodes(8)]).is_ok());
    let short = shortage(site.answer(&[with_inodes(7)]));
    assert_eq!((short.resource, short.needed), (Resource::Inodes, Some(8)));
    // A file system that does not report its space is taken for large enough.
    assert!(site.answer(&[Free { bytes: None, ..PLENTY }]).is_ok());
}

#[test]
fn an_archive_that_leaves_less_than_min_free_is_refused() {
    let site = Site::new(&zstd_frames(&small(), 4096, 1));
    let needed = 8 * 4096;
    let reserve = Reserve { bytes: 1 << 20, ..Reserve::NONE };
    let kept = 1 << 20;
    let report = site.answer(&[with_bytes(kept + needed).keep(&reserve)]).unwrap();
    let system = &report.file_systems[0];
    assert_eq!((system.bytes_available, system.min_free_bytes), (Some(needed), kept));
    let error = site.answer(&[with_bytes(kept + needed - 1).keep(&reserve)]).unwrap_err();
    assert_eq!(error.remedy(), Some(Remedy::LowerMinFree { unpacking: false }));
    let words = "32.0 KiB (32767 bytes) are available (1.0 MiB (1081343 bytes) are free, of which \
                 min-free leaves 1.0 MiB (1048576 bytes) to other programs)";
    assert!(error.to_string().contains(words), "{error}");
    let short = shortage(Err(error));
    assert_eq!((short.available, short.missing()), (needed - 1, 1));
    // Less is free than should be, and nothing is available; what is missing is more than needed.
    let short = shortage(site.answer(&[with_bytes(kept - 7).keep(&reserve)]));
    assert_eq!((short.available, short.missing()), (0, needed + 7));
    // Without it the archive would not fit either.
    let error = site.answer(&[with_bytes(needed - 1).keep(&reserve)]).unwrap_err();
    assert_eq!(error.remedy(), Some(Remedy::MakeRoom { inodes: false, unpacking: false }));
}

#[test]
fn every_file_system_that_is_too_small_is_reported() {
    let mut site = Site::new(&zstd_frames(&small(), 4096, 1));
    site.systems = vec![FileSystem::made_up(7, &[0]), FileSystem::made_up(8, &[1])];
    site.accounts = 1;
    let short = shortage(site.answer(&[with_bytes(0), with_bytes(4096)]));
    assert_eq!((short.device, short.needed), (7, Some(4 * 4096)));
    let [other] = &short.others[..] else { panic!("{short:?}") };
    assert_eq!((other.device, other.needed, other.available), (8, Some(4 * 4096), 4096));
    let short = shortage(site.answer(&[PLENTY, with_bytes(4096)]));
    assert_eq!((short.device, short.others.len()), (8, 0));
}

#[test]
fn storages_are_spread_by_space_and_refused_where_no_accounts_path_has_any() {
    let mut site = Site::new(&zstd_frames(&small(), 4096, 1));
    site.systems = vec![FileSystem::made_up(7, &[0]), FileSystem::made_up(8, &[1, 2])];
    (site.accounts, site.by_space) = (2, true);
    let report = site.answer(&[PLENTY, with_bytes(1 << 20)]).unwrap();
    assert_eq!(report.file_systems[1].bytes_needed, Some(4 * 4096));
    let short = shortage(site.answer(&[PLENTY, with_bytes(0)]));
    assert_eq!((short.device, short.needed, short.others.len()), (8, Some(4 * 4096), 0));
    // The other path takes all.
    site.systems = vec![FileSystem::made_up(7, &[0, 1]), FileSystem::made_up(8, &[2])];
    let report = site.answer(&[PLENTY, with_bytes(0)]).unwrap();
    assert_eq!(report.file_systems[1].bytes_needed, Some(0));
}

#[test]
fn files_that_exist_already_need_no_space() {
    let mut site = Site::new(&zstd_frames(&small(), 4096, 1));
    site.kept = vec![Kept { files: 1, bytes: 8192 }];
    let report = site.report();
    // Less half a page of rounding.
    assert_eq!(report.bytes_needed, Some((8 - 2) * 4096 - 2048));
    assert_eq!(report.inodes_needed, Some(7));
}

#[test]
fn samples_suffice_where_there_is_ample_room() {
    let tar = large();
    for frames in [zstd_frames(&tar, 1 << 20, 1), zstd_frames(&tar, 300_000, 1)] {
        let site = Site::new(&frames);
        let report = site.report();
        assert_eq!((report.basis, report.sampled_since), ("sampled", Some(AMPLE)));
        assert!(!report.tar_bytes_exact && !site.has_walked());
        let (found, made) = (report.tar_bytes.unwrap(), tar.len() as u64);
        assert!(found.abs_diff(made) < made / 10, "{found} of {made}");
        assert!(report.reads > 0 && report.read_bytes > 0);
    }
}

#[test]
fn headers_are_walked_where_samples_leave_a_doubt() {
    let tar = large();
    let mut site = Site::new(&zstd_frames(&tar, 1 << 20, 1));
    let in_doubt = with_bytes(tar.len() as u64 * 5 / 4);
    let sampled_reads = site.report().reads;
    let report = site.answer(&[in_doubt]).unwrap();
    assert_eq!((report.basis, report.sampled_since), ("declared", None));
    assert_eq!((report.tar_bytes, report.tar_bytes_exact), (Some(tar.len() as u64), true));
    assert!(site.has_walked());
    assert!(report.reads > 2 * sampled_reads, "both surveys count");

    // By a margin of 2 percent then, and not of 10.
    let short = shortage(site.answer(&[with_bytes(tar.len() as u64 * 95 / 100)]));
    assert_eq!(short.tar_bytes, Some(tar.len() as u64));
    assert!(!short.exact);

    site.mode = PreflightMode::Within(Some(Duration::ZERO));
    let report = site.answer(&[in_doubt]).unwrap();
    assert_eq!(report.basis, "sampled");
    assert_eq!(report.sampled_since, Some("walking all headers would take too long"));
    assert!(site.answer(&[with_bytes(tar.len() as u64 * 95 / 100)]).is_ok());
    shortage(site.answer(&[with_bytes(tar.len() as u64 * 80 / 100)]));

    // On request, also without a doubt.
    site.mode = PreflightMode::Exact;
    assert_eq!(site.report().basis, "declared");
}

#[test]
fn headers_are_walked_where_samples_show_nothing() {
    let tar = large();
    let (head, rest) = tar.split_at(4096);
    let mut archive = zstd_frames(head, 4096, 1);
    // No window finds a block in this.
    archive.extend(skippable_frame(&vec![0; 80 << 20]));
    archive.extend(zstd_frames(rest, 1 << 20, 1));
    let site = Site::new(&archive);
    let report = site.report();
    assert_eq!((report.basis, report.tar_bytes), ("declared", Some(tar.len() as u64)));
    assert!(report.tar_bytes_exact && site.has_walked());
}

#[test]
fn of_a_pair_the_storages_of_both_are_needed_and_the_other_files_once() {
    let site = Site::new(&zstd_frames(&small(), 4096, 1));
    let again = site.file.again().unwrap();
    let archives = vec![(Some(&site.file), None), (Some(&again), None)];
    let pair = Question { archives, ..site.question() };
    let report = pair.answer(&[PLENTY]).unwrap().report;
    assert_eq!(report.tar_bytes, Some(2 * small().len() as u64));
    assert_eq!(report.bytes_needed, Some((2 * 4 + 4) * 4096));
    assert_eq!(report.inodes_needed, Some(2 * 2 + 3 + 3));
    assert_eq!(report.reads, 2 * site.report().reads);
}

#[test]
fn frames_that_declare_nothing_are_sampled_and_not_walked() {
    let tar = large();
    let mut site = Site::new(&zstd_frames_unsized(&tar, 1 << 20, 1));
    let undeclared = Some("not every frame declares its size");
    for mode in [PreflightMode::default(), PreflightMode::Exact] {
        site.mode = mode;
        for free in [PLENTY, with_bytes(tar.len() as u64 * 5 / 4)] {
            let report = site.answer(&[free]).unwrap();
            assert_eq!((report.basis, report.sampled_since), ("sampled", undeclared));
            assert!(!site.has_walked());
        }
    }
}

#[test]
fn the_declared_size_of_a_single_frame_is_exact_once_a_walk_confirms_it() {
    let tar = large();
    let site = Site::new(&zstd_one_frame(&tar, 1, None, false, true));
    let report = site.report();
    assert_eq!((report.basis, report.tar_bytes), ("declared", Some(tar.len() as u64)));
    assert!(!report.tar_bytes_exact && !site.has_walked());
    let report = site.answer(&[with_bytes(tar.len() as u64 * 5 / 4)]).unwrap();
    assert_eq!((report.basis, report.tar_bytes), ("declared", Some(tar.len() as u64)));
    assert!(report.tar_bytes_exact && site.has_walked());

    // A second frame that no window shows: the walk finds it.
    let mut two = zstd_one_frame(&tar[..tar.len() / 10 * 9], 1, None, false, true);
    two.extend(zstd_one_frame(&tar[tar.len() / 10 * 9..], 1, None, false, true));
    let site = Site::new(&two);
    let report = site.answer(&[with_bytes(tar.len() as u64 * 5 / 4)]).unwrap();
    assert_eq!((report.tar_bytes, report.tar_bytes_exact), (Some(tar.len() as u64), true));
}

#[test]
fn without_a_check_there_is_no_watch_and_of_a_stream_nothing_is_known() {
    let mut site = Site::new(&small());
    let watch_keeping = |answer: &Preflight, site: &Site, min_free| {
        let systems = vec![FileSystem::made_up(0, &[0]).keeping(min_free)];
        answer.watch(systems, 1 << 20, &site.options).is_some()
    };
    let watch = |answer: Preflight, site: &Site| watch_keeping(&answer, site, Reserve::NONE);
    site.mode = PreflightMode::Off;
    let answer = site.question().answer(&[with_bytes(0)]).unwrap();
    assert_eq!(answer.report.skipped.as_deref(), Some("the check is switched off"));
    assert!(watch_keeping(&answer, &site, Reserve::AUTO), "what stays free for others");
    assert!(!watch(answer, &site));

    site.mode = PreflightMode::default();
    let stream = Question { archives: vec![(None, None)], ..site.question() };
    let answer = stream.answer(&[with_bytes(0)]).unwrap();
    let reason = "the size of a stream is not known in advance";
    assert_eq!((answer.report.basis, answer.report.skipped.as_deref()), ("unknown", Some(reason)));
    assert_eq!(answer.report.file_systems[0].bytes_available, Some(0));
    assert!(watch(answer, &site), "it keeps a reserve");
}

#[test]
fn an_archive_on_a_server_is_refused_only_if_not_even_half_of_it_fits() {
    let mut site = Site::new(&zstd_frames(&small(), 4096, 1));
    let far = |bytes, kept_on| Some(Announced { bytes, kept_on });
    let ask = |site: &Site, announced: Vec<Option<Announced>>, free: &[Free]| {
        let archives = vec![(None, None); announced.len()];
        Question { archives, announced, ..site.question() }.answer(free)
    };
    let device = site.systems[0].device;
    let report = ask(&site, vec![far(1000, None)], &[with_bytes(1000)]).unwrap().report;
    assert_eq!(
        (report.basis, report.bytes_needed, report.bytes_exact),
        ("announced", Some(500), false)
    );
    assert!(report.warnings.is_empty(), "{report:?}");
    let report = ask(&site, vec![far(1000, None)], &[with_bytes(500)]).unwrap().report;
    assert!(report.warnings[0].contains("1000 bytes"), "{report:?}");
    let refused = |result: Result<Preflight, FitError>| match result {
        Err(FitError::NoSpace(shortage)) => shortage,
        other => panic!("{other:?}"),
    };
    let short = refused(ask(&site, vec![far(1000, None)], &[with_bytes(499)]));
    let text = short.to_string();
    assert!(
        text.contains("at least 500 bytes") && text.contains("half of the 1000 bytes"),
        "{text}"
    );
    assert_eq!((short.missing(), short.device), (1, device));
    // It is kept there as well, as it is; elsewhere that does not count.
    let both = vec![far(1000, Some(device)), far(200, Some(device + 1))];
    assert!(ask(&site, both.clone(), &[with_bytes(1600)]).is_ok());
    assert_eq!(refused(ask(&site, both, &[with_bytes(1599)])).needed, Some(1600));
    // What an interrupted run has left there need not come.
    site.kept = vec![Kept { files: 1, bytes: 300 }];
    assert!(ask(&site, vec![far(1000, None)], &[with_bytes(200)]).is_ok());
    site.kept = Vec::new();
    // Numbers that nobody has.
    assert!(
        ask(&site, vec![far(u64::MAX, Some(device)); 2], &[with_bytes(u64::MAX >> 9)]).is_err()
    );
    site.mode = PreflightMode::Off;
    assert!(ask(&site, vec![far(1000, None)], &[with_bytes(0)]).is_ok());
}

#[test]
fn content_on_a_server_may_go_to_any_of_several_file_systems() {
    let mut site = Site::new(&zstd_frames(&small(), 4096, 1));
    site.systems = vec![FileSystem::made_up(1, &[0]), FileSystem::made_up(2, &[1])];
    let ask = |bytes, kept_on, free: [u64; 2]| {
        let announced = vec![Some(Announced { bytes, kept_on })];
        let archives = vec![(None, None)];
        Question { archives, announced, ..site.question() }.answer(&free.map(with_bytes)).is_ok()
    };
    assert!(ask(1000, None, [1, 499]));
    assert!(!ask(1000, None, [0, 499]));
    assert!(ask(1000, Some(2), [500, 1000]));
    assert!(!ask(1000, Some(2), [501, 999]));
}

/// Makes room with a sequence of measurements of the free space, of which none may be left over.
/// Returns the result, and the bytes missing at each call of `fits`.
fn make_room(
    site: &Site,
    clears: bool,
    measured: &[u64],
    fits: Result<(), FitError>,
) -> (Result<Preflight, FitError>, Vec<Option<u64>>) {
    let (mut measured, mut calls) = (measured.iter(), Vec::new());
    let free = || Ok(vec![with_bytes(*measured.next().expect("no further measurement"))]);
    let result = Preflight::make_room_in(
        &site.question(),
        clears,
        |room| {
            calls.push(match room {
                Room::Beside => None,
                Room::WhenCleared(shortage) => Some(shortage.needed.unwrap() - shortage.available),
            });
            fits
        },
        free,
    );
    assert_eq!(measured.next(), None);
    (result, calls)
}

#[test]
fn old_files_are_cleared_only_where_they_are_in_the_way() {
    let site = Site::new(&zstd_frames(&small(), 4096, 1));
    let needed = 8 * 4096;
    let (result, calls) = make_room(&site, true, &[needed], Ok(()));
    assert!(result.is_ok());
    assert_eq!(calls, [None]);

    let (result, calls) = make_room(&site, true, &[needed - 1, needed], Ok(()));
    assert_eq!(result.unwrap().report.file_systems[0].bytes_available, Some(needed));
    assert_eq!(calls, [Some(1)]);

    // Where nothing can be cleared, nobody is asked.
    let (result, calls) = make_room(&site, false, &[needed - 1], Ok(()));
    assert!(matches!(result, Err(FitError::NoSpace(_))));
    assert_eq!(calls, []);

    // An error of the caller ends the run.
    let refusal = || {
        let path = "/x".into();
        Err(FitError::FileSystem { step: "clear", path, errno: rustix::io::Errno::BUSY })
    };
    for measured in [needed - 1, needed] {
        let (result, calls) = make_room(&site, true, &[measured], refusal());
        assert!(matches!(result, Err(FitError::FileSystem { .. })), "{result:?}");
        assert_eq!(calls.len(), 1);
    }
}

#[test]
fn a_cancelled_run_does_not_wait_for_space() {
    let site = Site::new(&zstd_frames(&small(), 4096, 1));
    site.handles.cancel.cancel();
    let (result, calls) = make_room(&site, true, &[0, 0], Ok(()));
    assert!(matches!(result, Err(FitError::NoSpace(_))));
    assert_eq!(calls.len(), 1);
}

/// A large archive of many frames that fits by samples, with less than half as much space again.
fn doubtful() -> (Site, u64) {
    let tar = large();
    (Site::new(&zstd_frames(&tar, 1 << 20, 1)), tar.len() as u64)
}

impl Site {
    /// Returns the answer to a run that may begin while headers are walked.
    fn answer_beside(&self, bytes: u64) -> Result<Preflight, FitError> {
        let question = Question { may_walk_beside: true, ..self.question() };
        question.answer(&[with_bytes(bytes)])
    }
}

#[test]
fn headers_are_walked_beside_the_run_only_where_samples_show_that_it_fits() {
    let (mut site, bytes) = doubtful();
    let answer = site.answer_beside(bytes * 5 / 4).unwrap();
    assert_eq!((answer.report.basis, answer.doubt.is_some()), ("sampled", true));
    assert!(!site.has_walked());
    // Without doubt there is nothing to walk.
    let answer = site.answer_beside(bytes * 2).unwrap();
    assert!(answer.doubt.is_none() && !site.has_walked());
    // Where samples leave it open, or deny it, the run waits for the walk.
    let answer = site.answer_beside(bytes * 104 / 100).unwrap();
    assert_eq!((answer.report.basis, answer.doubt.is_some()), ("declared", false));
    assert!(site.has_walked());
    assert!(shortage(site.answer_beside(bytes / 2).map(|answer| answer.report)).needed.is_some());
    // So it does where it must not be refused later, and where the operator asks for the walk.
    assert_eq!(site.answer(&[with_bytes(bytes * 5 / 4)]).unwrap().basis, "declared");
    site.mode = PreflightMode::Exact;
    let answer = site.answer_beside(bytes * 5 / 4).unwrap();
    assert_eq!((answer.report.basis, answer.doubt.is_some()), ("declared", false));
    // Frames that declare nothing cannot remove the doubt.
    let site = Site::new(&zstd_frames_unsized(&large(), 1 << 20, 1));
    assert!(site.answer_beside(bytes * 5 / 4).unwrap().doubt.is_none());
}

#[test]
fn a_walk_beside_the_run_decides_as_one_before_it_would_have() {
    let (site, bytes) = doubtful();
    let decide = |free: u64| {
        let mut answer = site.answer_beside(bytes * 5 / 4).unwrap();
        answer.doubt.as_mut().unwrap().free = vec![with_bytes(free)];
        let (tell, stopped) = std::sync::mpsc::channel();
        let walk = answer.walk_beside(move || tell.send(()).unwrap()).unwrap();
        assert!(answer.doubt.is_none());
        // It ends by itself: the sender is dropped with it.
        let stopped = stopped.iter().count();
        (walk.finish().unwrap(), stopped)
    };
    let (Decided { report, shortage: none }, stopped) = decide(bytes * 5 / 4);
    assert_eq!((report.basis, report.tar_bytes), ("declared", Some(bytes)));
    assert!(none.is_none() && stopped == 0 && !site.has_walked(), "its progress is not the run's");

    let (Decided { shortage: found, .. }, stopped) = decide(bytes / 2);
    let before = site.answer(&[with_bytes(bytes / 2)]).unwrap_err();
    let found = found.unwrap();
    assert_eq!((found.to_string(), stopped), (before.to_string(), 1));
    assert_eq!((found.code(), found.remedy()), (before.code(), before.remedy()));
}

#[test]
fn a_walk_beside_a_run_that_is_over_decides_nothing() {
    let (site, bytes) = doubtful();
    let mut answer = site.answer_beside(bytes * 5 / 4).unwrap();
    answer.doubt.as_mut().unwrap().free = vec![with_bytes(0)];
    site.handles.cancel.cancel();
    let (tell, stopped) = std::sync::mpsc::channel();
    let walk = answer.walk_beside(move || tell.send(()).unwrap()).unwrap();
    assert_eq!(stopped.iter().count(), 0);
    assert!(walk.finish().is_none());
}

#[test]
fn a_run_that_a_walk_has_stopped_ends_with_its_shortage_and_a_complete_one_succeeds() {
    let (site, bytes) = doubtful();
    let other = || FitError::FileSystem {
        step: "determine the free space of",
        path: "/x".into(),
        errno: rustix::io::Errno::IO,
    };
    for (free, run, expected) in [
        (bytes / 2, Err(other()), "no-space"),
        (bytes / 2, Ok(()), "ok"),
        (bytes * 2, Err(other()), "io"),
        (bytes * 2, Ok(()), "ok"),
    ] {
        let mut answer = site.answer_beside(bytes * 5 / 4).unwrap();
        answer.report.elapsed_ms = 7;
        answer.doubt.as_mut().unwrap().free = vec![with_bytes(free)];
        let (tell, stopped) = std::sync::mpsc::channel();
        let walk = answer.walk_beside(move || tell.send(()).unwrap());
        // It has decided when it drops its end.
        stopped.iter().for_each(drop);
        let found = match answer.settle(walk, run) {
            Ok(()) => "ok",
            Err(FitError::NoSpace(_)) => "no-space",
            Err(_) => "io",
        };
        assert_eq!(found, expected, "{free}");
        assert_eq!((answer.report.basis, answer.report.elapsed_ms), ("declared", 7));
    }
    // Without a walk, nothing changes.
    let mut answer = site.answer_beside(bytes * 2).unwrap();
    assert!(answer.settle(None, Err::<(), _>(other())).is_err());
    assert_eq!(answer.report.basis, "sampled");
}

use std::{fs, os::unix::fs::MetadataExt};

use unsnap_arena::{Arena, Pool};
use unsnap_ring::{Call, FaultPlan, Short};

use super::*;

/// The first span is shorter than the others, as for an archive from a server.
const LENGTHS: [usize; 5] = [64 << 10, 1 << 20, 1 << 20, 1 << 20, 12_345];

fn pool() -> Pool {
    let bytes = 16 << 20;
    Arena::builder().bytes(bytes).populate(false).build().unwrap().pool(bytes).unwrap()
}

/// Spans of these lengths, one after the other, and their bytes.
fn spans(lengths: &[usize]) -> (Vec<Span>, Vec<u8>) {
    let pool = pool();
    let (mut spans, mut all) = (Vec::new(), Vec::<u8>::new());
    for length in lengths {
        let mut block = pool.try_allocate(*length).unwrap();
        let offset = all.len() as u64;
        for (place, byte) in block[..*length].iter_mut().zip(0_usize..) {
            *place = u8::try_from((byte * 7 + all.len()) % 251).unwrap();
        }
        all.extend_from_slice(&block[..*length]);
        spans.push(Span { offset, bytes: block.freeze().slice(..*length) });
    }
    (spans, all)
}

fn archive(bytes: &[u8]) -> RemoteId {
    let (length, head) = (bytes.len() as u64, "xxh3:00".to_owned());
    RemoteId { length, etag: None, last_modified: None, head }
}

fn plenty() -> TeeRoom {
    TeeRoom { free: Box::new(|| None), needed: Box::new(|| 0), lost: Box::new(|| ()) }
}

/// Keeps spans as a file. Returns the content of the directory's only file.
fn keep(calls: &Syscalls, direct: DirectMode, room: TeeRoom) -> Result<Vec<u8>, TeeLost> {
    let (spans, all) = spans(&LENGTHS);
    let holder = tempfile::tempdir().unwrap();
    let path = holder.path().join("archive");
    let tee = Tee::open(calls, &Unfinished::default(), &path, None).unwrap();
    let outcome = tee.start(archive(&all), direct, room).and_then(|(running, _)| {
        spans.iter().for_each(running.sink());
        let complete = running.finish()?;
        assert!(!path.exists(), "it has no name before it is published");
        complete.publish()
    });
    let names = fs::read_dir(holder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.collect();
    match outcome {
        Ok(()) => {
            assert_eq!(names, ["archive"]);
            let content = fs::read(&path).unwrap();
            assert!(content == all);
            Ok(content)
        }
        Err(lost) => {
            assert!(names.is_empty(), "{names:?}: {lost:?}");
            assert_eq!(lost.path, path);
            Err(lost)
        }
    }
}

#[test]
fn an_archive_is_kept_byte_for_byte() {
    for direct in [DirectMode::Auto, DirectMode::Off] {
        keep(&Syscalls::default(), direct, plenty()).unwrap();
    }
}

#[test]
fn short_writes_are_continued_and_refused_direct_io_is_done_without() {
    for direct in [DirectMode::Auto, DirectMode::Off] {
        for short in [Short::OneByte, Short::Half] {
            for nth in 0..4 {
                let calls = Syscalls::with_faults(FaultPlan::new(1).cut(nth, short));
                // A direct write of one byte of a sector is none: the disk is full.
                match keep(&calls, direct, plenty()) {
                    Ok(_) => {}
                    Err(lost) => assert!(lost.reason.contains("space"), "{lost:?}"),
                }
            }
        }
    }
    let refused = FaultPlan::new(1).fail_nth(Call::OpenDirect, 0, Errno::INVAL);
    keep(&Syscalls::with_faults(refused), DirectMode::Auto, plenty()).unwrap();
}

#[test]
fn whatever_call_fails_the_file_is_gone_and_the_source_never_waits() {
    for (call, nth) in [
        (Call::Write, 1),
        (Call::Write, 3),
        (Call::Sync, 0),
        (Call::Sync, 1),
        (Call::SetLen, 0),
        (Call::SetLen, 1),
        (Call::RenameToNew, 0),
    ] {
        let plan = FaultPlan::new(1).fail_nth(call, nth, Errno::IO);
        let lost = keep(&Syscalls::with_faults(plan), DirectMode::Off, plenty()).unwrap_err();
        assert!(lost.reason.contains("error"), "{call:?}: {lost:?}");
    }
    // The first write is that of the marks.
    let plan = FaultPlan::new(1).fail_nth(Call::Write, 3, Errno::NOSPC);
    let lost = keep(&Syscalls::with_faults(plan), DirectMode::Off, plenty()).unwrap_err();
    assert_eq!(lost.bytes, (LENGTHS[0] + LENGTHS[1]) as u64);
}

#[test]
fn without_room_nothing_is_written() {
    let room =
        TeeRoom { free: Box::new(|| Some(1000)), needed: Box::new(|| 0), lost: Box::new(|| ()) };
    let lost = keep(&Syscalls::default(), DirectMode::Auto, room).unwrap_err();
    assert_eq!(lost.bytes, 0);
    assert!(lost.reason.contains("free bytes"), "{lost:?}");
}

#[test]
fn an_archive_that_does_not_come_whole_is_not_kept() {
    let (spans, all) = spans(&LENGTHS);
    let holder = tempfile::tempdir().unwrap();
    let path = holder.path().join("archive");
    let start = || {
        let tee = Tee::open(&Syscalls::default(), &Unfinished::default(), &path, None).unwrap();
        tee.start(archive(&all), DirectMode::Auto, plenty()).unwrap().0
    };
    let running = start();
    spans[..3].iter().for_each(running.sink());
    let Err(lost) = running.finish() else { panic!("it is not complete") };
    assert!(lost.reason.contains("bytes came"), "{lost:?}");
    // A gap, or a byte too many.
    let running = start();
    spans[1..].iter().for_each(running.sink());
    assert!(running.finish().is_err());
    // A run that fails while its source still holds on to the tee.
    let running = start();
    let mut sink = running.sink();
    sink(&spans[0]);
    drop(running);
    sink(&spans[1]);
    assert!(fs::read_dir(holder.path()).unwrap().next().is_none());
}

#[test]
fn only_one_process_keeps_an_archive_and_never_over_another_file() {
    let holder = tempfile::tempdir().unwrap();
    let path = holder.path().join("archive");
    let open = || Tee::open(&Syscalls::default(), &Unfinished::default(), &path, None);
    let first = open().unwrap();
    assert!(matches!(open().map(drop), Err(DraftError::Locked { .. })));
    let (spans, all) = spans(&LENGTHS);
    let (running, _) = first.start(archive(&all), DirectMode::Auto, plenty()).unwrap();
    spans.iter().for_each(running.sink());
    let complete = running.finish().unwrap();
    fs::write(&path, "mine").unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    assert!(complete.publish().unwrap_err().reason.contains("exists"));
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    assert!(matches!(open().map(drop), Err(DraftError::Exists { .. })));
    assert_eq!(fs::read_dir(holder.path()).unwrap().count(), 1);
}

#[test]
fn a_later_run_goes_on_with_what_an_interrupted_one_has_left() {
    let (spans, all) = spans(&LENGTHS);
    let holder = tempfile::tempdir().unwrap();
    let path = holder.path().join("archive");
    let names = || fs::read_dir(holder.path()).unwrap().count();
    let open =
        |resumes| Tee::open(&Syscalls::default(), &Unfinished::default(), &path, resumes).unwrap();
    let start = |tee: Tee, id: RemoteId| tee.start(id, DirectMode::Auto, plenty()).unwrap();
    let (running, left) = start(open(Some(DirectMode::Auto)), archive(&all));
    assert!(left.is_none());
    spans[..3].iter().for_each(running.sink());
    running.keep();
    assert_eq!(names(), 2, "the part and its marks");
    // A run that ends before it begins takes nothing away.
    drop(open(Some(DirectMode::Auto)));
    assert_eq!(names(), 2);

    let (running, left) = start(open(Some(DirectMode::Auto)), archive(&all));
    let (file, bytes) = left.unwrap();
    assert_eq!(bytes, (LENGTHS[0] + LENGTHS[1] + LENGTHS[2]) as u64);
    let length = usize::try_from(bytes).unwrap();
    assert!(file.read_head(length).unwrap() == all[..length]);
    // Some of it passes by again.
    spans[2..].iter().for_each(running.sink());
    let complete = running.finish().unwrap();
    assert_eq!(complete.reused(), bytes);
    complete.publish().unwrap();
    assert!(fs::read(&path).unwrap() == all);
    assert_eq!(names(), 1);
    fs::remove_file(&path).unwrap();

    // Another archive, or a run that does not resume, begins anew.
    for (resumes, id) in [
        (Some(DirectMode::Auto), RemoteId { head: "xxh3:01".to_owned(), ..archive(&all) }),
        (None, archive(&all)),
    ] {
        let (running, _) = start(open(None), archive(&all));
        spans[..3].iter().for_each(running.sink());
        running.keep();
        let (running, left) = start(open(resumes), id);
        assert!(left.is_none());
        spans.iter().for_each(running.sink());
        running.finish().unwrap().publish().unwrap();
        assert!(fs::read(&path).unwrap() == all);
        assert_eq!(names(), 1);
        fs::remove_file(&path).unwrap();
    }
}

use std::{fs::File, sync::Arc};

use rustix::fs::{Mode, OFlags};
use unsnap_arena::Arena;
use unsnap_testkit::skip::skip_unsupported;

use super::*;
use crate::{FinishFile, Operation};

fn engine(capacity: usize) -> Option<Uring> {
    let config = EngineConfig {
        kind: EngineKind::Uring,
        capacity,
        workers: 1,
        register: None,
        attach: None,
        priority: None,
        device: 0,
    };
    Uring::open(&config).inspect_err(|error| skip_unsupported(error)).ok()
}

/// Leaving direct mode is a system call. Its failure must be reported like any other.
#[test]
fn an_operation_that_fails_during_submission_completes_once() {
    let Some(mut engine) = engine(2) else { return };
    let mut arena = Arena::builder().bytes(64 << 10).populate(false).build().unwrap();
    let pool = arena.pool(64 << 10).unwrap();
    for round in 0..5 {
        // The flags of such a descriptor cannot be set.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let no_file = rustix::fs::open("/proc/self/exe", flags, Mode::empty()).unwrap();
        let tail = pool.try_allocate(4096).unwrap().freeze();
        let finish = FinishFile::new(Arc::new(no_file), Some((0, tail)), false);
        engine.submit(round, Operation::Finish(finish));
        assert_eq!(engine.in_flight(), 1);
        let mut done = Vec::new();
        engine.wait(&mut done).unwrap();
        assert_eq!((done.len(), engine.in_flight()), (1, 0));
        assert_eq!(done[0].token, round);
        assert_eq!(done[0].result.as_ref().unwrap_err().step, "fcntl");
    }
}

/// Submits an entry and returns the kernel's result.
fn answer(engine: &mut Uring, entry: &squeue::Entry) -> Result<i32, Errno> {
    engine.push(&entry.clone().user_data(7));
    engine.enter(1).unwrap();
    let completion = engine.ring.completion().next().unwrap();
    assert_eq!(completion.user_data(), 7);
    let refused = |_| Errno::from_raw_os_error(-completion.result());
    u32::try_from(completion.result()).map(|_| completion.result()).map_err(refused)
}

#[test]
fn a_restricted_ring_allows_only_the_engines_operations() {
    let Some(mut engine) = engine(2) else { return };
    if !engine.restricted {
        return skip_unsupported("this kernel cannot restrict rings");
    }
    engine.start().unwrap();
    let here = types::Fd(libc::AT_FDCWD);
    let path = c"/proc/self/exe".as_ptr();
    let mut statx = [0_u8; 256];
    let others = [
        ("nop", opcode::Nop::new().build()),
        ("openat", opcode::OpenAt::new(here, path).flags(libc::O_RDONLY).build()),
        ("socket", opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build()),
        ("unlinkat", opcode::UnlinkAt::new(here, c"/absent/absent".as_ptr()).build()),
        ("renameat", opcode::RenameAt::new(here, path, here, path).build()),
        ("statx", opcode::Statx::new(here, path, statx.as_mut_ptr().cast()).build()),
    ];
    for (name, entry) in others {
        assert_eq!(answer(&mut engine, &entry), Err(Errno::ACCESS), "{name}");
    }
    let file = File::open("/proc/self/exe").unwrap();
    let mut buffer = [0; 4];
    let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer.as_mut_ptr(), 4).build();
    let linked = read.clone().flags(squeue::Flags::IO_DRAIN);
    assert_eq!(answer(&mut engine, &linked), Err(Errno::ACCESS), "a flag");
    assert_eq!(answer(&mut engine, &read), Ok(4));
    assert_eq!(&buffer, b"\x7fELF");

    let registered = engine.ring.submitter().register_files(&[file.as_raw_fd()]);
    let refused = registered.map_err(|error| Errno::from_io_error(&error));
    assert_eq!(refused, Err(Some(Errno::ACCESS)), "registering");
    if engine.ring.params().is_feature_skip_cqe_on_success() {
        // The owner may change the number of kernel workers. The call returns the earlier numbers.
        engine.limit_workers(7);
        let mut workers = [0, 0];
        engine.ring.submitter().register_iowq_max_workers(&mut workers).unwrap();
        assert_eq!(workers, [7, 7]);
    }
}

#[test]
fn a_ring_can_be_dropped_by_another_thread() {
    let Some(mut engine) = engine(2) else { return };
    let waker = engine.waker();
    waker.wake();
    engine.wait(&mut Vec::new()).unwrap();
    std::thread::spawn(move || drop(engine)).join().unwrap();
}

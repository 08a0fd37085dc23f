//! Tests that run on every engine.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use unsnap_arena::{Arena, Pool, Slice};
use unsnap_ring::{
    CallCosts, Completion, CreateFile, DeviceModel, DirectIo, Engine, EngineConfig, EngineKind,
    FaultPlan, FinishFile, IoPriority, Machine, NewFile, OpError, Operation, Outcome, ReadAt,
    RelativePath, WriteAt, WriteFile, probe_uring,
};
use unsnap_testkit::skip::skip_unsupported;

const DIRECT: DirectIo = DirectIo { offset_align: 4096, memory_align: 512 };

struct Bench {
    scratch: tempfile::TempDir,
    arena: Arena,
    pool: Pool,
}

/// Timeout that no test may reach.
const LONG: Duration = Duration::from_mins(10);

impl Bench {
    fn new() -> Self {
        let mut arena = Arena::builder().bytes(16 << 20).populate(false).build().unwrap();
        let pool = arena.pool(16 << 20).unwrap();
        // Below the target directory rather than in /tmp, which may be a tmpfs without direct I/O.
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { scratch, arena, pool }
    }

    fn engine(&self, kind: EngineKind, capacity: usize) -> Box<dyn Engine> {
        let register = Some(self.arena.ranges());
        // The priority must not change any result.
        let priority = Some(IoPriority::IDLE);
        let (attach, device) = (None, 0);
        let config =
            EngineConfig { kind, capacity, workers: 3, register, attach, priority, device };
        config.open().unwrap()
    }

    fn directory(&self) -> Arc<OwnedFd> {
        Arc::new(File::open(self.scratch.path()).unwrap().into())
    }

    fn new_file(&self, name: &str, direct: Option<DirectIo>) -> NewFile {
        NewFile {
            directory: self.directory(),
            path: RelativePath::new(name).unwrap(),
            mode: 0o644,
            force_mode: false,
            direct,
            keep_open: false,
        }
    }

    /// Returns `len` recognisable bytes, readable up to the next multiple of 4096.
    fn data(&self, len: usize, seed: u8) -> Slice {
        let mut block = self.pool.try_allocate(len.next_multiple_of(4096)).unwrap();
        for (index, byte) in block.iter_mut().enumerate() {
            *byte = pattern(index, seed);
        }
        block.freeze()
    }
}

fn pattern(index: usize, seed: u8) -> u8 {
    (index % 251) as u8 ^ (index / 4096) as u8 ^ seed
}

fn kinds() -> Vec<EngineKind> {
    let mut kinds = vec![EngineKind::Threads];
    match probe_uring() {
        Ok(()) => kinds.push(EngineKind::Uring),
        Err(refused) => skip_unsupported(format_args!("io_uring: {refused}")),
    }
    for seed in 0..8 {
        kinds.push(EngineKind::Faulty(FaultPlan::new(seed).short(400).interrupt(200)));
    }
    kinds
}

fn drain(engine: &mut dyn Engine) -> BTreeMap<u64, Completion> {
    let mut done = Vec::new();
    while engine.in_flight() > 0 {
        engine.wait(&mut done).unwrap();
    }
    let count = done.len();
    let by_token: BTreeMap<_, _> = done.into_iter().map(|done| (done.token, done)).collect();
    assert_eq!(by_token.len(), count, "every token completes once");
    by_token
}

#[test]
fn a_timed_wait_ends_at_its_limit_and_not_before() {
    let bench = Bench::new();
    for kind in kinds() {
        let mut engine = bench.engine(kind.clone(), 2);
        let mut done = Vec::new();
        for limit in [Duration::ZERO, Duration::from_millis(20)] {
            let since = Instant::now();
            engine.wait_at_most(Some(limit), &mut done).unwrap();
            assert!(since.elapsed() >= limit && done.is_empty(), "{kind:?}");
        }
        // A completion or a wake-up ends the wait early.
        let since = Instant::now();
        let name = format!("file-{}", since.elapsed().as_nanos());
        let create = CreateFile::new(bench.new_file(&name, None));
        engine.submit(7, Operation::Create(create));
        while done.is_empty() {
            engine.wait_at_most(Some(LONG), &mut done).unwrap();
        }
        assert!(done[0].token == 7 && engine.in_flight() == 0, "{kind:?} {done:?}");
        engine.waker().wake();
        engine.wait_at_most(Some(LONG), &mut done).unwrap();
        assert!(since.elapsed() < LONG, "{kind:?}");
        fs::remove_file(bench.scratch.path().join(name)).unwrap();
    }
}

#[test]
fn whole_files_get_their_exact_bytes() {
    for kind in kinds() {
        let bench = Bench::new();
        let mut engine = bench.engine(kind.clone(), 8);
        let sizes = [0, 1, 511, 512, 4095, 4096, 4097, 100_000, 1 << 20];
        let mut expected = Vec::new();
        for (token, &size) in sizes.iter().cycle().take(40).enumerate() {
            while engine.in_flight() == engine.capacity() {
                let mut done = Vec::new();
                engine.wait(&mut done).unwrap();
                assert!(done.iter().all(|done| done.result.is_ok()), "{kind:?} {done:?}");
            }
            let seed = token as u8;
            let data = bench.data(size, seed);
            let name = format!("file-{token}");
            let direct = (token % 2 != 0).then_some(DIRECT);
            let operation = WriteFile::new(bench.new_file(&name, direct), data.slice(..size));
            engine.submit(token as u64, Operation::WriteFile(operation));
            expected.push((name, size, seed));
        }
        assert!(drain(&mut *engine).values().all(|done| done.result.is_ok()));
        for (name, size, seed) in expected {
            let bytes = fs::read(bench.scratch.path().join(&name)).unwrap();
            assert_eq!(bytes.len(), size, "{kind:?} {name}");
            assert!((0..size).all(|at| bytes[at] == pattern(at, seed)), "{kind:?} {name}");
        }
    }
}

#[test]
fn a_file_of_many_writes_accepts_them_in_any_order() {
    for kind in kinds() {
        let bench = Bench::new();
        let mut engine = bench.engine(kind.clone(), 16);
        let size = 1_234_567;
        let data = bench.data(size, 3);
        for direct in [None, Some(DIRECT)] {
            let name = format!("big-{}", direct.is_some());
            let whole = if direct.is_some() { size - size % 4096 } else { size };
            let create = CreateFile::new(bench.new_file(&name, direct));
            engine.submit(0, Operation::Create(create));
            let mut created = drain(&mut *engine);
            let Ok(Outcome::Created(file)) = created.remove(&0).unwrap().result else {
                panic!("{kind:?} did not create {name}")
            };
            for (token, start) in (0..whole).step_by(128 << 10).enumerate().rev() {
                let end = (start + (128 << 10)).min(whole);
                let part = data.slice(start..end);
                let write = WriteAt::new(Arc::clone(&file), start as u64, part, direct);
                engine.submit(token as u64, Operation::Write(write));
            }
            assert!(drain(&mut *engine).values().all(|done| done.result.is_ok()), "{kind:?}");
            let tail = (whole < size).then(|| (whole as u64, data.slice(whole..size)));
            engine.submit(99, Operation::Finish(FinishFile::new(file, tail, false)));
            let result = drain(&mut *engine).remove(&99).unwrap().result;
            assert!(matches!(result, Ok(Outcome::Finished)), "{result:?}");
            let bytes = fs::read(bench.scratch.path().join(&name)).unwrap();
            assert_eq!(bytes, data[..size], "{kind:?} {name}");
        }
    }
}

#[test]
fn a_file_can_be_kept_open_and_read() {
    for kind in kinds() {
        let bench = Bench::new();
        let mut engine = bench.engine(kind.clone(), 4);
        let keep = |name: &str, direct| NewFile { keep_open: true, ..bench.new_file(name, direct) };
        let data = bench.data(5000, 7);
        let whole = WriteFile::new(keep("whole", Some(DIRECT)), data.slice(..5000));
        engine.submit(0, Operation::WriteFile(whole));
        engine.submit(2, Operation::Create(CreateFile::new(keep("parts", None))));
        let mut done = drain(&mut *engine);
        let Ok(Outcome::Created(file)) = done.remove(&2).unwrap().result else {
            panic!("{kind:?}")
        };
        let write = WriteAt::new(Arc::clone(&file), 0, data.slice(..5000), None);
        engine.submit(3, Operation::Write(write));
        done.extend(drain(&mut *engine));
        engine.submit(4, Operation::Finish(FinishFile::new(file, None, true)));
        done.extend(drain(&mut *engine));
        for token in [0, 4] {
            let result = done.remove(&token).unwrap().result;
            let Ok(Outcome::Kept(file)) = result else { panic!("{kind:?} {result:?}") };
            // The descriptor has left direct mode for the last 904 bytes.
            let flags = rustix::fs::fcntl_getfl(&file).unwrap();
            assert!(!flags.contains(rustix::fs::OFlags::DIRECT), "{kind:?}");
            let mut bytes = vec![0; 6000];
            let count = rustix::io::pread(&file, &mut bytes, 0).unwrap();
            assert_eq!(bytes[..count], data[..5000], "{kind:?}");
        }
    }
}

#[test]
fn reads_stop_at_the_end_of_the_file() {
    for kind in kinds() {
        let bench = Bench::new();
        let path = bench.scratch.path().join("input");
        for size in [0, 1, 4095, 4096, 4097, 300_001] {
            let data = bench.data(size, 9);
            fs::write(&path, &data[..size]).unwrap();
            for direct in [None, Some(DIRECT)] {
                let flags = if direct.is_some() {
                    rustix::fs::OFlags::DIRECT
                } else {
                    rustix::fs::OFlags::empty()
                };
                let file = rustix::fs::open(
                    &path,
                    flags | rustix::fs::OFlags::RDONLY,
                    rustix::fs::Mode::empty(),
                );
                let file = Arc::new(file.unwrap());
                let mut engine = bench.engine(kind.clone(), 4);
                for (token, offset) in (0..size + 65_536).step_by(65_536).enumerate() {
                    if engine.in_flight() == 4 {
                        break;
                    }
                    let block = bench.pool.try_allocate(65_536).unwrap();
                    let read = ReadAt::new(Arc::clone(&file), offset as u64, block, 65_536, direct);
                    engine.submit(token as u64, Operation::Read(read));
                }
                for (token, done) in drain(&mut *engine) {
                    let Ok(Outcome::Read { block, filled }) = done.result else {
                        panic!("{kind:?} {size}: {:?}", done.result)
                    };
                    let start = (token as usize * 65_536).min(size);
                    let expected = &data[start..(start + 65_536).min(size)];
                    assert_eq!(block[..filled], *expected, "{kind:?} {size} {direct:?} at {start}");
                }
            }
        }
    }
}

#[test]
fn nothing_is_created_outside_the_directory_or_over_a_file() {
    for kind in kinds() {
        let bench = Bench::new();
        let inside = bench.scratch.path();
        fs::create_dir(inside.join("real")).unwrap();
        std::os::unix::fs::symlink("real", inside.join("link")).unwrap();
        fs::write(inside.join("taken"), "old").unwrap();
        let mut engine = bench.engine(kind.clone(), 8);
        let cases = [
            ("../escape", Errno::XDEV),
            ("link/file", Errno::LOOP),
            ("taken", Errno::EXIST),
            ("missing/file", Errno::NOENT),
        ];
        for (token, (name, _)) in cases.iter().enumerate() {
            let new = bench.new_file(name, None);
            let write = WriteFile::new(new, bench.data(10, 0));
            engine.submit(token as u64, Operation::WriteFile(write));
        }
        let done = drain(&mut *engine);
        for (token, (name, errno)) in cases.iter().enumerate() {
            let error = done[&(token as u64)].result.as_ref().unwrap_err();
            assert_eq!((error.step, error.errno), ("open", *errno), "{kind:?} {name}");
        }
        assert_eq!(fs::read(inside.join("taken")).unwrap(), b"old");
        assert!(fs::read_dir(inside.join("real")).unwrap().next().is_none());
    }
    assert!(RelativePath::new("/absolute").is_err());
    assert!(RelativePath::new("nul\0inside").is_err());
    assert!(RelativePath::new("").is_err());
}

#[test]
fn a_waker_ends_an_idle_wait() {
    for kind in kinds() {
        let bench = Bench::new();
        let mut engine = bench.engine(kind, 2);
        for _ in 0..3 {
            let waker = engine.waker();
            let alarm = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                waker.wake();
            });
            let mut done = Vec::new();
            engine.wait(&mut done).unwrap();
            assert!(done.is_empty());
            alarm.join().unwrap();
        }
    }
}

#[test]
fn dropping_an_engine_waits_for_its_operations() {
    for kind in kinds() {
        let bench = Bench::new();
        let mut engine = bench.engine(kind, 8);
        for token in 0..8 {
            let new = bench.new_file(&format!("file-{token}"), Some(DIRECT));
            let write = WriteFile::new(new, bench.data((1 << 20) + 5, 1));
            engine.submit(token, Operation::WriteFile(write));
        }
        let mut done = Vec::new();
        engine.poll(&mut done).unwrap();
        drop(done);
        drop(engine);
        // Every buffer has been returned: nothing refers to the pool any more.
        assert!(bench.pool.try_allocate(bench.pool.bytes()).is_some());
    }
}

#[test]
fn the_chosen_step_fails_and_nothing_else() {
    let bench = Bench::new();
    let mut failed = Vec::new();
    for step in 0.. {
        let plan = FaultPlan::new(step).fail(step, Errno::NOSPC);
        let mut engine = bench.engine(EngineKind::Faulty(plan), 4);
        let new = bench.new_file(&format!("file-{step}"), Some(DIRECT));
        let write = WriteFile::new(new, bench.data(8192, 1).slice(..5000));
        engine.submit(1, Operation::WriteFile(write));
        match &drain(&mut *engine)[&1].result {
            Ok(_) => break,
            Err(error) => failed.push((error.step, error.errno)),
        }
    }
    let steps: Vec<_> = failed.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, ["open", "write", "fcntl", "write", "close"]);
    assert!(failed.iter().all(|(_, errno)| *errno == Errno::NOSPC));
}

/// On a modelled machine completions arrive when the device has served them, by its own clock.
#[test]
fn a_modelled_device_serves_a_worker_each_and_has_its_own_time() {
    let bench = Bench::new();
    let model =
        DeviceModel { bytes_per_second: 1e9, latency: Duration::from_mins(1), parallelism: 100 };
    let machine = Machine::in_virtual_time(1, CallCosts::default()).with_device(0, model);
    let plan = FaultPlan::new(1).on(machine.clone());
    let mut engine = bench.engine(EngineKind::Faulty(plan), 9);
    let (began, real) = (engine.now(), Instant::now());
    for token in 0..9 {
        let new = bench.new_file(&format!("{token}"), Some(DIRECT));
        engine.submit(token, Operation::WriteFile(WriteFile::new(new, bench.data(8192, 1))));
    }
    let mut done = Vec::new();
    engine.wait_at_most(Some(Duration::from_secs(59)), &mut done).unwrap();
    assert!(done.is_empty());
    assert_eq!(engine.now() - began, Duration::from_secs(59));
    while engine.in_flight() > 0 {
        engine.wait(&mut done).unwrap();
    }
    assert!(done.iter().all(|done| matches!(done.result, Ok(Outcome::Finished))));
    // Three workers, so three files at once, for a minute each.
    let minutes = (engine.now() - began).as_secs_f64() / 60.0;
    assert!((3.0..3.001).contains(&minutes), "{minutes}");
    assert!(real.elapsed() < Duration::from_secs(50), "virtual time was waited for");
    assert!(fs::read_dir(bench.scratch.path()).unwrap().next().is_none(), "a file was created");
}

/// A wake-up ends a wait on the modelled machine, and faults are injected there as elsewhere.
#[test]
fn an_operation_on_a_modelled_device_can_fail_and_its_owner_be_woken() {
    let bench = Bench::new();
    let machine = Machine::in_virtual_time(1, CallCosts::default());
    let plan = FaultPlan::new(1).on(machine).fail(1, Errno::IO);
    let mut engine = bench.engine(EngineKind::Faulty(plan), 2);
    let new = bench.new_file("a", Some(DIRECT));
    engine.submit(0, Operation::WriteFile(WriteFile::new(new, bench.data(4096, 1))));
    let mut done = Vec::new();
    engine.waker().wake();
    engine.wait(&mut done).unwrap();
    assert!(done.is_empty());
    engine.wait(&mut done).unwrap();
    assert_eq!(done[0].result.as_ref().unwrap_err(), &OpError { step: "write", errno: Errno::IO });
}

/// The number of workers follows its limit, up and down, on every engine, and no operation is lost.
#[test]
fn the_number_of_workers_can_change_at_any_time() {
    let bench = Bench::new();
    for (index, kind) in kinds().into_iter().enumerate() {
        let mut engine = bench.engine(kind, 16);
        let mut done = Vec::new();
        for (round, workers) in [1, 16, 2, 0, 100, 5].into_iter().enumerate() {
            engine.limit_workers(workers);
            for token in 0..16 {
                let new = bench.new_file(&format!("{index}-{round}-{token}"), None);
                let write = WriteFile::new(new, bench.data(5000, 3));
                engine.submit(token, Operation::WriteFile(write));
            }
            while engine.in_flight() > 0 {
                engine.wait(&mut done).unwrap();
            }
            assert!(done.drain(..).all(|done| matches!(done.result, Ok(Outcome::Finished))));
        }
        if matches!(engine.kind(), EngineKind::Threads) {
            assert_eq!(engine.workers().len(), 16, "as many as operations");
        }
    }
}

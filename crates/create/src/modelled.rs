//! Tests of creators on modelled devices, in virtual time: nothing here depends on the machine.

#![allow(clippy::disallowed_methods, reason = "a directory that nothing is created in")]

use std::{
    fs::File,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use crossbeam::channel::bounded;
use unsnap_arena::{Arena, Slice};
use unsnap_ring::{
    Bucket, CallCosts, DeviceModel, DirectIo, EngineConfig, EngineKind, FaultPlan, Machine,
    NewFile, Pace, RelativePath,
};

use crate::{
    CreateProgress, CreatorTimes, FileKind,
    creator::{Creator, Parts},
    limiter::Bounds,
    request::{Command, FileId, Request},
    shared::Shared,
};

const FILE_BYTES: usize = 1 << 20;

const ADAPTED: Bounds = Bounds { min: 4, start: 8, max: 31 };

fn data() -> Slice {
    let mut arena = Arena::builder().bytes(FILE_BYTES).populate(false).build().unwrap();
    arena.pool(FILE_BYTES).unwrap().try_allocate(FILE_BYTES).unwrap().freeze()
}

/// Lets a creator create files on a device, all of which wait for it from the beginning. Returns the
/// GB per second, and what it chose.
fn create(model: DeviceModel, workers: Bounds, files: u64) -> (f64, CreatorTimes) {
    // As measured on the development machine: opens under a lock, direct writes.
    let create = Duration::from_micros(25);
    let costs = CallCosts { create, direct_byte: 1e-10, cached_byte: 3e-10 };
    let machine = Machine::in_virtual_time(64, costs).with_device(0, model);
    let engine = EngineConfig {
        kind: EngineKind::Faulty(FaultPlan::new(1).on(machine.clone())),
        capacity: 2 * workers.max,
        workers: workers.start,
        register: None,
        attach: None,
        priority: None,
        device: 0,
    };
    let (requests, inbox) = bounded(usize::try_from(files).unwrap());
    let (directory, data) = (Arc::new(File::open("/").unwrap().into()), data());
    for number in 0..files {
        let new = NewFile {
            directory: Arc::clone(&directory),
            path: RelativePath::new("file").unwrap(),
            mode: 0o644,
            force_mode: false,
            direct: Some(DirectIo { offset_align: 4096, memory_align: 512 }),
            keep_open: false,
        };
        let command = Command::Whole { new, data: data.clone() };
        let file = FileId { stream: 0, number };
        requests.send(vec![Request { destination: 0, file, command }]).unwrap();
    }
    drop(requests);
    let progress = Arc::new(CreateProgress::default());
    let shared = Arc::new(Shared::new(Box::new(["/".into()]), 1, progress));
    let creator = Creator::new(Parts {
        engine: engine.open().unwrap(),
        inbox,
        sleeping: Arc::new(AtomicBool::new(false)),
        shared: Arc::clone(&shared),
        sink: None,
        bucket: Arc::new(Bucket::new(Pace::new())),
        open_files_max: 100,
        workers,
        in_flight_per_worker: 2,
        device: 0,
        files: FileKind::Large,
    });
    let times = creator.run();
    assert!(shared.take_error().is_none());
    #[allow(clippy::cast_precision_loss)]
    let bytes = (files * FILE_BYTES as u64) as f64;
    (bytes / 1e9 / machine.now().as_secs_f64(), times)
}

fn fixed(workers: usize) -> Bounds {
    Bounds { min: workers, start: workers, max: workers }
}

fn device(gb_s: f64, latency_us: u64, parallelism: usize) -> DeviceModel {
    let latency = Duration::from_micros(latency_us);
    DeviceModel { bytes_per_second: gb_s * 1e9, latency, parallelism }
}

#[test]
fn each_device_gets_the_workers_that_it_needs() {
    for (name, model, files, expected) in [
        ("a disk without parallelism", device(0.4, 500, 1), 6000, 4..=5),
        ("a cloud disk", device(2.0, 4000, 64), 30_000, 8..=14),
        ("a faster one", device(4.0, 6000, 256), 60_000, 21..=31),
        ("an NVMe disk", device(3.0, 80, 32), 30_000, 4..=5),
        ("a stripe of NVMe disks", device(24.0, 600, 256), 200_000, 14..=31),
    ] {
        let best = [4, 8, 16, 31].map(|workers| create(model, fixed(workers), 3000).0);
        let best = best.into_iter().fold(0.0, f64::max);
        let (rate, times) = create(model, ADAPTED, files);
        let workers = times.chosen_workers;
        assert!(rate > 0.9 * best, "{name}: {rate} of {best} GB/s with {workers}");
        assert!(expected.contains(&workers), "{name}: {workers}");
        assert_eq!(times.chosen_in_flight, 2 * workers);
        assert_eq!(times.choices > 0, workers != ADAPTED.start, "{name}");
    }
}

/// What an operator or a test has fixed is not adapted.
#[test]
fn a_fixed_number_of_workers_stays() {
    let (_, times) = create(device(24.0, 600, 256), fixed(3), 10_000);
    assert_eq!((times.chosen_workers, times.chosen_in_flight, times.choices), (3, 6, 0));
}

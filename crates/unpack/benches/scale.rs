//! The queues of the pipeline on machines that are not at hand: 2 to 64 workers, 1 to 8 devices.
//!
//! Memory pools, segments, the queue of promises, assemblers and creators are the real ones.
//! Processors and devices are a [`Machine`], a model in scaled time: threads wait instead of
//! decoding, and files are not written. The costs of the stages are measured ones (BENCHMARKS.md).
//!
//! ```sh
//! cargo bench -p unsnap-unpack --bench scale                            # the table
//! cargo bench -p unsnap-unpack --bench scale -- workers=2 gb_s=1.5      # one machine
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a program for developers
#![allow(clippy::disallowed_methods, reason = "not the data path")]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::{collections::VecDeque, fs::File, path::Path, sync::Arc, thread, time::Duration};

use crossbeam::channel::{Receiver, bounded};
use unsnap_arena::{Arena, OpenSegment, Pool, Segment, SegmentView};
use unsnap_create::{Assembler, CreateProgress, CreatorPool, Destination, NewMember, PoolConfig};
use unsnap_decode::{Limits, MemoryPlan, Tuning};
use unsnap_ring::{
    CallCosts, DeviceModel, DirectMode, EngineKind, FaultPlan, Machine, Pace, Syscalls,
};
use unsnap_testkit::{
    archive::write_archive,
    plan::{Storage, storages},
    spec::{ArchiveSpec, Frames},
};

/// Bytes of a read of the archive, and reads in flight.
const READ_BYTES: u64 = 1 << 20;
const READS: usize = 16;

/// Number of the archive's device, if it has one of its own.
const ARCHIVE_DEVICE: u64 = 1000;

const TAR_BLOCK: usize = 512;

/// One machine and one archive.
#[derive(Clone, Debug)]
struct Scenario {
    /// Decoding threads.
    workers: usize,
    processors: usize,
    /// Devices, with an accounts path each.
    devices: u64,
    /// GB per second of each device, reads and writes together.
    gb_s: f64,
    /// Latency of a transfer in microseconds.
    latency_us: f64,
    /// Transfers that a device serves at once.
    parallelism: f64,
    /// Whether the archive has 32 MiB frames, or one.
    frames: bool,
    /// Whether the archive lies on a device of its own.
    own_device: bool,
    /// Whether the archive is in the page cache.
    cached: bool,
    /// Decoded GB.
    gb: f64,
    /// Compressed bytes for each decoded one.
    ratio: f64,
    /// Processor time in seconds for each decoded GB: decoding, the walk, direct writes with the
    /// reads, copies into the page cache.
    decode: f64,
    walk: f64,
    direct: f64,
    copy: f64,
    /// Processor time of the creation of a file in microseconds.
    create_us: f64,
    /// Seconds outside for each second of the model.
    factor: f64,
}

impl Scenario {
    /// The development machine (BENCHMARKS.md, "A model of machines").
    fn new(workers: usize, devices: u64) -> Self {
        Self {
            workers,
            processors: workers,
            devices,
            gb_s: 7.0,
            latency_us: 100.0,
            parallelism: 64.0,
            frames: true,
            own_device: false,
            cached: false,
            gb: 6.0,
            ratio: 0.287,
            decode: 0.26,
            walk: 0.06,
            direct: 0.12,
            copy: 0.35,
            create_us: 25.0,
            factor: 20.0,
        }
    }

    fn with(mut self, arguments: &[String]) -> Self {
        for argument in arguments.iter().filter(|argument| !argument.starts_with("--")) {
            let (key, value) = argument.split_once('=').unwrap();
            let number: f64 = value.parse().unwrap();
            let count = number as usize;
            match key {
                "workers" => (self.workers, self.processors) = (count, count),
                "processors" => self.processors = count,
                "devices" => self.devices = count as u64,
                "frames" => self.frames = count > 0,
                "own_device" => self.own_device = count > 0,
                "cached" => self.cached = count > 0,
                "gb_s" => self.gb_s = number,
                "latency_us" => self.latency_us = number,
                "parallelism" => self.parallelism = number,
                "gb" => self.gb = number,
                "ratio" => self.ratio = number,
                "decode" => self.decode = number,
                "walk" => self.walk = number,
                "direct" => self.direct = number,
                "copy" => self.copy = number,
                "create_us" => self.create_us = number,
                "factor" => self.factor = number,
                _ => panic!("unknown: {key}"),
            }
        }
        self
    }

    fn machine(&self) -> Machine {
        let costs = CallCosts {
            create: Duration::from_secs_f64(self.create_us / 1e6),
            direct_byte: self.direct / 1e9,
            cached_byte: self.copy / 1e9,
        };
        let model = DeviceModel {
            bytes_per_second: self.gb_s * 1e9,
            latency: Duration::from_secs_f64(self.latency_us / 1e6),
            parallelism: self.parallelism as usize,
        };
        let mut machine = Machine::in_scaled_time(self.factor as u32, self.processors, costs);
        for device in (0..self.devices).chain([ARCHIVE_DEVICE]) {
            machine = machine.with_device(device, model);
        }
        machine
    }
}

/// What a run took, by the model.
struct Result {
    seconds: f64,
    gb: f64,
    /// Shares of the time for which the processors, the busiest device, and the walk's thread were
    /// busy.
    processors: f64,
    device: f64,
    walk: f64,
}

impl Result {
    fn rate(&self) -> f64 {
        self.gb / self.seconds
    }

    /// Returns the resource that was busy for most of the time.
    fn limit(&self) -> &'static str {
        let shares = [(self.processors, "cores"), (self.device, "disk"), (self.walk, "walk")];
        let most = shares.into_iter().max_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
        if most.0 < 0.8 { "decode" } else { most.1 }
    }
}

/// Compressed bytes of an archive, which arrive in order.
struct Reader<'m> {
    machine: &'m Machine,
    device: Option<u64>,
    in_flight: VecDeque<Duration>,
    read: u64,
}

impl Reader<'_> {
    /// Waits until `bytes` from the beginning have been read, and keeps reads in flight.
    fn wait_for(&mut self, bytes: u64) {
        let Some(device) = self.device else { return };
        while self.read < bytes {
            while self.in_flight.len() < READS {
                self.in_flight.push_back(self.machine.transfer(device, READ_BYTES));
            }
            self.machine.wait_until(self.in_flight.pop_front().unwrap());
            self.read += READ_BYTES;
        }
    }
}

type Promise = Receiver<Segment>;

/// Plans like the planner: memory first, in stream order, then the work.
fn decode(
    scenario: &Scenario,
    machine: &Machine,
    pool: &Pool,
    plan: &MemoryPlan,
    total: usize,
) -> Receiver<Promise> {
    let (promises, promised) = bounded(256);
    let (jobs, inbox) =
        bounded::<(OpenSegment, crossbeam::channel::Sender<Segment>)>(scenario.workers);
    let cost = scenario.decode / 1e9;
    let work = move |machine: &Machine, mut open: OpenSegment| {
        let bytes = open.spare();
        machine.compute(Duration::from_secs_f64(bytes as f64 * cost));
        open.advance(bytes);
        open.seal()
    };
    if scenario.frames {
        for _ in 0..scenario.workers {
            let (inbox, machine) = (inbox.clone(), machine.clone());
            thread::spawn(move || {
                for (open, done) in inbox {
                    let _ = done.send(work(&machine, open));
                }
            });
        }
    }
    let (scenario, machine, pool) = (scenario.clone(), machine.clone(), pool.clone());
    let segment_bytes = if scenario.frames { 32 << 20 } else { plan.segment_bytes };
    thread::spawn(move || {
        let device = if scenario.own_device { ARCHIVE_DEVICE } else { 0 };
        let mut reader = Reader {
            machine: &machine,
            device: (!scenario.cached).then_some(device),
            in_flight: VecDeque::new(),
            read: 0,
        };
        for start in (0..total).step_by(segment_bytes) {
            let bytes = segment_bytes.min(total - start);
            reader.wait_for(((start + bytes) as f64 * scenario.ratio) as u64);
            let (open, _) = OpenSegment::allocate(&pool, start as u64, bytes).unwrap();
            let (done, promise) = bounded(1);
            if scenario.frames {
                jobs.send((open, done)).unwrap();
            } else {
                done.send(work(&machine, open)).unwrap();
            }
            promises.send(promise).unwrap();
        }
    });
    promised
}

/// Position of the walk in the members.
struct Walk<'s> {
    members: std::slice::Iter<'s, Storage>,
    /// Bytes of the current member that are still to come, and then of its padding.
    left: usize,
    padding: usize,
    /// Bytes for each destination.
    spread: Vec<u64>,
}

impl Walk<'_> {
    fn segment(&mut self, assembler: &mut Assembler, view: &SegmentView) {
        let (mut at, end) = (0, view.bytes().len());
        while at < end {
            if self.left > 0 {
                let bytes = self.left.min(end - at);
                self.left -= bytes;
                assembler.payload(view, at..at + bytes, self.left == 0).unwrap();
                at += bytes;
            } else if self.padding > 0 {
                let bytes = self.padding.min(end - at);
                self.padding -= bytes;
                at += bytes;
            } else if let Some(member) = self.members.next() {
                let (destination, least) =
                    self.spread.iter_mut().enumerate().min_by_key(|(_, bytes)| **bytes).unwrap();
                *least += member.size;
                let path = format!("{}.{}", member.slot, member.id);
                let size = member.size;
                assembler.begin(NewMember { destination, path: &path, size }, view).unwrap();
                self.left = usize::try_from(size).unwrap();
                self.padding = self.left.next_multiple_of(TAR_BLOCK) - self.left;
                at += TAR_BLOCK;
            } else {
                return;
            }
        }
    }
}

fn run(scenario: &Scenario, head: &[u8], scratch: &Path) -> Result {
    let spec = ArchiveSpec { total_bytes: (scenario.gb * 1e9) as u64, ..ArchiveSpec::default() };
    let members = storages(&spec).unwrap();
    let total = members
        .iter()
        .map(|member| TAR_BLOCK + (member.size as usize).next_multiple_of(TAR_BLOCK))
        .sum();
    let threads = scenario.workers.min(16);
    let budget = MemoryPlan::default_budget(threads);
    let plan = MemoryPlan::new(budget, threads, head, &Limits::default(), Tuning::default());
    let mut arena = Arena::builder().bytes(plan.segments_bytes).populate(false).build().unwrap();
    let pool = arena.pool(plan.segments_bytes).unwrap();

    let machine = scenario.machine();
    let engine = EngineKind::Faulty(FaultPlan::new(0).on(machine.clone()));
    let destinations: Vec<_> = (0..scenario.devices)
        .map(|device| {
            let handle = File::open(scratch).unwrap().into();
            let calls = Syscalls::default();
            let place = Destination::open(calls, handle, scratch.to_owned(), DirectMode::On);
            place.unwrap().on_device(device)
        })
        .collect();
    let config = PoolConfig {
        engine: engine.clone(),
        cached_engine: engine,
        streams: 1,
        register: None,
        depth: None,
        workers: None,
        sink: None,
        pace: Pace::new(),
        priority: None,
    };
    let progress = Arc::new(CreateProgress::default());
    let creators = CreatorPool::start(&destinations, &config, progress).unwrap();
    let spread = vec![0; destinations.len()];
    let mut assembler = Assembler::new(destinations, &creators, None);
    let mut walk = Walk { members: members.iter(), left: 0, padding: 0, spread };
    let mut walked = 0.0;
    for promise in decode(scenario, &machine, &pool, &plan, total) {
        let segment = promise.recv().unwrap();
        let cost = segment.len() as f64 * scenario.walk / 1e9;
        walked += cost;
        machine.compute(Duration::from_secs_f64(cost));
        let view = segment.prepend(assembler.take_carry());
        walk.segment(&mut assembler, &view);
        assembler.end_segment(&view).unwrap();
    }
    assembler.finish().unwrap();
    creators.finish().unwrap();
    let synced = (0..scenario.devices).map(|device| machine.synced_at(device)).max().unwrap();
    let seconds = machine.now().max(synced).as_secs_f64();
    // The first device may hold the archive as well.
    let read = if scenario.cached || scenario.own_device { 0.0 } else { scenario.ratio };
    let moved = total as f64 * (1.0 / scenario.devices as f64 + read);
    Result {
        seconds,
        gb: total as f64 / 1e9,
        processors: machine.computed().as_secs_f64() / seconds / scenario.processors as f64,
        device: moved / 1e9 / seconds / scenario.gb_s,
        walk: walked / seconds,
    }
}

/// Returns the beginning of an archive, by which memory is divided.
fn head(frames: Frames) -> Vec<u8> {
    let spec = ArchiveSpec { total_bytes: 48 << 20, frames, ..ArchiveSpec::default() };
    let mut archive = Vec::new();
    write_archive(&spec, &mut archive).unwrap();
    archive.truncate(64 << 10);
    archive
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let heads = [head(Frames::One), head(Frames::AGAVE)];
    let run =
        |scenario: &Scenario| run(scenario, &heads[usize::from(scenario.frames)], scratch.path());
    if arguments.iter().any(|argument| argument.contains("workers=")) {
        let scenario = Scenario::new(2, 1).with(&arguments);
        let result = run(&scenario);
        println!(
            "{:.2} s, {:.2} GB/s; busy: processors {:.0} %, device {:.0} %, walk {:.0} %",
            result.seconds,
            result.rate(),
            result.processors * 100.0,
            result.device * 100.0,
            result.walk * 100.0
        );
        return;
    }
    for frames in [true, false] {
        println!("{}", if frames { "32 MiB frames" } else { "one frame" });
        println!("| workers | 1 device | 2 | 4 | 8 |\n|---|---|---|---|---|");
        for workers in [2, 4, 8, 16, 32, 64] {
            // Their threads wait for the model, and hardly for each other.
            let cells = thread::scope(|scope| {
                let cell = |devices| {
                    let base = Scenario { frames, ..Scenario::new(workers, devices) };
                    let scenario = base.with(&arguments);
                    scope.spawn(move || run(&scenario))
                };
                [1, 2, 4, 8].map(cell).map(|cell| {
                    let result = cell.join().unwrap();
                    format!("{:.1} ({})", result.rate(), result.limit())
                })
            });
            println!("| {workers} | {} |", cells.join(" | "));
        }
    }
}

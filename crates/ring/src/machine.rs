//! Model of a machine: a clock, processors and devices, for machines that are not at hand.
//!
//! ```text
//! transfer ──▶ one of the device's lanes ──▶ its bus ──▶ end
//!              waits for a free lane,        all lanes share the
//!              then takes the latency        bytes per second
//! ```
//!
//! The model answers when something ends, and the caller waits for that time. With a virtual clock
//! waiting takes no time, so that one thread can test an engine for hours. With a scaled clock a
//! second of the model takes several seconds, so that many threads wait for modelled processors and
//! devices while the real processors have little to do.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Longest time for which a thread of the model keeps a processor before others have their turn.
const TURN: Duration = Duration::from_millis(1);

/// Properties of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceModel {
    /// Bytes per second of all transfers together, reads and writes.
    pub bytes_per_second: f64,
    /// Time that a transfer takes in addition to moving its bytes.
    pub latency: Duration,
    /// Number of transfers that the device serves at once. Others wait, in order of arrival.
    pub parallelism: usize,
}

/// Processor time of file operations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallCosts {
    /// Creating a name in a directory. It happens under the directory's lock, so only one at a time
    /// on each device.
    pub create: Duration,
    /// Seconds for each byte of a direct transfer.
    pub direct_byte: f64,
    /// Seconds for each byte that is copied to or from the page cache.
    pub cached_byte: f64,
}

/// A modelled machine. Cheap to clone; all clones are one machine.
#[derive(Clone, Debug)]
pub struct Machine {
    clock: Clock,
    costs: CallCosts,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Debug)]
enum Clock {
    /// Nanoseconds since the start.
    Virtual(Arc<AtomicU64>),
    /// Time passes `factor` times as slowly as outside.
    Scaled { start: Instant, factor: u32 },
}

#[derive(Debug)]
struct State {
    /// Time from which each processor is free.
    processors: Vec<Duration>,
    /// Time for which they have worked, together.
    computed: Duration,
    /// By `st_dev`.
    devices: BTreeMap<u64, Device>,
}

#[derive(Debug)]
struct Device {
    model: DeviceModel,
    /// Time from which each lane is free.
    lanes: Vec<Duration>,
    bus: Duration,
    /// The lock of the directory in which files are created.
    directory: Duration,
}

/// Kind of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Between memory and the device.
    Direct,
    /// Between memory and the page cache. The device transfers the bytes later.
    Cached,
}

impl Machine {
    /// Creates a machine in virtual time, which passes only when somebody waits for it. For one
    /// thread: others that wait meanwhile are overtaken.
    pub fn in_virtual_time(processors: usize, costs: CallCosts) -> Self {
        Self::new(Clock::Virtual(Arc::default()), processors, costs)
    }

    /// Creates a machine on which time passes `factor` times as slowly as outside.
    pub fn in_scaled_time(factor: u32, processors: usize, costs: CallCosts) -> Self {
        let clock = Clock::Scaled { start: Instant::now(), factor: factor.max(1) };
        Self::new(clock, processors, costs)
    }

    fn new(clock: Clock, processors: usize, costs: CallCosts) -> Self {
        let processors = vec![Duration::ZERO; processors.max(1)];
        let state = State { processors, computed: Duration::ZERO, devices: BTreeMap::new() };
        Self { clock, costs, state: Arc::new(Mutex::new(state)) }
    }

    /// Adds a device with this number (`st_dev`), or replaces it.
    #[must_use]
    pub fn with_device(self, number: u64, model: DeviceModel) -> Self {
        let device = Device {
            model,
            lanes: vec![Duration::ZERO; model.parallelism.max(1)],
            bus: Duration::ZERO,
            directory: Duration::ZERO,
        };
        self.state().devices.insert(number, device);
        self
    }

    /// Returns the time since the start of the machine.
    pub fn now(&self) -> Duration {
        match &self.clock {
            Clock::Virtual(now) => Duration::from_nanos(now.load(Ordering::Acquire)),
            Clock::Scaled { start, factor } => start.elapsed() / *factor,
        }
    }

    /// Waits until this time.
    pub fn wait_until(&self, time: Duration) {
        if let Some(left) = self.to_sleep(time) {
            thread::sleep(left);
        }
    }

    /// Computes for this time on one of the processors, which all threads of the machine share.
    pub fn compute(&self, mut time: Duration) {
        while !time.is_zero() {
            let turn = time.min(TURN);
            let end = self.state().compute(self.now(), turn);
            self.wait_until(end);
            time -= turn;
        }
    }

    /// Returns the time for which the processors have worked so far, together.
    pub fn computed(&self) -> Duration {
        self.state().computed
    }

    /// Begins a transfer between memory and a device. Returns the time at which it ends.
    pub fn transfer(&self, device: u64, bytes: u64) -> Duration {
        self.step(device, bytes, Way::Direct)
    }

    /// Returns the time at which everything written so far is on the device.
    pub fn synced_at(&self, device: u64) -> Duration {
        self.state().devices.get(&device).map_or(Duration::ZERO, |device| device.bus)
    }

    /// Returns the time at which a transfer by a file operation ends that begins now.
    pub(crate) fn step(&self, device: u64, bytes: u64, way: Way) -> Duration {
        let now = self.now();
        let mut state = self.state();
        match way {
            Way::Direct => {
                let issued = state.compute(now, seconds(bytes, self.costs.direct_byte));
                state.devices.get_mut(&device).map_or(issued, |device| device.serve(issued, bytes))
            }
            Way::Cached => {
                let copied = state.compute(now, seconds(bytes, self.costs.cached_byte));
                if let Some(device) = state.devices.get_mut(&device) {
                    device.serve(copied, bytes);
                }
                copied
            }
        }
    }

    /// Returns the time at which a file has been created whose creation begins now.
    pub(crate) fn create(&self, device: u64) -> Duration {
        let now = self.now();
        let mut state = self.state();
        let computed = state.compute(now, self.costs.create);
        let Some(device) = state.devices.get_mut(&device) else { return computed };
        device.directory = computed.max(device.directory + self.costs.create);
        device.directory
    }

    /// Returns how long to sleep until this time; `None` if it has come. In virtual time it comes
    /// with this call.
    pub(crate) fn to_sleep(&self, time: Duration) -> Option<Duration> {
        match &self.clock {
            Clock::Virtual(now) => {
                let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                now.fetch_max(nanos, Ordering::AcqRel);
                None
            }
            Clock::Scaled { factor, .. } => {
                let left = time.saturating_sub(self.now()) * *factor;
                (!left.is_zero()).then_some(left)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the time at which a processor has worked for `time`, from `from` on at the earliest.
    fn compute(&mut self, from: Duration, time: Duration) -> Duration {
        if time.is_zero() {
            return from;
        }
        self.computed += time;
        let Some(free) = self.processors.iter_mut().min() else { return from + time };
        *free = from.max(*free) + time;
        *free
    }
}

impl Device {
    fn serve(&mut self, arrival: Duration, bytes: u64) -> Duration {
        let transfer = seconds(bytes, 1.0 / self.model.bytes_per_second);
        let Some(lane) = self.lanes.iter_mut().min() else { return arrival + transfer };
        let ready = arrival.max(*lane) + self.model.latency;
        let end = ready.max(self.bus) + transfer;
        (*lane, self.bus) = (end, end);
        end
    }
}

/// Returns the time for `bytes` at `each` seconds a byte.
#[allow(clippy::cast_precision_loss)] // sizes are far below 2^53
fn seconds(bytes: u64, each: f64) -> Duration {
    Duration::try_from_secs_f64(bytes as f64 * each).unwrap_or(Duration::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn device(latency_us: u64, parallelism: usize) -> DeviceModel {
        let latency = Duration::from_micros(latency_us);
        DeviceModel { bytes_per_second: 1e9, latency, parallelism }
    }

    /// Returns the bytes per second of transfers of 1 MB, of which `depth` are always in flight.
    fn rate(model: DeviceModel, depth: usize) -> f64 {
        let machine = Machine::in_virtual_time(1, CallCosts::default()).with_device(7, model);
        let mut ends: Vec<_> = (0..depth).map(|_| machine.transfer(7, MB)).collect();
        for _ in 0..1000 {
            let first = ends.remove(0);
            machine.wait_until(first);
            ends.push(machine.transfer(7, MB));
        }
        1e9 / machine.now().as_secs_f64()
    }

    #[test]
    fn a_device_is_limited_by_latency_then_by_bandwidth() {
        // A transfer takes 1 ms of the bus after 4 ms of latency.
        for (depth, expected) in [(1, 0.2e9), (2, 0.4e9), (4, 0.8e9), (5, 1e9), (50, 1e9)] {
            let rate = rate(device(4000, 64), depth);
            assert!((rate / expected - 1.0).abs() < 0.02, "{depth}: {rate}");
        }
    }

    #[test]
    fn a_device_serves_as_many_transfers_at_once_as_it_has_lanes() {
        for depth in [3, 30] {
            let rate = rate(device(4000, 3), depth);
            assert!((rate / 0.6e9 - 1.0).abs() < 0.02, "{depth}: {rate}");
        }
    }

    #[test]
    fn processors_and_the_lock_of_a_directory_are_shared() {
        let costs = CallCosts { create: Duration::from_micros(100), ..CallCosts::default() };
        let machine = Machine::in_virtual_time(4, costs);
        let machine = machine.with_device(1, device(0, 1)).with_device(2, device(0, 1));
        let times = [1, 1, 2, 1].map(|number| machine.create(number).as_micros());
        assert_eq!(times, [100, 200, 100, 300]);
        // Four processors do the work of eight in twice the time.
        let machine = Machine::in_virtual_time(4, CallCosts::default());
        let ends: Vec<_> = (0..8).map(|_| machine.state().compute(Duration::ZERO, TURN)).collect();
        assert_eq!(ends.iter().filter(|end| **end == TURN).count(), 4);
        assert_eq!(ends.iter().max(), Some(&(TURN * 2)));
        assert_eq!(machine.state().computed, TURN * 8);
        machine.compute(Duration::from_secs(1));
        assert_eq!(machine.computed(), TURN * 1008);
        assert!(machine.now() >= Duration::from_millis(250));
    }

    #[test]
    fn the_device_writes_back_what_was_cached() {
        let costs = CallCosts { cached_byte: 1e-10, ..CallCosts::default() };
        let machine = Machine::in_virtual_time(1, costs).with_device(1, device(0, 8));
        assert_eq!(machine.step(1, 10 * MB, Way::Cached), Duration::from_millis(1));
        assert_eq!(machine.synced_at(1), Duration::from_millis(11));
        // Transfers wait for it on the bus.
        assert_eq!(machine.transfer(1, MB), Duration::from_millis(12));
        assert_eq!(machine.synced_at(99), Duration::ZERO);
    }
}

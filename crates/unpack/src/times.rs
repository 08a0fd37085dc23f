//! Times of a run, thread by thread, and the stage that limited it.

use std::time::Duration;

use rustix::fs::{major, minor};
use unsnap_commit::WritebackTimes;
use unsnap_create::CreatorTimes;
use unsnap_decode::{DecodeSummary, ThreadTimes};
use unsnap_pass::DecodedArchive;
use unsnap_ring::WorkerTimes;

use crate::report::{CreatorReport, ThreadReport};

/// Share of time below which a stage counts as busy. A guess: the start and the end of a run, when
/// stages fill and drain, are waiting as well.
const STALLED_MIN: f64 = 0.1;

/// Share of time above which the rate limit counts as the limit. A guess: two creators share a
/// device's limit, and while one writes, the other may have nothing to write.
const HELD_BACK_MIN: f64 = 0.4;

/// Times of a run.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// From start to published.
    pub total: Duration,
    /// When the walk began, since the start.
    pub prepared_at: Duration,
    /// When every file had been created, since the start.
    pub created_at: Duration,
    /// When everything was on the disk under its name, since the start; zero in a dry run.
    pub published_at: Duration,
    /// Of the walk's thread: reading the archive's beginning, for which a stream may take its time.
    pub opened_in: Duration,
    /// Of the walk's thread: waiting for segments.
    pub walk_waited_for_input: Duration,
    /// Of the walk's thread: waiting for the creators, to take more or to finish.
    pub walk_waited_for_output: Duration,
    /// Time for which the run had been paused by then. Some thread waited through it.
    pub paused: Duration,
    /// Threads of the reader's engine.
    pub source: Vec<WorkerTimes>,
    /// The planner first, which reads and streams, then those that decode whole frames.
    pub decode: Vec<ThreadTimes>,
    /// Threads that decode an incremental snapshot at the same time.
    pub beside: Vec<ThreadTimes>,
    pub create: Vec<CreatorTimes>,
    pub writeback: Option<WritebackTimes>,
}

impl Times {
    /// Records the times of the decoding threads. Returns the summary of each archive.
    pub fn end_decoding(&mut self, ended: Vec<DecodedArchive>) -> Vec<DecodeSummary> {
        let ended = ended.into_iter().enumerate().map(|(index, ended)| {
            let DecodedArchive { summary, waited, threads } = ended;
            if index == 0 {
                self.walk_waited_for_input = waited;
                self.source.clone_from(&summary.source.workers);
                self.decode = threads;
            } else {
                self.beside.extend(threads);
            }
            summary
        });
        ended.collect()
    }

    /// Returns the times of every thread, in the order of the data's flow.
    pub fn threads(&self) -> Vec<ThreadReport> {
        let mut threads: Vec<_> = self
            .source
            .iter()
            .enumerate()
            .map(|(index, times)| worker(format!("read-{index}"), "source", times))
            .collect();
        let beside = self.beside.iter().map(|times| ("incremental".to_owned(), times));
        let decode = self.decode.iter().enumerate().map(|(index, times)| match index {
            0 => ("plan".to_owned(), times),
            _ => (format!("decode-{}", index - 1), times),
        });
        for (name, times) in decode.chain(beside) {
            let for_output = times.waited_for_output + times.waited_for_workers;
            let waits = [times.waited_for_input, for_output, times.waited_for_reads];
            threads.push(ThreadReport::new(name, "decode", times.total, waits));
        }
        let io = self.opened_in + self.syncing();
        let waits = [self.walk_waited_for_input, self.walk_waited_for_output, io];
        threads.push(ThreadReport::new("main".to_owned(), "walk", self.total, waits));
        for (index, times) in self.create.iter().enumerate() {
            let held = times.held_back + times.paused;
            let waits = [times.waited_for_input, held, times.waited_for_io];
            let name = format!("create-{index}");
            threads.push(ThreadReport::new(name, "create", times.total, waits));
            let workers = times.workers.iter().enumerate();
            threads.extend(workers.map(|(number, times)| {
                worker(format!("create-{index}-worker-{number}"), "create", times)
            }));
        }
        if let Some(times) = &self.writeback {
            let idle = times.total.saturating_sub(times.syncing);
            let waits = [idle, Duration::ZERO, times.syncing];
            threads.push(ThreadReport::new("writeback".to_owned(), "sync", times.total, waits));
        }
        threads
    }

    /// Returns the creators, with what they have chosen.
    pub fn creators(&self) -> Vec<CreatorReport> {
        let report = |times: &CreatorTimes| CreatorReport {
            files: times.files.name(),
            device: format!("{}:{}", major(times.device), minor(times.device)),
            engine: times.engine,
            workers: times.chosen_workers,
            in_flight: times.chosen_in_flight,
            choices: times.choices,
        };
        self.create.iter().map(report).collect()
    }

    /// Returns the stage that limited the others.
    ///
    /// In a chain of bounded queues, the neighbours of the slowest stage wait: those before it for
    /// room, those after it for work. The slowest stage itself waits for neither. The search starts
    /// with the planner, in the middle. If it hardly waits, or waits for the workers that decode
    /// whole frames, decoding is the limit. If it waits for bytes, the source is. If it waits for
    /// memory, a later stage holds it: the one that is idle least.
    pub fn limited_by(&self) -> &'static str {
        // Pauses are no limit. Threads that waited for reads or for room have waited through them.
        let without_pauses = |time: Duration| time.saturating_sub(self.paused);
        let unpacking = without_pauses(self.created_at.saturating_sub(self.prepared_at));
        if self.syncing() > unpacking {
            return "sync";
        }
        let share = |part: Duration| part.as_secs_f64() / unpacking.as_secs_f64().max(1e-9);
        if share(self.held_back()) > HELD_BACK_MIN {
            return "rate limit";
        }
        let Some((planner, workers)) = self.decode.split_first() else { return "decode" };
        let for_reads = share(without_pauses(planner.waited_for_reads));
        let for_output = share(without_pauses(planner.waited_for_output));
        if for_reads.max(for_output) < STALLED_MIN {
            return "decode";
        }
        if for_reads > for_output {
            return "source";
        }
        let busy: Duration = workers.iter().map(ThreadTimes::busy).sum();
        let decoding = share(busy / u32::try_from(workers.len().max(1)).unwrap_or(u32::MAX));
        let waited = without_pauses(self.walk_waited_for_input + self.walk_waited_for_output);
        let walking = 1.0 - share(waited);
        let idle = |times: &CreatorTimes| share(times.waited_for_input);
        let creating = self.create.iter().map(|times| 1.0 - idle(times)).fold(0.0, f64::max);
        if busy > planner.busy() && decoding >= walking.max(creating) {
            "decode"
        } else if self.create.is_empty() || share(waited) < STALLED_MIN {
            "walk"
        } else {
            "create"
        }
    }

    /// Returns the longest time for which the rate limit held back a creator.
    pub fn held_back(&self) -> Duration {
        self.create.iter().map(|times| times.held_back).max().unwrap_or_default()
    }

    /// Returns the time after the last file was created: syncing and publishing.
    fn syncing(&self) -> Duration {
        self.published_at.saturating_sub(self.created_at)
    }
}

fn worker(name: String, stage: &'static str, times: &WorkerTimes) -> ThreadReport {
    let idle = times.total.saturating_sub(times.busy);
    ThreadReport::new(name, stage, times.total, [idle, Duration::ZERO, Duration::ZERO])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns a run of ten seconds and one of syncing. Its planner and walk wait for the given
    /// seconds; its creator is idle for one.
    fn run(for_reads: u32, for_output: u32, walk_waited: u32) -> Times {
        Times {
            total: SECOND * 11,
            created_at: SECOND * 10,
            published_at: SECOND * 11,
            walk_waited_for_input: SECOND * walk_waited,
            decode: vec![ThreadTimes {
                total: SECOND * 10,
                waited_for_reads: SECOND * for_reads,
                waited_for_output: SECOND * for_output,
                ..ThreadTimes::default()
            }],
            create: vec![CreatorTimes {
                total: SECOND * 10,
                waited_for_input: SECOND,
                ..CreatorTimes::default()
            }],
            ..Times::default()
        }
    }

    #[test]
    fn the_slowest_stage_is_the_one_whose_neighbours_wait() {
        assert_eq!(run(0, 0, 9).limited_by(), "decode");
        assert_eq!(run(4, 1, 9).limited_by(), "source");
        // Decoding is busy most of the time, and still the creators are the limit.
        assert_eq!(run(0, 4, 9).limited_by(), "create");
        assert_eq!(run(0, 4, 0).limited_by(), "walk");
        assert_eq!(Times { published_at: SECOND * 30, ..run(0, 0, 9) }.limited_by(), "sync");
        // Nothing is created in a dry run.
        assert_eq!(Times { create: Vec::new(), ..run(0, 4, 9) }.limited_by(), "walk");
    }

    #[test]
    fn a_limit_that_held_back_is_the_limit_and_a_pause_is_not() {
        let held_back = |seconds| {
            let mut times = run(0, 4, 9);
            times.create[0].held_back = SECOND * seconds;
            times
        };
        assert_eq!(held_back(3).limited_by(), "create");
        assert_eq!(held_back(5).limited_by(), "rate limit");
        // Ten of twenty seconds were a pause, through which the planner and the walk waited.
        let mut times = Times { paused: SECOND * 10, ..run(14, 1, 19) };
        (times.created_at, times.published_at) = (SECOND * 20, SECOND * 21);
        assert_eq!(times.limited_by(), "source");
        times.decode[0].waited_for_reads = SECOND * 10;
        times.decode[0].waited_for_output = SECOND / 2;
        assert_eq!(times.limited_by(), "decode");
    }

    /// Returns a run with two workers that decode frames and are idle for the given time.
    fn with_workers(mut times: Times, idle_ms: u64) -> Times {
        let worker = ThreadTimes {
            total: SECOND * 10,
            waited_for_input: Duration::from_millis(idle_ms),
            ..ThreadTimes::default()
        };
        times.decode[0].waited_for_workers = SECOND * 8;
        times.decode.extend([worker; 2]);
        times
    }

    #[test]
    fn those_that_decode_frames_are_asked_before_those_behind_them() {
        // The workers hold the memory that the planner waits for.
        assert_eq!(with_workers(run(0, 2, 9), 100).limited_by(), "decode");
        // Filling and draining, with few frames.
        assert_eq!(with_workers(run(0, 0, 9), 3000).limited_by(), "decode");
        let dry = Times { create: Vec::new(), ..run(0, 2, 9) };
        assert_eq!(with_workers(dry, 3000).limited_by(), "decode");
        assert_eq!(with_workers(run(0, 2, 9), 5000).limited_by(), "create");
        assert_eq!(with_workers(run(2, 0, 9), 5000).limited_by(), "source");
    }

    #[test]
    fn the_parts_of_every_thread_add_up_to_its_time() {
        let mut times = run(3, 4, 6);
        times.source = vec![WorkerTimes { total: SECOND * 10, busy: SECOND * 3 }];
        times.create = vec![CreatorTimes {
            total: SECOND * 10,
            waited_for_input: SECOND * 2,
            waited_for_io: SECOND * 4,
            held_back: SECOND * 2,
            paused: SECOND,
            workers: vec![WorkerTimes { total: SECOND * 10, busy: SECOND * 9 }],
            ..CreatorTimes::default()
        }];
        times.writeback = Some(WritebackTimes { total: SECOND * 10, syncing: SECOND });
        let threads = times.threads();
        let names: Vec<&str> = threads.iter().map(|thread| thread.name.as_str()).collect();
        let expected = ["read-0", "plan", "main", "create-0", "create-0-worker-0", "writeback"];
        assert_eq!(names, expected);
        for thread in &threads {
            let waiting = thread.waiting_for_input_ms
                + thread.waiting_for_output_ms
                + thread.waiting_for_io_ms;
            assert_eq!(thread.busy_ms + waiting, thread.total_ms, "{thread:?}");
        }
        assert_eq!(threads[1].busy_ms, 3000);
        assert_eq!(threads[2].busy_ms, 4000);
    }
}

//! Parallel jobs with results in order and bounded memory.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Runs jobs `0..jobs` on `threads` threads and passes the results to `consume`, on the calling
/// thread and in the order of the jobs.
///
/// `work` gets a state that `state` created for its thread, such as a reusable buffer. No job
/// starts while `threads + 2` results are waiting or being computed ahead of the consumer, which
/// bounds memory however slow the consumer is. The first error of the consumer ends everything:
/// running jobs finish, and no others start.
pub fn ordered<S, T: Send, E>(
    threads: NonZeroUsize,
    jobs: u64,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, u64) -> T + Sync,
    mut consume: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let ahead_max = threads.get() as u64 + 2;
    let queue = Queue::new(jobs, ahead_max);
    std::thread::scope(|scope| {
        for _ in 0..threads.get() {
            scope.spawn(|| {
                let _stop = StopOnPanic(&queue);
                let mut state = state();
                while let Some(job) = queue.next_job() {
                    queue.put(job, work(&mut state, job));
                }
            });
        }
        let _stop = StopOnPanic(&queue);
        while let Some(result) = queue.next_result() {
            consume(result).inspect_err(|_| queue.stop())?;
        }
        Ok(())
    })
}

struct Queue<T> {
    progress: Mutex<Progress<T>>,
    job_allowed: Condvar,
    result_ready: Condvar,
    jobs: u64,
    ahead_max: u64,
}

struct Progress<T> {
    started: u64,
    consumed: u64,
    waiting: BTreeMap<u64, T>,
    stopped: bool,
}

impl<T> Queue<T> {
    fn new(jobs: u64, ahead_max: u64) -> Self {
        let progress =
            Progress { started: 0, consumed: 0, waiting: BTreeMap::new(), stopped: false };
        Self {
            progress: Mutex::new(progress),
            job_allowed: Condvar::new(),
            result_ready: Condvar::new(),
            jobs,
            ahead_max,
        }
    }

    fn next_job(&self) -> Option<u64> {
        let too_far = |p: &mut Progress<T>| {
            !p.stopped && p.started < self.jobs && p.started >= p.consumed + self.ahead_max
        };
        let mut progress = self
            .job_allowed
            .wait_while(self.lock(), too_far)
            .unwrap_or_else(PoisonError::into_inner);
        let job = progress.started;
        (!progress.stopped && job < self.jobs).then(|| {
            progress.started += 1;
            job
        })
    }

    fn put(&self, job: u64, result: T) {
        self.lock().waiting.insert(job, result);
        self.result_ready.notify_one();
    }

    fn next_result(&self) -> Option<T> {
        let missing = |p: &mut Progress<T>| {
            !p.stopped && p.consumed < self.jobs && !p.waiting.contains_key(&p.consumed)
        };
        let mut progress = self
            .result_ready
            .wait_while(self.lock(), missing)
            .unwrap_or_else(PoisonError::into_inner);
        let next = progress.consumed;
        let result = progress.waiting.remove(&next)?;
        progress.consumed += 1;
        self.job_allowed.notify_all();
        Some(result)
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.job_allowed.notify_all();
        self.result_ready.notify_all();
    }

    /// A panic elsewhere leaves the queue consistent: every change to it is a single step.
    fn lock(&self) -> MutexGuard<'_, Progress<T>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops the others when a thread panics, so that the scope can end and propagate the panic.
struct StopOnPanic<'a, T>(&'a Queue<T>);

impl<T> Drop for StopOnPanic<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU64, Ordering};

    const THREADS: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");

    #[test]
    fn results_come_in_order() {
        let mut seen = Vec::new();
        let uneven = |made: &mut u64, job: u64| {
            *made += 1;
            std::thread::sleep(std::time::Duration::from_micros(job * 7919 % 300));
            job
        };
        ordered(
            THREADS,
            500,
            || 0,
            uneven,
            |job| {
                seen.push(job);
                Ok::<(), Infallible>(())
            },
        )
        .unwrap();
        assert_eq!(seen, (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn workers_do_not_run_ahead_of_the_consumer() {
        let started = AtomicU64::new(0);
        let count = |(): &mut (), _| started.fetch_add(1, Ordering::SeqCst);
        let mut consumed = 0;
        ordered(
            THREADS,
            100,
            || (),
            count,
            |_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                consumed += 1;
                let ahead = started.load(Ordering::SeqCst) - consumed;
                if ahead <= 6 { Ok(()) } else { Err(ahead) }
            },
        )
        .unwrap();
    }

    #[test]
    fn the_first_error_ends_everything() {
        let fail_at_ten = |job| if job == 10 { Err(job) } else { Ok(()) };
        let result = ordered(THREADS, u64::MAX, || (), |(), job| job, fail_at_ten);
        assert_eq!(result, Err(10));
    }

    #[test]
    fn no_jobs_are_no_work() {
        ordered(THREADS, 0, || (), |(), job| job, |_| Err("called")).unwrap();
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_worker_is_passed_on() {
        let work = |(): &mut (), job| assert!(job < 20, "job {job}");
        let _ = ordered(THREADS, 1000, || (), work, |()| Ok::<(), Infallible>(()));
    }
}

//! Work by several threads, whose results are consumed in the order of submission.
//!
//! ```text
//!            ┌─▶ worker ─┐ result
//! submit ────┼─▶ worker ─┼────────▶ promises, in order ──▶ consumer (a separate thread)
//!            └─▶ worker ─┘
//! ```

use std::{
    io,
    num::NonZeroUsize,
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, Scope},
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, Sender, bounded};

/// Number of unconsumed jobs beyond one for each worker, so that a worker with a short job need not
/// wait for the slowest one. A guess.
const AHEAD: usize = 1;

/// Returns the most jobs in flight at a time. The producer needs memory for that many.
pub fn jobs_max(threads: NonZeroUsize) -> usize {
    // The queued promises, the one that the consumer waits for, and the one being submitted.
    threads.get() + AHEAD + 2
}

/// Time spent waiting and consuming, in nanoseconds; a sum over all workers.
#[derive(Debug, Default)]
pub struct Times {
    waited_for_jobs: AtomicU64,
    consumed: AtomicU64,
    waited_for_consumer: AtomicU64,
}

impl Times {
    /// Returns the time that workers waited for jobs.
    pub fn waited_for_jobs(&self) -> Duration {
        load(&self.waited_for_jobs)
    }

    /// Returns the time that the consumer spent on results.
    pub fn consumed(&self) -> Duration {
        load(&self.consumed)
    }

    /// Returns the time that the producer waited for room for another job.
    pub fn waited_for_room(&self) -> Duration {
        load(&self.waited_for_consumer)
    }
}

fn load(nanoseconds: &AtomicU64) -> Duration {
    Duration::from_nanos(nanoseconds.load(Ordering::Relaxed))
}

/// Calls `work` and adds the time that it takes to the counter.
fn timed<T>(counter: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let result = work();
    let elapsed = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    counter.fetch_add(elapsed, Ordering::Relaxed);
    result
}

/// Error: the consumer has failed. [`run`] returns the consumer's own error.
#[derive(Debug)]
pub struct Stopped;

/// Accepts jobs from the producer.
pub struct Submit<'a, J, O> {
    jobs: Sender<(J, Sender<O>)>,
    promises: Sender<Receiver<O>>,
    times: &'a Times,
}

impl<J, O> Submit<'_, J, O> {
    /// Submits a job. Waits while [`jobs_max`] jobs are in flight.
    pub fn submit(&self, job: J) -> Result<(), Stopped> {
        let (promise, result) = bounded(1);
        // The promise goes first, so that every queued job has its place among the results.
        timed(&self.times.waited_for_consumer, || self.promises.send(result))
            .map_err(|_| Stopped)?;
        self.jobs.send((job, promise)).map_err(|_| Stopped)
    }
}

/// Runs `produce` on this thread, with `threads` workers named after `name` and a consumer behind
/// it.
///
/// Each worker has its own state, made by `state`. The consumer receives the results in the order
/// of the jobs. After its first error, [`Submit::submit`] fails. Returns the result of `produce`
/// and the consumer's error once all threads have ended. Passes on a panic of any thread.
///
/// # Errors
///
/// The kernel's error if a thread cannot be started.
pub fn run<J, O, S, E, R>(
    name: &str,
    threads: NonZeroUsize,
    times: &Times,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, J) -> O + Sync,
    consume: impl FnMut(O) -> Result<(), E> + Send,
    produce: impl FnOnce(Submit<'_, J, O>) -> R,
) -> io::Result<(R, Result<(), E>)>
where
    J: Send,
    O: Send,
    E: Send,
{
    let (state, work) = (&state, &work);
    thread::scope(|scope| {
        // The queue of promises bounds the jobs in flight, so this queue is never full.
        let (job, jobs) = bounded(jobs_max(threads));
        let (promise, promises) = bounded(threads.get() + AHEAD);
        for index in 0..threads.get() {
            let jobs: Receiver<(J, Sender<O>)> = jobs.clone();
            let serve = move || {
                let mut state = state();
                while let Ok((job, promise)) = timed(&times.waited_for_jobs, || jobs.recv()) {
                    // After an error of the consumer, nothing waits for the result.
                    let _ = promise.send(work(&mut state, job));
                }
            };
            start(scope, format!("unsnap-{name}-{index}"), serve)?;
        }
        drop(jobs);
        let take = move || take_all(&promises, times, consume);
        let consumer = start(scope, "unsnap-output".to_owned(), take)?;
        let produced = produce(Submit { jobs: job, promises: promise, times });
        let consumed = consumer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((produced, consumed))
    })
}

fn take_all<O, E>(
    promises: &Receiver<Receiver<O>>,
    times: &Times,
    mut consume: impl FnMut(O) -> Result<(), E>,
) -> Result<(), E> {
    while let Ok(promise) = promises.recv() {
        // If there is no result, the worker has panicked. The scope passes the panic on.
        let Ok(result) = promise.recv() else { break };
        timed(&times.consumed, || consume(result))?;
    }
    Ok(())
}

fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<thread::ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().name(name).spawn_scoped(scope, work)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: NonZeroUsize = NonZeroUsize::new(3).expect("not zero");

    /// Runs `jobs` numbers through `work`. Returns how many were submitted and those consumed.
    fn numbers(
        jobs: u64,
        work: impl Fn(u64) -> u64 + Sync,
        fail_at: Option<u64>,
    ) -> (u64, Vec<u64>, Result<(), u64>) {
        let mut seen = Vec::new();
        let consume = |number| {
            if fail_at == Some(number) {
                return Err(number);
            }
            seen.push(number);
            Ok(())
        };
        let produce = |to: Submit<'_, u64, u64>| {
            (0..jobs).take_while(|job| to.submit(*job).is_ok()).count() as u64
        };
        let times = Times::default();
        let (submitted, result) =
            run("test", THREE, &times, || (), |(), job| work(job), consume, produce).unwrap();
        (submitted, seen, result)
    }

    #[test]
    fn results_come_in_order_whatever_the_workers_do() {
        let uneven = |job: u64| {
            thread::sleep(Duration::from_micros(job * 7919 % 300));
            job
        };
        let (submitted, seen, result) = numbers(500, uneven, None);
        assert_eq!((submitted, result), (500, Ok(())));
        assert_eq!(seen, (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_of_the_consumer_ends_everything() {
        let (submitted, seen, result) = numbers(u64::MAX, |job| job, Some(10));
        assert_eq!(result, Err(10));
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        assert!(submitted <= 10 + jobs_max(THREE) as u64, "{submitted} were submitted");
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_worker_is_passed_on() {
        let panics = |job| if job == 20 { panic!("job {job}") } else { job };
        let _ = numbers(1000, panics, None);
    }
}

//! The thread engine: each operation runs to completion on one worker thread.
//!
//! It is a complete engine and not a makeshift: containers and hardened kernels refuse io_uring,
//! and for files of a few KiB threads are faster anyway.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::{
    engine::{Completion, Engine, EngineConfig, EngineError, EngineKind, Waker, WorkerTimes},
    execute::execute,
    operation::{InFlight, Operation},
};

pub(crate) struct Threads {
    /// `None` once dropping has begun, which stops the workers.
    work: Option<Sender<InFlight>>,
    messages: Receiver<Message>,
    wake: Sender<Message>,
    /// For further workers.
    jobs: Receiver<InFlight>,
    workers: Vec<Worker>,
    gate: Arc<Gate>,
    capacity: usize,
    in_flight: usize,
}

/// Admits the first workers to the queue of operations, and holds back the others.
struct Gate {
    admitted: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    fn admit(&self, workers: usize) {
        *self.admitted.lock().unwrap_or_else(PoisonError::into_inner) = workers;
        self.changed.notify_all();
    }

    fn wait(&self, worker: usize) {
        let admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(admitted, |admitted| worker >= *admitted));
    }
}

struct Worker {
    thread: JoinHandle<()>,
    started: Instant,
    /// Nanoseconds spent on operations.
    busy: Arc<AtomicU64>,
}

enum Message {
    Done(Completion),
    Wake,
    Died,
}

impl Threads {
    pub(crate) fn open(config: &EngineConfig) -> Result<Self, EngineError> {
        let capacity = config.capacity.max(1);
        let (work, jobs) = bounded(capacity);
        // One slot more than there can be operations, so that a wake-up always finds a free slot or
        // a message that wakes the owner anyway.
        let (report, messages) = bounded(capacity + 1);
        let workers = config.workers.clamp(1, capacity);
        let mut engine = Self {
            work: Some(work),
            messages,
            wake: report,
            jobs,
            workers: Vec::new(),
            gate: Arc::new(Gate { admitted: Mutex::new(workers), changed: Condvar::new() }),
            capacity,
            in_flight: 0,
        };
        for _ in 0..workers {
            engine.start_worker()?;
        }
        Ok(engine)
    }

    fn start_worker(&mut self) -> Result<(), EngineError> {
        let index = self.workers.len();
        let (jobs, report, gate) = (self.jobs.clone(), self.wake.clone(), Arc::clone(&self.gate));
        let busy = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&busy);
        let thread = thread::Builder::new()
            .name(format!("unsnap-io-{index}"))
            .spawn(move || run_worker(index, &gate, &jobs, &report, &clock))
            .map_err(|source| EngineError::Spawn { source })?;
        self.workers.push(Worker { thread, started: Instant::now(), busy });
        Ok(())
    }

    fn take(&mut self, message: Message, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        match message {
            Message::Done(completion) => {
                self.in_flight -= 1;
                done.push(completion);
                Ok(())
            }
            Message::Wake => Ok(()),
            Message::Died => Err(EngineError::WorkerDied),
        }
    }
}

fn run_worker(
    index: usize,
    gate: &Gate,
    jobs: &Receiver<InFlight>,
    report: &Sender<Message>,
    busy: &AtomicU64,
) {
    let alarm = Alarm(report);
    loop {
        gate.wait(index);
        let Ok(mut job) = jobs.recv() else { break };
        let since = Instant::now();
        let result = loop {
            let result = execute(job.step());
            if let Some(result) = job.complete(result) {
                break result;
            }
        };
        let token = job.token;
        // The operation's resources are released before anybody learns that it has ended.
        drop(job);
        let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        busy.fetch_add(nanos, Ordering::Relaxed);
        if report.send(Message::Done(Completion { token, result })).is_err() {
            break;
        }
    }
    std::mem::forget(alarm);
}

/// Reports a worker's panic to the owner, which would otherwise wait for ever.
struct Alarm<'a>(&'a Sender<Message>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        let _ = self.0.send(Message::Died);
    }
}

impl Engine for Threads {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        assert!(self.in_flight < self.capacity, "more operations than the engine holds");
        self.in_flight += 1;
        if let Some(work) = &self.work {
            // Never blocks: the channel holds as many operations as may be in flight. Fails only
            // when every worker has died, which `wait` reports.
            let _ = work.send(InFlight::new(token, operation));
        }
    }

    fn wait_at_most(
        &mut self,
        limit: Option<Duration>,
        done: &mut Vec<Completion>,
    ) -> Result<(), EngineError> {
        let received = match limit {
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => self.messages.recv_timeout(limit),
        };
        match received {
            Ok(message) => self.take(message, done)?,
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(EngineError::WorkerDied),
        }
        self.poll(done)
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        while let Ok(message) = self.messages.try_recv() {
            self.take(message, done)?;
        }
        Ok(())
    }

    /// A worker that is no longer admitted, and waits for an operation, still takes one.
    fn limit_workers(&mut self, workers: usize) {
        let workers = workers.clamp(1, self.capacity);
        while self.workers.len() < workers {
            if let Err(error) = self.start_worker() {
                tracing::debug!(%error, "there will be fewer workers");
                break;
            }
        }
        self.gate.admit(workers);
    }

    fn workers(&self) -> Vec<WorkerTimes> {
        let times = |worker: &Worker| WorkerTimes {
            total: worker.started.elapsed(),
            busy: Duration::from_nanos(worker.busy.load(Ordering::Relaxed)),
        };
        self.workers.iter().map(times).collect()
    }

    fn waker(&self) -> Waker {
        let wake = self.wake.clone();
        // A full channel means that the owner has messages to wake for.
        Waker(Arc::new(move || drop(wake.try_send(Message::Wake))))
    }

    fn kind(&self) -> EngineKind {
        EngineKind::Threads
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Workers finish the operations that they have begun. Nobody reads their reports any more,
        // so the channel is dropped first: sending to it must not block.
        self.work = None;
        self.messages = crossbeam::channel::never();
        self.gate.admit(usize::MAX);
        for worker in self.workers.drain(..) {
            let _ = worker.thread.join();
        }
    }
}

//! Workers: one thread per target, which runs one job at a time.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::mpsc::{Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use unsnap_fastboot::FastbootError;

use crate::{
    config::Target,
    target::{Adoption, AdoptionEnd, Product, Sweep, Swept, Work, carry_out, claim},
};

/// A worker's report about a finished order.
#[derive(Debug)]
pub enum WorkerReport {
    /// A job ended.
    Ended(Ended),
    /// A target was swept.
    Swept {
        /// Id of the worker.
        worker: u64,
        /// What was moved aside.
        result: Result<Swept, FastbootError>,
    },
    /// A ready state was adopted, or not.
    Adopted {
        /// Id of the worker.
        worker: u64,
        /// What became of it.
        result: Result<AdoptionEnd, FastbootError>,
    },
}

#[derive(Debug)]
enum Order {
    Job(Box<Work>),
    Sweep(Box<Sweep>),
    Adopt(Box<Adoption>),
}

/// End of an attempt at a job.
#[derive(Debug)]
pub struct Ended {
    /// Id of the worker.
    pub worker: u64,
    /// Results on disk, complete even if the attempt failed later.
    pub products: Vec<Product>,
    /// Whether all results are on disk.
    pub result: Result<(), Failure>,
    /// Duration of the attempt.
    pub elapsed: Duration,
}

/// Failure of an attempt.
#[derive(Debug)]
pub enum Failure {
    /// An error of the library.
    Error(FastbootError),
    /// A panic, which is a defect, with its message.
    Panic(String),
}

/// A worker. Dropping it waits for the running job and then ends the thread.
#[derive(Debug)]
pub struct Worker {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread. It calls `report` after each order. `id` identifies the worker in its
    /// reports. No order is carried out in directories that a service with another state directory
    /// has claimed.
    pub fn start(
        id: u64,
        name: &str,
        state_directory: PathBuf,
        report: impl Fn(WorkerReport) + Send + 'static,
    ) -> io::Result<Self> {
        Self::doing(id, name, move |target| claim(target, &state_directory), carry_out, report)
    }

    /// Starts the thread with other functions that admit orders and carry out jobs.
    fn doing(
        id: u64,
        name: &str,
        admit: impl Fn(&Target) -> Result<(), FastbootError> + Send + 'static,
        carry_out: impl Fn(&Work, &mut Vec<Product>) -> Result<(), FastbootError> + Send + 'static,
        report: impl Fn(WorkerReport) + Send + 'static,
    ) -> io::Result<Self> {
        // Holds one order at a time: the supervisor sends none before the last one has ended.
        let (orders, received) = channel();
        let work = move || {
            for order in received {
                report(match order {
                    Order::Job(work) => {
                        WorkerReport::Ended(attempt(id, &work, |work, products| {
                            admit(&work.target)?;
                            carry_out(work, products)
                        }))
                    }
                    Order::Sweep(sweep) => {
                        let result = admit(&sweep.target).and_then(|()| sweep.carry_out());
                        WorkerReport::Swept { worker: id, result }
                    }
                    Order::Adopt(adoption) => {
                        let result = admit(&adoption.target).and_then(|()| adoption.carry_out());
                        WorkerReport::Adopted { worker: id, result }
                    }
                });
            }
        };
        // The kernel keeps 15 bytes of the name.
        let thread = thread::Builder::new().name(format!("unpackd-{name}")).spawn(work)?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Starts a job. Returns false if the thread has ended.
    pub fn begin(&self, work: Work) -> bool {
        self.order(Order::Job(Box::new(work)))
    }

    /// Starts a sweep of the target. Returns false if the thread has ended.
    pub fn sweep(&self, sweep: Sweep) -> bool {
        self.order(Order::Sweep(Box::new(sweep)))
    }

    /// Adopts the target's ready state. Returns false if the thread has ended.
    pub fn adopt(&self, adoption: Adoption) -> bool {
        self.order(Order::Adopt(Box::new(adoption)))
    }

    fn order(&self, order: Order) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok())
    }

    /// Lets the thread end after the running job, without waiting for it.
    pub fn retire(&mut self) {
        self.orders = None;
    }

    /// Returns whether the thread has ended. Unless the worker was retired, that is a defect.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn attempt(
    worker: u64,
    work: &Work,
    carry_out: impl Fn(&Work, &mut Vec<Product>) -> Result<(), FastbootError>,
) -> Ended {
    let (mut products, since) = (Vec::new(), Instant::now());
    let result = catch_unwind(AssertUnwindSafe(|| carry_out(work, &mut products)));
    let result = match result {
        Ok(result) => result.map_err(Failure::Error),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(Failure::Panic(text.unwrap_or("no message").to_owned()))
        }
    };
    Ended { worker, products, result, elapsed: since.elapsed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const HANG: Duration = Duration::from_mins(1);

    #[test]
    fn a_panic_is_a_failed_job_and_the_thread_goes_on() {
        let carry_out = |work: &Work, products: &mut Vec<Product>| match work.pair.slot() {
            1 => panic!("with {}", "a text"),
            2 => panic!("with a word"),
            3 => std::panic::panic_any(3),
            slot => {
                let path = slot.to_string().into();
                products.push(Product { path, report: None, archive: None, adopted: None });
                Ok(())
            }
        };
        let (sender, reports) = channel();
        let worker = Worker::doing(
            9,
            "test",
            |_| Ok(()),
            carry_out,
            move |report| {
                sender.send(report).unwrap();
            },
        )
        .unwrap();
        for (slot, text) in [(1, "with a text"), (2, "with a word"), (3, "no message")] {
            assert!(worker.begin(testing::work(slot)));
            let WorkerReport::Ended(ended) = reports.recv_timeout(HANG).unwrap() else { panic!() };
            assert!(ended.products.is_empty());
            match ended.result {
                Err(Failure::Panic(message)) => assert_eq!(message, text),
                other => panic!("{other:?}"),
            }
        }
        assert!(!worker.is_dead());
        assert!(worker.begin(testing::work(4)));
        let WorkerReport::Ended(ended) = reports.recv_timeout(HANG).unwrap() else { panic!() };
        assert!(ended.result.is_ok() && ended.worker == 9 && ended.products.len() == 1);
    }
}

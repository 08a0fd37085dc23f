//! A thread for each target, which does one job at a time and sleeps between them.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::mpsc::{Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use unsnap_unpack::Error;

use crate::target::{Product, Sweep, Work, carry_out};

/// What a worker has done.
#[derive(Debug)]
pub enum Said {
    /// A job is over.
    Ended(Ended),
    /// A target was swept.
    Swept {
        /// The worker.
        worker: u64,
        /// What is to be removed.
        moved: Result<Vec<PathBuf>, Error>,
    },
}

#[derive(Debug)]
enum Order {
    Job(Box<Work>),
    Sweep(Sweep),
}

/// What became of a job.
#[derive(Debug)]
pub struct Ended {
    /// The number that the worker was started with.
    pub worker: u64,
    /// What is there now of what it was to make, whatever became of the rest.
    pub products: Vec<Product>,
    /// Whether all of it is.
    pub result: Result<(), Trouble>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Why a job has failed.
#[derive(Debug)]
pub enum Trouble {
    /// An error of the library.
    Error(Error),
    /// A defect: it panicked.
    Panic(String),
}

/// A worker. Dropped, its thread ends after the job at hand, for which is waited.
#[derive(Debug)]
pub struct Worker {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread. `say` is called on it after each order; `id` tells workers apart.
    pub fn start(id: u64, name: &str, say: impl Fn(Said) + Send + 'static) -> io::Result<Self> {
        Self::doing(id, name, carry_out, say)
    }

    /// The same for jobs that are done by `carry_out`.
    fn doing(
        id: u64,
        name: &str,
        carry_out: impl Fn(&Work, &mut Vec<Product>) -> Result<(), Error> + Send + 'static,
        say: impl Fn(Said) + Send + 'static,
    ) -> io::Result<Self> {
        // One at a time: nothing is sent before the one before has ended.
        let (orders, received) = channel();
        let work = move || {
            for order in received {
                say(match order {
                    Order::Job(work) => Said::Ended(attempt(id, &work, &carry_out)),
                    Order::Sweep(sweep) => Said::Swept { worker: id, moved: sweep.carry_out() },
                });
            }
        };
        // The kernel keeps 15 bytes of it.
        let thread = thread::Builder::new().name(format!("unpackd-{name}")).spawn(work)?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Begins with a job. Whether there is a thread to do it.
    pub fn begin(&self, work: Work) -> bool {
        self.order(Order::Job(Box::new(work)))
    }

    /// Sweeps its target. Whether there is a thread to do it.
    pub fn sweep(&self, sweep: Sweep) -> bool {
        self.order(Order::Sweep(sweep))
    }

    fn order(&self, order: Order) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok())
    }

    /// Lets it end after the job at hand, without waiting for that.
    pub fn retire(&mut self) {
        self.orders = None;
    }

    /// Whether its thread has ended, which it does only if something is wrong.
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
    carry_out: impl Fn(&Work, &mut Vec<Product>) -> Result<(), Error>,
) -> Ended {
    let (mut products, since) = (Vec::new(), Instant::now());
    let result = catch_unwind(AssertUnwindSafe(|| carry_out(work, &mut products)));
    let result = match result {
        Ok(result) => result.map_err(Trouble::Error),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(Trouble::Panic(text.unwrap_or("no message").to_owned()))
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
                products.push(Product { path: slot.to_string().into(), report: None });
                Ok(())
            }
        };
        let (sender, said) = channel();
        let worker =
            Worker::doing(9, "test", carry_out, move |said| sender.send(said).unwrap()).unwrap();
        for (slot, text) in [(1, "with a text"), (2, "with a word"), (3, "no message")] {
            assert!(worker.begin(testing::work(slot)));
            let Said::Ended(ended) = said.recv_timeout(HANG).unwrap() else { panic!() };
            assert!(ended.products.is_empty());
            match ended.result {
                Err(Trouble::Panic(told)) => assert_eq!(told, text),
                other => panic!("{other:?}"),
            }
        }
        assert!(!worker.is_dead());
        assert!(worker.begin(testing::work(4)));
        let Said::Ended(ended) = said.recv_timeout(HANG).unwrap() else { panic!() };
        assert!(ended.result.is_ok() && ended.worker == 9 && ended.products.len() == 1);
    }
}

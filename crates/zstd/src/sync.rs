//! Locks and threads. In unit tests they are those of a scheduler that tries the orders in which threads
//! can take their steps, and finds a thread that is never woken.

#[cfg(not(test))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

#[cfg(test)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

/// Starts a named thread. Returns false if the system refuses it.
#[cfg(not(test))]
pub(crate) fn spawn_scoped<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: String,
    work: impl FnOnce() + Send + 'scope,
) -> bool {
    thread::Builder::new().name(name).spawn_scoped(scope, work).is_ok()
}

#[cfg(test)]
pub(crate) fn spawn_scoped<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    _name: String,
    work: impl FnOnce() + Send + 'scope,
) -> bool {
    scope.spawn(work);
    true
}

/// Runs `check` in many orders of its threads: random ones, and those with few changes between threads
/// at unusual places. A failure prints the order, which `shuttle::replay` repeats.
#[cfg(test)]
pub(crate) fn try_orders(check: impl Fn() + Clone + Send + Sync + 'static) {
    use shuttle::{
        Config, Runner,
        scheduler::{PctScheduler, RandomScheduler},
    };

    /// Orders of each kind.
    const ORDERS: usize = 1500;
    /// Changes between threads at unusual places.
    const CHANGES: usize = 4;
    let mut config = Config::new();
    // Parsers are on the stack.
    config.stack_size = 1 << 20;
    Runner::new(RandomScheduler::new_from_seed(0, ORDERS), config.clone()).run(check.clone());
    Runner::new(PctScheduler::new_from_seed(0, CHANGES, ORDERS), config).run(check);
}

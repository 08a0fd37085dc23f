//! Opening an engine of the configured kind.

use crate::{
    engine::{Engine, EngineConfig, EngineError, EngineKind},
    faulty::Faulty,
    threads::Threads,
    uring::Uring,
};

impl EngineConfig {
    /// Opens the engine. Another thread may own it: a ring binds to the thread that uses it first.
    pub fn open(self) -> Result<Box<dyn Engine>, EngineError> {
        Ok(match self.kind.clone() {
            EngineKind::Uring => Box::new(Uring::open(&self)?),
            EngineKind::Threads => Box::new(Threads::open(&self)?),
            EngineKind::Faulty(plan) => Box::new(Faulty::open(plan, &self)),
        })
    }
}

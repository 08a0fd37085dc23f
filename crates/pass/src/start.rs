//! The beginning of an archive that was received before it is opened.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use unsnap_fetch::HeadStart;

/// What has been received of an archive before it is opened. It is no part of which archive it is.
#[derive(Clone, Default)]
pub struct Start(Arc<Mutex<Option<Box<HeadStart>>>>);

impl Start {
    pub(crate) fn new(start: HeadStart) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(start)))))
    }

    /// Takes it, the first time.
    pub(crate) fn take(&self) -> Option<HeadStart> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map(|start| *start)
    }
}

impl PartialEq for Start {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Start {}

impl fmt::Debug for Start {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Start")
    }
}

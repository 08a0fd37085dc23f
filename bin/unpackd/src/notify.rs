//! The service manager is told how the process stands.

use std::time::Duration;

use unsnap_service::Notify;

/// Tells nobody.
pub struct Silent;

impl Notify for Silent {
    fn ready(&self) {}
    fn status(&self, _: &str) {}
    fn reloading(&self) {}
    fn stopping(&self) {}
    fn extend(&self, _: Duration) {}
    fn watchdog(&self) {}
    fn watchdog_every(&self) -> Option<Duration> {
        None
    }
}

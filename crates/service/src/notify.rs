//! Interface to the service manager.

use std::time::Duration;

/// Notifications to the service manager. The supervisor calls them on one thread; they must not
/// block for long.
pub trait Notify: Send {
    /// Reports that the service is ready.
    fn ready(&self);
    /// Reports the status in one line of text, for people.
    fn status(&self, text: &str);
    /// Reports the start of a reload; [`ready`](Self::ready) follows.
    fn reloading(&self);
    /// Reports that the service is stopping.
    fn stopping(&self);
    /// Requests more time for stopping.
    fn extend(&self, time: Duration);
    /// Feeds the watchdog: every thread makes progress or is provably idle.
    fn watchdog(&self);
    /// Returns the interval at which [`watchdog`](Self::watchdog) must be called; `None` if there
    /// is no watchdog.
    fn watchdog_every(&self) -> Option<Duration>;
}

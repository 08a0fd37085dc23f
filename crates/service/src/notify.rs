//! Who is told how the process stands.

use std::time::Duration;

/// The service manager, as the supervisor sees it. Called on one thread; must not block for long.
pub trait Notify: Send {
    /// Everything is set up.
    fn ready(&self);
    /// How it stands, in words, for people.
    fn status(&self, text: &str);
    /// A new configuration is being read; [`ready`](Self::ready) follows.
    fn reloading(&self);
    /// It ends.
    fn stopping(&self);
    /// Ending takes so much longer.
    fn extend(&self, time: Duration);
    /// Every stage moves, or is provably idle.
    fn watchdog(&self);
    /// How often [`watchdog`](Self::watchdog) is to be called; `None` if nobody waits for it.
    fn watchdog_every(&self) -> Option<Duration>;
}

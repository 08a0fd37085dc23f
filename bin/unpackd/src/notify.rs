//! What systemd is told of the service, where it wants to know: sd_notify(3).
//!
//! Without `NOTIFY_SOCKET` nothing of this does anything. Nothing of it fails either: a service that
//! cannot tell how it is goes on with what it is for, and the watchdog draws the conclusions.

use std::time::Duration;

use sd_notify::NotifyState;

/// Bytes of a status, at most: systemd refuses no length, but `systemctl status` shows one line.
const STATUS_BYTES_MAX: usize = 500;

/// Tells systemd.
#[derive(Debug, Default)]
pub struct Notifier {
    /// Whether somebody listens.
    listened_to: bool,
    /// What was told last, not to say the same twice.
    status: String,
}

impl Notifier {
    /// Tells whoever has started this process, if it wants to know.
    pub fn from_environment() -> Self {
        Self { listened_to: std::env::var_os("NOTIFY_SOCKET").is_some(), ..Self::default() }
    }

    /// How often [`alive`](Self::alive) must be said, if a watchdog waits for it: twice in its time, as
    /// sd_watchdog_enabled(3) recommends.
    pub fn watchdog_period() -> Option<Duration> {
        sd_notify::watchdog_enabled().map(|limit| limit / 2)
    }

    /// The service does its work: it has started, or has its new configuration.
    pub fn ready(&mut self, status: &str) {
        self.tell(&[NotifyState::Ready], status);
    }

    /// How it stands, in words; sent only if that has changed.
    pub fn status(&mut self, status: &str) {
        if cut(status) != self.status {
            self.tell(&[], status);
        }
    }

    /// The configuration is read again, until [`ready`](Self::ready) is said; also if the old one stays.
    pub fn reloading(&self) {
        // systemd takes the reload that it asked for to be this one only if the time is later.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "systemd is not told of the reload"),
        }
    }

    /// The service ends.
    pub fn stopping(&mut self, status: &str) {
        self.tell(&[NotifyState::Stopping], status);
    }

    /// Starting or stopping takes so much longer from now on, beyond `TimeoutStopSec=` if need be.
    pub fn extend(&self, by: Duration) {
        let micros = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
        self.send(&[NotifyState::ExtendTimeoutUsec(micros)]);
    }

    /// All that should move moves.
    pub fn alive(&self) {
        self.send(&[NotifyState::Watchdog]);
    }

    fn send(&self, states: &[NotifyState]) {
        if !self.listened_to {
            return;
        }
        if let Err(error) = sd_notify::notify(states) {
            // Below the level that is logged by default: it would be said twice in a watchdog's time.
            tracing::debug!(%error, "systemd cannot be told");
        }
    }

    fn tell(&mut self, states: &[NotifyState], status: &str) {
        status.clone_into(&mut self.status);
        self.status.truncate(cut(status).len());
        self.send(&[states, &[NotifyState::Status(cut(&self.status))]].concat());
    }
}

/// The first line of a text, or as much of it as is shown.
fn cut(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(STATUS_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_line_of_bounded_length() {
        assert_eq!(cut("idle\nREADY=1"), "idle");
        assert_eq!(cut(""), "");
        let long = "ä".repeat(STATUS_BYTES_MAX);
        assert_eq!(cut(&long).len(), STATUS_BYTES_MAX);
        assert_eq!(cut(&format!("x{long}")).len(), STATUS_BYTES_MAX - 1);
    }

    #[test]
    fn without_a_socket_nothing_happens() {
        assert_eq!(std::env::var_os("NOTIFY_SOCKET"), None, "run it outside of a service");
        let mut notifier = Notifier::from_environment();
        notifier.ready("idle");
        notifier.status("working");
        notifier.reloading();
        notifier.extend(Duration::MAX);
        notifier.alive();
        notifier.stopping("done");
        assert_eq!(notifier.status, "done");
        assert_eq!(Notifier::watchdog_period(), None);
    }
}

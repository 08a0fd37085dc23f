//! What systemd is told of the service, where it wants to know: sd_notify(3).

use std::{cell::RefCell, time::Duration};

use sd_notify::NotifyState;
use unsnap_service::Notify;

/// Bytes of a status, at most: systemd refuses no length, but `systemctl status` shows one line.
const STATUS_BYTES_MAX: usize = 500;

/// Tells systemd. Without `NOTIFY_SOCKET` nothing of this does anything. Nothing of it fails either: a
/// service that cannot tell how it is goes on with what it is for, and the watchdog draws the
/// conclusions.
#[derive(Debug, Default)]
pub struct Systemd {
    /// Whether somebody listens.
    listens: bool,
    /// Twice in the watchdog's time, as sd_watchdog_enabled(3) recommends.
    watchdog_every: Option<Duration>,
    /// The status that was told last, not to say the same twice.
    status: RefCell<String>,
}

impl Systemd {
    /// Whoever has started this process.
    pub fn from_environment() -> Self {
        Self {
            listens: std::env::var_os("NOTIFY_SOCKET").is_some(),
            watchdog_every: sd_notify::watchdog_enabled().map(|limit| limit / 2),
            status: RefCell::default(),
        }
    }

    fn send(&self, states: &[NotifyState]) {
        if !self.listens {
            return;
        }
        if let Err(error) = sd_notify::notify(states) {
            // Below the level that is logged by default: it would be said again and again.
            tracing::debug!(%error, "systemd cannot be told");
        }
    }
}

impl Notify for Systemd {
    fn ready(&self) {
        self.send(&[NotifyState::Ready]);
    }

    fn status(&self, text: &str) {
        let text = cut(text);
        if *self.status.borrow() != text {
            text.clone_into(&mut self.status.borrow_mut());
            self.send(&[NotifyState::Status(text)]);
        }
    }

    fn reloading(&self) {
        // systemd takes the reload that it has asked for to be this one only if the time is later.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "systemd is not told of the reload"),
        }
    }

    fn stopping(&self) {
        self.send(&[NotifyState::Stopping]);
    }

    fn extend(&self, time: Duration) {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        self.send(&[NotifyState::ExtendTimeoutUsec(micros)]);
    }

    fn watchdog(&self) {
        self.send(&[NotifyState::Watchdog]);
    }

    fn watchdog_every(&self) -> Option<Duration> {
        self.watchdog_every
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
}

//! Notifications to systemd: sd_notify(3).

use std::{cell::RefCell, time::Duration};

use sd_notify::NotifyState;
use unsnap_service::Notify;

/// Most bytes of a status. systemd accepts any length, but `systemctl status` shows one line.
const STATUS_BYTES_MAX: usize = 500;

/// The connection to systemd. Without `NOTIFY_SOCKET` all notifications do nothing. Errors are not
/// returned: the service keeps working without notifications, and if the watchdog's are lost,
/// systemd restarts it.
#[derive(Debug, Default)]
pub struct Systemd {
    /// Whether `NOTIFY_SOCKET` is set.
    listens: bool,
    /// Half of the watchdog's timeout, as sd_watchdog_enabled(3) recommends.
    watchdog_every: Option<Duration>,
    /// The last status sent, which is not repeated.
    status: RefCell<String>,
}

impl Systemd {
    /// Reads the connection's parameters from the environment.
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
            // Below the default log level, since it would repeat.
            tracing::debug!(%error, "cannot notify systemd");
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
        // systemd matches this to the reload that it requested only if the time is later.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "cannot notify systemd of the reload"),
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

/// Returns the first line of a text, at most [`STATUS_BYTES_MAX`] bytes of it.
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

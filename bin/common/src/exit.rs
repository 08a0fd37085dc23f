//! Exit codes.

use std::{error::Error, fmt, process::ExitCode};

use unsnap_commit::CommitError;
use unsnap_control::{ClientError, protocol::RefusalKind};
use unsnap_failure::{Code, Failure, Family};
use unsnap_fastboot::FastbootError;
use unsnap_fit::FitError;
use unsnap_lookup::LookupError;
use unsnap_pack::PackError;
use unsnap_pass::PassError;
use unsnap_unpack::UnpackError;

use crate::{settings::RequestError, signals};

/// A validator would load the newest state, and fail. Exit code 1, as for other things that fail to
/// verify.
#[derive(Debug)]
pub struct StateDamaged {
    /// Whether it can be made whole again.
    pub repairable: bool,
}

impl fmt::Display for StateDamaged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a validator that starts would fail: ")?;
        formatter.write_str(if self.repairable {
            "run `ledger-tool fastboot repair` before"
        } else {
            "run `ledger-tool fastboot repair` before, which withdraws the state"
        })
    }
}

impl Error for StateDamaged {}

/// Words for what the library has no [`Code`] for: [`StateDamaged`], and three kinds of [`ClientError`].
pub const CODES: [&str; 4] = [STATE_DAMAGED, SERVICE_REFUSED, SERVICE_UNREACHABLE, SERVICE_GONE];

const STATE_DAMAGED: &str = "state-damaged";
const SERVICE_REFUSED: &str = "service-refused";
const SERVICE_UNREACHABLE: &str = "service-unreachable";
const SERVICE_GONE: &str = "service-gone";

/// Somebody has seen enough, and said so by a signal. There is nothing to tell about it.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("interrupted")
    }
}

impl Error for Interrupted {}

/// Two archives differ, and that was to be the exit code: 1, without any word.
#[derive(Debug)]
pub struct Differ;

impl fmt::Display for Differ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the archives differ")
    }
}

impl Error for Differ {}

/// Something makes unsnap slow or unsafe on this machine; what it is has been told. Exit code 3.
#[derive(Debug)]
pub struct MachineUnfit;

impl fmt::Display for MachineUnfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("something makes unsnap slow or unsafe on this machine")
    }
}

impl Error for MachineUnfit {}

/// Exit codes that all programs for people have in common, and what they mean.
pub const EXIT_STATUS: [(&str, &str); 7] = [
    ("0", "It is done; or whoever read the output has had enough of it."),
    (
        "1",
        "An archive is bad, or what was made of it is, or what was to be verified or compared is not \
           as it was said to be.",
    ),
    ("2", "What was asked for makes no sense."),
    ("3", "The machine cannot do it: a disk is full, input or output failed, a limit is too low."),
    ("4", "A destination is not clean, or somebody else is at work on it."),
    ("130", "Interrupted (SIGINT)."),
    ("143", "Terminated (SIGTERM)."),
];

/// Returns an error of the libraries as a failure, if it is one.
pub fn failure(error: &anyhow::Error) -> Option<&dyn Failure> {
    fn of<E: Failure + Send + Sync + 'static>(error: &anyhow::Error) -> Option<&dyn Failure> {
        error.downcast_ref::<E>().map(|error| error as &dyn Failure)
    }
    of::<UnpackError>(error)
        .or_else(|| of::<FastbootError>(error))
        .or_else(|| of::<LookupError>(error))
        .or_else(|| of::<PackError>(error))
        .or_else(|| of::<PassError>(error))
        .or_else(|| of::<CommitError>(error))
        .or_else(|| of::<FitError>(error))
}

/// How the process ends when it does not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// An archive is bad, or what was made of it. 1.
    BadArchive,
    /// What was asked for makes no sense. 2.
    Usage,
    /// The machine cannot do it. 3.
    Environment,
    /// A destination is not clean, or somebody else is at work. 4.
    NotClean,
    /// Stopped by a signal; the process ends by that signal, as the shell expects.
    Signal,
    /// Whoever read our output has had enough: a quiet success.
    BrokenPipe,
    /// What was compared is different, as was found out on demand. 1.
    Differ,
}

impl Exit {
    /// What an error means.
    pub fn of(error: &anyhow::Error) -> Self {
        // A reader of our output that has had enough is no failure, see below.
        let is_output =
            matches!(error.downcast_ref::<LookupError>(), Some(LookupError::Output { .. }));
        if let Some(failure) = failure(error).filter(|_| !is_output) {
            return match failure.family() {
                Family::BadArchive => Self::BadArchive,
                Family::Request => Self::Usage,
                Family::Environment => Self::Environment,
                Family::NotClean => Self::NotClean,
                Family::Cancelled => Self::Signal,
            };
        }
        if let Some(error) = error.downcast_ref::<ClientError>() {
            return Self::of_client(error);
        }
        if error.is::<Interrupted>() {
            return Self::Signal;
        }
        if error.is::<StateDamaged>() {
            return Self::BadArchive;
        }
        if error.is::<RequestError>() {
            return Self::Usage;
        }
        if error.is::<Differ>() {
            return Self::Differ;
        }
        let broken_pipe = error
            .chain()
            .find_map(|cause| cause.downcast_ref::<std::io::Error>())
            .or(match error.downcast_ref::<LookupError>() {
                Some(LookupError::Output { error }) => Some(error),
                _ => None,
            })
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe);
        if broken_pipe { Self::BrokenPipe } else { Self::Environment }
    }

    /// What went wrong, in a word that stays the same; `None` if there is none for it.
    pub fn code(error: &anyhow::Error) -> Option<&'static str> {
        if let Some(failure) = failure(error) {
            return Some(failure.code().name());
        }
        if error.is::<StateDamaged>() {
            return Some(STATE_DAMAGED);
        }
        if error.is::<RequestError>() {
            return Some(Code::Request.name());
        }
        match error.downcast_ref::<ClientError>() {
            Some(ClientError::Refused(_)) => return Some(SERVICE_REFUSED),
            Some(ClientError::Unreachable { .. }) => return Some(SERVICE_UNREACHABLE),
            Some(ClientError::Unspeakable(_)) => return Some(Code::Request.name()),
            Some(ClientError::Gone(_) | ClientError::Nonsense(_)) => return Some(SERVICE_GONE),
            None => {}
        }
        let system = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>())?;
        Some(Code::of_io_error(system).name())
    }

    /// What it means that the service does not do it.
    fn of_client(error: &ClientError) -> Self {
        match error {
            ClientError::Refused(refusal) => match refusal.kind {
                RefusalKind::BadArchive => Self::BadArchive,
                RefusalKind::Busy | RefusalKind::QueueFull => Self::NotClean,
                RefusalKind::UnknownRequest
                | RefusalKind::BadRequest
                | RefusalKind::TooLarge
                | RefusalKind::NoSuchJob
                | RefusalKind::NoSuchTarget
                | RefusalKind::BadConfig => Self::Usage,
                _ => Self::Environment,
            },
            ClientError::Unspeakable(_) => Self::Usage,
            _ => Self::Environment,
        }
    }

    /// Whether nothing is to be said.
    pub fn is_quiet(self) -> bool {
        matches!(self, Self::BrokenPipe | Self::Differ)
    }

    /// What `main` returns, if it does.
    pub fn leave(self) -> ExitCode {
        match self {
            Self::BadArchive | Self::Differ => ExitCode::from(1),
            Self::Usage => ExitCode::from(2),
            Self::Environment => ExitCode::from(3),
            Self::NotClean => ExitCode::from(4),
            Self::Signal => signals::die_of_received(),
            Self::BrokenPipe => ExitCode::SUCCESS,
        }
    }
}

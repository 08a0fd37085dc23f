//! Exit codes, and the words in brackets at the end of error messages.

use std::{error::Error, fmt, io, process::ExitCode};

use unsnap_commit::CommitError;
use unsnap_control::{ClientError, protocol::RefusalKind};
use unsnap_export::ExportError;
use unsnap_failure::{Code, Failure, Family};
use unsnap_fastboot::FastbootError;
use unsnap_fit::FitError;
use unsnap_lookup::LookupError;
use unsnap_pack::PackError;
use unsnap_pass::PassError;
use unsnap_unpack::UnpackError;

use crate::{settings::RequestError, signals};

/// The newest state is damaged, so that a validator would load it and fail. Exit code 1, as for
/// archives that fail verification.
#[derive(Debug)]
pub struct StateDamaged {
    /// Whether `fastboot repair` can restore it.
    pub repairable: bool,
}

impl fmt::Display for StateDamaged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a validator would fail to start from this state: ")?;
        formatter.write_str(if self.repairable {
            "`ledger-tool fastboot repair` restores it"
        } else {
            "`ledger-tool fastboot repair` withdraws it"
        })
    }
}

impl Error for StateDamaged {}

/// Standard output does not take what is printed. Exit code 3; 5 if only the report of a finished
/// operation was lost.
#[derive(Debug)]
pub struct OutputFailed {
    /// The finished operation, such as "unpacked to /mnt/x and durable"; `None` if the output was
    /// the result.
    pub done: Option<String>,
    /// The part of the output that is lost then.
    pub lost: &'static str,
    /// The reason.
    pub error: io::Error,
}

impl fmt::Display for OutputFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, lost, error } = self;
        match done {
            Some(done) => {
                write!(formatter, "{done}; only the {lost} could not be printed: {error}")
            }
            None => write!(formatter, "cannot write to standard output: {error}"),
        }
    }
}

impl Error for OutputFailed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl OutputFailed {
    /// The output was the result.
    pub fn new(error: io::Error) -> Self {
        Self { done: None, lost: "report", error }
    }

    /// Only the report of a finished operation is lost.
    #[must_use]
    pub fn after(self, done: String) -> Self {
        Self { done: Some(done), ..self }
    }

    /// Returns a remedy in words, if one is known. It never speaks of the operation's destination.
    pub fn hint(error: &anyhow::Error) -> Option<String> {
        let full = matches!(
            output_error(error)?.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        );
        full.then(|| {
            "standard output goes to a file or device that is full: redirect it elsewhere"
                .to_owned()
        })
    }
}

/// Returns why standard output does not take what is printed, if that is the error.
pub fn output_error(error: &anyhow::Error) -> Option<&io::Error> {
    let lookup = || match error.downcast_ref::<LookupError>() {
        Some(LookupError::Output { error }) => Some(error),
        _ => None,
    };
    error.downcast_ref::<OutputFailed>().map(|failed| &failed.error).or_else(lookup)
}

/// Words for errors without a [`Code`] of the libraries: [`StateDamaged`], [`OutputFailed`],
/// [`JobFailed`] and three kinds of [`ClientError`].
pub const CODES: [&str; 6] =
    [STATE_DAMAGED, OUTPUT_FAILED, JOB_FAILED, SERVICE_REFUSED, SERVICE_UNREACHABLE, SERVICE_GONE];

const STATE_DAMAGED: &str = "state-damaged";
const OUTPUT_FAILED: &str = "output-failed";
const JOB_FAILED: &str = "job-failed";
const SERVICE_REFUSED: &str = "service-refused";
const SERVICE_UNREACHABLE: &str = "service-unreachable";
const SERVICE_GONE: &str = "service-gone";

/// The user ended a command that runs until interrupted. Nothing is printed.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("interrupted")
    }
}

impl Error for Interrupted {}

/// Two archives differ, and the user asked for an exit code: 1, without a message.
#[derive(Debug)]
pub struct Differ;

impl fmt::Display for Differ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the archives differ")
    }
}

impl Error for Differ {}

/// A job of the service did not succeed. It has the exit code of the job.
#[derive(Debug)]
pub struct JobFailed {
    /// Exit code by which the job tells its outcome.
    pub exit_code: u8,
    /// Job, outcome and reason, in words.
    pub text: String,
}

impl fmt::Display for JobFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Error for JobFailed {}

/// Something makes unsnap slow or unsafe on this machine; the report names it. Exit code 3.
#[derive(Debug)]
pub struct MachineUnfit;

impl fmt::Display for MachineUnfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("something makes unsnap slow or unsafe on this machine")
    }
}

impl Error for MachineUnfit {}

/// A failure of a program itself, in the style of the libraries' failures.
#[derive(Debug)]
pub struct ProgramFailure(Box<dyn Failure + Send + Sync>);

impl ProgramFailure {
    /// Wraps a failure.
    pub fn new(failure: impl Failure + Send + Sync + 'static) -> Self {
        Self(Box::new(failure))
    }
}

impl fmt::Display for ProgramFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for ProgramFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl Failure for ProgramFailure {
    fn inner(&self) -> Option<&dyn Failure> {
        Some(&*self.0)
    }
}

/// Exit codes that all commands share, and their meanings.
pub const EXIT_STATUS: [(&str, &str); 8] = [
    ("0", "Success, or the reader of standard output closed it."),
    (
        "1",
        "The archive is bad, or an unpacked state is, or verification failed, or archives that were \
         to be equal differ.",
    ),
    ("2", "The request is invalid."),
    (
        "3",
        "The environment does not allow it: a disk is full, an I/O operation failed, or a limit is \
         too low.",
    ),
    ("4", "A destination is not clean, or another process is using it."),
    ("5", "Done: the result is complete and durable, but its report could not be printed."),
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
        .or_else(|| of::<ExportError>(error))
        .or_else(|| of::<PassError>(error))
        .or_else(|| of::<CommitError>(error))
        .or_else(|| of::<FitError>(error))
        .or_else(|| of::<ProgramFailure>(error))
}

/// How the process ends if it does not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// An archive is bad, or an unpacked state is. 1.
    BadArchive,
    /// The request is invalid. 2.
    Usage,
    /// The environment does not allow it. 3.
    Environment,
    /// A destination is not clean, or another process is using it. 4.
    NotClean,
    /// A signal stopped the run; the process ends by that signal, as the shell expects.
    Signal,
    /// The reader of standard output closed it: a quiet success.
    BrokenPipe,
    /// Two archives differ, and the user asked for an exit code. 1.
    Differ,
    /// The comparison failed, and the caller wants to tell that from a difference. 2.
    Trouble,
    /// Done, but the report could not be printed. 5.
    Unreported,
}

impl Exit {
    /// Returns the exit that an error leads to.
    pub fn of(error: &anyhow::Error) -> Self {
        if let Some(output) = output_error(error) {
            let done = error.downcast_ref::<OutputFailed>().is_some_and(|it| it.done.is_some());
            return match output.kind() {
                io::ErrorKind::BrokenPipe => Self::BrokenPipe,
                _ if done => Self::Unreported,
                _ => Self::Environment,
            };
        }
        if let Some(failure) = failure(error) {
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
        if let Some(job) = error.downcast_ref::<JobFailed>() {
            return match job.exit_code {
                1 => Self::BadArchive,
                2 => Self::Usage,
                // A job that a client cancelled was in nobody's way.
                4 | 130 => Self::NotClean,
                _ => Self::Environment,
            };
        }
        if error.is::<Differ>() {
            return Self::Differ;
        }
        let broken_pipe = error
            .chain()
            .find_map(|cause| cause.downcast_ref::<io::Error>())
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if broken_pipe { Self::BrokenPipe } else { Self::Environment }
    }

    /// Returns the stable word for an error; `None` if it has none.
    pub fn code(error: &anyhow::Error) -> Option<&'static str> {
        if output_error(error).is_some() {
            return Some(OUTPUT_FAILED);
        }
        if let Some(failure) = failure(error) {
            return Some(failure.code().name());
        }
        if error.is::<StateDamaged>() {
            return Some(STATE_DAMAGED);
        }
        if error.is::<RequestError>() {
            return Some(Code::Request.name());
        }
        if error.is::<JobFailed>() {
            return Some(JOB_FAILED);
        }
        match error.downcast_ref::<ClientError>() {
            Some(ClientError::Refused(_)) => return Some(SERVICE_REFUSED),
            Some(ClientError::Unreachable { .. }) => return Some(SERVICE_UNREACHABLE),
            Some(ClientError::Unspeakable(_)) => return Some(Code::Request.name()),
            Some(ClientError::Gone(_) | ClientError::Nonsense(_)) => return Some(SERVICE_GONE),
            None => {}
        }
        let system = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>())?;
        Some(Code::of_io_error(system).name())
    }

    /// Returns the exit that a refusal of the service or a lost connection leads to.
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

    /// Returns the same for a comparison whose caller asked for 1 to mean a difference: every
    /// failure is 2, as with diff and cmp.
    #[must_use]
    pub fn of_comparison(self) -> Self {
        match self {
            Self::BadArchive | Self::Usage | Self::Environment | Self::NotClean => Self::Trouble,
            other => other,
        }
    }

    /// Returns whether no message is printed.
    pub fn is_quiet(self) -> bool {
        matches!(self, Self::BrokenPipe | Self::Differ)
    }

    /// Returns the exit code for `main`, or ends the process by the signal that stopped it.
    pub fn leave(self) -> ExitCode {
        match self {
            Self::BadArchive | Self::Differ => ExitCode::from(1),
            Self::Usage | Self::Trouble => ExitCode::from(2),
            Self::Environment => ExitCode::from(3),
            Self::NotClean => ExitCode::from(4),
            Self::Unreported => ExitCode::from(5),
            Self::Signal => signals::die_of_received(),
            Self::BrokenPipe => ExitCode::SUCCESS,
        }
    }
}

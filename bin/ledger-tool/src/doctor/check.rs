//! The result of a check.

use serde::Serialize;

/// Severity of a check's result. The worst verdict decides the exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As recommended.
    #[default]
    Ok,
    /// Worth knowing, but makes unsnap neither slower nor less safe.
    Note,
    /// unsnap is slower or less safe than it could be on this machine.
    Warning,
    /// unsnap would fail here, or data that it reports as durable might not be.
    Problem,
}

impl Verdict {
    /// Returns the word that JSON uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    /// Returns whether unsnap is slow or unsafe: then the exit code is 3.
    pub fn is_bad(self) -> bool {
        self >= Self::Warning
    }
}

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Name of the check, one to three words; stable.
    pub id: &'static str,
    /// The checked path; `None` for the machine and the process.
    pub path: Option<String>,
    /// Severity.
    pub verdict: Verdict,
    /// The finding.
    pub found: String,
    /// The consequence for unsnap, if there is one.
    pub consequence: Option<String>,
    /// A remedy: a command, a line of a unit file, or a flag.
    pub remedy: Option<String>,
}

impl Check {
    /// Creates a check with the verdict `Ok`.
    pub fn ok(id: &'static str, found: impl Into<String>) -> Self {
        let (verdict, found) = (Verdict::Ok, found.into());
        Self { id, path: None, verdict, found, consequence: None, remedy: None }
    }

    /// Sets the verdict and the consequence.
    pub fn but(mut self, verdict: Verdict, consequence: impl Into<String>) -> Self {
        self.verdict = verdict;
        self.consequence = Some(consequence.into());
        self
    }

    /// Sets the remedy.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Sets the path.
    pub fn of(mut self, path: &str) -> Self {
        self.path = Some(path.to_owned());
        self
    }
}

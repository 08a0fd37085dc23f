//! What a check comes to.

use serde::Serialize;

/// How bad it is. The worst of all checks decides the exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    #[default]
    Ok,
    /// Worth knowing; unsnap is neither slower nor less safe for it.
    Note,
    /// unsnap is slower or less safe than it could be on such a machine.
    Warning,
    /// unsnap would fail here, or what it reports as durable might not be.
    Problem,
}

impl Verdict {
    /// The word, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    /// Whether it makes unsnap slow or unsafe: then the exit code is 3.
    pub fn is_bad(self) -> bool {
        self >= Self::Warning
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at, in one word or two; stable.
    pub id: &'static str,
    /// The path it is about; `None` for the machine and the process.
    pub path: Option<String>,
    /// How bad it is.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What follows from it, if anything does.
    pub consequence: Option<String>,
    /// What to do: a command, a line of a unit file, or a flag.
    pub remedy: Option<String>,
}

impl Check {
    /// All is well.
    pub fn ok(id: &'static str, found: impl Into<String>) -> Self {
        let (verdict, found) = (Verdict::Ok, found.into());
        Self { id, path: None, verdict, found, consequence: None, remedy: None }
    }

    /// The same, with what follows from it.
    pub fn but(mut self, verdict: Verdict, consequence: impl Into<String>) -> Self {
        self.verdict = verdict;
        self.consequence = Some(consequence.into());
        self
    }

    /// The same, with what to do.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The same, about a path.
    pub fn of(mut self, path: &str) -> Self {
        self.path = Some(path.to_owned());
        self
    }
}

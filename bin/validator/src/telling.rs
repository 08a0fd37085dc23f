//! What is told, on standard error: standard output is the validator's.

use std::time::Duration;

use indicatif::HumanCount;
use unsnap_cli::printer::{Printer, log_line};
use unsnap_fastboot::{Candidate, Candidates};
use unsnap_fastboot::{Outcome, Places, Prepared, Repaired, SetAside};

/// Tells what is done, unless it is to be quiet.
pub struct Teller {
    printer: Printer,
}

impl Teller {
    pub fn new(printer: Printer) -> Self {
        Self { printer }
    }

    pub fn printer(&self) -> &Printer {
        &self.printer
    }

    /// A line for the log.
    pub fn note(&self, text: &str) {
        if self.printer.wants_summary() {
            log_line(&format!("unsnap: {text}"));
        }
    }

    /// A line that is worth reading even if nothing else is.
    pub fn warning(&self, text: &str) {
        if self.printer.wants_warnings() {
            log_line(&format!("unsnap: warning: {text}"));
        }
    }

    pub fn error(&self, error: &anyhow::Error) {
        self.printer.error(error);
    }

    /// Which archives are there. If they cannot be looked for, that is told later.
    pub fn begins(&self, places: &Places) {
        let found = Candidates::find(&places.search_dirs()).ok();
        let Some(pair) = found.and_then(|found| found.best()) else { return };
        let name = |one: &Candidate| one.path.display().to_string();
        let upon = pair.incremental.as_ref().map(|one| format!(" and {}", name(one)));
        let upon = upon.unwrap_or_default();
        self.note(&format!("newest archives: {}{upon}", name(&pair.full)));
    }

    pub fn is_ready(&self, outcome: &Outcome, took: Duration) {
        let seconds = format!("{}.{} s", took.as_secs(), took.subsec_millis() / 100);
        let (slot, how, set_aside) = match outcome {
            Outcome::Prepared(prepared) => {
                let Prepared { slot, report, set_aside, .. } = &**prepared;
                let storages = report.accounts_paths.iter().map(|path| path.files).sum();
                (slot, format!("{} storages in {seconds}", HumanCount(storages)), set_aside)
            }
            Outcome::Adopted { slot, storages, set_aside, .. } => {
                let storages = HumanCount(*storages);
                (slot, format!("it lay ready, {storages} storages in {seconds}"), set_aside)
            }
            Outcome::Ready { slot, state, set_aside } => {
                let how = match state {
                    Repaired::Relinked { storages, .. } => {
                        format!("{} storages linked again in {seconds}", HumanCount(*storages))
                    }
                    Repaired::LeftAlone { reason, .. } => format!("not checked: {reason}"),
                    _ => "it was there".to_owned(),
                };
                (slot, how, set_aside)
            }
        };
        for SetAside { path, now, reason } in set_aside {
            self.warning(&format!("{} is now {}: {reason}", path.display(), now.display()));
        }
        self.note(&format!("state of slot {slot} is ready: {how}"));
    }
}

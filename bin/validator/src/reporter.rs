//! Messages on standard error: standard output is the validator's.

use std::time::Duration;

use unsnap_cli::{
    printer::{Printer, log_line},
    units::{count, seconds},
};
use unsnap_fastboot::{
    Candidate, Candidates, FastbootError, Outcome, Pair, Places, Prepared, Repaired, SetAside,
};
use unsnap_settings::format_duration;

/// Prints messages, unless the user asked for silence.
pub struct Reporter {
    printer: Printer,
}

impl Reporter {
    pub fn new(printer: Printer) -> Self {
        Self { printer }
    }

    pub fn printer(&self) -> &Printer {
        &self.printer
    }

    /// Prints a line that names this program, for the validator's log.
    pub fn note(&self, text: &str) {
        if !self.is_quiet() {
            log_line(&format!("unsnap: {text}"));
        }
    }

    /// Returns whether the user asked for silence.
    pub fn is_quiet(&self) -> bool {
        !self.printer.wants_summary()
    }

    /// Says that another unsnap, which this error names, is waited for.
    pub fn waiting(&self, error: &FastbootError, wait_max: Duration) {
        if !self.is_quiet() {
            note_waiting(error, wait_max);
        }
    }

    /// Prints a warning.
    pub fn warning(&self, text: &str) {
        self.printer.warning(text);
    }

    /// Prints an error.
    pub fn error(&self, error: &anyhow::Error) {
        self.printer.error(error);
    }

    /// Names the newest archives. Prints nothing if the search for them fails: preparation will report
    /// that.
    pub fn newest_archives(&self, places: &Places) {
        let found = Candidates::find(&places.search_dirs()).ok();
        let Some(pair) = found.and_then(|found| found.best()) else { return };
        self.archives("newest archives", &pair);
    }

    /// Names older archives, which are used because the state of the newest ones has failed.
    pub fn older_archives(&self, pair: &Pair) {
        self.archives("next best archives", pair);
    }

    fn archives(&self, which: &str, pair: &Pair) {
        let name = |one: &Candidate| one.path.display().to_string();
        let incremental = pair.incremental().map(|one| format!(" and {}", name(one)));
        let incremental = incremental.unwrap_or_default();
        self.note(&format!("{which}: {}{incremental}", name(pair.full())));
    }

    /// Names the state that is ready for the validator, after `took`, and says by how many slots it is
    /// older than the newest archives.
    pub fn state_is_ready(&self, outcome: &Outcome, behind: u64, took: Duration) {
        let took = seconds(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let (slot, how, set_aside) = match outcome {
            Outcome::Prepared(prepared) => {
                let Prepared { slot, report, set_aside, .. } = &**prepared;
                let storages = report.accounts_paths.iter().map(|path| path.files).sum();
                (slot, format!("unpacked {} in {took}", count(storages, "storage")), set_aside)
            }
            Outcome::Adopted { slot, storages, set_aside, .. } => {
                let storages = count(*storages, "storage");
                (slot, format!("adopted the prepared one, {storages} in {took}"), set_aside)
            }
            Outcome::Ready { slot, state, set_aside, .. } => {
                let how = match state {
                    Repaired::Relinked { storages, .. } => {
                        format!("restored {} in {took}", count(*storages, "storage"))
                    }
                    Repaired::LeftAlone { reason, .. } => format!("not checked: {reason}"),
                    _ => "it existed already".to_owned(),
                };
                (slot, how, set_aside)
            }
        };
        for SetAside { path, now, reason } in set_aside {
            let (path, now) = (path.display(), now.display());
            self.warning(&format!("renamed {path} to {now}: {reason}"));
        }
        let older = if behind > 0 {
            format!("; it is {} older than the newest archives", count(behind, "slot"))
        } else {
            String::new()
        };
        self.note(&format!("state of slot {slot} is ready: {how}{older}"));
    }

    /// Says that the state of this slot is ready, and that there was no time to remove older files.
    pub fn old_files_remain(&self, slot: u64) {
        self.note(&format!(
            "state of slot {slot} is ready; there was no time to remove all files of older ones: the \
             next start goes on"
        ));
    }
}

/// Says that another unsnap, which this error names, is waited for.
pub fn note_waiting(error: &FastbootError, wait_max: Duration) {
    log_line(&format!("unsnap: {error}: waiting for it, at most {}", format_duration(wait_max)));
}

//! Processes.

use std::fs;

use super::proc_files::read;

/// A process. Its number alone does not tell which one: the kernel uses numbers again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// Time of its start, in the kernel's units.
    pub since: String,
}

impl Process {
    /// Returns the process that has this number now; `None` if there is none.
    pub fn of(id: u32) -> Option<Self> {
        // proc_pid_stat(5): field 22. The name in field 2 may have spaces and parentheses. An exec
        // changes the name, and not the time.
        let stat = read(format!("/proc/{id}/stat"));
        let since = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.to_owned();
        Some(Self { id, since })
    }

    /// Returns whether it still exists. A zombie does.
    pub fn is_alive(&self) -> bool {
        Self::of(self.id).as_ref() == Some(self)
    }
}

/// If memory runs out, the kernel ends this process before all others.
pub fn offer_to_oom_killer() {
    // Any process may make itself the first; what fails here is no harm.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_another_one_of_its_number() {
        let own = Process::of(std::process::id()).unwrap();
        assert!(own.is_alive());
        assert!(!Process { since: "1".to_owned(), ..own }.is_alive());
        assert_eq!(Process::of(u32::MAX), None);
    }
}

//! Names of processes that outlive them.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process. The kernel gives its number to another one later, but never with the same time. A program
/// that it executes keeps the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessName {
    /// The boot of the machine.
    boot: String,
    pid: u32,
    /// When it began, in clock ticks since the boot.
    began: u64,
}

impl ProcessName {
    /// Returns the name of this process. `None` if procfs does not tell.
    pub fn of_this() -> Option<Self> {
        Self::of(std::process::id())
    }

    #[expect(clippy::disallowed_methods, reason = "procfs is not the data path")]
    pub(super) fn of(pid: u32) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { boot: boot.trim_end().to_owned(), pid, began: began(&stat)? })
    }

    /// Returns whether this is another process than the calling one, and is still there. One that only
    /// waits for its parent to notice its end is not.
    pub fn is_another_alive(&self) -> bool {
        self.pid != std::process::id() && Self::of(self.pid).as_ref() == Some(self)
    }
}

/// Returns field 22 of a process's `stat` (proc_pid_stat(5)), unless it has ended.
fn began(stat: &str) -> Option<u64> {
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_there_until_it_has_ended() {
        let this = ProcessName::of_this().unwrap();
        assert!(!this.is_another_alive(), "it is this one");
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let other = ProcessName::of(child.id()).unwrap();
        assert!(other.is_another_alive());
        assert!(!ProcessName { began: other.began + 1, ..other.clone() }.is_another_alive());
        assert!(!ProcessName { boot: "another".to_owned(), ..other.clone() }.is_another_alive());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!other.is_another_alive());
    }

    #[test]
    fn the_name_of_a_program_may_contain_anything() {
        let rest = "1 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 0";
        assert_eq!(began(&format!("7 (a) R (b) S {rest}")), Some(4711));
        assert_eq!(began(&format!("7 (cat) Z {rest}")), None);
        assert_eq!(began("7 (cat) S 1"), None);
        assert_eq!(began(""), None);
    }
}

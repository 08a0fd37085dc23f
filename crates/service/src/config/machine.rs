//! Checks of a configuration against this machine.

use std::path::Path;

use unsnap_pass::CpuSet;

use super::{check::Config, targets::TargetKind};

/// List of the machine's processors (`Documentation/admin-guide/cputopology.rst` of the kernel).
const PROCESSORS: &str = "/sys/devices/system/cpu/present";

impl Config {
    /// Returns what this machine lacks for the configuration: directories and processors. The
    /// service starts without them, because a disk may be mounted later.
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        let mut need = |what: String, path: &Path| match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => lacks.push(format!("{what}: {} is not a directory", path.display())),
            Err(error) => lacks.push(format!("{what}: {}: {error}", path.display())),
        };
        need("directory of [archives]".to_owned(), &self.archives.full);
        if self.archives.incremental != self.archives.full {
            need("incremental-directory of [archives]".to_owned(), &self.archives.incremental);
        }
        for target in &self.targets {
            let name = &target.name;
            match &target.kind {
                TargetKind::Tree { directory } => {
                    need(format!("[[target]] {name}: directory"), directory);
                }
                // The others are made if they do not exist, as a validator makes them.
                TargetKind::Fastboot { places, .. } => {
                    need(format!("[[target]] {name}: ledger"), &places.ledger);
                    for path in places.accounts.iter().filter_map(|path| path.parent()) {
                        need(format!("[[target]] {name}: the parent of accounts"), path);
                    }
                }
            }
        }
        lacks.extend(self.lacks_processors(std::fs::read_to_string(PROCESSORS).ok().as_deref()));
        lacks
    }

    /// `present` is the kernel's list of processors.
    fn lacks_processors(&self, present: Option<&str>) -> Option<String> {
        let wanted: CpuSet = self.settings.neighbour.cpus.parse().ok()?;
        let present: CpuSet = present?.trim().parse().ok()?;
        let missing = wanted.iter().find(|cpu| present.iter().all(|other| other != *cpu))?;
        Some(format!("cpus: this machine has the processors {present}, but not {missing}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    fn load(text: &str) -> Config {
        let text = format!("[archives]\ndirectory = \"/a\"\n{text}");
        Sources::default().load_text(&text).unwrap()
    }

    const TREE: &str = "[[target]]\nname = \"a\"\ndirectory = \"/proc\"\n";

    #[test]
    fn what_this_machine_lacks_is_named() {
        let state = "[[target]]\nname = \"b\"\nkind = \"fastboot\"\nledger = \"/none/l\"\n\
                     accounts = [\"/none/acc\"]\n";
        let lacks = load(&format!("{TREE}{state}")).lacks();
        assert_eq!(lacks.len(), 3, "{lacks:?}");
        assert!(lacks[0].starts_with("directory of [archives]: /a: No such file"), "{lacks:?}");
        assert!(lacks[1].starts_with("[[target]] b: ledger: /none/l"), "{lacks:?}");
        assert!(lacks[2].starts_with("[[target]] b: the parent of accounts: /none"), "{lacks:?}");

        let cpus = |list: &str, present: &str| {
            load(&format!("{TREE}[neighbour]\ncpus = \"{list}\"\n")).lacks_processors(Some(present))
        };
        let lack = cpus("0-99", "0-1\n").unwrap();
        assert_eq!(lack, "cpus: this machine has the processors 0-1, but not 2");
        assert_eq!(cpus("1", "0-1\n"), None);
        assert_eq!(cpus("", "0-1\n"), None);
    }
}

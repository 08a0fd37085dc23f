//! How each tool is called.

use crate::manifest::Extent;
use crate::programs::{Programs, is_installed};
use crate::scenarios::Place;
use anyhow::{Result, bail, ensure};
use std::path::Path;
use std::process::Command;

/// What a tool is given.
pub struct Job<'a> {
    /// The archive.
    pub archive: &'a Path,
    /// Its manifest.
    pub manifest: &'a Path,
    /// What is in it.
    pub extent: Extent,
    /// An empty directory.
    pub output: &'a Path,
    /// Where that is.
    pub place: Place,
}

/// Why a tool cannot be measured here, if so.
pub fn missing(tool: &str, programs: &Programs) -> Option<String> {
    let needed: &[&str] = match tool {
        "agave" => return programs.agave.as_ref().err().cloned(),
        "zstd-tar" => &["bash", "zstd", "tar"],
        "zstd-d" => &["zstd"],
        "zstd-d-twice" => &["bash", "zstd"],
        "bsdtar" => &["bsdtar"],
        _ => &[],
    };
    let absent: Vec<_> = needed.iter().copied().filter(|program| !is_installed(program)).collect();
    (!absent.is_empty()).then(|| format!("{} not installed", absent.join(", ")))
}

/// Whether a tool prints a report, as JSON.
pub fn reports(tool: &str, programs: &Programs) -> bool {
    matches!(tool, "unsnap" | "unsnap-uring" | "unsnap-threads" | "agave")
        || programs.other_unsnaps.iter().any(|other| other.name == tool)
}

/// The command that does the job.
pub fn command(tool: &str, programs: &Programs, job: &Job) -> Result<Command> {
    let this = |arguments: &[&str]| {
        let mut command = Command::new(&programs.this);
        command.args(arguments);
        command
    };
    let mut command = match tool {
        "unsnap" | "unsnap-uring" | "unsnap-threads" => unsnap(&programs.unsnap, job),
        "agave" => match &programs.agave {
            Ok(program) => Command::new(program),
            Err(reason) => bail!("no agave: {reason}"),
        },
        "tar-rs" => this(&["tar-rs"]),
        "zstd-tar" | "zstd-d-twice" => Command::new("bash"),
        "zstd-d" => Command::new("zstd"),
        "bsdtar" => Command::new("bsdtar"),
        "floor-decode" => this(&["floor", "decode"]),
        "floor-mixed" => this(&["floor", "mixed"]),
        "floor-write-files" => this(&["floor", "write-files"]),
        "floor-write-growing" => this(&["floor", "write-growing"]),
        "floor-write-prealloc" => this(&["floor", "write-prealloc"]),
        other => match programs.other_unsnaps.iter().find(|binary| binary.name == other) {
            Some(binary) => unsnap(&binary.path, job),
            None => bail!("there is no tool {other:?}"),
        },
    };
    match tool {
        "unsnap-uring" => command.args(["--io-engine", "uring"]),
        "unsnap-threads" => command.args(["--io-engine", "threads"]),
        "agave" | "tar-rs" => command.arg(job.archive).arg(job.output),
        // The exit status of zstd must count as well.
        "zstd-tar" => command
            .args(["-c", "set -o pipefail; zstd -dqc \"$0\" | tar -xf - -C \"$1\""])
            .arg(job.archive)
            .arg(job.output),
        // To standard output, which is /dev/null: some versions of zstd that run as root change
        // the mode of a device that is named as output.
        "zstd-d" => command.arg("-dqc").arg(job.archive),
        // At once: what two cores can do at most, in twice the time that one archive would take.
        "zstd-d-twice" => command
            .args(["-c", "zstd -dqc \"$0\" & other=$!; zstd -dqc \"$0\" && wait $other"])
            .arg(job.archive),
        "bsdtar" => command.arg("-xf").arg(job.archive).arg("-C").arg(job.output),
        "floor-decode" => command.arg(job.archive),
        "floor-mixed" => command.arg(job.archive).arg(job.manifest).arg(job.output),
        "floor-write-files" => command.arg(job.manifest).arg(job.output),
        "floor-write-growing" | "floor-write-prealloc" => {
            command.arg(job.extent.bytes.to_string()).arg(job.output)
        }
        _ => &mut command,
    };
    Ok(command)
}

fn unsnap(program: &Path, job: &Job) -> Command {
    let mut command = Command::new(program);
    command.args(["unpack", "--format", "json", "--no-progress"]).arg(job.archive);
    if job.place == Place::Nowhere {
        // The other side reads through the page cache, where the archive is.
        command.args(["--dry-run", "--decode-threads", "2", "--use-direct-io=off"]);
    } else {
        command.arg("--output").arg(job.output);
    }
    command
}

/// Whether a tool leaves anything to be synced and checked.
pub fn writes(tool: &str, place: Place) -> bool {
    place != Place::Nowhere && tool != "floor-decode"
}

/// Checks that a tool has done all of its job.
pub fn check(tool: &str, job: &Job) -> Result<()> {
    let expected = match tool {
        _ if !writes(tool, job.place) => return Ok(()),
        "floor-write-growing" | "floor-write-prealloc" => Extent { files: 1, ..job.extent },
        _ => job.extent,
    };
    let found = Extent::of_directory(job.output)?;
    ensure!(
        found == expected,
        "incomplete: {} files of {} bytes instead of {} of {}",
        found.files,
        found.bytes,
        expected.files,
        expected.bytes
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::UnsnapBinary;
    use crate::scenarios::SCENARIOS;

    fn programs() -> Programs {
        Programs {
            this: "peers".into(),
            make_archive: "make-archive".into(),
            unsnap: "ledger-tool".into(),
            other_unsnaps: vec![UnsnapBinary { name: "old".into(), path: "old-tool".into() }],
            agave: Ok("agave-runner".into()),
        }
    }

    fn line(tool: &str, place: Place) -> Option<String> {
        let job = Job {
            archive: Path::new("A"),
            manifest: Path::new("M"),
            extent: Extent { files: 2, bytes: 7 },
            output: Path::new("O"),
            place,
        };
        let command = command(tool, &programs(), &job).ok()?;
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        Some(words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_tool_has_a_command() {
        for scenario in SCENARIOS {
            for tool in scenario.tools {
                assert!(line(tool, scenario.place).is_some(), "{tool}");
            }
        }
        assert_eq!(line("none", Place::Disk), None);
    }

    #[test]
    fn commands_are_as_documented() {
        let disk = |tool| line(tool, Place::Disk).unwrap();
        let unpack = "unpack --format json --no-progress A --output O";
        assert_eq!(disk("unsnap"), format!("ledger-tool {unpack}"));
        assert_eq!(disk("unsnap-uring"), format!("ledger-tool {unpack} --io-engine uring"));
        assert_eq!(disk("old"), format!("old-tool {unpack}"));
        assert_eq!(disk("agave"), "agave-runner A O");
        assert_eq!(disk("floor-mixed"), "peers floor mixed A M O");
        assert_eq!(disk("floor-write-growing"), "peers floor write-growing 7 O");
        assert!(line("unsnap", Place::Nowhere).unwrap().contains("A --dry-run"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let programs = Programs { agave: Err("does not build".into()), ..programs() };
        assert_eq!(missing("agave", &programs).as_deref(), Some("does not build"));
        assert_eq!(missing("unsnap", &programs), None);
    }
}

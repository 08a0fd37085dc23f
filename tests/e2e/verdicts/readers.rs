//! Tar readers, each reduced to: it reads so many members, or it refuses.

use std::{
    fmt,
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
    str::FromStr,
    thread,
};

use tar_core::parse::{Limits, ParseEvent, Parser};
use unsnap_pass::{LayoutKind, PassError};
use unsnap_test_support::{small, unpack};
use unsnap_testkit::table::plain;
use unsnap_unpack::UnpackError;

/// What a reader says of an archive.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It reads so many members, to the end of each.
    Members(u64),
    /// It refuses, for this reason.
    Refused(String),
}

impl Verdict {
    fn refused(reason: impl fmt::Display) -> Self {
        Self::Refused(plain(&reason.to_string()))
    }

    /// Both refuse, or both read as many members.
    pub fn agrees_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Members(these), Self::Members(those)) => these == those,
            (Self::Refused(_), Self::Refused(_)) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Members(1) => f.write_str("1 member"),
            Self::Members(count) => write!(f, "{count} members"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
        }
    }
}

impl FromStr for Verdict {
    type Err = String;

    fn from_str(cell: &str) -> Result<Self, String> {
        if let Some(reason) = cell.strip_prefix("refused: ") {
            return Ok(Self::Refused(reason.to_owned()));
        }
        let count = cell.strip_suffix(" members").or_else(|| cell.strip_suffix(" member"));
        count
            .and_then(|count| count.parse().ok())
            .map(Self::Members)
            .ok_or_else(|| format!("{cell:?} is no verdict"))
    }
}

/// A dry run.
pub fn unsnap(path: &Path, layout: LayoutKind) -> Verdict {
    let mut config = small(path, Path::new(""));
    config.layout = layout;
    config.dry_run = true;
    match unpack(&config) {
        Ok(report) => Verdict::Members(report.files + report.directories),
        // Without the name of the file.
        Err(UnpackError::Pass(PassError::Decode { source, .. })) => Verdict::refused(source),
        Err(UnpackError::Pass(PassError::Tar { source, .. })) => Verdict::refused(source),
        Err(UnpackError::Pass(PassError::Layout { source, .. })) => Verdict::refused(source),
        Err(error) => panic!("{error}"),
    }
}

/// Every entry, read to its end. Holes are not: there may be gigabytes of them.
pub fn tar_rs(bytes: &[u8]) -> Verdict {
    let read = || -> io::Result<u64> {
        let mut members = 0;
        let mut archive = tar::Archive::new(bytes);
        for entry in archive.entries()? {
            let mut entry = entry?;
            if !entry.header().entry_type().is_gnu_sparse() {
                io::copy(&mut entry, &mut io::sink())?;
            }
            members += 1;
        }
        Ok(members)
    };
    match read() {
        Ok(members) => Verdict::Members(members),
        Err(error) => Verdict::refused(error),
    }
}

/// The parser is given everything at once. It does not know where the archive ends, so that is for
/// its user to judge: an end between two entries is one, anything else is a cut.
pub fn tar_core(bytes: &[u8]) -> Verdict {
    let mut parser = Parser::new(Limits::default());
    let (mut rest, mut members) = (bytes, 0);
    loop {
        let (consumed, content) = match parser.parse(rest) {
            Err(error) => return Verdict::refused(error),
            Ok(ParseEvent::End { .. }) => return Verdict::Members(members),
            Ok(ParseEvent::NeedData { .. }) if rest.is_empty() => return Verdict::Members(members),
            Ok(ParseEvent::NeedData { min_bytes }) => {
                let left = rest.len();
                return Verdict::refused(format!("needs {min_bytes} bytes, {left} are left"));
            }
            Ok(ParseEvent::GlobalExtensions { consumed, .. }) => (consumed, 0),
            Ok(
                ParseEvent::Entry { consumed, entry }
                | ParseEvent::SparseEntry { consumed, entry, .. },
            ) => {
                members += 1;
                (consumed, entry.padded_size())
            }
        };
        let left = (rest.len() - consumed) as u64;
        if content > left {
            return Verdict::refused(format!("content of {content} bytes, {left} are left"));
        }
        rest = &rest[consumed + usize::try_from(content).unwrap()..];
    }
}

/// The archive through a pipe: nothing can be skipped unseen.
fn piped(command: &mut Command, archive: &Path) -> (bool, String, String) {
    command.env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = std::fs::read(archive).unwrap();
    // Who has seen enough closes the pipe.
    let feeder = thread::spawn(move || {
        let _ = input.write_all(&bytes);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

/// The first line of what a tool says of its version; `None` without the tool.
fn version_of(command: &mut Command) -> Option<String> {
    let output = command.env("LC_ALL", "C").output().ok().filter(|output| output.status.success());
    let text = String::from_utf8(output?.stdout).ok()?;
    Some(plain(&text))
}

/// GNU tar, listing.
pub mod gnu_tar {
    use super::{Command, Path, Verdict, piped, version_of};

    pub fn version() -> Option<String> {
        let version = version_of(Command::new("tar").arg("--version"))?;
        // `tar (GNU tar) 1.34`
        version.strip_prefix("tar (GNU tar) ").map(|number| format!("GNU tar {number}"))
    }

    pub fn verdict(archive: &Path) -> Verdict {
        let (good, listed, said) = piped(Command::new("tar").args(["-t", "-f", "-"]), archive);
        if good {
            return Verdict::Members(listed.lines().count() as u64);
        }
        let line = said.lines().next().unwrap_or("without a word");
        Verdict::refused(line.strip_prefix("tar: ").unwrap_or(line))
    }
}

/// Python's tarfile: every entry, read to its end; holes are not.
pub mod python {
    use super::{Command, Path, Verdict, piped, version_of};

    const READ: &str = "
import sys, tarfile
members = 0
try:
    with tarfile.open(fileobj=sys.stdin.buffer, mode='r|') as archive:
        for member in archive:
            members += 1
            if member.isreg() and not member.issparse():
                content = archive.extractfile(member)
                while content.read(65536):
                    pass
except Exception as error:
    print(f'{type(error).__name__}: {error}', file=sys.stderr)
    sys.exit(1)
print(members)
";

    pub fn version() -> Option<String> {
        let version = version_of(Command::new("python3").arg("--version"))?;
        version.strip_prefix("Python ").map(|number| format!("Python {number} tarfile"))
    }

    pub fn verdict(archive: &Path) -> Verdict {
        let (good, told, said) = piped(Command::new("python3").args(["-c", READ]), archive);
        match told.trim().parse() {
            Ok(members) if good => Verdict::Members(members),
            _ => Verdict::refused(said.lines().next_back().unwrap_or("without a word")),
        }
    }
}

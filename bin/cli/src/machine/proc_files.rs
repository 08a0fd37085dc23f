//! Parsers of files in /proc and /sys.

use std::{fs, path::Path};

/// A line of /proc/self/mountinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// The mounted directory of the file system.
    pub root: String,
    /// The directory that it is mounted on.
    pub point: String,
    /// Type of the file system.
    pub file_system: String,
    /// The device, or a name.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

/// Returns a small file of the kernel; empty if it cannot be read.
pub fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the mounts in the order of mounting: of two mounts on one directory, the later one hides
/// the earlier one.
pub fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

/// Parses a line. See proc_pid_mountinfo(5): fixed fields, optional fields up to a dash, and three
/// more.
fn mount(line: &str) -> Option<Mount> {
    let (fixed, rest) = line.split_once(" - ")?;
    let mut fixed = fixed.split(' ').skip(3);
    let (root, point, options) = (fixed.next()?, fixed.next()?, fixed.next()?);
    let mut rest = rest.split(' ');
    let (file_system, source) = (rest.next()?, rest.next()?);
    let options = options.split(',').chain(rest.next().unwrap_or_default().split(','));
    let mut unique: Vec<String> = Vec::new();
    for option in options.filter(|option| !option.is_empty()) {
        if !unique.iter().any(|known| known == option) {
            unique.push(option.to_owned());
        }
    }
    Some(Mount {
        root: unescape(root),
        point: unescape(point),
        file_system: file_system.to_owned(),
        source: unescape(source),
        options: unique,
    })
}

/// Replaces escapes: space, tab, newline and backslash are written as three octal digits.
fn unescape(text: &str) -> String {
    let spaces = text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    spaces.replace("\\134", "\\")
}

/// Returns the value of the line `name: value` (or `name : value`).
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim_end() == name).then(|| value.trim())
    })
}

/// Parses "123 kB", in bytes, or "123".
pub fn kib_or_count(value: &str) -> u64 {
    match value.strip_suffix("kB") {
        Some(kib) => number(kib).map_or(0, |kib: u64| kib.saturating_mul(1024)),
        None => number(value).unwrap_or(0),
    }
}

/// Parses a number on a line of its own.
pub fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.trim().parse().ok()
}

/// Returns the choice in brackets: `always [madvise] never`.
pub fn selected(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(choice, _)| choice.to_owned())
}

/// Counts the numbers in a list such as "0-3,7".
pub fn list_length(text: &str) -> usize {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((number::<usize>(first)?, number::<usize>(last)?))
    });
    ranges.map(|(first, last)| last.saturating_sub(first).saturating_add(1)).sum()
}

/// Returns the first two numbers of a release.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read() {
        let text = "\
36 35 98:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 36 0:30 /sub /mnt/my\\040disk rw,noatime - btrfs /dev/mapper/a rw,ssd,noatime
41 36 0:31 / /odd ro - tmpfs tmpfs
nonsense";
        let mounts = mounts(text);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].options, ["rw", "relatime", "discard"]);
        assert_eq!(mounts[1].point, "/mnt/my disk");
        assert_eq!((mounts[1].root.as_str(), mounts[1].source.as_str()), ("/sub", "/dev/mapper/a"));
        assert_eq!(mounts[1].options, ["rw", "noatime", "ssd"]);
        assert_eq!((mounts[2].file_system.as_str(), mounts[2].options.len()), ("tmpfs", 1));
    }

    #[test]
    fn fields_lists_and_versions_are_read() {
        let text = "model name\t: EPYC\nMemTotal:   24684092 kB\nHugePages_Total:       3\n";
        assert_eq!(field(text, "model name"), Some("EPYC"));
        assert_eq!(field(text, "MemTotal").map(kib_or_count), Some(24_684_092 << 10));
        assert_eq!(field(text, "HugePages_Total").map(kib_or_count), Some(3));
        assert_eq!(field(text, "Mem"), None);
        assert_eq!(selected("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(selected("none"), None);
        assert_eq!((list_length("0-3,7\n"), list_length("0"), list_length("")), (5, 1, 0));
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert_eq!((version("5.15+"), version("6"), version("odd")), (Some((5, 15)), None, None));
    }
}

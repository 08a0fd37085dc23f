//! Files that other processes have open or mapped.
//!
//! Only processes of the same user are visible, and none without `/proc`: what is not found may be
//! in use all the same.

#![allow(clippy::disallowed_methods, reason = "procfs")]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use unsnap_tarstream::printable;

/// Most open files of a process that are looked at: a validator has more storages open than other
/// files, and one is enough. A guess.
const OPEN_FILES_MAX: usize = 1 << 17;

/// Most bytes that are read of the list of a process' mappings: half a million mappings. A guess.
const MAPPINGS_BYTES_MAX: u64 = 64 << 20;

/// Bits of an open file's flags that permit writing (`O_WRONLY`, `O_RDWR`).
const WRITABLE: u32 = 3;

/// Finds another process that has a file below one of these directories, which must be free of
/// links, open or mapped. Returns the process in words, and the file.
pub(crate) fn user_below(directories: &[PathBuf]) -> Option<(String, PathBuf)> {
    let is_below = |path: &Path| directories.iter().any(|directory| path.starts_with(directory));
    others().find_map(|process| {
        let open = open_files(process).map(|(_, path)| path).find(|path| is_below(path));
        let used = open.or_else(|| mapped_files(process).find(|path| is_below(path)))?;
        Some((in_words(process), used))
    })
}

/// Finds another process that has a file, whose path must be free of links, open for writing.
/// Returns it in words.
pub(crate) fn writer_of(file: &Path) -> Option<String> {
    let writes = |process: &u32| {
        let mut open = open_files(*process);
        open.any(|(number, path)| path == file && is_writable(*process, &number))
    };
    others().find(writes).map(in_words)
}

/// Returns all processes but this one.
fn others() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| *process != std::process::id())
}

/// Returns numbers and paths of the open files of a process.
fn open_files(process: u32) -> impl Iterator<Item = (String, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    entries.take(OPEN_FILES_MAX).filter_map(|entry| {
        let number = entry.file_name().into_string().ok()?;
        Some((number, fs::read_link(entry.path()).ok()?))
    })
}

fn is_writable(process: u32, number: &str) -> bool {
    let facts = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).unwrap_or_default();
    let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_some_and(|flags| {
        u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & WRITABLE != 0)
    })
}

/// Returns the paths of the files that a process has mapped.
fn mapped_files(process: u32) -> impl Iterator<Item = PathBuf> {
    let maps = File::open(format!("/proc/{process}/maps")).ok();
    let lines = maps.map(|maps| BufReader::new(maps.take(MAPPINGS_BYTES_MAX)).lines());
    // The path is last, behind fields without a slash.
    lines.into_iter().flatten().map_while(Result::ok).filter_map(|line| {
        let path = line.find('/')?;
        Some(PathBuf::from(&line[path..]))
    })
}

fn in_words(process: u32) -> String {
    let name = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("process {process}, {}", printable(name.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that holds a file as its standard input.
    struct Holder(Child);

    impl Holder {
        fn of(file: File) -> Self {
            Self(Command::new("sleep").arg("600").stdin(Stdio::from(file)).spawn().unwrap())
        }
    }

    impl Drop for Holder {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_is_found_by_a_file_that_it_has_open() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().canonicalize().unwrap();
        let (run, other) = (place.join("run"), place.join("run-2"));
        for directory in [&run, &other] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("1.1"), "x").unwrap();
        }
        // Files of this process count for nothing.
        let mine = File::open(run.join("1.1")).unwrap();
        let directories = [place.join("missing"), run.clone()];
        assert_eq!(user_below(&directories), None);
        let elsewhere = Holder::of(File::open(other.join("1.1")).unwrap());
        assert_eq!(user_below(&directories), None);
        let holder = Holder::of(mine);
        let (process, file) = user_below(&directories).unwrap();
        assert!(process.starts_with(&format!("process {}, ", holder.0.id())), "{process}");
        assert_eq!(file, run.join("1.1"));
        drop((holder, elsewhere));
        assert_eq!(user_below(&directories), None);
    }

    #[test]
    fn a_file_that_is_being_written_has_a_writer() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().canonicalize().unwrap().join("archive");
        fs::write(&path, "half").unwrap();
        let reader = Holder::of(File::open(&path).unwrap());
        assert_eq!(writer_of(&path), None);
        let writer = Holder::of(File::options().append(true).open(&path).unwrap());
        let id = writer.0.id();
        assert!(writer_of(&path).unwrap().starts_with(&format!("process {id}, ")));
        drop((reader, writer));
        assert_eq!(writer_of(&path), None);
    }

    #[test]
    fn mapped_files_are_found() {
        // Every program has its own file mapped, but one that was just started perhaps not yet.
        assert!(mapped_files(std::process::id()).any(|path| path.is_absolute()));
    }
}

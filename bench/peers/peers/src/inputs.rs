//! Archives on the disk: made once, used by several scenarios.

use crate::console;
use crate::manifest::Extent;
use crate::programs::Programs;
use crate::scenarios::Archive;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An archive and its manifest.
pub struct Input {
    /// The archive, under the name that a validator would expect.
    pub archive: PathBuf,
    /// Size of the archive.
    pub archive_bytes: u64,
    /// Sizes of what is in it, by `make-archive`.
    pub manifest: PathBuf,
    /// The sum of that.
    pub extent: Extent,
}

impl Input {
    /// Finds an archive in `directory`, or makes it.
    pub fn prepare(
        programs: &Programs,
        directory: &Path,
        archive: &Archive,
        scale: f64,
    ) -> Result<Self> {
        let directory = directory.join(archive.id);
        let arguments = archive.arguments(scale);
        // Written last: it says that the archive is whole, and of which options it was made.
        let stamp = directory.join("arguments");
        let wanted = arguments.iter().map(String::as_str);
        let wanted: Vec<&str> =
            wanted.chain(archive.repack.into_iter().flatten().copied()).collect();
        let wanted = wanted.join(" ");
        if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
            if directory.exists() {
                fs::remove_dir_all(&directory)?;
            }
            fs::create_dir_all(&directory)?;
            console::note(&format!("making archive {}: {wanted}", archive.id));
            let mut make = Command::new(&programs.make_archive);
            make.args(&arguments).arg("--output").arg(&directory);
            run(make.arg("--manifest").arg(directory.join("manifest")))?;
            if let Some(options) = archive.repack {
                let made = Self::find(&directory)?.archive;
                let mut repack = Command::new(&programs.unsnap);
                repack.arg("repack").arg(made).arg("--output").arg(&directory);
                run(repack.args(["--force", "--no-progress"]).args(options))?;
            }
            fs::write(stamp, wanted)?;
        }
        Self::find(&directory)
    }

    fn find(directory: &Path) -> Result<Self> {
        let manifest = directory.join("manifest");
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "zst") {
                return Ok(Self {
                    archive_bytes: fs::metadata(&path)?.len(),
                    archive: path,
                    extent: Extent::of_manifest(&manifest)?,
                    manifest,
                });
            }
        }
        anyhow::bail!("there is no archive in {}", directory.display())
    }
}

/// Runs a program that makes something.
fn run(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program()).display().to_string();
    let status = command.stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} failed");
    Ok(())
}

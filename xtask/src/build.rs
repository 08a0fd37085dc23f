//! Builds of the programs that do not depend on where they are built.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{Processor, run};

/// The programs, by the names of their files.
const PROGRAMS: [&str; 3] = ["ledger-tool", "validator", "unpackd"];

/// Programs that were built.
#[derive(Debug)]
pub struct Built {
    /// Stripped programs.
    pub programs: Vec<PathBuf>,
    /// Their debug symbols.
    pub symbols: Vec<PathBuf>,
    /// The Rust target.
    pub target: &'static str,
}

impl Built {
    /// Returns a stripped program.
    pub fn program(&self, name: &str) -> Result<&Path> {
        let mut programs = self.programs.iter();
        let program = programs.find(|path| path.file_name().is_some_and(|file| file == name));
        Ok(program.with_context(|| format!("{name} was not built"))?)
    }

    /// Programs that are files with any content.
    #[cfg(test)]
    pub fn fake(directory: &Path) -> Self {
        let programs = PROGRAMS.map(|name| {
            let path = directory.join(name);
            fs::write(&path, name).unwrap();
            path
        });
        Self { programs: programs.to_vec(), symbols: Vec::new(), target: "none" }
    }
}

/// Builds all programs, linked statically.
///
/// Names of hosts are resolved by glibc's own files and DNS, which it has had inside since 2.34; other
/// name services are not asked. Rust's own library for musl cannot be had everywhere.
pub fn build(root: &Path, processor: Processor) -> Result<Built> {
    let (target, features) = match processor {
        Processor::X86_64 => ("x86_64-unknown-linux-gnu", "-C target-cpu=x86-64-v2"),
        Processor::Aarch64 => ("aarch64-unknown-linux-gnu", ""),
    };
    let home = std::env::var("CARGO_HOME").ok().map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    // Paths in messages of panics and in debug symbols.
    let renamed: [(&Path, &str); 2] = [(root, "/unsnap"), (&home, "/cargo")];
    let with = |flag: &str| {
        let one = |(from, to): &(&Path, &str)| format!("{flag}={}={to}", from.display());
        renamed.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    let flags = format!("-C target-feature=+crt-static {features} {}", with("--remap-path-prefix"));
    let c_flags = format!("-O3 {}", with("-ffile-prefix-map"));
    let target_directory = root.join("target");
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "--locked", "--target", target])
        .args(["--package", "unsnap-ledger-tool", "--package", "unsnap-validator"])
        .args(["--package", "unsnap-unpackd"])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", &target_directory)
        .env("RUSTFLAGS", flags)
        .env("CFLAGS", c_flags)
        .env("CARGO_INCREMENTAL", "0");
    if processor == Processor::Aarch64 {
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    }
    run(&mut cargo)?;
    let from = target_directory.join(target).join("release");
    let stripped = target_directory.join(target).join("stripped");
    fs::create_dir_all(&stripped)?;
    let tools = if processor == Processor::Aarch64 { "aarch64-linux-gnu-" } else { "" };
    let (mut programs, mut symbols) = (Vec::new(), Vec::new());
    for name in PROGRAMS {
        let (program, debug) = (stripped.join(name), stripped.join(format!("{name}.debug")));
        let copy = || Command::new(format!("{tools}objcopy"));
        run(copy().arg("--only-keep-debug").arg(from.join(name)).arg(&debug))?;
        run(copy().arg("--strip-all").arg(from.join(name)).arg(&program))?;
        let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
        link.push(&debug);
        run(copy().arg(link).arg(&program))?;
        programs.push(program);
        symbols.push(debug);
    }
    Ok(Built { programs, symbols, target })
}

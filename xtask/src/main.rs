//! Builds what a release consists of, with one command: `cargo xtask dist`.
//!
//! | module | does |
//! |---|---|
//! | [`build`] | builds the programs, and takes their debug symbols out |
//! | [`assets`] | reads which files are installed where, from the Debian package's list |
//! | [`tarball`] | packs them, always to the same bytes |
//! | [`packages`] | has the Debian and the RPM package built |
//! | [`image`] | writes a container image with `ledger-tool` alone |
//! | [`sbom`] | lists the crates that the programs consist of |
//! | [`sums`] | SHA-256 sums, and the comparison of two builds |
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a program for developers")]
#![allow(clippy::disallowed_methods, reason = "not the data path")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod assets;
mod build;
mod image;
mod packages;
mod sbom;
mod sums;
mod tarball;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use crate::{assets::Asset, build::Built};

#[derive(Parser)]
#[command(about = "Tasks around releases")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the programs, and pack them: tarball, debug symbols, Debian and RPM package, container
    /// image, list of crates, SHA-256 sums
    Dist {
        /// Directory of the results
        #[arg(long, default_value = "target/dist")]
        output: PathBuf,
        /// Processor to build for
        #[arg(long, value_enum, default_value_t = Processor::X86_64)]
        processor: Processor,
        /// What to make; everything by default
        #[arg(long, value_enum, value_delimiter = ',')]
        only: Vec<Artifact>,
    },
    /// Build two clean checkouts of HEAD in different directories, and compare all results
    Reproduce {
        /// Directory for both checkouts; needs about 6 GB
        #[arg(long, default_value = "target/reproduce")]
        work: PathBuf,
        /// What to make; everything by default
        #[arg(long, value_enum, value_delimiter = ',')]
        only: Vec<Artifact>,
    },
}

/// A processor, as artifacts name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Processor {
    /// Any since 2009 (x86-64-v2); faster instructions are chosen at run time
    #[value(name = "x86_64")]
    X86_64,
    /// 64-bit ARM
    Aarch64,
}

impl Processor {
    fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The name that container images use.
    fn in_images(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

/// A kind of result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Artifact {
    /// Programs, units, man pages, completions; and the debug symbols apart
    Tarball,
    /// Debian package (needs cargo-deb)
    Deb,
    /// RPM package (needs cargo-generate-rpm)
    Rpm,
    /// Container image
    Image,
    /// List of crates (`CycloneDX`)
    Sbom,
}

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no repository")?;
    match Cli::parse().task {
        Task::Dist { output, processor, only } => dist(root, &root.join(output), processor, &only),
        Task::Reproduce { work, only } => reproduce(root, &root.join(work), &only),
    }
}

/// Builds, and makes all artifacts.
fn dist(root: &Path, output: &Path, processor: Processor, only: &[Artifact]) -> Result<()> {
    let makes = |artifact| only.is_empty() || only.contains(&artifact);
    let time = time_of_head(root)?;
    let version = assets::version(root)?;
    if output.exists() {
        // Somebody else's files are not removed.
        let is_empty = fs::read_dir(output)?.next().is_none();
        let is_ours = is_empty || output.join(sums::SUMS).is_file();
        ensure!(is_ours, "{} has other files: name another directory", output.display());
        fs::remove_dir_all(output).with_context(|| format!("remove {}", output.display()))?;
    }
    fs::create_dir_all(output)?;
    let built = build::build(root, processor)?;
    let assets = assets::assets(root, &built)?;
    let name = format!("unsnap-{version}-{}-linux", processor.name());
    if makes(Artifact::Tarball) {
        let documents = [root.join("LICENSE"), root.join("CHANGELOG.md")];
        let packed = tarball::of_assets(&name, &assets, &documents, time)?;
        tarball::write(&output.join(format!("{name}.tar.zst")), &packed)?;
        let symbols: Vec<Asset> = built.symbols.iter().map(|path| Asset::symbols(path)).collect();
        let packed = tarball::of_assets(&format!("{name}-debug"), &symbols, &[], time)?;
        tarball::write(&output.join(format!("{name}-debug.tar.zst")), &packed)?;
    }
    if makes(Artifact::Deb) {
        packages::debian(root, &built, output, time)?;
    }
    if makes(Artifact::Rpm) {
        packages::rpm(root, &built, &assets, output, time)?;
    }
    if makes(Artifact::Image) {
        let program = built.program("ledger-tool")?;
        let image = image::of_program(program, processor.in_images(), &version, time)?;
        fs::write(output.join(format!("{name}-ledger-tool.oci.tar")), image)?;
    }
    if makes(Artifact::Sbom) {
        let list = sbom::of_workspace(root, &version, time)?;
        fs::write(output.join(format!("unsnap-{version}.cdx.json")), list)?;
    }
    let sums = sums::write(output)?;
    eprint!("{}", report(&built, output, &sums)?);
    Ok(())
}

/// Sizes of the programs and of all results.
fn report(built: &Built, output: &Path, sums: &[(String, String)]) -> Result<String> {
    let mut text = String::new();
    let paths = built.programs.iter().map(|path| (path.clone(), "stripped"));
    let results = sums.iter().map(|(name, _)| (output.join(name), ""));
    for (path, note) in paths.chain(results) {
        let bytes = fs::metadata(&path)?.len();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        writeln!(text, "{bytes:>12} bytes  {name} {note}")?;
    }
    Ok(text)
}

/// Builds two clean checkouts and compares them.
fn reproduce(root: &Path, work: &Path, only: &[Artifact]) -> Result<()> {
    let mut results = Vec::new();
    // Names of different lengths, so that a path in a result shows.
    for name in ["first", "second-checkout"] {
        let checkout = work.join(name);
        if checkout.exists() {
            fs::remove_dir_all(&checkout)?;
        }
        fs::create_dir_all(work)?;
        run(Command::new("git").args(["clone", "--quiet", "--no-local"]).arg(root).arg(&checkout))?;
        let output = checkout.join("target/dist");
        dist(&checkout, &output, Processor::X86_64, only)?;
        results.push(sums::of_directory(&output)?);
    }
    let [first, second] = &results[..] else { bail!("two results") };
    let differences = sums::differences(first, second);
    ensure!(differences.is_empty(), "the two builds differ in {}", differences.join(", "));
    ensure!(!first.is_empty(), "nothing was built");
    eprintln!("{} results are equal in both builds", first.len());
    Ok(())
}

/// Seconds since 1970 at which HEAD was committed: the time of all files in artifacts.
fn time_of_head(root: &Path) -> Result<u64> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return given.parse().context("SOURCE_DATE_EPOCH is a number of seconds");
    }
    let command = &mut Command::new("git");
    let printed = output_of(command.args(["log", "-1", "--format=%ct"]).current_dir(root))?;
    printed.trim().parse().context("git prints no time")
}

/// Runs a command, which must succeed.
fn run(command: &mut Command) -> Result<()> {
    eprintln!("{command:?}");
    let status = command.status().with_context(|| format!("run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Runs a command, which must succeed, and returns what it prints.
fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

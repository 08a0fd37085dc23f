//! From the command line to options of the libraries: defaults < file < flags.

use std::{num::NonZeroUsize, ops::RangeInclusive, thread};

pub use unsnap_cli::settings::{RequestError, archive, parse_size, reading};
use unsnap_fastboot::{Places, Request};
use unsnap_lookup::{AccountsQuery, DiffOptions, MEMORY_BYTES};
use unsnap_pack::PackOptions;
use unsnap_pass::{Archive, LayoutKind};
use unsnap_source::DigestKind;
use unsnap_unpack::{Destination, DigestUse, Options, Source, Tree};

use crate::cli::{
    AccountsArgs, AccountsFormat, DiffArgs, DigestArg, FrameArgs, Layout, PlacesArgs, PrepareArgs,
    RepackArgs, UnpackArgs, VerifyArgs,
};

/// The options of `verify`.
pub fn verifying(args: &VerifyArgs) -> anyhow::Result<Options> {
    let incremental = args.incremental.clone().map(Archive::File);
    let verify = args.verify.verify(args.verify_memory);
    let source = Source::new(archive(&args.archive), incremental, LayoutKind::Snapshot, verify)?;
    Ok(Options::check(source).with_pass(reading(&args.io)?))
}

/// What `fastboot prepare` is to do.
pub fn preparing(args: &PrepareArgs) -> anyhow::Result<Request> {
    let mut pass = reading(&args.io)?;
    pass.neighbour = args.neighbour.limits();
    Ok(Request {
        places: places(&args.places),
        verify: args.state.verify(),
        preflight: args.state.preflight.mode(),
        pass,
        files: None,
        format: args.state.fastboot_format.format(),
        shadow: !args.no_shadow,
        replace: args.replace,
        pair: None,
        known_bad: Vec::new(),
        removal_files_per_second: args.removal.removal_files_per_second,
    })
}

/// Where the validator keeps what.
pub fn places(args: &PlacesArgs) -> Places {
    let mut places = Places::new(&args.ledger);
    if let Some(snapshots) = &args.snapshots {
        places.snapshots.clone_from(snapshots);
        places.full_archives.clone_from(snapshots);
        places.incremental_archives.clone_from(snapshots);
    }
    if let Some(full) = &args.full_snapshot_archive_path {
        places.full_archives.clone_from(full);
    }
    if let Some(incremental) = &args.incremental_snapshot_archive_path {
        places.incremental_archives.clone_from(incremental);
    }
    if !args.accounts.is_empty() {
        places.accounts.clone_from(&args.accounts);
    }
    places
}

/// What `repack` reads, and how.
pub fn repacking(args: &RepackArgs) -> anyhow::Result<Options> {
    let verify = unsnap_unpack::Verify::default();
    let source = Source::new(archive(&args.archive), None, layout(args.layout), verify)?;
    Ok(Options::check(source).with_pass(reading(&args.io)?))
}

/// How an archive is written.
pub fn packing(args: &FrameArgs) -> PackOptions {
    let default = PackOptions::default();
    let frame_bytes = args.frame_size.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let threads = args.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    PackOptions {
        frame_bytes: frame_bytes.unwrap_or(default.frame_bytes),
        level: args.level,
        checksums: args.checksums,
        seek_table: args.seek_table,
        threads: threads.unwrap_or(default.threads),
        replace: args.force,
        direct_io: default.direct_io,
    }
}

/// How `diff` compares, and what.
pub fn comparing(args: &DiffArgs) -> anyhow::Result<([Archive; 2], DiffOptions)> {
    let archives = [archive(&args.before), archive(&args.after)];
    if archives == [Archive::Stdin, Archive::Stdin] {
        let reason = "standard input can be one of the archives, not both".to_owned();
        return Err(RequestError(reason).into());
    }
    let options = DiffOptions { memory_bytes_max: memory(args.memory), threads: cores() };
    Ok((archives, options))
}

/// What `accounts` lists.
pub fn listing(args: &AccountsArgs) -> AccountsQuery {
    AccountsQuery {
        owners: args.owner.iter().map(|owner| owner.0).collect(),
        data_len: args.data_size.clone().unwrap_or(0..=u64::MAX),
        newest: args.newest,
        format: match args.format {
            AccountsFormat::Csv => unsnap_lookup::AccountsFormat::Csv,
            AccountsFormat::JsonLines => unsnap_lookup::AccountsFormat::JsonLines,
        },
        with_data: args.with_data,
        memory_bytes_max: memory(args.memory),
        threads: cores(),
    }
}

fn memory(bytes: Option<u64>) -> usize {
    bytes.map_or(MEMORY_BYTES, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Reads `N`, `MIN..MAX`, `MIN..` or `..MAX`, where numbers are sizes. Both ends are in the range.
pub fn parse_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let end = |end: &str, default| if end.is_empty() { Ok(default) } else { parse_size(end) };
    let range = end(min, 0)?..=end(max, u64::MAX)?;
    if range.is_empty() || text.is_empty() || text == ".." {
        return Err("no number is in this range".to_owned());
    }
    Ok(range)
}

fn layout(layout: Layout) -> LayoutKind {
    match layout {
        Layout::Snapshot => LayoutKind::Snapshot,
        Layout::Any => LayoutKind::Any,
    }
}

/// The options of `unpack`.
pub fn unpacking(args: &UnpackArgs) -> anyhow::Result<Options> {
    let layout = layout(args.layout);
    if layout == LayoutKind::Any && !args.accounts.is_empty() {
        let reason =
            "--accounts has no meaning with --layout any: only a snapshot has account files";
        return Err(RequestError(reason.to_owned()).into());
    }
    let verify = args.verify.verify(args.verify_memory);
    let source = Source::new(archive(&args.archive), None, layout, verify)?;
    let destination = match &args.output {
        Some(output) if !args.dry_run => Destination::Tree(Tree {
            output: output.clone(),
            accounts: args.accounts.clone(),
            resume: args.resume,
            checkpoint_bytes: args.checkpoint_every,
            manifest: args.manifest.clone(),
        }),
        _ => Destination::Nowhere { manifest: args.manifest.clone() },
    };
    let digest = match (args.expect_digest, args.digest) {
        (Some(expected), _) => DigestUse::Expect(expected),
        (None, DigestArg::Xxh3) => DigestUse::Report(DigestKind::Xxh3),
        (None, DigestArg::Blake3) => DigestUse::Report(DigestKind::Blake3),
        (None, DigestArg::None) => DigestUse::None,
    };
    let mut options = Options::new(source, destination, digest)?;
    options.preflight = args.preflight.mode();
    options.pass = reading(&args.io)?;
    options.pass.io.index = args.index.index_use();
    options.pass.neighbour = args.neighbour.limits();
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_ends() {
        assert_eq!(parse_range("165"), Ok(165..=165));
        assert_eq!(parse_range("1KiB..2KiB"), Ok(1024..=2048));
        assert_eq!(parse_range("10.."), Ok(10..=u64::MAX));
        assert_eq!(parse_range("..10"), Ok(0..=10));
        for bad in ["", "..", "5..4", "x", "1..x", "1...2"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}

//! From what was typed to a validated `Config`: defaults < file < flags.

use std::{num::NonZeroUsize, ops::RangeInclusive, path::Path, thread};

pub use unsnap_cli::settings::{RequestError, parse_size, reading};
use unsnap_fastboot::{Places, Request};
use unsnap_pack::{AccountsQuery, DiffOptions, MEMORY_BYTES, PackOptions};
use unsnap_unpack::{Archive, Config, DigestKind, LayoutKind};

use crate::cli::{
    AccountsArgs, AccountsFormat, DiffArgs, DigestArg, ExtractArgs, FrameArgs, Layout, PlacesArgs,
    PrepareArgs, RepackArgs, UnpackArgs, VerifyArgs,
};

/// The configuration of `verify`.
pub fn verifying(args: &VerifyArgs) -> anyhow::Result<Config> {
    let mut config = reading(&args.archive, &args.io)?;
    config.incremental = args.incremental.clone().map(Archive::File);
    config.digest = Some(DigestKind::Xxh3);
    config.verify = args.verify.verify();
    config.verify_memory = args.verify_memory;
    Ok(config)
}

/// What `fastboot prepare` is to do.
pub fn preparing(args: &PrepareArgs) -> anyhow::Result<Request> {
    // The archives are chosen later.
    let mut config = reading(Path::new(""), &args.io)?;
    args.neighbour.apply(&mut config);
    args.state.apply(&mut config);
    config.digest = Some(DigestKind::Xxh3);
    Ok(Request {
        places: places(&args.places),
        config,
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

/// How `repack` reads.
pub fn repacking(args: &RepackArgs) -> anyhow::Result<Config> {
    let mut config = reading(&args.archive, &args.io)?;
    config.digest = Some(DigestKind::Xxh3);
    config.layout = layout(args.layout);
    Ok(config)
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

/// How `diff` compares.
pub fn comparing(args: &DiffArgs) -> anyhow::Result<([Config; 2], DiffOptions)> {
    if [&args.before, &args.after].iter().all(|path| path.as_os_str() == "-") {
        let reason = "standard input can be one of the archives, not both".to_owned();
        return Err(RequestError(reason).into());
    }
    let configs = [reading(&args.before, &args.io)?, reading(&args.after, &args.io)?];
    let options = DiffOptions { memory_bytes_max: memory(args.memory), threads: cores() };
    Ok((configs, options))
}

/// What `accounts` lists.
pub fn listing(args: &AccountsArgs) -> anyhow::Result<(Config, AccountsQuery)> {
    let query = AccountsQuery {
        owners: args.owner.iter().map(|owner| owner.0).collect(),
        data_len: args.data_size.clone().unwrap_or(0..=u64::MAX),
        newest: args.newest,
        format: match args.format {
            AccountsFormat::Csv => unsnap_pack::AccountsFormat::Csv,
            AccountsFormat::JsonLines => unsnap_pack::AccountsFormat::JsonLines,
        },
        with_data: args.with_data,
        memory_bytes_max: memory(args.memory),
        threads: cores(),
    };
    Ok((reading(&args.archive, &args.io)?, query))
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

/// The configuration of `extract`.
pub fn extracting(args: &ExtractArgs) -> anyhow::Result<Config> {
    let mut config = reading(&args.archive, &args.io)?;
    config.index = args.index.index_use();
    config.incremental = args.incremental.clone().map(Archive::File);
    config.output = args.output.clone().unwrap_or_default();
    if args.any_layout() {
        config.layout = LayoutKind::Any;
    }
    Ok(config)
}

/// The configuration of `unpack`.
pub fn unpacking(args: &UnpackArgs) -> anyhow::Result<Config> {
    let mut config = reading(&args.archive, &args.io)?;
    args.neighbour.apply(&mut config);
    config.index = args.index.index_use();
    config.dry_run = args.dry_run;
    config.preflight = args.preflight.mode();
    config.verify = args.verify.verify();
    config.verify_memory = args.verify_memory;
    config.output = args.output.clone().unwrap_or_default();
    config.accounts.clone_from(&args.accounts);
    config.resume = args.resume;
    config.checkpoint_bytes = args.checkpoint_every;
    config.digest = match args.digest {
        DigestArg::Xxh3 => Some(DigestKind::Xxh3),
        DigestArg::Blake3 => Some(DigestKind::Blake3),
        DigestArg::None => None,
    };
    config.expect_digest = args.expect_digest;
    config.manifest.clone_from(&args.manifest);
    config.layout = layout(args.layout);
    if config.layout == LayoutKind::Any && !config.accounts.is_empty() {
        let reason =
            "--accounts has no meaning with --layout any: only a snapshot has account files";
        return Err(RequestError(reason.to_owned()).into());
    }
    Ok(config)
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

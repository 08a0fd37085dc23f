//! From what was typed to a validated `Config`: defaults < file < flags.

use std::{num::NonZeroUsize, path::Path};

pub use unsnap_cli::settings::{RequestError, parse_size, reading};
use unsnap_fastboot::{Places, Request};
use unsnap_pack::PackOptions;
use unsnap_unpack::{Archive, Config, DigestKind, LayoutKind};

use crate::cli::{
    DigestArg, ExtractArgs, FrameArgs, Layout, PlacesArgs, PrepareArgs, RepackArgs, UnpackArgs,
    VerifyArgs,
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
    config.dry_run = false;
    config.preflight = !args.no_preflight;
    config.digest = Some(DigestKind::Xxh3);
    config.verify = args.verify.verify();
    config.verify_memory = args.verify_memory;
    Ok(Request {
        places: places(&args.places),
        config,
        format: args.fastboot_format.format(),
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
    }
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
    config.preflight = !args.no_preflight;
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

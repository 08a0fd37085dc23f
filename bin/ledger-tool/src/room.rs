//! `unpack --dry-run --output DIR`: could the archive be unpacked there?

use std::path::Path;

use unsnap_commit::Staging;
use unsnap_fit::{Announced, FileSystem, Preflight, PreflightReport, Question};
use unsnap_pass::{Handles, OpenArchive, Opened, on_a_thread_of_its_own};
use unsnap_unpack::{Options, UnpackError};

/// Checks that the destinations (the output first) could take the archives: that they are absent or
/// empty, can be written to, and have enough free space. Creates nothing. Refuses whatever a real
/// run would refuse before its first write.
pub fn check(
    options: &Options,
    destinations: &[&Path],
    handles: &Handles,
) -> Result<PreflightReport, UnpackError> {
    let calls = options.pass.io.engine.syscalls();
    let systems = FileSystem::of(&calls, Staging::check(&calls, destinations)?)?;
    let systems: Vec<_> =
        systems.into_iter().map(|system| system.keeping(options.min_free)).collect();
    // By a confined thread: this one will open the archives again.
    on_a_thread_of_its_own(|| {
        let mut opened = Opened::to_read(options.archives(), &options.pass, handles, || Ok(()))?;
        let indexes = opened.load_indexes(&options.pass, handles)?;
        let announced = opened.archives.iter().map(|archive| match archive {
            OpenArchive::Remote(remote) => Some(Announced { bytes: remote.bytes(), kept_on: None }),
            OpenArchive::File(_) | OpenArchive::Stream(_) => None,
        });
        let announced = announced.collect();
        let files = opened.archives.iter().map(OpenArchive::file);
        let question = Question {
            archives: files.zip(indexes.iter().map(Option::as_ref)).collect(),
            announced,
            systems: &systems,
            accounts: destinations.len() - 1,
            by_space: false,
            kept: &[],
            mode: options.preflight,
            options: &options.pass,
            handles,
            may_walk_beside: false,
        };
        let fits = |_| Ok::<_, UnpackError>(());
        Ok(Preflight::make_room(&question, false, fits)?.report)
    })
}

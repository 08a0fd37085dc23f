//! The question by the lengths that servers announce, if no more is known of archives.

use std::time::Instant;

use unsnap_pass::millis;
use unsnap_source::ArchiveFile;

use crate::{
    FileSystem, FileSystemReport, Free, PreflightReport, Question, Resource, Shortage,
    question::{Judged, UNKNOWN_BYTES},
};

/// Share of an archive's length, as a divisor, that its content takes at least. Content is longer than
/// what it is compressed to, but skippable frames, headers and padding take no space on a disk. They
/// are less than half of every archive that a validator writes. A guess.
const ANNOUNCED_PART: u64 = 2;

impl Question<'_> {
    /// Judges by the lengths that servers announce. An archive is refused only if not even half of its
    /// length is there, on all file systems together. `None` if no archive is on a server.
    pub(crate) fn judge_announced(&self, free: &[Free], since: Instant) -> Option<Judged> {
        if self.announced.iter().all(Option::is_none) {
            return None;
        }
        let lengths = self.archives.iter().zip(&self.announced).map(|((file, _), announced)| {
            announced.map_or_else(|| file.map_or(0, ArchiveFile::size), |known| known.bytes)
        });
        let length = lengths.fold(0, u64::saturating_add);
        let there: u64 = self.kept.iter().map(|kept| kept.bytes).sum();
        let content = (length / ANNOUNCED_PART).saturating_sub(there);
        let kept_on = |device: u64| {
            let kept = self.announced.iter().flatten();
            let kept = kept.filter(|known| known.kept_on == Some(device));
            kept.map(|known| known.bytes).fold(0, u64::saturating_add)
        };
        let mut report = PreflightReport { basis: "announced", ..PreflightReport::default() };
        let is_single = self.systems.len() == 1;
        let (mut shortages, mut room, mut all_kept) = (Vec::new(), 0_u64, 0_u64);
        for (system, on_it) in self.systems.iter().zip(free) {
            let kept = kept_on(system.device);
            all_kept = all_kept.saturating_add(kept);
            // Which of several file systems the content goes to is not known.
            let least = if is_single { kept.saturating_add(content) } else { kept };
            let on_all = on_it.bytes.unwrap_or(UNKNOWN_BYTES);
            room = room.saturating_add(on_all);
            report.file_systems.push(FileSystemReport {
                destinations: system.paths.iter().map(|path| path.display().to_string()).collect(),
                bytes_needed: is_single.then_some(least),
                bytes_available: on_it.bytes,
                min_free_bytes: on_it.min_free.map_or(0, |kept| kept.bytes),
                inodes_needed: None,
                inodes_available: on_it.inodes,
            });
            if least > on_all {
                shortages.push(announced_shortage(system, on_it, least, on_all, length));
            }
        }
        let least = content.saturating_add(all_kept);
        report.bytes_needed = Some(least);
        if shortages.is_empty()
            && least > room
            && let Some((system, on_it)) = self.systems.iter().zip(free).next()
        {
            shortages.push(announced_shortage(system, on_it, least, room, length));
        }
        if shortages.is_empty() && length.saturating_add(all_kept) > room {
            let warning = format!(
                "it may not fit: the archives have {length} bytes, and {room} are available for \
                 their content, which is longer"
            );
            tracing::warn!("{warning}");
            report.warnings.push(warning);
        }
        report.elapsed_ms = millis(since.elapsed());
        tracing::debug!(?report, "preflight");
        let shortage = Shortage::of_all(shortages);
        Some(Judged { report, needs: Vec::new(), has_margin: false, shortage })
    }
}

fn announced_shortage(
    system: &FileSystem,
    on_it: &Free,
    needed: u64,
    available: u64,
    length: u64,
) -> Shortage {
    Shortage {
        resource: Resource::Bytes,
        file_system: system.name(),
        needed: Some(needed),
        exact: false,
        tar_bytes: None,
        announced: Some(length),
        available,
        min_free: on_it.min_free,
        unpacking: false,
        device: system.device,
        others: Vec::new(),
    }
}

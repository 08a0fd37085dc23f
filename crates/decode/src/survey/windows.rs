//! Survey of a large archive through windows, and extrapolation from them.

use crate::{
    Format,
    survey::{
        Basis, Place, Surveyor,
        blocks::{Blocks, Step, Stop},
        chains::{self, Walked},
        sample::Budget,
        sum::{MEAN_BLOCKS_MIN, Mean, Sum},
    },
};

/// Result of the walk over a window.
struct Window {
    sum: Sum,
    compressed_bytes: u64,
    /// Offset of the first frame that begins in the window.
    frame: Option<u64>,
    /// A block inside the last frame of the window.
    foothold: Option<Blocks>,
}

impl Surveyor<'_> {
    /// Returns the offset of a window. Windows lie in the middle of equal parts, so that the
    /// beginning of the archive gets no extra weight, and at multiples of their size, like the
    /// reads of the run.
    fn window(&self, index: u64) -> u64 {
        let part = self.archive_bytes / self.plan.windows;
        (part * index + part / 2) / self.plan.window_bytes * self.plan.window_bytes
    }

    /// Announces all windows, so that the disk fetches them without pauses.
    pub(super) fn announce(&self) {
        self.archive.will_read(0, self.plan.head.compressed_bytes);
        for index in 0..self.plan.windows {
            self.archive.will_read(self.window(index), self.plan.window_bytes);
        }
    }

    /// Walks the windows. If frames declare their sizes, walks all headers from there; otherwise
    /// extrapolates.
    pub(super) fn windows(&mut self, format: Format, mut mean: Mean) -> Option<(u64, Basis)> {
        let mut first = Blocks::from_frame(0, format);
        let declared = loop {
            match first.next(&mut self.peek) {
                Ok(Step::FrameBegins { content_bytes, .. }) => break content_bytes,
                Ok(Step::Skipped) => {}
                _ => return None,
            }
        };
        let flags = first.lz4_flags();
        let (mut windows, mut frames) = (Vec::new(), Vec::new());
        let mut footholds = vec![Blocks::from_frame(0, format)];
        for index in 0..self.plan.windows {
            let from = self.window(index);
            self.peek.set_limit(self.archive_bytes.min(from + self.plan.window_bytes));
            let walk = match from {
                0 => Some(Blocks::from_frame(0, format)),
                _ => Blocks::find(&mut self.peek, from, flags),
            };
            if let Some(window) = walk.and_then(|walk| self.walk_window(walk)) {
                frames.extend(window.frame.filter(|at| *at > 0));
                let last = footholds.last().map_or(0, |last| last.at);
                footholds.extend(window.foothold.filter(|foothold| foothold.at > last));
                windows.push(window);
            }
        }
        self.peek.set_limit(self.archive_bytes);
        let walked = match declared {
            Some(_) => self.walk_chains(&footholds),
            None => Walked::Undeclared,
        };
        self.untold = walked.untold();
        if let Walked::All { frames, .. } = &walked {
            self.middle(format, frames, &mut mean);
        } else {
            self.middle(format, &frames, &mut mean);
        }
        match walked {
            Walked::All { raw_bytes, .. } => return Some((raw_bytes, Basis::Declared)),
            _ if (windows.len() as u64) < self.plan.windows / 2 => return None,
            Walked::Undeclared | Walked::Unfinished => {}
        }
        let (mut raw, mut compressed) = (0_u128, 0_u128);
        for window in windows {
            raw += u128::from(window.sum.raw_bytes(mean.get())?);
            compressed += u128::from(window.compressed_bytes);
        }
        let estimate = (raw * u128::from(self.archive_bytes)).checked_div(compressed)?;
        let estimate = u64::try_from(estimate).ok()?;
        // The archive may be one frame that declares its size, although there was no time to
        // confirm it.
        let is_one = walked == Walked::Unfinished && frames.is_empty();
        let near = |bytes: &u64| is_one && bytes.abs_diff(estimate) <= estimate / 4;
        Some(match declared.filter(near) {
            Some(bytes) => (bytes, Basis::Declared),
            None => (estimate, Basis::Sampled),
        })
    }

    fn walk_chains(&mut self, footholds: &[Blocks]) -> Walked {
        let (walked, reads) =
            chains::walk(self.archive, self.archive_bytes, footholds, &self.effort);
        self.peek.reads = self.peek.reads.plus(reads);
        walked
    }

    fn walk_window(&mut self, mut walk: Blocks) -> Option<Window> {
        let (start, mut sum, mut frame, mut foothold) = (walk.at, Sum::default(), None, None);
        loop {
            let before = walk;
            match walk.next(&mut self.peek) {
                Ok(step) => {
                    sum.add(step)?;
                    if matches!(step, Step::FrameBegins { .. }) {
                        frame = frame.or(Some(before.at));
                    }
                    if matches!(step, Step::Block { .. }) {
                        foothold = Some(before);
                    }
                }
                Err(Stop::End | Stop::Short) => break,
                Err(Stop::Bad) => return None,
            }
        }
        let compressed_bytes = walk.at - start;
        (compressed_bytes > 0).then_some(Window { sum, compressed_bytes, frame, foothold })
    }

    /// Decodes a part of some of the frames that begin at the offsets in `frames`.
    pub(super) fn middle(&mut self, format: Format, frames: &[u64], mean: &mut Mean) {
        let mut middle = Mean::default();
        let stride = frames.len().div_ceil(self.plan.middle_samples).max(1);
        for &start in frames.iter().step_by(stride) {
            self.archive.will_read(start, self.plan.window_bytes);
        }
        for &start in frames.iter().step_by(stride) {
            let decoded = self.sample(Place::Middle, format, start, self.plan.middle);
            self.calibrate(format, start, decoded, &mut middle);
        }
        // The middle represents the archive better than the beginning, which may be a bank file.
        if middle.blocks >= MEAN_BLOCKS_MIN {
            *mean = middle;
        }
    }

    pub(super) fn plain_middle(&mut self) {
        let budget =
            Budget { compressed_bytes: self.plan.window_bytes, raw_bytes: self.plan.window_bytes };
        for index in 0..self.plan.windows {
            let start = self.window(index);
            if start >= self.plan.head.compressed_bytes {
                self.sample(Place::Middle, Format::Tar, start, budget);
            }
        }
    }
}

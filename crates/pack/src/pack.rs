//! From frames of the tar stream to a file of compressed frames.

use std::{
    num::NonZeroUsize,
    ops::ControlFlow,
    thread,
    time::{Duration, Instant},
};

use crossbeam::channel::bounded;
use serde::Serialize;
use unsnap_failure::{Knob, Remedy};
use unsnap_index::{SeekEntry, SeekTable};
use unsnap_pass::{
    PassError, millis,
    ordered::{self, Submit, Times},
};
use unsnap_ring::DirectMode;

use crate::{
    PackError,
    compress::{CompressTimes, Compressor, Manner, Packed, give_back},
    frames::RawFrame,
    output::Output,
};

const MIB: usize = 1 << 20;

/// How an archive is written.
#[derive(Clone, Copy, Debug)]
pub struct PackOptions {
    /// The most bytes of the tar stream that a frame holds, [`FRAME_BYTES_MIN`](Self::FRAME_BYTES_MIN)
    /// to [`FRAME_BYTES_MAX`](Self::FRAME_BYTES_MAX).
    pub frame_bytes: usize,
    /// Level of zstd, 1 to 22. Validators write 1.
    pub level: i32,
    /// End every frame in a checksum of its content (XXH64), which every decoder verifies.
    pub checksums: bool,
    /// Add a table of all frames, in a skippable frame at the end.
    pub seek_table: bool,
    /// Threads that compress.
    pub threads: NonZeroUsize,
    /// Replace what is there under the output's name.
    pub replace: bool,
    /// Whether to write past the page cache.
    pub direct_io: DirectMode,
}

impl PackOptions {
    /// The smallest that may be asked for. A frame's beginning knows no past: with frames of 4 MiB a
    /// generated archive of 400 MB became 0.20 % larger than as one frame (level 1, November 2026).
    pub const FRAME_BYTES_MIN: usize = 4 * MIB;

    /// The largest: that of Agave 4.3 and later. What decodes frames as a whole needs memory for some of
    /// them at a time.
    pub const FRAME_BYTES_MAX: usize = 32 * MIB;

    /// In between: 0.05 % larger than one frame, and 0.02 % with 32 MiB, in the same measurement; whoever
    /// decodes frames as a whole needs half the memory for them.
    pub const FRAME_BYTES: usize = 16 * MIB;

    /// Most threads by default: no machine has been seen on which the disk was not the limit before. A
    /// guess.
    const THREADS_MAX: usize = 64;

    /// Checks what was asked for.
    pub(crate) fn check(&self) -> Result<(), PackError> {
        let refuse =
            |reason: String, advice: &str| Err(PackError::request(reason, Remedy::advice(advice)));
        let sizes = Self::FRAME_BYTES_MIN..=Self::FRAME_BYTES_MAX;
        if !sizes.contains(&self.frame_bytes) {
            let reason = format!("frames of {} bytes", self.frame_bytes);
            return refuse(reason, "frames hold 4 to 32 MiB");
        }
        if !(1..=zstd_safe::max_c_level()).contains(&self.level) {
            return refuse(format!("zstd has no level {}", self.level), "levels go from 1 to 22");
        }
        Ok(())
    }

    /// Bytes of the tar stream that are under way at most: in frames that wait, are compressed or were
    /// compressed a moment ago, and in the one that is gathered.
    pub(crate) fn held_bytes(&self) -> usize {
        (ordered::jobs_max(self.threads) + 1) * self.frame_bytes
    }
}

impl Default for PackOptions {
    fn default() -> Self {
        let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let most = NonZeroUsize::new(Self::THREADS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self {
            frame_bytes: Self::FRAME_BYTES,
            level: 1,
            checksums: false,
            seek_table: false,
            threads: cores.min(most),
            replace: false,
            direct_io: DirectMode::default(),
        }
    }
}

/// What was written, and where the time went.
#[derive(Clone, Debug, Serialize)]
pub struct PackReport {
    /// The archive that was written.
    pub output: String,
    /// Its length in bytes.
    pub bytes_written: u64,
    /// Bytes of the tar stream in it.
    pub raw_bytes: u64,
    /// Frames of data.
    pub frames: u64,
    /// The most bytes that a frame holds.
    pub frame_bytes_max: u64,
    /// Level of zstd.
    pub level: i32,
    /// Whether each frame ends in a checksum.
    pub checksums: bool,
    /// Whether there is a table of the frames at the end.
    pub seek_table: bool,
    /// Threads that compressed.
    pub threads: usize,
    /// Whether it was written past the page cache.
    pub direct_write: bool,
    /// From start to published.
    pub elapsed_ms: u64,
    /// Bytes of the tar stream for each second of that.
    pub raw_bytes_per_second: u64,
    /// All threads together, compressing.
    pub compressing_ms: u64,
    /// All threads together, decoding every frame again and comparing it with what it was made of.
    pub proving_ms: u64,
    /// Threads that compress, waiting for frames; all together.
    pub waiting_for_input_ms: u64,
    /// Whoever makes frames, waiting until others are compressed and written.
    pub waiting_for_compressors_ms: u64,
    /// Writing frames to the file.
    pub writing_ms: u64,
    /// Syncing and publishing at the end.
    pub sync_ms: u64,
    /// What the others waited for: "input" (reading and decoding, or files), "compress", "write" or
    /// "sync".
    pub limited_by: &'static str,
}

/// Compresses the frames that `produce` hands over, in order, into `output`, and publishes that if
/// `produce` has succeeded. `wrote` is told of bytes as they are written.
///
/// `produce` is called on this thread. It is to end when a frame is refused; the reason is told here.
pub(crate) fn pack<R>(
    options: &PackOptions,
    mut output: Output,
    wrote: impl Fn(u64) + Send + Sync,
    produce: impl FnOnce(&(dyn Fn(RawFrame) -> ControlFlow<()> + Sync)) -> Result<R, PackError>,
) -> Result<(R, PackReport), PackError> {
    let begun = Instant::now();
    let (times, compress_times) = (Times::default(), CompressTimes::default());
    let manner = Manner { level: options.level, checksums: options.checksums };
    let (give, spare) = bounded(ordered::jobs_max(options.threads));
    let mut table = options.seek_table.then(|| SeekTable::new(options.checksums));
    let (mut frames, mut raw_bytes) = (0, 0);
    let consume = |packed: Result<Packed, PackError>| {
        let packed = packed?;
        output.write(&packed.compressed)?;
        if let Some(table) = &mut table {
            note(table, &packed)?;
        }
        wrote(packed.compressed.len() as u64);
        frames += 1;
        raw_bytes += packed.raw_bytes as u64;
        give_back(&give, packed.compressed);
        Ok::<(), PackError>(())
    };
    let (produced, consumed) = ordered::run(
        "pack",
        options.threads,
        &times,
        || Compressor::new(manner, spare.clone(), &compress_times),
        |compressor, frame: RawFrame| compressor.frame(&frame),
        consume,
        |to: Submit<'_, RawFrame, _>| {
            produce(&|frame| match to.submit(frame) {
                Ok(()) => ControlFlow::Continue(()),
                Err(ordered::Stopped) => ControlFlow::Break(()),
            })
        },
    )
    .map_err(PassError::thread)?;
    // If the consumer has failed, what the producer says is a consequence.
    consumed?;
    let produced = produced?;
    if let Some(table) = table {
        output.write(&table.encode())?;
    }
    let packed_in = begun.elapsed();
    let path = output.path().display().to_string();
    let direct_write = output.is_direct();
    let bytes_written = output.publish()?;
    let elapsed = begun.elapsed();
    let syncing = elapsed.saturating_sub(packed_in);
    let report = PackReport {
        output: path,
        bytes_written,
        raw_bytes,
        frames,
        frame_bytes_max: options.frame_bytes as u64,
        level: options.level,
        checksums: options.checksums,
        seek_table: options.seek_table,
        threads: options.threads.get(),
        direct_write,
        elapsed_ms: millis(elapsed),
        raw_bytes_per_second: per_second(raw_bytes, elapsed),
        compressing_ms: millis(compress_times.compressing()),
        proving_ms: millis(compress_times.proving()),
        waiting_for_input_ms: millis(times.waited_for_jobs()),
        waiting_for_compressors_ms: millis(times.waited_for_room()),
        writing_ms: millis(times.consumed()),
        sync_ms: millis(syncing),
        limited_by: limited_by(&times, options.threads, packed_in, syncing),
    };
    Ok((produced, report))
}

/// The stage whose neighbours wait. A tenth of the time is taken for being at work throughout, as the
/// first and the last frame keep only one thread busy each.
fn limited_by(
    times: &Times,
    threads: NonZeroUsize,
    packing: Duration,
    syncing: Duration,
) -> &'static str {
    if syncing > packing {
        return "sync";
    }
    let threads = u32::try_from(threads.get()).unwrap_or(u32::MAX);
    let idle = times.waited_for_jobs() / threads;
    if idle <= packing / 10 {
        "compress"
    } else if times.waited_for_room() > packing / 2 && times.consumed() > packing / 2 {
        "write"
    } else {
        "input"
    }
}

/// Adds a frame to the table.
fn note(table: &mut SeekTable, packed: &Packed) -> Result<(), PackError> {
    let bytes = u32::try_from(packed.compressed.len());
    let raw_bytes = u32::try_from(packed.raw_bytes);
    let (Ok(bytes), Ok(raw_bytes)) = (bytes, raw_bytes) else { return Err(too_many_frames()) };
    let entry = SeekEntry { bytes, raw_bytes, checksum: packed.checksum };
    table.push(entry).map_err(|_| too_many_frames())
}

fn too_many_frames() -> PackError {
    PackError::request(
        "there are more frames, or larger ones, than a seek table has room for",
        Remedy::Set(Knob::SeekTable, "go without {}, or use larger frames"),
    )
}

fn per_second(bytes: u64, time: Duration) -> u64 {
    let per_second = u128::from(bytes) * 1000 / time.as_millis().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

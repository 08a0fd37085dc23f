//! Compression of the tar stream's frames into a file.

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
    Archive, PassError, millis,
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

/// Options for writing an archive.
#[derive(Clone, Copy, Debug)]
pub struct PackOptions {
    /// Most bytes of the tar stream in a frame, [`FRAME_BYTES_MIN`](Self::FRAME_BYTES_MIN) to
    /// [`FRAME_BYTES_MAX`](Self::FRAME_BYTES_MAX).
    pub frame_bytes: usize,
    /// zstd level, 1 to 22. Validators use 1.
    pub level: i32,
    /// End every frame in a checksum of its content (XXH64), which every decoder verifies.
    pub checksums: bool,
    /// Add a table of all frames, in a skippable frame at the end.
    pub seek_table: bool,
    /// Threads that compress.
    pub threads: NonZeroUsize,
    /// Replace an existing file of the output's name.
    pub replace: bool,
    /// Use of direct I/O for writing.
    pub direct_io: DirectMode,
}

impl PackOptions {
    /// Smallest accepted frame. Each frame is compressed without knowledge of earlier ones: with
    /// frames of 4 MiB, a generated archive of 400 MB became 0.20 % larger than as one frame (level
    /// 1, November 2026).
    pub const FRAME_BYTES_MIN: usize = 4 * MIB;

    /// Largest accepted frame: that of Agave 4.3 and later. Decoders of whole frames need memory
    /// for several at a time.
    pub const FRAME_BYTES_MAX: usize = 32 * MIB;

    /// Default: archives are 0.05 % larger than as one frame, against 0.02 % with 32 MiB, in the
    /// same measurement, but decoders of whole frames need half the memory.
    pub const FRAME_BYTES: usize = 16 * MIB;

    /// Most threads by default. On every machine tried, the disk was the limit before. A guess.
    const THREADS_MAX: usize = 64;

    /// Checks that the values are in range.
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

    /// Returns the most bytes of the tar stream that are held at a time: in frames that wait, are
    /// compressed or were just compressed, and in the one being gathered.
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

/// Report of writing an archive.
#[derive(Clone, Debug, Serialize)]
pub struct PackReport {
    /// Path of the archive.
    pub output: String,
    /// Size of the archive in bytes.
    pub bytes_written: u64,
    /// Size of the tar stream in bytes.
    pub raw_bytes: u64,
    /// Number of data frames.
    pub frames: u64,
    /// Most bytes of the tar stream in a frame.
    pub frame_bytes_max: u64,
    /// zstd level.
    pub level: i32,
    /// Whether each frame ends in a checksum.
    pub checksums: bool,
    /// Whether the archive ends in a seek table.
    pub seek_table: bool,
    /// Number of compressing threads.
    pub threads: usize,
    /// Whether direct I/O was used for writing.
    pub direct_write: bool,
    /// Milliseconds from the start until the archive was published.
    pub elapsed_ms: u64,
    /// Bytes of the tar stream per second of that time.
    pub raw_bytes_per_second: u64,
    /// Time for compressing, summed over all threads.
    pub compressing_ms: u64,
    /// Time for decoding every frame again and comparing it with its input, summed over all
    /// threads.
    pub proving_ms: u64,
    /// Time that compressing threads waited for frames, summed over all threads.
    pub waiting_for_input_ms: u64,
    /// Time that the producer of frames waited for compression and writing.
    pub waiting_for_compressors_ms: u64,
    /// Time for writing frames to the file.
    pub writing_ms: u64,
    /// Time for syncing and publishing at the end.
    pub sync_ms: u64,
    /// The slowest stage: "input" (reading and decoding, or files), "compress", "write" or "sync".
    pub limited_by: &'static str,
}

/// Compresses the frames from `produce`, in order, into `output`, and publishes the file if
/// `produce` succeeds and then `prove`, which gets the archive when it is complete and durable and
/// has no name yet. Calls `wrote` with the number of bytes after each write.
///
/// `produce` runs on the calling thread. It must end when a frame is refused; this function returns
/// the reason.
pub(crate) fn pack<R>(
    options: &PackOptions,
    mut output: Output,
    wrote: impl Fn(u64) + Send + Sync,
    produce: impl FnOnce(&(dyn Fn(RawFrame) -> ControlFlow<()> + Sync)) -> Result<R, PackError>,
    prove: impl FnOnce(Archive) -> Result<(), PackError>,
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
    // If the consumer failed, the producer's error is a consequence.
    consumed?;
    let produced = produced?;
    if let Some(table) = table {
        output.write(&table.encode())?;
    }
    let packed_in = begun.elapsed();
    let path = output.path().display().to_string();
    let direct_write = output.is_direct();
    let bytes_written = output.sync()?;
    let synced_in = begun.elapsed().saturating_sub(packed_in);
    prove(output.archive())?;
    let proven_at = begun.elapsed();
    // Before the archive is replaced: an index must never describe another archive.
    if output.remove_stale_index()? {
        tracing::warn!(archive = %path, "the index of an older archive was removed");
    }
    output.publish()?;
    let elapsed = begun.elapsed();
    let syncing = synced_in + elapsed.saturating_sub(proven_at);
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

/// Returns the stage that its neighbours wait for. Threads that are idle for up to a tenth of the
/// time count as busy throughout, since the first and the last frame keep only one thread busy
/// each.
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

/// Adds a frame to the seek table.
fn note(table: &mut SeekTable, packed: &Packed) -> Result<(), PackError> {
    let bytes = u32::try_from(packed.compressed.len());
    let raw_bytes = u32::try_from(packed.raw_bytes);
    let (Ok(bytes), Ok(raw_bytes)) = (bytes, raw_bytes) else { return Err(too_many_frames()) };
    let entry = SeekEntry { bytes, raw_bytes, checksum: packed.checksum };
    table.push(entry).map_err(|_| too_many_frames())
}

fn too_many_frames() -> PackError {
    PackError::request(
        "a seek table cannot hold so many or such large frames",
        Remedy::Set(Knob::SeekTable, "go without {}, or use larger frames"),
    )
}

fn per_second(bytes: u64, time: Duration) -> u64 {
    let per_second = u128::from(bytes) * 1000 / time.as_millis().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

//! What a compressed stream may claim.

/// Caps on what a compressed archive may ask of us. Everything in it is hostile until proven
/// otherwise; a cap that a genuine archive could meet names the setting that raises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest zstd window, in bytes. Default 128 MiB, libzstd's own default; Agave's archives
    /// need 512 KiB or 2 MiB.
    pub window_bytes_max: u64,
    /// Largest frame decoded as a whole by one worker; larger ones are streamed. Default 128 MiB:
    /// Agave and Firedancer write at most 32 MiB.
    pub frame_bytes_max: u64,
    /// Frames in an archive, skippable ones included. Default 20 million: a mainnet snapshot in
    /// Firedancer's form has about 1.3 million.
    pub frames_max: u64,
    /// Decoded bytes. Default 64 TiB, what Agave accepts at most.
    pub raw_bytes_max: u64,
    /// Decoded bytes for each compressed byte, counted once 256 MiB have been decoded. Default
    /// 500; snapshots have 3 to 6, and all that zstd can do is about 32,000.
    pub ratio_max: u64,
}

/// Below this many decoded bytes a high ratio harms nobody, and small archives of a few repeated
/// accounts do have one.
const RATIO_COUNTS_FROM_BYTES: u64 = 256 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            window_bytes_max: 128 << 20,
            frame_bytes_max: 128 << 20,
            frames_max: 20_000_000,
            raw_bytes_max: 64 << 40,
            ratio_max: 500,
        }
    }
}

/// A limit that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub what: &'static str,
    pub found: u64,
    pub limit: u64,
}

impl Limits {
    /// Whether `raw` decoded bytes out of `compressed` ones are within limits.
    pub(crate) fn check_output(&self, raw: u64, compressed: u64) -> Result<(), Exceeded> {
        if raw > self.raw_bytes_max {
            let limit = self.raw_bytes_max;
            return Err(Exceeded { what: "decoded bytes (raw_bytes_max)", found: raw, limit });
        }
        let ratio = raw / compressed.max(1);
        if raw > RATIO_COUNTS_FROM_BYTES && ratio > self.ratio_max {
            let limit = self.ratio_max;
            return Err(Exceeded { what: "compression ratio (ratio_max)", found: ratio, limit });
        }
        Ok(())
    }

    pub(crate) fn check_frames(&self, frames: u64) -> Result<(), Exceeded> {
        let limit = self.frames_max;
        if frames > limit {
            return Err(Exceeded { what: "number of frames (frames_max)", found: frames, limit });
        }
        Ok(())
    }

    pub(crate) fn check_window(&self, window: u64) -> Result<(), Exceeded> {
        let limit = self.window_bytes_max;
        if window > limit {
            return Err(Exceeded { what: "zstd window (window_bytes_max)", found: window, limit });
        }
        Ok(())
    }
}

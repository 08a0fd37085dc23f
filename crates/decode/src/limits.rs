//! Limits on compressed archives.

/// Limits on the resources that a compressed archive may demand. Its contents are hostile until
/// proven otherwise. The error for a limit that a genuine archive could reach names the setting
/// that raises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest zstd window in bytes. Default: 128 MiB, as in libzstd. Agave's archives need 512 KiB
    /// or 2 MiB.
    pub window_bytes_max: u64,
    /// Largest frame, in decoded bytes, that one worker decodes as a whole; larger frames are
    /// streamed. Default: 128 MiB. Agave and Firedancer write at most 32 MiB.
    pub frame_bytes_max: u64,
    /// Most frames in an archive, including skippable ones. Default: 20 million. A mainnet snapshot
    /// in Firedancer's format has about 1.3 million.
    pub frames_max: u64,
    /// Most decoded bytes. Default: 64 TiB, the most that Agave accepts.
    pub raw_bytes_max: u64,
    /// Most decoded bytes per compressed byte, checked once 256 MiB have been decoded. Default:
    /// 500. Snapshots reach 3 to 6; the most that zstd can reach is about 32,000.
    pub ratio_max: u64,
}

/// Decoded bytes from which on the ratio is checked. Below, a high ratio is harmless, and small
/// archives of a few repeated accounts do have one.
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

/// An exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    pub what: &'static str,
    pub found: u64,
    pub limit: u64,
}

impl Limits {
    /// Checks that `raw` bytes decoded from `compressed` bytes are within the limits.
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

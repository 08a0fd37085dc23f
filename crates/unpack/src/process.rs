//! The kernel's status of this process.

use std::{fs::File, os::unix::fs::FileExt};

/// The open status file. It can be read again after the process is confined.
pub(crate) struct ProcessStatus(Option<File>);

impl ProcessStatus {
    /// More than the length of the file.
    const BYTES_MAX: usize = 16 << 10;

    #[allow(clippy::disallowed_methods, reason = "not the data path")]
    pub fn open() -> Self {
        Self(File::open("/proc/self/status").ok())
    }

    /// Returns the peak resident memory of the process in bytes; 0 if it is unknown.
    pub fn peak_rss_bytes(&self) -> u64 {
        let mut text = vec![0; Self::BYTES_MAX];
        let file = self.0.as_ref();
        let filled = file.and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        String::from_utf8_lossy(&text[..filled])
            .lines()
            .find_map(|line| {
                line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok()
            })
            .map_or(0, |kib: u64| kib * 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_can_be_asked_for_again() {
        let status = ProcessStatus::open();
        let before = status.peak_rss_bytes();
        assert!(before > 0);
        let memory = vec![1_u8; 64 << 20];
        assert!(std::hint::black_box(&memory).iter().all(|byte| *byte == 1));
        assert!(status.peak_rss_bytes() >= before + (32 << 20), "{before}");
        assert_eq!(ProcessStatus(None).peak_rss_bytes(), 0);
    }
}

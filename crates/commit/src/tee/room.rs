//! Room for a tee: it must never take what the run itself needs.

/// Space for a tee.
pub struct TeeRoom {
    /// Returns the bytes that are free, without those that stay free for other processes; `None` if
    /// that is unknown.
    pub free: Box<dyn Fn() -> Option<u64> + Send>,
    /// Returns the bytes that the run is still going to write to the same file system.
    pub needed: Box<dyn Fn() -> u64 + Send>,
    /// Is called when the tee is given up.
    pub lost: Box<dyn Fn() + Send>,
}

impl TeeRoom {
    /// Checks that `rest` more bytes of the archive fit. Returns the reason if they do not.
    pub fn check(&self, rest: u64) -> Result<(), String> {
        // A disk that is full refuses the write.
        let Some(free) = (self.free)() else { return Ok(()) };
        let needed = (self.needed)();
        if free >= rest.saturating_add(needed) {
            return Ok(());
        }
        let beside = match needed {
            0 => String::new(),
            bytes => format!(" beside {bytes} for the unpacked files"),
        };
        Err(format!("its disk has {free} free bytes, and {rest} more are needed{beside}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_run_needs_comes_first() {
        let room = |free: Option<u64>, needed: u64| TeeRoom {
            free: Box::new(move || free),
            needed: Box::new(move || needed),
            lost: Box::new(|| ()),
        };
        assert_eq!(room(Some(100), 0).check(100), Ok(()));
        assert!(room(Some(99), 0).check(100).unwrap_err().contains("99 free"));
        assert_eq!(room(Some(130), 30).check(100), Ok(()));
        let reason = room(Some(129), 30).check(100).unwrap_err();
        assert!(reason.contains("100 more") && reason.contains("30 for"), "{reason}");
        assert!(room(Some(5), u64::MAX).check(u64::MAX).is_err(), "does not overflow");
        assert_eq!(room(None, 30).check(100), Ok(()));
    }
}

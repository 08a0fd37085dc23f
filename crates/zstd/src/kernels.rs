//! What safe code cannot do as fast: the only unsafe module of this crate.
//!
//! * Inner loops are compiled for the instructions that the processor has. The loops are safe code,
//!   but they shift by variable counts all the time, for which BMI2 has better instructions, and copy
//!   32 bytes at once, for which AVX2 has. A function that is compiled for such instructions must not
//!   run on a processor without them, which the compiler cannot check.
//! * Sequences are executed by copies of whole steps, without a check for each step: a check for each
//!   sequence is enough. Executing took 1.1 to 1.6 times as long with all checks.

use std::ptr;

/// Bytes of a step.
pub(crate) const WIDE: usize = 32;

/// Copies `count` bytes from `source[from..]` to `target[at..]` and returns `true`, if both have room
/// for a step more. Up to a step more is copied.
#[inline(always)]
pub(crate) fn copy_apart(
    source: &[u8],
    from: usize,
    target: &mut [u8],
    at: usize,
    count: usize,
) -> bool {
    if !has_room(source, from, count, WIDE) || !has_room(target, at, count, WIDE) {
        return false;
    }
    let mut done = 0;
    loop {
        // SAFETY: `done` is 0 or less than `count`, so a step from here ends less than a step after
        // `count`, for which there is room in `source`.
        let step = unsafe { load(source, from + done) };
        // SAFETY: likewise in `target`.
        unsafe { store(target, at + done, step) };
        done += WIDE;
        if done >= count {
            return true;
        }
    }
}

/// Copies `count` bytes to `bytes[at..]` from `offset` before, as if one after the other, and returns
/// `true`, if the offset is at least a step and there is room for two steps more. Up to two steps more
/// are copied.
#[inline(always)]
pub(crate) fn copy_again(bytes: &mut [u8], at: usize, count: usize, offset: usize) -> bool {
    if offset < WIDE || offset > at || !has_room(bytes, at, count, 2 * WIDE) {
        return false;
    }
    let mut done = 0;
    loop {
        // Two steps at once: most matches need one or two, which nobody can predict.
        for step_at in [at + done, at + done + WIDE] {
            // SAFETY: `done` is 0 or less than `count`, so a step from here, and one after it, end
            // less than two steps after `count`, for which there is room. It begins `offset` bytes
            // earlier, which is not in front of `bytes`.
            let step = unsafe { load(bytes, step_at - offset) };
            // SAFETY: as above, without the offset.
            unsafe { store(bytes, step_at, step) };
        }
        done += 2 * WIDE;
        if done >= count {
            return true;
        }
    }
}

/// Returns whether `bytes` has `count` bytes, and `more`, from `at` on.
#[inline(always)]
fn has_room(bytes: &[u8], at: usize, count: usize, more: usize) -> bool {
    at.checked_add(count + more).is_some_and(|end| end <= bytes.len())
}

/// # Safety
/// `bytes` has a step from `at` on.
#[inline(always)]
unsafe fn load(bytes: &[u8], at: usize) -> [u8; WIDE] {
    debug_assert!(at + WIDE <= bytes.len());
    // SAFETY: within `bytes`, by the caller.
    let from = unsafe { bytes.as_ptr().add(at) };
    // SAFETY: a step from there is readable, by the caller, and needs no alignment.
    unsafe { ptr::read_unaligned(from.cast()) }
}

/// # Safety
/// `bytes` has a step from `at` on.
#[inline(always)]
unsafe fn store(bytes: &mut [u8], at: usize, step: [u8; WIDE]) {
    debug_assert!(at + WIDE <= bytes.len());
    // SAFETY: within `bytes`, by the caller.
    let to = unsafe { bytes.as_mut_ptr().add(at) };
    // SAFETY: a step from there is writable, by the caller, and needs no alignment.
    unsafe { ptr::write_unaligned(to.cast(), step) };
}

/// An inner loop, with what it works on.
pub(crate) trait Kernel {
    type Output;

    /// Does the work. Implementations must be inlined: only then are they compiled for more than the
    /// least of all processors.
    fn run(self) -> Self::Output;
}

/// Runs `kernel`, compiled for this processor.
pub(crate) fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected;

        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
        fn wide<K: Kernel>(kernel: K) -> K::Output {
            kernel.run()
        }

        let wide_runs = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt");
        if wide_runs {
            // SAFETY: the processor has all features that `wide` is compiled for.
            return unsafe { wide(kernel) };
        }
    }
    kernel.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_match_one_byte_at_a_time_wherever_there_is_room() {
        let bytes: Vec<u8> = (0..=255).collect();
        for at in [0, 1, 31, 32, 40, 100, 150, 191, 192, 193, 255, 256, usize::MAX] {
            for count in [0, 1, 31, 32, 33, 63, 64, 65, 100, 128] {
                let mut target = bytes.clone();
                let copied = copy_apart(&bytes, 7, &mut target, at, count);
                let room = at <= 256 && at + count + WIDE <= 256;
                assert_eq!(copied, room && 7 + count + WIDE <= 256, "{at} {count}");
                if copied {
                    assert_eq!(target[at..at + count], bytes[7..7 + count]);
                }
                for offset in [0, 1, 31, 32, 33, 40, 64, 100, 193] {
                    let mut target = bytes.clone();
                    let copied = copy_again(&mut target, at, count, offset);
                    let room = at <= 256 && at + count + 2 * WIDE <= 256;
                    assert_eq!(copied, room && offset >= WIDE && offset <= at);
                    if copied {
                        let mut expected = bytes.clone();
                        for index in at..at + count {
                            expected[index] = expected[index - offset];
                        }
                        assert_eq!(target[..at + count], expected[..at + count]);
                    }
                }
            }
        }
    }
}

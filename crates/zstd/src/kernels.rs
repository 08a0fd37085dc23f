//! Runs inner loops compiled for the instructions that the processor has. The only unsafe module of
//! this crate.
//!
//! The loops themselves are safe code. They shift by variable counts all the time, for which BMI2 has
//! better instructions, and copy 32 bytes at once, for which AVX2 has. A function that is compiled for
//! such instructions must not run on a processor without them, which the compiler cannot check.

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

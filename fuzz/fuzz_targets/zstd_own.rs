//! libFuzzer on `unsnap_fuzz_targets::zstd_own`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unsnap_fuzz_targets::zstd_own(data));

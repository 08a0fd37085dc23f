//! libFuzzer on `unsnap_fuzz_targets::bank`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unsnap_fuzz_targets::bank(data));

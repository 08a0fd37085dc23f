//! libFuzzer on `unsnap_fuzz_targets::storage`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unsnap_fuzz_targets::storage(data));

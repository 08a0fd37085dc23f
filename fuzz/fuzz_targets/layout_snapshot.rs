//! libFuzzer on `unsnap_fuzz_targets::layout_snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unsnap_fuzz_targets::layout_snapshot(data));

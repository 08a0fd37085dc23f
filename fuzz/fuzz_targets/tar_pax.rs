//! libFuzzer on `unsnap_fuzz_targets::tar_pax`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unsnap_fuzz_targets::tar_pax(data));

//! libFuzzer on `unsnap_fuzz_targets::side_car`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unsnap_fuzz_targets::side_car(data));

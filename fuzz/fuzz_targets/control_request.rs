//! libFuzzer on `unsnap_fuzz_targets::control_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unsnap_fuzz_targets::control_request(data));

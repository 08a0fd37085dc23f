//! libFuzzer on `unsnap_fuzz_targets::decode_own`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unsnap_fuzz_targets::decode_own(data));

//! libFuzzer on `unsnap_fuzz_targets::seek_table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unsnap_fuzz_targets::seek_table(data));

//! libFuzzer's entry to the target of this name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = fencepost_fuzz::request(bytes);
});

//! libFuzzer entry point of the target.
#![no_main]

use fencepost_fuzz::seeds;

libfuzzer_sys::fuzz_target!(init: seeds::write(&seeds::access()), |bytes: &[u8]| {
    let _ = fencepost_fuzz::access(bytes);
});

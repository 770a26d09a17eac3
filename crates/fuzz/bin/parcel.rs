//! libFuzzer entry point of the target.
#![no_main]

use fencepost_fuzz::seeds;

libfuzzer_sys::fuzz_target!(init: seeds::write(&seeds::parcels()), |bytes: &[u8]| {
    fencepost_fuzz::parcel(bytes);
});

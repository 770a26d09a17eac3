//! No change to the API breaks a client that was built against the committed baseline, be it over the wire, in
//! generated code or in JSON. `make proto-baseline` records additions once they are released.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod cases;
mod compare;

use prost_reflect::DescriptorPool;
use std::{fs, path::Path};

#[test]
fn the_api_keeps_its_promises() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.binpb");
    let baseline = DescriptorPool::decode(fs::read(path).unwrap().as_slice()).unwrap();
    let now = DescriptorPool::decode(fencepost_proto::v1::DESCRIPTORS).unwrap();
    assert!(baseline.get_service_by_name("fencepost.v1.LockService").is_some(), "the baseline is empty");
    let broken = compare::breaking_changes(&baseline, &now);
    assert!(broken.is_empty(), "this breaks clients of the released API:\n{}", broken.join("\n"));
}

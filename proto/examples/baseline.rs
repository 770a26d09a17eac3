//! Writes `baseline.binpb`, what the compatibility test compares with: `make proto-baseline`, at a release.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.binpb"), fencepost_proto::v1::DESCRIPTORS)
}

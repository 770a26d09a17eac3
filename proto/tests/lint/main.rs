//! The proto files keep the rules of `buf lint` (STANDARD) that changes are likely to break, and set what generated
//! code in each language is called. `buf.yaml` says how to run all of buf's rules.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod cases;
mod rules;

use prost_reflect::DescriptorPool;
use std::{fs, path::Path};

const DIRECTORY: &str = "fencepost/v1";

#[test]
fn the_api_keeps_the_rules() {
    let pool = DescriptorPool::decode(fencepost_proto::v1::DESCRIPTORS).unwrap();
    let mut problems = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(DIRECTORY)).unwrap() {
        let name = format!("{DIRECTORY}/{}", entry.unwrap().file_name().to_str().unwrap());
        let file = pool.get_file_by_name(&name).unwrap_or_else(|| panic!("build.rs does not compile {name}"));
        problems.extend(rules::problems(&file));
    }
    assert!(pool.get_service_by_name("fencepost.v1.LockService").is_some(), "the API is empty");
    problems.extend(rules::shared_types(&pool));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

//! The facts in `clients/facts.json` are those of the server, and each client has them.
#![allow(clippy::unwrap_used, reason = "test code")]

use fencepost::testing::domain::limits::{self, Limits};
use fencepost_client::{ServerAddress, facts};
use std::{path::Path, process::Command, time::Duration};

#[test]
fn each_client_has_the_shared_facts() {
    let generate = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/facts/generate.py");
    let done = Command::new("python3").arg("-B").arg(generate).arg("--check").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn the_shared_facts_are_those_of_the_server() {
    let limits = Limits::default();
    let spans = [
        ("DEFAULT_TTL_MS", facts::DEFAULT_TTL_MS, limits.ttl_default()),
        ("TTL_MIN_MS", facts::TTL_MIN_MS, limits.ttl_min),
        ("TTL_MAX_MS", facts::TTL_MAX_MS, limits.ttl_max),
        ("WAIT_MAX_MS", facts::WAIT_MAX_MS, limits.wait_max),
    ];
    for (name, millis, span) in spans {
        assert_eq!(Duration::from_millis(millis), span, "{name}");
    }
    let sizes = [
        ("NAME_BYTES_MAX", facts::NAME_BYTES_MAX, limits::LOCK_NAME_BYTES_MAX),
        ("HOLDER_BYTES_MAX", facts::HOLDER_BYTES_MAX, limits::HOLDER_BYTES_MAX),
        ("METADATA_BYTES_MAX", facts::METADATA_BYTES_MAX, limits::METADATA_BYTES_MAX),
        ("REQUEST_BYTES_MAX", facts::REQUEST_BYTES_MAX, limits::REQUEST_BYTES_MAX),
    ];
    for (name, bytes, limit) in sizes {
        assert_eq!(bytes, limit, "{name}");
    }
    assert_eq!((facts::TOKEN_MAX + 1, facts::PAGE_SIZE_MAX), (limits::TOKEN_END, limits::PAGE_SIZE_MAX));
    let address: ServerAddress = facts::DEFAULT_SERVER.parse().unwrap();
    assert_eq!((facts::DEFAULT_PORT, address.to_string().as_str()), (7420, facts::DEFAULT_SERVER));
}

//! The facts in `clients/facts.json` are those of the server, and each client has them. The windows of time in
//! `docs/architecture.md` are those of the code.
#![allow(clippy::unwrap_used, reason = "test code")]

use fencepost::testing::domain::limits::{self, Limits};
use fencepost_client::{ServerAddress, facts};
use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Duration};

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
        ("MAX_HOLD_MAX_MS", facts::MAX_HOLD_MAX_MS, limits::MAX_HOLD_MAX),
        ("MIN_HOLD_MAX_MS", facts::MIN_HOLD_MAX_MS, limits::MIN_HOLD_MAX),
        ("LOCK_DELAY_MAX_MS", facts::LOCK_DELAY_MAX_MS, limits::LOCK_DELAY_MAX),
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
    assert_eq!(facts::PERMITS_MAX, limits::PERMITS_MAX);
    let address: ServerAddress = facts::DEFAULT_SERVER.parse().unwrap();
    assert_eq!((facts::DEFAULT_PORT, address.to_string().as_str()), (7420, facts::DEFAULT_SERVER));
}

#[test]
fn the_windows_of_time_are_those_of_the_code_and_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let (_, section) = page.split_once("\n## Windows of time\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut windows = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| [`")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [link, span, _, _, shorter] = cells[..] else { panic!("{row}") };
        let (name, path) =
            link.strip_prefix("[`").and_then(|link| link.strip_suffix(')')?.split_once("`](../")).unwrap();
        let span = Duration::from_secs_f64(span.strip_suffix(" s").unwrap().parse().unwrap());
        assert_eq!(span, constant(&fs::read_to_string(root.join(path)).unwrap(), name), "{name}");
        // Every second part is between backticks.
        let shorter: Vec<&str> = shorter.split('`').skip(1).step_by(2).collect();
        assert!(windows.insert(name, (span, shorter)).is_none(), "{name} has two rows");
    }
    assert!(windows.len() > 20, "{}", windows.len());
    for (name, (span, shorter)) in &windows {
        for other in shorter {
            assert!(*span > windows[other].0, "{name} is to be longer than {other}");
        }
    }
}

/// The value of a constant in this source.
fn constant(source: &str, name: &str) -> Duration {
    let (_, rest) = source.split_once(&format!("const {name}: Duration = Duration::from_")).unwrap();
    let (unit, rest) = rest.split_once('(').unwrap();
    let count = rest.split_once(')').unwrap().0.replace('_', "").parse().unwrap();
    match unit {
        "secs" => Duration::from_secs(count),
        "millis" => Duration::from_millis(count),
        _ => panic!("{name}: {unit}"),
    }
}

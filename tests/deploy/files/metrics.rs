//! Dashboard and alerts use metrics that a server exports.

use crate::{
    binary::{Server, await_some},
    proxy::admin_address,
    tools::{files_in, read},
};
use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpStream,
};

/// The suffixes of samples, in place of the name in a TYPE line.
const SUFFIXES: [(&str, &[&str]); 4] =
    [("counter", &["_total"]), ("gauge", &[""]), ("histogram", &["_bucket", "_count", "_sum"]), ("info", &["_info"])];

/// The names of all samples that a server can export.
fn exported() -> BTreeSet<String> {
    let server = Server::start_bare(&["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"], &[]);
    // A method and its codes are not known before a call.
    server.run(&["ls"]).expect(0);
    let address = await_some("the admin address in the log", || admin_address(&server.log()));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = types.flat_map(|(name, kind)| {
        let suffixes = SUFFIXES.iter().find(|(known, _)| *known == kind).unwrap_or_else(|| panic!("{kind}")).1;
        suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
    });
    names.collect()
}

/// The names of metrics in a text: words with one of our prefixes.
fn used(text: &str) -> BTreeSet<String> {
    let words = text.split(|next: char| !next.is_ascii_alphanumeric() && next != '_');
    let is_metric = |word: &&str| ["fencepost_", "process_"].iter().any(|prefix| word.starts_with(prefix));
    words.filter(is_metric).map(str::to_owned).collect()
}

#[test]
fn dashboard_and_alerts_use_exported_metrics_only() {
    let exported = exported();
    let mut all = BTreeSet::new();
    for path in files_in("deploy/grafana").into_iter().chain(["deploy/prometheus/alerts.yml".to_owned()]) {
        let names = used(&read(&path));
        let unknown: Vec<_> = names.difference(&exported).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?} are not exported: {exported:?}");
        all.extend(names);
    }
    assert!(all.len() > 20, "{all:?}");
}

#[test]
fn the_dashboard_is_one_that_grafana_can_import() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana/fencepost.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "an id is used twice");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && targets.iter().all(|target| target["expr"].is_string()), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
    }
}

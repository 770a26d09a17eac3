//! `/metrics`: its format, as the reference parser of OpenMetrics reads it.

use crate::{
    binary::{Process, await_that},
    http::get,
    start,
};
use serde_json::Value;
use std::{path::Path, process::Command};

/// Prints families and samples as JSON. The parser refuses what breaks the format.
const PARSE: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
families = parse(open(sys.argv[1]).read())
print(json.dumps({f.name: dict(type=f.type, help=f.documentation, unit=f.unit,
    samples=[[s.name, s.labels, s.value] for s in f.samples]) for f in families}))
";

/// The families of a scrape, by name.
pub(crate) fn scrape(address: &str) -> Value {
    let page = get(address, "/metrics");
    assert_eq!(page.status, 200, "{page:?}");
    let content_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(page.head.contains(content_type), "{page:?}");
    assert!(page.body.ends_with("\n# EOF\n"), "{page:?}");
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    assert!(python.exists(), "the parser is missing: run `make setup`");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &page.body).unwrap();
    Process::start(Command::new(python).args(["-c", PARSE]).arg(file.path())).ended().expect(0).json()
}

#[test]
fn the_metrics_have_the_format_of_openmetrics() {
    let (server, address) = start(&[]);
    let families = scrape(&address);
    let build = &families["fencepost_build"]["samples"][0];
    assert_eq!((&build[0], &build[1]["version"]), (&"fencepost_build_info".into(), &env!("CARGO_PKG_VERSION").into()));
    assert_eq!(build[1]["store"], "memory");
    drop(server);
}

#[test]
fn the_figures_of_the_process_are_those_of_the_server() {
    let (server, address) = start(&[]);
    let value = |families: &Value, name: &str| families[name]["samples"][0][2].as_f64().unwrap();
    // The kernel counts it in steps of 10 ms.
    await_that("CPU time", || value(&scrape(&address), "process_cpu_seconds") > 0.0);
    let families = scrape(&address);
    let value = |name: &str| value(&families, name);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_open_fds") > 3.0 && value("process_max_fds") > value("process_open_fds"));
    // The time of a new file is that of the system.
    let now = tempfile::tempfile().unwrap().metadata().unwrap().modified().unwrap();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let age = now - value("process_start_time_seconds");
    assert!((-1.0..600.0).contains(&age), "{age}");
    assert!(value("fencepost_runtime_workers") >= 1.0);
    assert!(value("fencepost_runtime_alive_tasks") >= 1.0);
    drop(server);
}

//! Real stores for the guards, started by `clients/stores.py`.

use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// Running stores. Stopped when dropped, or when the test ends in another way, because that closes their input.
pub(crate) struct Stores(Child);

impl Stores {
    /// Starts a store. Returns its URL.
    pub(crate) fn start(name: &str) -> (Self, String) {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/stores.py");
        let mut command = Command::new("python3");
        command.arg("-B").arg(program).arg(name).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let stores = Self(child);
        let started: Value = serde_json::from_str(&line).unwrap();
        (stores, url(&started[name]))
    }
}

/// The parts of an address are in an object if drivers differ about its URL.
fn url(started: &Value) -> String {
    if let Some(url) = started.as_str() {
        return url.to_owned();
    }
    let part = |name: &str| started[name].as_str().unwrap();
    let (user, password, host, database) = (part("user"), part("password"), part("host"), part("database"));
    format!("mysql://{user}:{password}@{host}:{}/{database}", started["port"])
}

impl Drop for Stores {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

//! The journal of a process. After a SIGKILL it lacks only the outcome of calls in flight.
//!
//! An operation is written twice: before it is sent, with an unknown outcome, and when it ends. The second line
//! replaces the first when the journal is read; if it is missing, the process died in between.

use crate::clock;
use anyhow::Result;
use fencepost_torture::history::{Nanos, Record};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

#[derive(Serialize, Deserialize)]
struct Line {
    /// Identifies an operation within the file.
    id: u64,
    /// Whether the operation is not finished.
    open: bool,
    record: Record,
}

/// The journal of one process.
pub(crate) struct Journal {
    file: Mutex<File>,
    next: AtomicU64,
}

impl Journal {
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(file), next: AtomicU64::new(0) })
    }

    /// Records an operation before it is sent.
    pub(crate) fn open(&self, record: Record) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.write(&Line { id, open: true, record });
        id
    }

    /// Records the outcome of an operation, known or not.
    pub(crate) fn close(&self, id: u64, record: Record) {
        self.write(&Line { id, open: false, record });
    }

    /// Records a single event.
    pub(crate) fn record(&self, record: Record) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.close(id, record);
    }

    /// A single write: lines are whole, except for the last one of a killed process.
    fn write(&self, line: &Line) {
        let Ok(mut text) = serde_json::to_string(line) else { return };
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Err(error) = file.write_all(text.as_bytes()) {
            // An incomplete history proves nothing.
            eprintln!("the journal cannot be written: {error}");
            std::process::exit(3);
        }
    }
}

/// Reads a journal. Operations that were open when the process ended are given its end as their own.
pub(crate) fn read(path: &Path, ended: Nanos) -> Result<Vec<Record>> {
    let text = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
    let mut lines = BTreeMap::new();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let line: Line = serde_json::from_str(line)?;
        lines.insert(line.id, line);
    }
    Ok(lines.into_values().map(|line| if line.open { left_open(line.record, ended) } else { line.record }).collect())
}

fn left_open(mut record: Record, ended: Nanos) -> Record {
    match &mut record {
        Record::Acquire(acquire) => acquire.ret = ended.max(acquire.invoke),
        Record::Release(release) => release.ret = ended.max(release.invoke),
        Record::Convert(convert) => convert.ret = ended.max(convert.invoke),
        Record::Revoked(revoked) => revoked.ret = ended.max(revoked.invoke),
        _ => {}
    }
    record
}

/// A fault made by a client, at one moment.
pub(crate) fn instant_fault(kind: &str, target: String) -> Record {
    let now = clock::now();
    let guarantees = fencepost_torture::history::Guarantees::All;
    Record::Fault(fencepost_torture::history::Fault { kind: kind.to_owned(), target, begin: now, end: now, guarantees })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_torture::history::{OPEN, Release, ReleaseEnd};

    fn release(token: u64, ret: Nanos, end: ReleaseEnd) -> Record {
        Record::Release(Release { client: 1, lock: "a".into(), token, invoke: 5, ret, end })
    }

    #[test]
    fn an_open_operation_is_unknown_and_a_torn_line_is_ignored() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("j");
        let journal = Journal::new(&path)?;
        let unknown = || ReleaseEnd::Unknown(OPEN.to_owned());
        let (one, _two) = (journal.open(release(1, 5, unknown())), journal.open(release(2, 5, unknown())));
        journal.close(one, release(1, 6, ReleaseEnd::Released));
        let mut file = File::options().append(true).open(&path)?;
        file.write_all(b"{\"id\":9,\"op")?;
        assert_eq!(read(&path, 77)?, [release(1, 6, ReleaseEnd::Released), release(2, 77, unknown())]);
        Ok(())
    }
}

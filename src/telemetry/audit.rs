//! The audit log: who was denied what, and what operators did, as one JSON object a line.
//!
//! A thread writes it, because a slow disk must not delay locks. What cannot be written is counted, and locks go on.
//! The log has no credentials and no lease ids.

use super::{metrics::AuditMetrics, seldom::Seldom};
use parking_lot::Mutex;
use serde::Serialize;
use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, channel, sync_channel},
    },
    thread,
    time::{Duration, SystemTime},
};

/// The name of the log that is not a file but stdout.
const STDOUT: &str = "-";
/// The most lines that wait to be written. Further ones are lost.
const LINES_BACKLOG_MAX: usize = 10_000;
/// How long the end of the process waits for pending lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the log of the server tells that lines are lost.
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// Only the user of the server reads it.
const MODE: u32 = 0o600;

/// What happened. What does not apply is left out of the line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AuditEvent {
    /// `denied`, `force_release`, `drain` or `access_reload`.
    pub event: &'static str,
    /// What came of it: `refused`, `observed` (denied, and carried out), or the outcome of the operation.
    pub outcome: &'static str,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// From where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// What was to be permitted, as rules name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<&'static str>,
    /// The lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_name: Option<String>,
    /// The beginning of the names of locks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The fencing token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
}

/// A line: the event, when and where.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    server: &'a str,
    #[serde(flatten)]
    event: &'a AuditEvent,
}

enum Message {
    Line(String),
    /// Look whether the file was moved away.
    Look,
}

/// The audit log of a server. Dropped, it waits until pending lines are written, a second at most.
pub struct Audit {
    lines: Option<SyncSender<Message>>,
    /// Closed by the writer when it has written all.
    written: Mutex<Receiver<()>>,
    server: String,
    metrics: Arc<AuditMetrics>,
    log: Arc<Seldom>,
}

impl Audit {
    /// Opens this file, or stdout if it is `-`. `server` names this server in each line.
    pub fn open(path: &Path, server: String, metrics: Arc<AuditMetrics>) -> io::Result<Self> {
        let log = Arc::new(Seldom::new(LOG_PERIOD));
        let mut sink = Sink { path: path.to_owned(), open: open(path)?, metrics: metrics.clone(), log: log.clone() };
        let (lines, received) = sync_channel(LINES_BACKLOG_MAX);
        let (done, written) = channel::<()>();
        thread::Builder::new().name("audit".to_owned()).spawn(move || {
            for message in received {
                sink.take(&message);
            }
            drop(done);
        })?;
        Ok(Self { lines: Some(lines), written: Mutex::new(written), server, metrics, log })
    }

    /// Notes what happened at `time`.
    pub fn note(&self, time: SystemTime, event: &AuditEvent) {
        let time = humantime::format_rfc3339_millis(time).to_string();
        // Strings and numbers can always be written as JSON.
        let Ok(mut line) = serde_json::to_string(&Line { time, server: &self.server, event }) else { return };
        line.push('\n');
        self.send(Message::Line(line));
    }

    /// Opens the file again if it was moved away, as logrotate does. To be called from time to time.
    pub fn look(&self) {
        self.send(Message::Look);
    }

    fn send(&self, message: Message) {
        let is_line = matches!(message, Message::Line(_));
        if self.lines.as_ref().is_some_and(|lines| lines.try_send(message).is_err()) && is_line {
            lost(&self.metrics, &self.log, &"too many lines wait to be written");
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        drop(self.lines.take());
        // An error means that the writer has ended.
        let _ = self.written.get_mut().recv_timeout(FLUSH_TIMEOUT);
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Audit")
    }
}

fn lost(metrics: &AuditMetrics, log: &Seldom, error: &dyn fmt::Display) {
    metrics.lost.inc();
    if let Some(lines) = log.count(1) {
        tracing::error!(%error, lines, "lines of the audit log are lost");
    }
}

/// Where lines go.
struct Sink {
    path: PathBuf,
    /// None for stdout.
    open: Option<File>,
    metrics: Arc<AuditMetrics>,
    log: Arc<Seldom>,
}

fn open(path: &Path) -> io::Result<Option<File>> {
    if path == Path::new(STDOUT) {
        return Ok(None);
    }
    OpenOptions::new().append(true).create(true).mode(MODE).open(path).map(Some)
}

impl Sink {
    fn take(&mut self, message: &Message) {
        match message {
            Message::Line(line) => {
                let written = match &mut self.open {
                    Some(file) => file.write_all(line.as_bytes()),
                    None => io::stdout().lock().write_all(line.as_bytes()),
                };
                if let Err(error) = written {
                    lost(&self.metrics, &self.log, &error);
                }
            }
            // As long as no other file can be opened, the old one gets the lines.
            Message::Look if self.is_moved() => match open(&self.path) {
                Ok(open) => self.open = open,
                Err(error) => tracing::warn!(%error, "the audit log was moved, and cannot be opened again"),
            },
            Message::Look => {}
        }
    }

    fn is_moved(&self) -> bool {
        let Some(open) = self.open.as_ref().and_then(|file| file.metadata().ok()) else { return false };
        let now = self.path.metadata().map(|at_path| (at_path.dev(), at_path.ino()));
        now.is_ok_and(|now| now != (open.dev(), open.ino())) || self.path.metadata().is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn denied(name: &str) -> AuditEvent {
        let lock_name = Some(name.to_owned());
        AuditEvent { event: "denied", outcome: "refused", lock_name, ..AuditEvent::default() }
    }

    fn log(path: &Path, metrics: &Arc<AuditMetrics>) -> Audit {
        Audit::open(path, "host".to_owned(), metrics.clone()).unwrap()
    }

    #[test]
    fn lines_are_json_and_go_to_a_new_file_once_the_old_one_is_moved() {
        let (folder, metrics) = (tempfile::tempdir().unwrap(), Arc::default());
        let (path, moved) = (folder.path().join("audit"), folder.path().join("audit.1"));
        let audit = log(&path, &metrics);
        audit.note(SystemTime::UNIX_EPOCH, &denied("a\n\"1\""));
        audit.look();
        drop(audit);
        let first = "{\"time\":\"1970-01-01T00:00:00.000Z\",\"server\":\"host\",\"event\":\"denied\",\
                     \"outcome\":\"refused\",\"lock_name\":\"a\\n\\\"1\\\"\"}\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);

        let audit = log(&path, &metrics);
        fs::rename(&path, &moved).unwrap();
        audit.note(SystemTime::UNIX_EPOCH, &denied("b"));
        audit.look();
        audit.note(SystemTime::UNIX_EPOCH, &denied("c"));
        drop(audit);
        assert!(fs::read_to_string(&moved).unwrap().contains("\"b\""), "no line is lost between the two");
        assert!(fs::read_to_string(&path).unwrap().contains("\"c\""));
        assert_eq!(metrics.lost.get(), 0);
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let metrics = Arc::default();
        let full = log(Path::new("/dev/full"), &metrics);
        full.note(SystemTime::UNIX_EPOCH, &denied("a"));
        drop(full);
        assert_eq!(metrics.lost.get(), 1);
        assert!(Audit::open(Path::new("/no/such/folder"), String::new(), metrics).is_err());
    }
}

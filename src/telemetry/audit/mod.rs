//! The audit log: who was denied what, and what operators did, as one JSON object a line.
//!
//! A thread writes it, because a slow disk must not delay locks. What cannot be written is counted, and locks go on.
//! The log has no credentials and no lease ids.

mod backlog;
mod file;
#[cfg(test)]
mod tests;

pub use file::AuditFile;

use super::{metrics::AuditMetrics, seldom::Seldom};
use backlog::Backlog;
use serde::Serialize;
use std::{
    fmt, io,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, SystemTime},
};

/// The most lines that wait to be written. Further ones are lost.
const LINES_BACKLOG_MAX: usize = 10_000;
/// How long the end of the process waits for pending lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the log of the server tells that lines are lost, or wait.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// What happened. What does not apply is left out of the line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AuditEvent {
    /// `denied`, `force_release`, `drain`, `access_reload`, `granted` or `ended`.
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
    /// The label of the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
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
    /// The mode of the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
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

/// The audit log of a server. Dropped, it [finishes](Self::finish).
pub struct Audit {
    lines: SyncSender<Message>,
    server: String,
    losses: Arc<Losses>,
    stalls: Seldom,
}

/// What the writer and the callers tell of lines.
struct Losses {
    backlog: Backlog,
    metrics: Arc<AuditMetrics>,
    log: Seldom,
}

impl Audit {
    /// Writes to this file. `server` names this server in each line.
    pub fn start(file: AuditFile, server: String, metrics: Arc<AuditMetrics>) -> io::Result<Self> {
        let losses = Arc::new(Losses { backlog: Backlog::default(), metrics, log: Seldom::new(LOG_PERIOD) });
        let (lines, received) = sync_channel(LINES_BACKLOG_MAX);
        let writer = losses.clone();
        thread::Builder::new().name("audit".to_owned()).spawn(move || write(file, &received, &writer))?;
        Ok(Self { lines, server, losses, stalls: Seldom::new(LOG_PERIOD) })
    }

    /// Notes what happened at `time`.
    pub fn note(&self, time: SystemTime, event: &AuditEvent) {
        let time = humantime::format_rfc3339_millis(time).to_string();
        // Strings and numbers can always be written as JSON.
        let Ok(mut line) = serde_json::to_string(&Line { time, server: &self.server, event }) else { return };
        line.push('\n');
        if !self.losses.backlog.add() {
            self.losses.count();
            self.losses.tell(&"the server ends");
        } else if self.lines.try_send(Message::Line(line)).is_err() {
            self.losses.backlog.take_back(|| self.losses.count());
            self.losses.tell(&"too many lines wait to be written");
        }
    }

    /// Opens the file again if it was moved away, as logrotate does, and logs if it takes no lines. To be called from
    /// time to time.
    pub fn look(&self) {
        // With a full backlog the writer is busy, and looks by itself.
        let _ = self.lines.try_send(Message::Look);
        if let Some(waiting) = self.losses.backlog.stalled()
            && self.stalls.count(1).is_some()
        {
            tracing::warn!(waiting, "the audit log takes no lines: is its disk or the reader of its pipe stuck?");
        }
    }

    /// Waits until pending lines are written, a second at most. Those that are not are lost, as are later ones.
    pub fn finish(&self) {
        let lines = self.losses.backlog.finish(FLUSH_TIMEOUT);
        if lines > 0 {
            self.losses.metrics.lost.inc_by(lines);
            tracing::error!(lines, "lines of the audit log are lost: it took none of them until the server ended");
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Audit")
    }
}

impl Losses {
    fn count(&self) {
        self.metrics.lost.inc();
    }

    fn tell(&self, error: &dyn fmt::Display) {
        if let Some(lines) = self.log.count(1) {
            tracing::error!(%error, lines, "lines of the audit log are lost");
        }
    }
}

/// Writes lines, until there are no more or nobody waits for them.
fn write(mut file: AuditFile, messages: &Receiver<Message>, losses: &Losses) {
    for message in messages {
        match message {
            Message::Line(line) => {
                let written = file.write(line.as_bytes(), || losses.backlog.is_given_up());
                let count = || {
                    if written.is_err() {
                        losses.count();
                    }
                };
                if !losses.backlog.done(count) {
                    return;
                }
                if let Err(error) = written {
                    losses.tell(&error);
                }
            }
            Message::Look => drop(file.look()),
        }
    }
}

//! Calls under gRPC's own retry policy. tonic has none, so a Python process makes the calls with grpcio.
//!
//! Only gRPC knows how often it sent a call. The journal has one record for all transmissions, with a send time before
//! the first of them, so the client never overestimates the validity of a lease.

use super::ClientOptions;
use crate::process::{Process, ProcessSpec};
use anyhow::{Context, Result, ensure};
use prost::Message;
use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{ChildStdin, ChildStdout},
    sync::{mpsc, oneshot},
};
use tonic::Status;

/// The environment that `.ci/setup` creates.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python");
const PROGRAM: &str = include_str!("retry_policy.py");

type Answer = Result<Vec<u8>, Status>;
type InFlight = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// Checks that the Python environment is installed.
pub(crate) fn is_set_up() -> Result<()> {
    ensure!(Path::new(PYTHON).exists(), "{PYTHON} is missing: run `make setup`");
    Ok(())
}

/// The process and its calls in flight.
pub(super) struct RetryPolicy {
    lines: mpsc::UnboundedSender<String>,
    calls: InFlight,
    next: AtomicU64,
    servers: usize,
    _process: Process,
}

/// A call in flight. Cancelled if dropped before its answer.
struct Call<'a> {
    policy: &'a RetryPolicy,
    number: u64,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.policy.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number).is_some() {
            self.policy.write(format!("{} cancel\n", self.number));
        }
    }
}

impl RetryPolicy {
    pub(super) fn start(options: &ClientOptions) -> Result<Self> {
        let servers = options.servers.iter().map(|port| format!("127.0.0.1:{port}"));
        let spec = ProcessSpec::new(PYTHON).args(["-c", PROGRAM]).args(servers);
        let (process, input, output) = spec.start_piped(&options.log())?;
        let (lines, to_write) = mpsc::unbounded_channel();
        let calls = InFlight::default();
        tokio::spawn(write(to_write, input));
        tokio::spawn(read(output, Arc::clone(&calls)));
        Ok(Self { lines, calls, next: AtomicU64::new(0), servers: options.servers.len(), _process: process })
    }

    /// Makes a call, with all its transmissions.
    pub(super) async fn call<R: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
        server: usize,
        patience: Duration,
    ) -> Result<R, Status> {
        let call = Call { policy: self, number: self.next.fetch_add(1, Ordering::Relaxed) };
        let (answer, answered) = oneshot::channel();
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(call.number, answer);
        let (number, server, patience) = (call.number, server % self.servers, patience.as_secs_f64());
        self.write(format!("{number} call {server} {method} {patience} {}\n", to_hex(&request.encode_to_vec())));
        let answer = answered.await.map_err(|_| Status::unavailable("the Python process has ended"))??;
        R::decode(answer.as_slice()).map_err(|error| fail(&error.to_string()))
    }

    fn write(&self, line: String) {
        // Fails only if the Python process has ended; the reader then ends this process as well.
        let _ = self.lines.send(line);
    }
}

async fn write(mut lines: mpsc::UnboundedReceiver<String>, mut input: ChildStdin) {
    while let Some(line) = lines.recv().await {
        if input.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(output: ChildStdout, calls: InFlight) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok((number, answer)) = parse(&line) else { fail(&format!("malformed answer: {line}")) };
        if let Some(call) = calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&number) {
            let _ = call.send(answer);
        }
    }
    fail("it has ended");
}

fn parse(line: &str) -> Result<(u64, Answer)> {
    let mut words = line.split(' ');
    let mut word = || words.next().context("a field is missing");
    let (number, code) = (word()?.parse()?, word()?);
    if code == "ok" {
        return Ok((number, Ok(from_hex(word()?)?)));
    }
    let (code, details, message) = (code.parse::<i32>()?, from_hex(word()?)?, from_hex(word()?)?);
    let message = String::from_utf8_lossy(&message).into_owned();
    if details.is_empty() {
        // The server's errors have details. This one is gRPC's own, with one of several codes: a broken connection.
        return Ok((number, Err(Status::unavailable(format!("code {code}: {message}")))));
    }
    Ok((number, Err(Status::with_details(code.into(), message, details.into()))))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

/// Ends the client: the history is useless without the Python process.
fn fail(what: &str) -> ! {
    eprintln!("the process of the retry policy: {what}");
    std::process::exit(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn status(line: &str) -> Result<(Code, Vec<u8>, String)> {
        let (_, answer) = parse(line)?;
        let status = answer.err().context("an error")?;
        Ok((status.code(), status.details().to_vec(), status.message().to_owned()))
    }

    #[test]
    fn answers_are_read() -> Result<()> {
        let bytes = [0, 1, 0xab, 0xff];
        let (number, answer) = parse(&format!("7 ok {}", to_hex(&bytes)))?;
        assert_eq!((number, answer.ok()), (7, Some(bytes.to_vec())));
        assert_eq!(parse("8 ok ")?.1.ok(), Some(Vec::new()));
        let text = to_hex("é gone".as_bytes());
        assert_eq!(status(&format!("9 10 0a {text}"))?, (Code::Aborted, vec![10], "é gone".to_owned()));
        assert!(parse("9").is_err() && parse("x ok 00").is_err() && parse("9 ok 0g").is_err());
        Ok(())
    }

    #[test]
    fn an_error_not_sent_by_the_server_has_an_unknown_outcome() -> Result<()> {
        assert_eq!(status("9 13  ")?, (Code::Unavailable, Vec::new(), "code 13: ".to_owned()));
        Ok(())
    }
}

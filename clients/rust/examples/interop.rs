//! The driver of the Rust client for `tests/interop`: a line of stdin is a JSON request, a line of stdout its answer.
//! `tests/interop/README.md` has the protocol. Requests run concurrently.

use fencepost_client::{
    AcquireError, CallError, Client, Held, Holder, LeaseEnd, Lock, LockLost, LossCause, ReleaseError, Status, Tls,
    raw::{self, v1},
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use v1::check_token_response::Status as TokenStatus;
use v1::watch_response::Kind;

/// An error answer: its kind, its message, and further fields.
struct Failure(Value);

type Answer = Result<Value, Failure>;

#[derive(Default)]
struct Driver {
    client: Mutex<Option<Client>>,
    locks: Mutex<HashMap<String, Entry>>,
    /// Cancels acquires, by the id of their requests.
    cancels: Mutex<HashMap<u64, oneshot::Sender<()>>>,
}

struct Entry {
    held: Held,
    /// `None` once it is being released.
    lock: Option<Lock>,
}

fn main() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (sender, mut lines) = mpsc::unbounded_channel();
    // A thread of its own: the runtime would wait for a read of stdin when it ends.
    std::thread::spawn(move || io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    // Never dropped: a process that ends without closing its client releases nothing.
    let driver: &'static Driver = Box::leak(Box::default());
    runtime.block_on(async {
        while let Some(line) = lines.recv().await {
            match serde_json::from_str::<Value>(&line) {
                Ok(request) if request["op"] == "exit" => return,
                Ok(request) => drop(tokio::spawn(driver.serve(request))),
                Err(error) => eprintln!("not JSON: {error}: {line}"),
            }
        }
    });
    Ok(())
}

/// Writes one line. The harness being gone ends the process soon, by the end of its input.
fn say(line: &Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    async fn serve(&'static self, request: Value) {
        let mut line = match self.answer(&request).await {
            Ok(mut fields) => {
                fields["ok"] = json!(true);
                fields
            }
            Err(Failure(mut fields)) => {
                fields["ok"] = json!(false);
                fields
            }
        };
        line["id"] = request["id"].clone();
        say(&line);
    }

    async fn answer(&'static self, request: &Value) -> Answer {
        match text(request, "op")? {
            "open" => self.open(request),
            "acquire" => self.acquire(request).await,
            "cancel" => {
                if let Some(cancel) = locked(&self.cancels).remove(&number(request, "of")) {
                    let _ = cancel.send(());
                }
                Ok(json!({}))
            }
            "valid" => {
                let held = self.held(request)?;
                let remaining_ms = u64::try_from(held.valid_for().as_millis()).unwrap_or(u64::MAX);
                Ok(json!({ "valid": held.is_valid(), "remaining_ms": remaining_ms }))
            }
            "write" => {
                let held = self.valid(request)?;
                let mut file = File::options().create(true).append(true).open(text(request, "file")?)?;
                writeln!(file, "{}", held.token())?;
                Ok(json!({}))
            }
            "increment" => {
                self.valid(request)?;
                let path = text(request, "file")?;
                let value = match fs::read_to_string(path) {
                    Ok(number) => number.trim().parse::<u64>().map_err(|error| bad_request(&error.to_string()))?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                    Err(error) => return Err(error.into()),
                };
                fs::write(path, (value + 1).to_string())?;
                Ok(json!({ "value": value + 1 }))
            }
            "release" => self.release(request).await,
            "get" => self.get(request).await,
            "list" => self.list(request).await,
            "watch" => self.watch(request).await,
            "check_token" => self.check_token(request).await,
            "close" => {
                // Dropped, acquires are withdrawn, and locks are released, in the background.
                locked(&self.cancels).clear();
                locked(&self.locks).clear();
                let client = locked(&self.client).take();
                if let Some(client) = client {
                    client.flush().await;
                }
                Ok(json!({}))
            }
            other => Err(bad_request(&format!("no such operation: {other}"))),
        }
    }

    fn open(&self, request: &Value) -> Answer {
        let mut builder = Client::builder();
        for server in request["servers"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            builder = builder.server(server);
        }
        if let Some(holder) = request["holder"].as_str() {
            builder = builder.holder(holder);
        }
        let mut tls = Tls::new();
        if let Some(ca) = request["ca"].as_str() {
            tls = tls.ca_file(ca);
        }
        if let (Some(certificate), Some(key)) = (request["cert"].as_str(), request["key"].as_str()) {
            tls = tls.identity_files(certificate, key);
        }
        if tls != Tls::new() {
            builder = builder.tls(tls);
        }
        if let Some(token) = request["token"].as_str().map(str::to_owned) {
            builder = builder.bearer_token(move || Ok(token.clone()));
        }
        let client = builder.build().map_err(|error| bad_request(&error.to_string()))?;
        *locked(&self.client) = Some(client);
        Ok(json!({}))
    }

    fn client(&self) -> Result<Client, Failure> {
        locked(&self.client).clone().ok_or_else(closed)
    }

    async fn acquire(&'static self, request: &Value) -> Answer {
        let label = text(request, "lock")?.to_owned();
        let mut acquire = self.client()?.acquire(text(request, "name")?).wait(millis(request, "wait_ms"));
        if request["ttl_ms"].is_u64() {
            acquire = acquire.ttl(millis(request, "ttl_ms"));
        }
        for (key, value) in request["metadata"].as_object().into_iter().flatten() {
            acquire = acquire.metadata(key, value.as_str().unwrap_or_default());
        }
        let (cancel, cancelled) = oneshot::channel();
        let id = number(request, "id");
        locked(&self.cancels).insert(id, cancel);
        let lock = tokio::select! {
            biased;
            lock = acquire.into_future() => lock,
            cancelled = cancelled => {
                return Err(cancelled.map_or_else(|_| closed(), |()| failure("cancelled", "the acquire was cancelled")));
            }
        };
        locked(&self.cancels).remove(&id);
        let lock = lock?;
        let answer = json!({
            "token": lock.token(),
            "grant_id": lock.grant_id(),
            "previous_end": end_name(lock.previous_end()),
        });
        tokio::spawn(tell_changes(label.clone(), lock.held()));
        locked(&self.locks).insert(label, Entry { held: lock.held(), lock: Some(lock) });
        Ok(answer)
    }

    fn held(&self, request: &Value) -> Result<Held, Failure> {
        let label = text(request, "lock")?;
        let held = locked(&self.locks).get(label).map(|entry| entry.held.clone());
        held.ok_or_else(|| bad_request(&format!("no lock is called {label}")))
    }

    /// The lock, if it is valid.
    fn valid(&self, request: &Value) -> Result<Held, Failure> {
        let held = self.held(request)?;
        match held.status() {
            Status::Lost(lost) => Err(lost.into()),
            _ => Ok(held),
        }
    }

    async fn release(&self, request: &Value) -> Answer {
        let label = text(request, "lock")?;
        let lock = locked(&self.locks).get_mut(label).and_then(|entry| entry.lock.take());
        let lock = lock.ok_or_else(|| bad_request(&format!("no lock to release is called {label}")))?;
        Ok(json!({ "end": end_name(lock.release().await?.end) }))
    }

    async fn get(&self, request: &Value) -> Answer {
        let get = v1::GetRequest { lock_name: text(request, "name")?.to_owned() };
        let lock = self.client()?.calls().get(get).await?.lock.unwrap_or_default();
        let holder = lock.holders.first();
        Ok(json!({
            "holder": holder.map(|holder| &holder.holder),
            "token": holder.map_or(0, |holder| holder.fencing_token),
            "waiters": lock.waiters,
        }))
    }

    async fn list(&self, request: &Value) -> Answer {
        let calls = self.client()?.calls();
        let (mut names, mut page_token) = (Vec::new(), String::new());
        loop {
            let prefix = text(request, "prefix")?.to_owned();
            let page = calls.list(v1::ListRequest { prefix, page_size: 0, page_token }).await?;
            names.extend(page.locks.into_iter().map(|lock| lock.lock_name));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(json!({ "names": names }));
            }
        }
    }

    async fn watch(&self, request: &Value) -> Answer {
        let prefix = text(request, "prefix")?.to_owned();
        let mut events = self.client()?.calls().watch(v1::WatchRequest { prefix }).await?;
        let started = events.message().await.map_err(|status| failure("refused", status.message()))?;
        if started.is_none_or(|event| event.kind() != Kind::Started) {
            return Err(failure("refused", "the first event is not STARTED"));
        }
        tokio::spawn(async move {
            while let Ok(Some(event)) = events.message().await {
                let kind = match event.kind() {
                    Kind::Granted => "granted",
                    Kind::Released => "released",
                    Kind::Expired => "expired",
                    Kind::Revoked => "revoked",
                    Kind::Missed => "missed",
                    Kind::Unspecified | Kind::Started => continue,
                };
                let (name, token) = (&event.lock_name, event.fencing_token);
                say(&json!({ "event": "watch", "kind": kind, "name": name, "token": token, "holder": event.holder }));
            }
        });
        Ok(json!({}))
    }

    async fn check_token(&self, request: &Value) -> Answer {
        let (lock_name, fencing_token) = (text(request, "name")?.to_owned(), number(request, "token"));
        let check = v1::CheckTokenRequest { lock_name, fencing_token };
        let status = match self.client()?.calls().check_token(check).await?.status() {
            TokenStatus::Current => "current",
            TokenStatus::Ended => "ended",
            TokenStatus::Stale => "stale",
            TokenStatus::Unspecified | TokenStatus::Unknown => "unknown",
        };
        Ok(json!({ "status": status }))
    }
}

/// Reports what happens to a lock until it is lost or released.
async fn tell_changes(label: String, held: Held) {
    let mut changes = held.status_changes();
    while let Some(status) = changes.next().await {
        match status {
            Status::AtRisk { .. } => say(&json!({ "event": "at_risk", "lock": label })),
            Status::Lost(LockLost { cause: LossCause::Released, .. }) => {}
            Status::Lost(lost) => {
                let (reason, successor_token) = (loss_name(lost.cause), lost.successor_token);
                say(&json!({ "event": "lost", "lock": label, "reason": reason, "successor_token": successor_token }));
            }
            _ => {}
        }
    }
}

fn text<'a>(request: &'a Value, field: &str) -> Result<&'a str, Failure> {
    request[field].as_str().ok_or_else(|| bad_request(&format!("the field {field} is missing")))
}

fn number(request: &Value, field: &str) -> u64 {
    request[field].as_u64().unwrap_or_default()
}

fn millis(request: &Value, field: &str) -> Duration {
    Duration::from_millis(number(request, field))
}

fn end_name(end: Option<LeaseEnd>) -> String {
    raw::end(end).as_str_name().trim_start_matches("LEASE_END_").to_lowercase()
}

fn loss_name(cause: LossCause) -> String {
    match cause {
        LossCause::ReleasedElsewhere => "released".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn failure(kind: &str, message: &str) -> Failure {
    Failure(json!({ "error": kind, "message": message }))
}

fn closed() -> Failure {
    failure("closed", "no client is open")
}

fn bad_request(message: &str) -> Failure {
    failure("bad_request", message)
}

fn refused(code: &str, reason: &str, message: &str) -> Failure {
    Failure(json!({ "error": "refused", "code": code, "reason": reason, "message": message }))
}

fn lost_failure(reason: &str, successor_token: Option<u64>, message: &str) -> Failure {
    Failure(json!({ "error": "lost", "reason": reason, "successor_token": successor_token, "message": message }))
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        bad_request(&error.to_string())
    }
}

impl From<LockLost> for Failure {
    fn from(lost: LockLost) -> Self {
        lost_failure(&loss_name(lost.cause), lost.successor_token, &lost.to_string())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        if error.is_outcome_unknown() {
            return failure("outcome_unknown", &error.to_string());
        }
        refused(error.code().name(), &error.reason().unwrap_or_default(), &error.to_string())
    }
}

impl From<ReleaseError> for Failure {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Refused { cause } => cause.into(),
            other => failure("outcome_unknown", &other.to_string()),
        }
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        let message = error.to_string();
        let busy = |kind, holders: &[Holder], waiters| {
            let holder = holders.first().map(|holder| &holder.label);
            Self(json!({ "error": kind, "message": message, "holder": holder, "waiters": waiters }))
        };
        match &error {
            AcquireError::Contended { holders, waiters, .. } => busy("contended", holders, *waiters),
            AcquireError::TimedOut { holders, waiters, .. } => busy("timed_out", holders, *waiters),
            AcquireError::Invalid { .. } => refused("INVALID_ARGUMENT", "INVALID_FIELD", &message),
            AcquireError::Exhausted { .. } => refused("RESOURCE_EXHAUSTED", "", &message),
            AcquireError::Ended => refused("ABORTED", "REQUEST_ENDED", &message),
            AcquireError::Overtaken => refused("ABORTED", "OVERTAKEN", &message),
            AcquireError::LostOnArrival { .. } => lost_failure("silence", None, &message),
            AcquireError::OutcomeUnknown { .. } => failure("outcome_unknown", &message),
            AcquireError::Unavailable { source } | AcquireError::Refused { source } => source.clone().into(),
            _ => refused("INTERNAL", "", &message),
        }
    }
}

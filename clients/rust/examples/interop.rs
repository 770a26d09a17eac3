//! The driver of the Rust client for `tests/interop`: a line of stdin is a JSON request, a line of stdout its answer.
//! `tests/interop/README.md` has the protocol. Requests run concurrently.

#[path = "interop/failure.rs"]
mod failure;
#[path = "interop/shown.rs"]
mod shown;

use failure::{Failure, bad_request, closed, failure, loss_name};
use fencepost_client::{
    Client, Held, LeaseEnd, Lock, LockLost, LockSet, LossCause, Mode, SetItem, Status, Tls,
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

type Answer = Result<Value, Failure>;

#[derive(Default)]
struct Driver {
    client: Mutex<Option<Client>>,
    locks: Mutex<HashMap<String, Entry>>,
    sets: Mutex<HashMap<String, LockSet>>,
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
            "acquire_all" => self.acquire_all(request).await,
            "cancel" => {
                if let Some(cancel) = locked(&self.cancels).remove(&number(request, "of")) {
                    let _ = cancel.send(());
                }
                Ok(json!({}))
            }
            "valid" => {
                let set = locked(&self.sets).get(text(request, "lock")?).map(|set| (set.is_valid(), set.valid_for()));
                let of_lock = || self.held(request).map(|held| (held.is_valid(), held.valid_for()));
                let (valid, left) = set.map_or_else(of_lock, Ok)?;
                let remaining_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                Ok(json!({ "valid": valid, "remaining_ms": remaining_ms }))
            }
            "write" => {
                let held = self.valid(request)?;
                let mut file = File::options().create(true).append(true).open(text(request, "file")?)?;
                writeln!(file, "{}", held.token())?;
                Ok(json!({}))
            }
            "increment" => {
                self.all_valid(request)?;
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
            "convert" => self.convert(request).await,
            "describe" => self.describe(request).await,
            "observe" => self.observe(request),
            "waiters" => self.waiters(request).await,
            "get" => self.get(request).await,
            "list" => self.list(request).await,
            "watch" => self.watch(request).await,
            "check_token" => self.check_token(request).await,
            "close" => {
                // Dropped, acquires are withdrawn, and locks are released, in the background.
                locked(&self.cancels).clear();
                locked(&self.locks).clear();
                locked(&self.sets).clear();
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
        if request["max_hold_ms"].is_u64() {
            acquire = acquire.max_hold(millis(request, "max_hold_ms"));
        }
        if request["min_hold_ms"].is_u64() {
            acquire = acquire.min_hold(millis(request, "min_hold_ms"));
        }
        if request["lock_delay_ms"].is_u64() {
            acquire = acquire.lock_delay(millis(request, "lock_delay_ms"));
        }
        if request["shared"] == true {
            acquire = acquire.shared();
        }
        if request["semaphore"].is_u64() {
            let whole = |field| u32::try_from(number(request, field)).unwrap_or(u32::MAX);
            acquire = acquire.semaphore(whole("semaphore")).permits(whole("permits"));
            acquire = acquire.permit_limit_version(number(request, "permit_limit_version"));
        }
        if let Some(owner) = request["owner"].as_str() {
            acquire = acquire.owner(owner);
        }
        if request["max_waiters"].is_u64() {
            acquire = acquire.max_waiters(u32::try_from(number(request, "max_waiters")).unwrap_or(u32::MAX));
        }
        if request["tell_when_wanted"] == true {
            acquire = acquire.tell_when_wanted();
        }
        for (key, value) in request["metadata"].as_object().into_iter().flatten() {
            acquire = acquire.metadata(key, value.as_str().unwrap_or_default());
        }
        let lock = self.unless_cancelled(request, acquire).await?;
        let answer = json!({
            "token": lock.token(),
            "grant_id": lock.grant_id(),
            "previous_end": end_name(lock.previous_end()),
            "permits": lock.permits(),
            "slot": lock.slot().unwrap_or_default(),
            "mode": mode_name(lock.mode()),
        });
        tokio::spawn(tell_changes(label.clone(), lock.held()));
        if request["tell_when_wanted"] == true {
            tokio::spawn(shown::tell_wanted(label.clone(), lock.held()));
        }
        locked(&self.locks).insert(label, Entry { held: lock.held(), lock: Some(lock) });
        Ok(answer)
    }

    async fn acquire_all(&'static self, request: &Value) -> Answer {
        let label = text(request, "lock")?.to_owned();
        let texts = |field| request[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        let items = texts("names").map(SetItem::exclusive).chain(texts("shared").map(SetItem::shared));
        let mut acquire = self.client()?.acquire_all(items).wait(millis(request, "wait_ms"));
        if request["ttl_ms"].is_u64() {
            acquire = acquire.ttl(millis(request, "ttl_ms"));
        }
        let locks = self.unless_cancelled(request, acquire).await?;
        let tokens = locks.iter().map(|lock| (lock.name().to_owned(), json!(lock.token())));
        let answer = json!({ "tokens": tokens.collect::<serde_json::Map<_, _>>() });
        locked(&self.sets).insert(label, locks);
        Ok(answer)
    }

    /// Waits for an acquire, until another request cancels it.
    async fn unless_cancelled<A, T, E>(&self, request: &Value, acquire: A) -> Result<T, Failure>
    where
        A: IntoFuture<Output = Result<T, E>>,
        E: Into<Failure>,
    {
        let (cancel, cancelled) = oneshot::channel();
        let id = number(request, "id");
        locked(&self.cancels).insert(id, cancel);
        let acquired = tokio::select! {
            biased;
            acquired = acquire.into_future() => acquired,
            cancelled = cancelled => {
                return Err(cancelled.map_or_else(|_| closed(), |()| failure("cancelled", "the acquire was cancelled")));
            }
        };
        locked(&self.cancels).remove(&id);
        acquired.map_err(Into::into)
    }

    /// Checks a lock or a set.
    fn all_valid(&self, request: &Value) -> Result<(), Failure> {
        match locked(&self.sets).get(text(request, "lock")?).map(LockSet::is_valid) {
            None => self.valid(request).map(drop),
            Some(true) => Ok(()),
            Some(false) => Err(failure("lost", "one of the locks is lost")),
        }
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
        let set = locked(&self.sets).remove(label);
        if let Some(set) = set {
            let released = set.release().await.map_err(|error| Failure::from(error.cause))?;
            return Ok(json!({ "end": end_name(released.end) }));
        }
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
                    Kind::Changed => "changed",
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

fn mode_name(mode: Mode) -> String {
    v1::LockMode::from(mode).as_str_name().trim_start_matches("LOCK_MODE_").to_lowercase()
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

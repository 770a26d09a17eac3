//! A process with the client of one language, driven by lines of JSON. `tests/interop/README.md` has the protocol.

use crate::{calls::within, language::Language};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{oneshot, watch},
    time::Instant,
};

/// How long a process may take to end after its last request.
const EXIT_MAX: Duration = Duration::from_secs(5);

/// Killed when dropped.
pub(crate) struct Driver {
    child: Child,
    requests: tokio::sync::Mutex<ChildStdin>,
    heard: Arc<Heard>,
    last_id: AtomicU64,
}

/// What the process said.
struct Heard {
    /// The requests without an answer.
    asked: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    events: watch::Sender<Vec<Value>>,
    /// All lines of both sides, for the diagnosis of failures.
    log: Mutex<File>,
    begun: Instant,
}

/// A request in flight.
pub(crate) struct Asked {
    pub(crate) id: u64,
    what: String,
    answer: oneshot::Receiver<Value>,
}

/// A lock that a driver acquired.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) token: u64,
    pub(crate) previous_end: String,
    /// Of a semaphore; 0 if there are none.
    pub(crate) permits: u64,
    pub(crate) slot: u64,
}

impl Heard {
    fn log(&self, arrow: &str, line: &str) {
        let at = self.begun.elapsed().as_secs_f32();
        writeln!(self.log.lock().unwrap(), "{at:8.3} {arrow} {line}").unwrap();
    }
}

impl Driver {
    /// Starts the driver of a language. The log gets its lines and its standard error.
    /// Its environment has these variables, and no others of Fencepost.
    pub(crate) fn start_in(language: Language, log: &Path, environment: &[(&str, &Path)]) -> Self {
        let program = language.driver();
        let file = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(&program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FENCEPOST_")) {
            command.env_remove(name);
        }
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file.try_clone().unwrap()).kill_on_drop(true);
        let spawned = command.spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{}: {error}: build it first", program.display()));
        let (log, begun) = (Mutex::new(file), Instant::now());
        let heard = Arc::new(Heard { asked: Mutex::default(), events: watch::Sender::default(), log, begun });
        tokio::spawn(read(child.stdout.take().unwrap(), heard.clone()));
        let requests = tokio::sync::Mutex::new(child.stdin.take().unwrap());
        Self { child, requests, heard, last_id: AtomicU64::new(0) }
    }

    /// Sends a request. The answer may come after those of later requests.
    pub(crate) async fn ask(&self, op: &str, fields: Value) -> Asked {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut request = json!({ "id": id, "op": op });
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (sender, answer) = oneshot::channel();
        self.heard.asked.lock().unwrap().insert(id, sender);
        let what = request.to_string();
        self.heard.log("->", &what);
        self.requests.lock().await.write_all(format!("{what}\n").as_bytes()).await.unwrap();
        Asked { id, what, answer }
    }

    /// Sends a request and waits for its answer, which is `Err` with its fields if the request failed.
    pub(crate) async fn call(&self, op: &str, fields: Value) -> Result<Value, Value> {
        self.ask(op, fields).await.answer().await
    }

    /// Opens the client on these servers. The holder is the name of the language.
    pub(crate) async fn open(&self, servers: &[&str]) {
        self.call("open", json!({ "servers": servers, "holder": "interop" })).await.expect("the client opens");
    }

    pub(crate) async fn ask_acquire(&self, lock: &str, name: &str, ttl: Duration, wait: Duration) -> Asked {
        let (ttl_ms, wait_ms) = (millis(ttl), millis(wait));
        self.ask("acquire", json!({ "lock": lock, "name": name, "ttl_ms": ttl_ms, "wait_ms": wait_ms })).await
    }

    /// Asks for a lock as a reader.
    pub(crate) async fn ask_shared(&self, lock: &str, name: &str, wait: Duration) -> Asked {
        let (ttl_ms, wait_ms) = (millis(crate::world::LONG), millis(wait));
        let fields = json!({ "lock": lock, "name": name, "ttl_ms": ttl_ms, "wait_ms": wait_ms, "shared": true });
        self.ask("acquire", fields).await
    }

    /// Asks for a permit of a semaphore, whose limit has this version.
    pub(crate) async fn ask_permit(&self, lock: &str, name: &str, limit: (u32, u64), wait: Duration) -> Asked {
        let (ttl_ms, wait_ms) = (millis(crate::world::LONG), millis(wait));
        let mut fields = json!({ "lock": lock, "name": name, "ttl_ms": ttl_ms, "wait_ms": wait_ms, "permits": 1 });
        (fields["semaphore"], fields["permit_limit_version"]) = (limit.0.into(), limit.1.into());
        self.ask("acquire", fields).await
    }

    pub(crate) async fn ask_acquire_all(&self, set: &str, names: &[&str], wait: Duration) -> Asked {
        let (ttl_ms, wait_ms) = (millis(crate::world::LONG), millis(wait));
        self.ask("acquire_all", json!({ "lock": set, "names": names, "ttl_ms": ttl_ms, "wait_ms": wait_ms })).await
    }

    /// Acquires a lock that is free. Its label is its name.
    pub(crate) async fn acquire(&self, name: &str, ttl: Duration) -> Granted {
        self.ask_acquire(name, name, ttl, Duration::ZERO).await.granted().await
    }

    /// Until when the lock is valid by the process' own clock, if it is.
    pub(crate) async fn valid_for(&self, lock: &str) -> Option<Duration> {
        let answer = self.call("valid", json!({ "lock": lock })).await.expect("valid is answered");
        let left = Duration::from_millis(answer["remaining_ms"].as_u64().expect("remaining_ms"));
        answer["valid"].as_bool().expect("valid").then_some(left)
    }

    /// Appends the token to a file, if the lock is valid.
    pub(crate) async fn ask_write(&self, lock: &str, file: &Path) -> Asked {
        self.ask("write", json!({ "lock": lock, "file": file })).await
    }

    /// Releases a lock. Returns how the lease ended.
    pub(crate) async fn release(&self, lock: &str) -> String {
        self.ask("release", json!({ "lock": lock })).await.release_end().await
    }

    /// The events of this kind so far, in order. `lock` is the lock's label, or its name in an event of a watch.
    pub(crate) fn events(&self, kind: &str, lock: &str) -> Vec<Value> {
        let is_it = |event: &&Value| event["event"] == kind && (event["lock"] == lock || event["name"] == lock);
        self.heard.events.borrow().iter().filter(is_it).cloned().collect()
    }

    /// Waits for the first event of this kind. It may have arrived already.
    pub(crate) async fn event(&self, kind: &str, lock: &str) -> Value {
        let mut changes = self.heard.events.subscribe();
        within(async {
            loop {
                if let Some(first) = self.events(kind, lock).into_iter().next() {
                    return first;
                }
                changes.changed().await.unwrap();
            }
        })
        .await
    }

    /// Checks that the loss of the lock was reported once, and returns the reason.
    pub(crate) async fn loss(&self, lock: &str) -> String {
        let lost = self.event("lost", lock).await;
        // What the process says next is in order: a second report would come before the answer.
        self.valid_for(lock).await;
        assert_eq!(self.events("lost", lock).len(), 1, "the loss of {lock} is reported once");
        lost["reason"].as_str().expect("a reason").to_owned()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id().expect("the process runs")).unwrap())
    }

    /// Stops the process.
    pub(crate) async fn pause(&self) {
        self.heard.log("--", "SIGSTOP");
        kill(self.pid(), Signal::SIGSTOP).unwrap();
        let status = format!("/proc/{}/status", self.pid());
        crate::calls::until(async || fs::read_to_string(&status).unwrap().contains("State:\tT")).await;
    }

    pub(crate) fn resume(&self) {
        self.heard.log("--", "SIGCONT");
        kill(self.pid(), Signal::SIGCONT).unwrap();
    }

    /// Asks the process to return from its main function without closing its client.
    pub(crate) async fn exit(self) -> ExitStatus {
        self.heard.log("->", "exit");
        self.requests.lock().await.write_all(b"{\"op\":\"exit\"}\n").await.unwrap();
        // Its input stays open: the request alone has to end it.
        let Self { mut child, requests, .. } = self;
        let status = ended(&mut child).await;
        drop(requests);
        status
    }

    /// Ends the input of the process, without closing its client.
    pub(crate) async fn end_input(self) -> ExitStatus {
        self.heard.log("->", "end of input");
        let Self { mut child, requests, .. } = self;
        drop(requests);
        ended(&mut child).await
    }
}

async fn ended(child: &mut Child) -> ExitStatus {
    let ended = tokio::time::timeout(EXIT_MAX, child.wait()).await;
    ended.unwrap_or_else(|_| panic!("the process still runs after {EXIT_MAX:?}")).unwrap()
}

impl Asked {
    pub(crate) async fn answer(self) -> Result<Value, Value> {
        let answer = within(self.answer).await;
        let answer = answer.unwrap_or_else(|_| panic!("the process has ended; unanswered: {}", self.what));
        if answer["ok"].as_bool().expect("ok") { Ok(answer) } else { Err(answer) }
    }

    pub(crate) async fn granted(self) -> Granted {
        let what = self.what.clone();
        let answer = self.answer().await.unwrap_or_else(|error| panic!("not granted: {what}: {error}"));
        let grant_id = answer["grant_id"].as_str().expect("grant_id");
        assert!(uuid::Uuid::try_parse(grant_id).is_ok(), "{answer}");
        let previous_end = answer["previous_end"].as_str().expect("previous_end").to_owned();
        let [token, permits, slot] = ["token", "permits", "slot"].map(|field| answer[field].as_u64().expect(field));
        Granted { token, previous_end, permits, slot }
    }

    /// The kind of the error, and the whole answer.
    pub(crate) async fn failed(self) -> (String, Value) {
        let what = self.what.clone();
        let answer = self.answer().await.expect_err(&what);
        (answer["error"].as_str().expect("error").to_owned(), answer)
    }

    pub(crate) async fn release_end(self) -> String {
        let what = self.what.clone();
        let answer = self.answer().await.unwrap_or_else(|error| panic!("not released: {what}: {error}"));
        answer["end"].as_str().expect("end").to_owned()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

/// Ends with the output of the process. Then requests without an answer fail.
async fn read(out: ChildStdout, heard: Arc<Heard>) {
    let mut lines = BufReader::new(out).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        heard.log("<-", &line);
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            heard.log("--", "this is not JSON");
            break;
        };
        match message["id"].as_u64() {
            Some(id) => match heard.asked.lock().unwrap().remove(&id) {
                Some(asked) => drop(asked.send(message)),
                None => {
                    heard.log("--", "this request was answered before, or not sent");
                    break;
                }
            },
            None => heard.events.send_modify(|events| events.push(message)),
        }
    }
    heard.asked.lock().unwrap().clear();
}

//! A worker that uses the Rust client library, which decides by itself what it sends, and where. Its requests stand in
//! histories as one transmission each, to [`ANY`] server; until when a lease is valid is what the library says.

use super::{
    Orders,
    caller::Terms,
    outcome::{kept_back, words},
    taking::Worker,
    work::Name,
};
use crate::{clock, journal};
use anyhow::Result;
use fencepost_client::{AcquireError, Client, Lock, LossCause, ReleaseError, Status};
use fencepost_torture::history::{Acquire, AcquireEnd, Grant, Lost, Nanos, OPEN, Record, Release, ReleaseEnd, Renewed};
use std::time::Duration;
use tokio::time::timeout;

/// In place of a server's number.
const ANY: u32 = u32::MAX;
const CALL_MAX: Duration = Duration::from_millis(800);
const RETRY_FOR: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(25);

pub(super) fn client(orders: &Orders) -> Result<Client> {
    let servers = orders.servers.iter().map(|port| format!("http://127.0.0.1:{port}"));
    let builder = servers.fold(Client::builder(), fencepost_client::ClientBuilder::server);
    Ok(builder.holder("library").call_timeout(CALL_MAX).retry_for(RETRY_FOR).build()?)
}

pub(super) async fn run(mut worker: Worker, client: Client) -> Result<()> {
    while !worker.is_ending() {
        let (terms, wait) = worker.choose();
        if let Some(lock) = take(&mut worker, &client, &terms, wait).await {
            hold(&mut worker, lock).await?;
        }
        worker.think().await;
    }
    Ok(())
}

/// By the clock of histories, and no later than the library says.
fn valid_until(lock: &Lock) -> Nanos {
    let now = clock::now();
    now + clock::nanos(lock.valid_for())
}

async fn take(worker: &mut Worker, client: &Client, terms: &Terms, wait: Duration) -> Option<Lock> {
    let invoke = clock::now();
    let mut record = Acquire {
        client: worker.caller.client,
        lock: terms.lock.clone(),
        request: terms.request.to_string(),
        attempt: 1,
        server: ANY,
        ttl: clock::nanos(terms.ttl),
        wait: clock::nanos(wait),
        min_token: terms.min_token,
        invoke,
        ret: invoke,
        end: AcquireEnd::Unknown(OPEN.to_owned()),
    };
    let id = worker.caller.journal.open(Record::Acquire(record.clone()));
    let acquire = client.acquire(&terms.lock).ttl(terms.ttl).wait(wait).request_id(terms.request);
    let acquire = acquire.min_token(terms.min_token);
    let drop_after = worker.rng.chance(5).then(|| worker.rng.millis(0, 20));
    let answer = timeout(drop_after.unwrap_or(Duration::from_secs(3_600)), acquire).await;
    record.ret = clock::now();
    let mut taken = None;
    record.end = match answer {
        Ok(Ok(lock)) => {
            let (token, grant, valid_until) = (lock.token(), lock.grant_id().to_owned(), valid_until(&lock));
            let left = clock::nanos(lock.ttl());
            taken = Some(lock);
            let usable = valid_until > record.ret;
            AcquireEnd::Acquired(Grant { token, grant, valid_until, held_for: 0, left, usable })
        }
        Ok(Err(error)) => refused(&error, record.ret),
        Err(_) => {
            worker.caller.journal.note(journal::moment("call-dropped", terms.lock.clone()));
            AcquireEnd::Dropped
        }
    };
    worker.caller.journal.close(id, Record::Acquire(record));
    taken
}

fn refused(error: &AcquireError, ret: Nanos) -> AcquireEnd {
    match error {
        AcquireError::Contended { .. } => AcquireEnd::Contended,
        AcquireError::TimedOut { .. } => AcquireEnd::TimedOut,
        AcquireError::Ended => AcquireEnd::Aborted,
        AcquireError::Overtaken => AcquireEnd::Overtaken,
        AcquireError::Unavailable { source } | AcquireError::OutcomeUnknown { source } => {
            AcquireEnd::Unknown(words(source.status()))
        }
        // The public name is not told, and two grants must not have the same; nothing is done under it.
        AcquireError::LostOnArrival { token } => {
            let (token, grant) = (*token, format!("not told, {token}"));
            AcquireEnd::Acquired(Grant { token, grant, valid_until: ret, held_for: 0, left: 0, usable: false })
        }
        other => AcquireEnd::Refused(other.to_string()),
    }
}

async fn hold(worker: &mut Worker, lock: Lock) -> Result<()> {
    let name = Name { lock: lock.name().to_owned(), token: lock.token(), grant: lock.grant_id().to_owned() };
    let held = lock.held();
    let long = if worker.rng.chance(30) { worker.rng.millis(1_000, 4_000) } else { worker.rng.millis(20, 500) };
    let bound = clock::now() + clock::nanos(long);
    let mut known = valid_until(&lock);
    while clock::now() < bound && !worker.is_ending() && worker.step(&name, || held.is_valid()).await? {
        let pause = clock::now() + clock::nanos(worker.rng.millis(10, 100));
        while clock::now() < pause && held.is_valid() {
            tokio::time::sleep(LOOK).await;
            note_renewal(worker, &lock, &mut known);
        }
    }
    if let Status::Lost(lost) = held.status() {
        let cause =
            if lost.cause == LossCause::ValidityOver { "deadline".to_owned() } else { format!("{:?}", lost.cause) };
        let (client, at, successor) = (worker.caller.client, clock::now(), lost.successor_token);
        let (lock, token) = (name.lock.clone(), name.token);
        let lost = Lost { client, lock, token, at, cause: cause.to_lowercase(), successor };
        worker.caller.journal.note(Record::Lost(lost));
    } else if worker.rng.chance(3) {
        let until = valid_until(&lock);
        lock.detach();
        let caller = worker.caller.clone();
        let lost = async {
            tokio::time::sleep(clock::until(until)).await;
            let (client, at, cause) = (caller.client, clock::now(), "deadline".to_owned());
            let Name { lock, token, .. } = name.clone();
            caller.journal.note(Record::Lost(Lost { client, lock, token, at, cause, successor: None }));
        };
        return worker.be_rude(&name, lost).await;
    }
    release(worker, lock, name).await;
    Ok(())
}

/// Renewals are the library's own; they show in that the lease is valid for longer.
fn note_renewal(worker: &Worker, lock: &Lock, known: &mut Nanos) {
    let valid_until = valid_until(lock);
    // A look and the next differ by the time between two readings of a clock.
    if lock.is_valid() && valid_until > *known + 1_000_000 {
        *known = valid_until;
        let spent = clock::nanos(lock.ttl()).saturating_sub(clock::nanos(kept_back(lock.ttl())));
        let (client, name, token) = (worker.caller.client, lock.name().to_owned(), lock.token());
        let (sent, at) = (valid_until.saturating_sub(spent), clock::now());
        worker.caller.journal.note(Record::Renewed(Renewed { client, lock: name, token, sent, at, valid_until }));
    }
}

async fn release(worker: &Worker, lock: Lock, name: Name) {
    let invoke = clock::now();
    let end = ReleaseEnd::Unknown(OPEN.to_owned());
    let client = worker.caller.client;
    let mut record = Release { client, lock: name.lock, token: name.token, invoke, ret: invoke, end };
    let id = worker.caller.journal.open(Record::Release(record.clone()));
    let answer = lock.release().await;
    record.ret = clock::now();
    record.end = match answer {
        Ok(released) if released.was_held() => ReleaseEnd::Released,
        Ok(released) => ReleaseEnd::Gone(super::caller::cause(released.end)),
        Err(ReleaseError::OutcomeUnknown { source }) => {
            ReleaseEnd::Unknown(source.map_or_else(String::new, |source| words(source.status())))
        }
        Err(error) => ReleaseEnd::Unknown(error.to_string()),
    };
    worker.caller.journal.close(id, Record::Release(record));
}

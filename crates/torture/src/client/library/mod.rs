//! A worker that uses the Rust client library, which decides what it sends to which server. A history contains each of
//! its requests as one transmission, to [`ANY`] server, and the library's validity.

mod conversion;

use super::{
    ClientOptions,
    caller::{Mode, Terms},
    outcome::{describe, safety_margin},
    work::{GrantRef, Role},
    worker::Worker,
};
use crate::{clock, config, journal};
use anyhow::Result;
use fencepost_client::{AcquireError, Client, Held, Lock, LossCause, ReleaseError, Status, raw};
use fencepost_torture::history::{
    Acquire, AcquireEnd, Grant, Lost, Nanos, OPEN, PERMIT_LIMIT, Record, Release, ReleaseEnd, Renewed,
};
use std::time::Duration;
use tokio::time::timeout;

/// Stands for any server.
const ANY: u32 = u32::MAX;
const CALL_MAX: Duration = Duration::from_millis(800);
const RETRY_FOR: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(25);

pub(super) fn client(options: &ClientOptions) -> Result<Client> {
    let servers = options.servers.iter().map(|port| format!("http://127.0.0.1:{port}"));
    let builder = servers.fold(Client::builder(), fencepost_client::ClientBuilder::server);
    Ok(builder.holder("library").call_timeout(CALL_MAX).retry_for(RETRY_FOR).build()?)
}

pub(super) async fn run(mut worker: Worker, client: Client) -> Result<()> {
    while !worker.is_ending() {
        let (terms, wait) = worker.choose();
        if let Some(lock) = acquire(&mut worker, &client, &terms, wait).await {
            hold(&mut worker, lock, terms.mode).await?;
        }
        worker.think().await;
    }
    Ok(())
}

/// The library's validity, on the clock of the history.
fn valid_until(lock: &Lock) -> Nanos {
    let now = clock::now();
    now + clock::nanos(lock.valid_for())
}

async fn acquire(worker: &mut Worker, client: &Client, terms: &Terms, wait: Duration) -> Option<Lock> {
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
        shared: terms.mode == Mode::Shared,
        permits: terms.mode.permits(),
        min_hold: clock::nanos(terms.min_hold()),
        lock_delay: clock::nanos(terms.lock_delay()),
        max_hold: terms.max_hold().map_or(0, clock::nanos),
        invoke,
        ret: invoke,
        end: AcquireEnd::Unknown(OPEN.to_owned()),
    };
    let id = worker.caller.journal.open(Record::Acquire(record.clone()));
    let acquire = client.acquire(&terms.lock).ttl(terms.ttl).wait(wait).request_id(terms.request);
    let acquire = acquire.min_token(terms.min_token).min_hold(terms.min_hold()).lock_delay(terms.lock_delay());
    let acquire = match terms.max_hold() {
        Some(max_hold) => acquire.max_hold(max_hold),
        None => acquire,
    };
    let acquire = match terms.mode {
        Mode::Exclusive => acquire,
        Mode::Shared => acquire.shared(),
        Mode::Permits(permits) => acquire.semaphore(PERMIT_LIMIT).permits(permits),
    };
    let drop_after = worker.rng.chance(5).then(|| worker.rng.millis(0, 20));
    let answer = timeout(drop_after.unwrap_or(Duration::from_secs(3_600)), acquire).await;
    record.ret = clock::now();
    let mut acquired = None;
    record.end = match answer {
        Ok(Ok(lock)) => {
            let (token, grant, valid_until) = (lock.token(), lock.grant_id().to_owned(), valid_until(&lock));
            let (left, slot) = (clock::nanos(lock.ttl()), lock.slot().unwrap_or_default());
            acquired = Some(lock);
            let usable = valid_until > record.ret;
            AcquireEnd::Acquired(Grant { token, grant, valid_until, held_for: 0, left, slot, usable })
        }
        Ok(Err(error)) => acquire_error(&error, record.ret),
        Err(_) => {
            worker.caller.journal.record(journal::instant_fault("call-dropped", terms.lock.clone()));
            AcquireEnd::Dropped
        }
    };
    worker.caller.journal.close(id, Record::Acquire(record));
    acquired
}

fn acquire_error(error: &AcquireError, ret: Nanos) -> AcquireEnd {
    match error {
        AcquireError::Contended { .. } => AcquireEnd::Contended,
        AcquireError::TimedOut { .. } => AcquireEnd::TimedOut,
        AcquireError::Ended => AcquireEnd::Aborted,
        AcquireError::Overtaken => AcquireEnd::Overtaken,
        AcquireError::Unavailable { source } if source.did_nothing() => AcquireEnd::Refused(error.to_string()),
        AcquireError::Unavailable { source } | AcquireError::OutcomeUnknown { source } => {
            AcquireEnd::Unknown(describe(raw::status(source)))
        }
        // The error has no grant id; different grants need different ones. The lease is not used.
        AcquireError::LostOnArrival { token } => {
            let (token, grant) = (*token, format!("unknown, {token}"));
            AcquireEnd::Acquired(Grant { token, grant, valid_until: ret, held_for: 0, left: 0, slot: 0, usable: false })
        }
        other => AcquireEnd::Refused(other.to_string()),
    }
}

async fn hold(worker: &mut Worker, mut lock: Lock, mode: Mode) -> Result<()> {
    let (name, grant) = (lock.name().to_owned(), lock.grant_id().to_owned());
    let slot = lock.slot().unwrap_or_default();
    let role = match mode {
        Mode::Exclusive => Role::Writer,
        Mode::Shared => Role::Reader,
        Mode::Permits(_) => Role::with_permits(slot),
    };
    let mut grant_ref = GrantRef { fence: config::fence(&name, slot), lock: name, token: lock.token(), grant, role };
    let held = lock.held();
    let long = if worker.rng.chance(30) { worker.rng.millis(1_000, 4_000) } else { worker.rng.millis(20, 500) };
    let bound = clock::now() + clock::nanos(long);
    let mut known = valid_until(&lock);
    while clock::now() < bound && !worker.is_ending() && worker.step(&grant_ref, || held.is_valid()).await? {
        if held.is_valid() && config::is_mixed(lock.name()) {
            conversion::convert_sometimes(worker, &mut lock, &mut grant_ref).await;
        }
        let pause = clock::now() + clock::nanos(worker.rng.millis(10, 100));
        while clock::now() < pause && held.is_valid() {
            tokio::time::sleep(POLL_INTERVAL).await;
            record_renewal(worker, &lock, &grant_ref, &mut known);
        }
    }
    if let Status::Lost(lost) = held.status() {
        let cause = match lost.cause {
            LossCause::Silence => "deadline".to_owned(),
            LossCause::ReleasedElsewhere => "released".to_owned(),
            other => format!("{other:?}"),
        };
        let (client, at, successor) = (worker.caller.client, clock::now(), lost.successor_token);
        let (lock, token) = (grant_ref.lock.clone(), grant_ref.token);
        let lost = Lost { client, lock, token, at, cause: cause.to_lowercase(), successor };
        worker.caller.journal.record(Record::Lost(lost));
    } else if worker.is_to_be_late(&grant_ref) {
        let until = valid_until(&lock);
        lock.detach();
        let caller = worker.caller.clone();
        let lost = async {
            tokio::time::sleep(clock::until(until)).await;
            let (client, at, cause) = (caller.client, clock::now(), "deadline".to_owned());
            let GrantRef { lock, token, .. } = grant_ref.clone();
            caller.journal.record(Record::Lost(Lost { client, lock, token, at, cause, successor: None }));
        };
        return worker.step_late(&grant_ref, lost).await;
    }
    release(worker, lock, grant_ref).await;
    Ok(())
}

/// The library renews by itself, which shows in a longer validity.
fn record_renewal(worker: &Worker, lock: &Lock, grant_ref: &GrantRef, known: &mut Nanos) {
    let valid_until = valid_until(lock);
    // Readings differ by the time between two reads of the clock.
    if lock.is_valid() && valid_until > *known + 1_000_000 {
        *known = valid_until;
        let spent = clock::nanos(lock.ttl()).saturating_sub(clock::nanos(safety_margin(lock.ttl())));
        let (client, name, token) = (worker.caller.client, lock.name().to_owned(), grant_ref.token);
        let (sent, at) = (valid_until.saturating_sub(spent), clock::now());
        worker.caller.journal.record(Record::Renewed(Renewed { client, lock: name, token, sent, at, valid_until }));
    }
}

/// Whether the lock was lost by the local clock.
fn is_over(held: &Held) -> bool {
    matches!(held.status(), Status::Lost(lost) if lost.cause == LossCause::Silence)
}

async fn release(worker: &Worker, lock: Lock, grant_ref: GrantRef) {
    let invoke = clock::now();
    let end = ReleaseEnd::Unknown(OPEN.to_owned());
    let client = worker.caller.client;
    let mut record = Release { client, lock: grant_ref.lock, token: grant_ref.token, invoke, ret: invoke, end };
    let id = worker.caller.journal.open(Record::Release(record.clone()));
    let held = lock.held();
    let answer = lock.release().await;
    record.ret = clock::now();
    record.end = match answer {
        // The answer is that of the local clock. The server may have the lease a little longer, and gets a release.
        Ok(_) if is_over(&held) => ReleaseEnd::Unknown("lost by the local clock".to_owned()),
        Ok(released) if released.was_held() => ReleaseEnd::Released,
        Ok(released) => ReleaseEnd::Gone(super::caller::cause(raw::end(released.end))),
        Err(ReleaseError::OutcomeUnknown { cause }) => {
            ReleaseEnd::Unknown(cause.map_or_else(String::new, |cause| describe(raw::status(&cause))))
        }
        Err(error) => ReleaseEnd::Unknown(error.to_string()),
    };
    worker.caller.journal.close(id, Record::Release(record));
}

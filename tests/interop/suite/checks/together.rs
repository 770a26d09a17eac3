//! All languages with each other.

use crate::{
    calls::{Lock, until},
    driver::Driver,
    language::Language,
    report::{Outcomes, for_each},
    world::{Cell, LONG, NO_WAIT, World},
};
use fencepost_proto::v1::LockMode;
use serde_json::json;
use std::{
    fs,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How often each language increments the counter.
const ROUNDS: usize = 20;

/// All languages increment one counter, each time under the lock: no increment is lost, and tokens rise.
pub(crate) async fn counter(world: Arc<World>, languages: Vec<Language>) -> Outcomes {
    let cell = |language| Cell { world: world.clone(), language, check: "counter" };
    let held = Arc::<AtomicBool>::default();
    let done = for_each(&languages, |language| increments(cell(language), held.clone())).await;
    let mut seen: Vec<_> =
        done.iter().filter_map(|(_, increments)| increments.as_ref().ok()).flatten().copied().collect();
    seen.sort_unstable();
    let (values, tokens): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    // A language that failed may have incremented it without telling.
    let all_told = done.iter().all(|(_, increments)| increments.is_ok());
    let complete = if all_told {
        values.iter().copied().eq(1..=u64::try_from(languages.len() * ROUNDS).unwrap())
    } else {
        values.is_sorted_by(|before, after| before < after)
    };
    let rising = tokens.is_sorted_by(|before, after| before < after);
    let verdict = if complete && rising {
        Ok(())
    } else {
        Err(format!("increments are lost, or tokens do not rise with them: {values:?} under {tokens:?}"))
    };
    done.into_iter().map(|(language, increments)| (language, increments.and_then(|_| verdict.clone()))).collect()
}

/// The values of the counter after each increment, with the tokens. `held` is set from a grant to the release.
async fn increments(cell: Cell, held: Arc<AtomicBool>) -> Vec<(u64, u64)> {
    let (client, file) = (cell.client().await, cell.world.folder().join("counter"));
    let mut seen = Vec::new();
    for round in 0..ROUNDS {
        let label = round.to_string();
        let token = client.ask_acquire(&label, "counter", LONG, LONG).await.granted().await.token;
        assert!(!held.swap(true, Ordering::SeqCst), "two clients hold the lock");
        let answer = client.call("increment", json!({ "lock": label, "file": file })).await;
        seen.push((answer.expect("the holder increments")["value"].as_u64().expect("value"), token));
        held.store(false, Ordering::SeqCst);
        assert_eq!(client.release(&label).await, "released");
    }
    seen
}

/// One language is paused past its TTL while another acquires: the other has a higher token, and the paused one cannot
/// write when it continues. All ordered pairs at the same time.
pub(crate) async fn pairs(world: Arc<World>, languages: Vec<Language>) -> Outcomes {
    with_others(world, languages, "pairs", overtaken).await
}

/// A reader of one language holds a lock together with a reader of another, and a writer waits for both. All ordered
/// pairs at the same time.
pub(crate) async fn readers(world: Arc<World>, languages: Vec<Language>) -> Outcomes {
    with_others(world, languages, "readers", shares).await
}

/// A holder of one language and one of another have the two permits of a semaphore, and a third one waits. All ordered
/// pairs at the same time.
pub(crate) async fn semaphores(world: Arc<World>, languages: Vec<Language>) -> Outcomes {
    with_others(world, languages, "semaphores", has_slots).await
}

/// Processes with an open client, one of each language.
type Others = Arc<Vec<(Language, Driver)>>;

/// Runs something for each language with the other processes, all at the same time.
async fn with_others<F>(
    world: Arc<World>,
    languages: Vec<Language>,
    check: &'static str,
    run: impl Fn(Cell, Others) -> F,
) -> Outcomes
where
    F: Future<Output = ()> + Send + 'static,
{
    let cell = |language| Cell { world: world.clone(), language, check };
    let mut others = Vec::new();
    let mut failed = Vec::new();
    let opening = |language| {
        let cell = cell(language);
        async move {
            let client = cell.driver("other");
            client.open(&[&cell.world.address]).await;
            client
        }
    };
    for (language, opened) in for_each(&languages, opening).await {
        match opened {
            Ok(client) => others.push((language, client)),
            Err(why) => failed.push((language, Err(why))),
        }
    }
    let others = Arc::new(others);
    let mut outcomes = for_each(&languages, |language| run(cell(language), others.clone())).await;
    outcomes.retain(|(language, _)| failed.iter().all(|(it, _)| it != language));
    outcomes.into_iter().chain(failed).collect()
}

/// This language is paused, and overtaken by each of the others.
async fn overtaken(cell: Cell, successors: Others) {
    const TTL: Duration = Duration::from_secs(2);
    let client = cell.client().await;
    let mut held = Vec::new();
    for (successor, _) in &*successors {
        let (name, file) = (cell.name(successor.name()), cell.file(successor.name()));
        let lock = client.acquire(&name, TTL).await;
        held.push((name, file, lock.token));
    }
    client.pause().await;
    for ((language, successor), (name, file, token)) in successors.iter().zip(&held) {
        let lock = successor.ask_acquire(name, name, LONG, LONG).await.granted().await;
        assert!(lock.token > *token, "the token of {language}, {}, is above {token}", lock.token);
        assert_eq!(lock.previous_end, "expired");
        successor.ask_write(name, file).await.answer().await.expect("the successor writes");
    }
    // The process finds these requests when it continues.
    let mut writes = Vec::new();
    for (name, file, _) in &held {
        writes.push(client.ask_write(name, file).await);
    }
    client.resume();
    for write in writes {
        assert_eq!(write.failed().await.0, "lost", "a paused holder does not write when it continues");
    }
    for ((language, successor), (name, file, _)) in successors.iter().zip(&held) {
        let reason = client.loss(name).await;
        assert!(["expired", "superseded", "unknown", "silence"].contains(&reason.as_str()), "{reason}");
        let lines = fs::read_to_string(file).unwrap().lines().count();
        assert_eq!(lines, 1, "only {language} wrote to {}", file.display());
        assert_eq!(successor.release(name).await, "released");
    }
}

/// This language reads with each of the others, and then writes. The other one reads again only after that.
async fn shares(cell: Cell, others: Others) {
    let (client, locks) = (cell.client().await, cell.world.locks());
    for (language, other) in &*others {
        let name = cell.name(language.name());
        let lock = async || locks.clone().lock_info(&name).await;
        let [writing, again] = ["writing", "again"].map(|part| format!("{name}/{part}"));
        let first = client.ask_shared(&name, &name, NO_WAIT).await.granted().await;
        let second = other.ask_shared(&name, &name, NO_WAIT).await.granted().await;
        assert!(second.token > first.token, "each reader has a token of its own");
        let info = lock().await;
        let holders: Vec<_> = info.holders.iter().map(|it| (it.fencing_token, it.mode())).collect();
        assert_eq!(holders, [first.token, second.token].map(|token| (token, LockMode::Shared)), "with {language}");
        assert_eq!(info.holder_count, 2);

        let writer = client.ask_acquire(&writing, &name, LONG, LONG).await;
        until(async || lock().await.waiters == 1).await;
        let (kind, answer) = other.ask_shared("overtaking", &name, NO_WAIT).await.failed().await;
        assert_eq!((kind.as_str(), &answer["waiters"]), ("contended", &json!(1)), "{answer}");
        let reader = other.ask_shared(&again, &name, LONG).await;
        until(async || lock().await.waiters == 2).await;
        assert_eq!(client.release(&name).await, "released");
        assert_eq!(lock().await.waiters, 2, "the writer waits for the reader of {language}");
        assert_eq!(other.release(&name).await, "released");
        let writer = writer.granted().await;
        assert_eq!((lock().await.waiters, writer.previous_end.as_str()), (1, "released"));
        assert_eq!(client.release(&writing).await, "released");
        let reader = reader.granted().await;
        assert!(writer.token > second.token && reader.token > writer.token, "tokens rise");
        assert_eq!(other.release(&again).await, "released");
    }
}

/// This language and each of the others hold the permits of a semaphore. The one after the other waits for a free slot.
async fn has_slots(cell: Cell, others: Others) {
    const LIMIT: (u32, u64) = (2, 0);
    let (client, locks) = (cell.client().await, cell.world.locks());
    for (n, (language, other)) in others.iter().enumerate() {
        let name = cell.name(language.name());
        let lock = async || locks.clone().lock_info(&name).await;
        let (_, third) = &others[(n + 1) % others.len()];
        let [late, more] = ["late", "more"].map(|part| format!("{name}/{part}"));
        let first = client.ask_permit(&name, &name, LIMIT, NO_WAIT).await.granted().await;
        let second = other.ask_permit(&name, &name, LIMIT, NO_WAIT).await.granted().await;
        assert_eq!([(first.permits, first.slot), (second.permits, second.slot)], [(1, 1), (1, 2)], "with {language}");
        let holders: Vec<_> = lock().await.holders.iter().map(|it| (it.fencing_token, it.permits, it.slot)).collect();
        assert_eq!(holders, [(first.token, 1, 1), (second.token, 1, 2)]);
        assert_eq!(third.ask_permit(&late, &name, LIMIT, NO_WAIT).await.failed().await.0, "contended");

        let waiting = third.ask_permit(&late, &name, LIMIT, LONG).await;
        until(async || lock().await.waiters == 1).await;
        // All say alike that they disagree with the limit.
        for driver in [&client, other, third] {
            let (kind, answer) = driver.ask_permit("disagreeing", &name, (3, 0), LONG).await.failed().await;
            let told = [kind.as_str(), answer["code"].as_str().unwrap(), answer["reason"].as_str().unwrap()];
            assert_eq!(told, ["refused", "FAILED_PRECONDITION", "PERMIT_LIMIT_MISMATCH"], "{answer}");
        }
        assert_eq!(client.release(&name).await, "released");
        let waited = waiting.granted().await;
        assert_eq!((waited.slot, waited.previous_end.as_str()), (1, "released"));
        assert!(waited.token > second.token && second.token > first.token, "tokens rise");
        // A new version of the limit is in force for all.
        let more_of_it = client.ask_permit(&more, &name, (3, 1), LONG).await.granted().await;
        assert_eq!(more_of_it.slot, 3);
        assert_eq!(other.release(&name).await, "released");
        assert_eq!(third.release(&late).await, "released");
        assert_eq!(client.release(&more).await, "released");
    }
}

//! All languages with each other.

use crate::{
    driver::Driver,
    language::Language,
    report::{Outcomes, for_each},
    world::{Cell, LONG, World},
};
use serde_json::json;
use std::{
    fs,
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
    let cell = |language| Cell { world: world.clone(), language, check: "pairs" };
    let mut successors = Vec::new();
    let mut failed = Vec::new();
    let opening = |language| {
        let cell = cell(language);
        async move {
            let client = cell.driver("successor");
            client.open(&[&cell.world.address]).await;
            client
        }
    };
    for (language, opened) in for_each(&languages, opening).await {
        match opened {
            Ok(client) => successors.push((language, client)),
            Err(why) => failed.push((language, Err(why))),
        }
    }
    let successors = Arc::new(successors);
    let mut outcomes = for_each(&languages, |language| overtaken(cell(language), successors.clone())).await;
    outcomes.retain(|(language, _)| failed.iter().all(|(it, _)| it != language));
    outcomes.into_iter().chain(failed).collect()
}

/// This language is paused, and overtaken by each of the others.
async fn overtaken(cell: Cell, successors: Arc<Vec<(Language, Driver)>>) {
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

//! Several locks that one call acquires.

use crate::{
    calls::{Lock, acquire_request, until, within},
    driver::Driver,
    language::Language,
    report::{Outcomes, for_each},
    world::{Cell, LONG, NO_WAIT, World},
};
use serde_json::json;
use std::{collections::BTreeMap, env, fs, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Names in the order of their bytes. JavaScript and Java themselves sort the last two the other way round.
const NAMES: [&str; 3] = ["a", "\u{ff5e}", "\u{10000}"];
/// The size of each set. Few names and small sets: a language with another order is soon in a circle with the others.
const SET: usize = 2;
/// How long all languages take sets from each other, unless this variable says otherwise.
const CONTEST: Duration = Duration::from_secs(4);
const CONTEST_VARIABLE: &str = "FENCEPOST_INTEROP_CONTEST_SECONDS";

/// Locks are acquired in the order of the bytes of their names, whatever order the language itself has.
pub(crate) async fn in_order_of_bytes(cell: Cell) {
    let (client, mut locks) = (cell.client().await, cell.world.locks());
    let (first, second) = (cell.name("\u{ff5e}"), cell.name("\u{10000}"));
    let lease = locks.acquire_lease(acquire_request(&first, LONG)).await;
    let waiting = client.ask_acquire_all("set", &[&second, &first, &second], LONG).await;
    until(async || locks.clone().lock_info(&first).await.waiters == 1).await;
    assert!(locks.holder(&second).await.is_none(), "it waits for the first one, and holds nothing");
    locks.release_lease(&lease).await;
    let answer = waiting.answer().await.expect("both are granted");
    for name in [&first, &second] {
        let holder = locks.holder(name).await.expect("a holder");
        assert_eq!(answer["tokens"][name], json!(holder.fencing_token), "each has a token of its own");
    }
    assert!(client.valid_for("set").await.is_some_and(|left| left > Duration::ZERO));
    assert_eq!(client.release("set").await, "released");
    for name in [&first, &second] {
        assert!(locks.holder(name).await.is_none(), "{name} is free");
    }
}

/// A call that fails or is cancelled gives back what it has, at once.
pub(crate) async fn given_back(cell: Cell) {
    let (client, mut locks) = (cell.client().await, cell.world.locks());
    let [first, second, last] = ["a", "b", "c"].map(|part| cell.name(part));
    let lease = locks.acquire_lease(acquire_request(&last, LONG)).await;
    let names = [last.as_str(), first.as_str(), second.as_str()];
    for (wait, expected) in [(NO_WAIT, "contended"), (Duration::from_millis(300), "timed_out")] {
        let (kind, answer) = client.ask_acquire_all("set", &names, wait).await.failed().await;
        assert_eq!((kind.as_str(), &answer["holder"]), (expected, &json!("test")), "{answer}");
        assert_eq!(answer["name"], json!(last), "{answer}");
        assert_eq!(answer["given_back"], json!([second, first]), "{answer}");
        for name in [&first, &second] {
            assert!(locks.holder(name).await.is_none(), "{name} is free");
        }
    }
    let waiting = client.ask_acquire_all("set", &names, LONG).await;
    until(async || locks.clone().lock_info(&last).await.waiters == 1).await;
    client.call("cancel", json!({ "of": waiting.id })).await.expect("it is cancelled");
    assert_eq!(waiting.failed().await.0, "cancelled");
    until(async || locks.clone().lock_info(&last).await.waiters == 0).await;
    for name in [&first, &second] {
        // The leases have minutes left.
        until(async || locks.clone().holder(name).await.is_none()).await;
    }
    locks.release_lease(&lease).await;
}

/// Those who share the whole work in different parts of it, and who works on the whole excludes them.
pub(crate) async fn with_shared(cell: Cell) {
    let (client, mut locks) = (cell.client().await, cell.world.locks());
    let [whole, one, two] = ["t", "t/1", "t/2"].map(|part| cell.name(part));
    for part in [&one, &two] {
        let set = json!({ "lock": part, "names": [part], "shared": [whole], "ttl_ms": 600_000 });
        client.call("acquire_all", set).await.expect("others may share the whole");
    }
    assert_eq!(locks.lock_info(&whole).await.holder_count, 2);
    let both = json!({ "lock": "both", "names": [whole], "shared": [whole] });
    let refused = client.call("acquire_all", both).await.expect_err("a lock has one mode");
    assert_eq!(refused["error"], "bad_request", "{refused}");
    for part in [&one, &two] {
        let (kind, answer) = client.ask_acquire(&whole, &whole, LONG, NO_WAIT).await.failed().await;
        assert_eq!(kind, "contended", "{answer}");
        assert_eq!(client.release(part).await, "released");
    }
    client.acquire(&whole, LONG).await;
    assert_eq!(client.release(&whole).await, "released");
}

/// All languages take overlapping sets from each other, in orders of their own: nobody waits for ever, and each lock of
/// a set excludes the others.
pub(crate) async fn contest(world: Arc<World>, languages: Vec<Language>) -> Outcomes {
    let seconds = env::var(CONTEST_VARIABLE).map(|text| text.parse().expect(CONTEST_VARIABLE));
    let until = Instant::now() + seconds.map_or(CONTEST, Duration::from_secs);
    let cell = |language| Cell { world: world.clone(), language, check: "contest" };
    let done = for_each(&languages, |language| rounds(cell(language), until)).await;
    let counted = |name: &str| done.iter().filter_map(|(_, it)| it.as_ref().ok()).map(|it| it[name]).sum::<u64>();
    let all_told = done.iter().all(|(_, increments)| increments.is_ok());
    let wrong: Vec<_> = NAMES.iter().filter(|name| all_told && counted(name) != value(&world, name)).collect();
    let verdict = if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("increments under {wrong:?} are lost: two clients held one of them"))
    };
    done.into_iter().map(|(language, increments)| (language, increments.and_then(|_| verdict.clone()))).collect()
}

/// The number in the file that a lock protects.
fn value(world: &World, name: &str) -> u64 {
    fs::read_to_string(file(world, name)).map_or(0, |text| text.trim().parse().expect("a number"))
}

fn file(world: &World, name: &str) -> std::path::PathBuf {
    world.folder().join(format!("contest-{name}"))
}

/// How often this language incremented the number of each lock.
async fn rounds(cell: Cell, until: Instant) -> BTreeMap<&'static str, u64> {
    let client = cell.client().await;
    let (mut counts, mut round) = (NAMES.map(|name| (name, 0)).into_iter().collect::<BTreeMap<_, _>>(), 0);
    while Instant::now() < until {
        let label = round.to_string();
        one_round(&cell, &client, &label, &mut counts).await;
        round += 1;
    }
    assert!(round > 0, "it has had all locks of a set");
    counts
}

async fn one_round(cell: &Cell, client: &Driver, label: &str, counts: &mut BTreeMap<&'static str, u64>) {
    let mut names = NAMES.map(|name| (name, format!("contest/{name}")));
    fastrand::shuffle(&mut names);
    let wanted = &names[..SET];
    let full: Vec<&str> = wanted.iter().map(|(_, full)| full.as_str()).collect();
    let asked = client.ask_acquire_all(label, &full, LONG).await;
    // Far less than the wait that was asked for: a circle would last that long.
    within(asked.answer()).await.expect("all are granted");
    for (name, _) in wanted {
        let file = file(&cell.world, name);
        client.call("increment", json!({ "lock": label, "file": file })).await.expect("the holder increments");
        *counts.get_mut(name).expect("a name") += 1;
    }
    assert_eq!(client.release(label).await, "released");
}

//! The clients of all languages do the same: each check runs against each client, through its driver. `make interop`
//! runs it; `tests/interop/README.md` says how to run a part of it.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/authority.rs"]
mod authority;
#[path = "../../support/binary.rs"]
mod binary;
#[path = "../../support/server.rs"]
mod calls;
#[path = "../../support/certificates.rs"]
mod certificates;
mod checks;
mod driver;
mod gateway;
#[path = "../../support/issuer.rs"]
mod issuer;
mod language;
mod link;
#[path = "../../support/redis.rs"]
mod redis;
mod report;
mod world;

use checks::{CHECKS, Check, Run};
use language::Language;
use report::{Row, for_each};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};
use tokio::time::Instant;
use world::{Cell, Store, World};

fn main() -> ExitCode {
    // The failures of checks are in the report, without backtraces.
    std::panic::set_hook(Box::new(|failure| eprintln!("{failure}")));
    // Selects checks whose names have one of these words, and stores.
    let words: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let languages = Language::selected();
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/interop").join(std::process::id().to_string());
    fs::create_dir_all(&logs).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build().unwrap();
    let rows = runtime.block_on(async {
        // The stores have nothing in common, and most checks mostly wait.
        let run = |store| tokio::spawn(on_store(store, words.clone(), languages.clone(), logs.clone()));
        let (memory, redis) = (run(Store::Memory), run(Store::Redis));
        let mut rows = memory.await.unwrap();
        rows.extend(redis.await.unwrap());
        rows
    });
    let green = report::print(&languages, &rows);
    if green {
        fs::remove_dir_all(&logs).unwrap();
        return ExitCode::SUCCESS;
    }
    println!("\nThe lines of all drivers are in {}.", logs.display());
    ExitCode::FAILURE
}

/// Runs the checks of one store, one after the other.
async fn on_store(store: Store, words: Vec<String>, languages: Vec<Language>, logs: PathBuf) -> Vec<Row> {
    let names = [Store::Memory, Store::Redis].map(|store| store.to_string());
    let (stores, words): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| names.contains(word));
    let is_selected = |check: &&Check| {
        let named = words.is_empty() || words.iter().any(|word| check.name.contains(word.as_str()));
        named && check.stores.contains(&store) && (stores.is_empty() || stores.contains(&store.to_string()))
    };
    let selected: Vec<_> = CHECKS.iter().filter(is_selected).collect();
    if selected.is_empty() {
        return Vec::new();
    }
    let (world, mut rows) = (Arc::new(World::start(store, logs)), Vec::new());
    for check in selected {
        let begun = Instant::now();
        let outcomes = match check.run {
            Run::Each(run) => {
                for_each(&languages, |language| run(Cell { world: world.clone(), language, check: check.name })).await
            }
            Run::All(run) => run(world.clone(), languages.clone()).await,
        };
        let row = Row { store, check: check.name, seconds: begun.elapsed().as_secs_f32(), outcomes };
        println!("{store}: {}: {:.1} s", row.check, row.seconds);
        rows.push(row);
    }
    rows
}

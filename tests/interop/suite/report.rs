//! The outcomes of checks, and their table.

use crate::{language::Language, world::Store};
use std::future::Future;
use tokio::task::JoinError;

pub(crate) type Outcome<T> = Result<T, String>;
pub(crate) type Outcomes = Vec<(Language, Outcome<()>)>;

/// Runs something for each language at the same time. If it panics, the outcome is the message.
pub(crate) async fn for_each<T, F>(languages: &[Language], run: impl Fn(Language) -> F) -> Vec<(Language, Outcome<T>)>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let running: Vec<_> = languages.iter().map(|language| (*language, tokio::spawn(run(*language)))).collect();
    let mut outcomes = Vec::new();
    for (language, running) in running {
        outcomes.push((language, running.await.map_err(message)));
    }
    outcomes
}

fn message(error: JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "cancelled".to_owned() };
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

/// One row of the table.
pub(crate) struct Row {
    pub(crate) store: Store,
    pub(crate) check: &'static str,
    pub(crate) seconds: f32,
    pub(crate) outcomes: Outcomes,
}

/// Prints the table and the failures. Returns whether all cells are green.
pub(crate) fn print(languages: &[Language], rows: &[Row]) -> bool {
    print!("\n{:8}{:26}", "", "");
    languages.iter().for_each(|language| print!("{language:12}"));
    println!("seconds");
    let mut green = !rows.is_empty();
    for row in rows {
        print!("{:8}{:26}", row.store, row.check);
        for language in languages {
            let passed = row.outcomes.iter().any(|(it, outcome)| it == language && outcome.is_ok());
            green &= passed;
            print!("{:12}", if passed { "ok" } else { "FAILED" });
        }
        println!("{:.1}", row.seconds);
    }
    for row in rows {
        for (language, outcome) in &row.outcomes {
            if let Err(why) = outcome {
                println!("\n{} / {} / {language}:\n{why}", row.store, row.check);
            }
        }
    }
    green
}

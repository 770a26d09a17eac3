//! Facts that are in the code as well.

use crate::pages::{self, Page, ROOT};
use fencepost::{
    cli::exit,
    testing::{
        config::Config,
        domain::limits::{self, Limits},
        node::RESPONSE_TIMEOUT,
    },
};
use std::{fs, path::Path, time::Duration};

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

/// An `INTEGER` has 32 bits in Postgres and MySQL.
#[test]
fn the_column_of_the_token_has_64_bits() {
    let mut seen = 0;
    for page in pages::manual() {
        let lines = page.blocks("sql").flat_map(str::lines);
        for column in lines.filter_map(|line| line.trim().strip_prefix("token ")).filter(|line| !line.starts_with('='))
        {
            seen += 1;
            assert_eq!(column.split_whitespace().next(), Some("BIGINT"), "{}", page.path);
        }
    }
    assert!(seen > 0, "no table");
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    let table = format!("{}\n", exit::table(100).strip_prefix("Exit codes:\n").unwrap());
    let page = Page::read("docs/command-line.md");
    assert_eq!(page.blocks("text").collect::<Vec<_>>(), [table]);
}

#[test]
fn the_configuration_is_the_default() {
    let shown = format!("$ fencepost serve --print-config\n{}```\n", Config::default().to_toml());
    assert!(Page::read("docs/command-line.md").text.contains(&shown), "docs/command-line.md does not have:\n{shown}");
}

/// The rights with which the tests run.
#[test]
fn the_permissions_are_those_of_the_tests() {
    let tests = file("tests/store/redis/acl.rs");
    let enough = tests.split_once("const ENOUGH: &str = \"").unwrap().1.split('"').next().unwrap();
    assert!(Page::read("docs/operating/redis.md").code().any(|code| code == enough), "{enough}");
}

/// The rows of the table whose first cell begins with this: the cells of each.
fn rows(page: &Page, head: &str) -> Vec<Vec<String>> {
    let table = page.text.lines().skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let rows = table.take_while(|line| line.starts_with("| "));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_messages_to_alert_on_are_in_the_code() {
    let (mut code, mut folders) = (String::new(), vec![Path::new(ROOT).join("src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                code += &fs::read_to_string(path).unwrap();
            }
        }
    }
    let messages = rows(&Page::read("docs/operating/monitoring.md"), "Message");
    assert!(messages.len() > 5, "{messages:?}");
    for row in messages {
        let message = row[0].trim_matches('`');
        assert!(code.contains(&format!("\"{message}")), "no message begins with {message:?}");
    }
}

/// The README shows a few of the results of the benchmarks.
#[test]
fn the_rates_in_the_readme_are_results_of_the_benchmarks() {
    let results: String = pages::documents().into_iter().map(|page| page.text).collect();
    let readme = Page::read("README.md");
    let table = readme.text.lines().skip_while(|line| !line.starts_with("| | Rate |")).skip(2);
    let rates: Vec<_> = table.take_while(|line| line.starts_with("| ")).collect();
    assert!(!rates.is_empty(), "no rates");
    for rate in rates.iter().filter_map(|row| row.split('|').nth(2)?.trim().strip_suffix(" per second")) {
        assert!(results.contains(&format!("| {rate} |")), "{rate} is not in docs/benchmarks");
    }
}

fn count(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", count(number / 1000), number % 1000),
    }
}

fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds if seconds >= 3600 && seconds % 3600 == 0 => format!("{} h", seconds / 3600),
        0 => format!("{} ms", span.as_millis()),
        seconds => format!("{seconds} s"),
    }
}

/// An operator looks for it here, when commands fail.
#[test]
fn how_long_an_answer_is_waited_for_is_the_same_wherever_it_is_told() {
    let (answer, reply) = (span(limits::ANSWER_TIME_MAX), span(RESPONSE_TIMEOUT));
    let (redis, monitoring) = ("docs/operating/redis.md", "docs/operating/monitoring.md");
    let told = [
        (redis, format!("A command waits {answer} for its answer")),
        (monitoring, format!("`unknown`: no answer within {answer}.")),
        (monitoring, format!("{reply} without a reply Redis is asked again, and commands fail after {answer}")),
        (monitoring, format!("near {reply} the reply counts as lost, and after {answer} commands fail")),
        ("deploy/prometheus/alerts.yml", format!("A command that takes longer than {answer} fails")),
    ];
    for (path, text) in told {
        let words = file(path).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&text), "{path} does not say: {text}");
    }
}

#[test]
fn the_limits_are_those_of_the_code() {
    let limits = Limits::default();
    let bytes = |number| format!("{} bytes", count(number));
    let page = (limits::PAGE_SIZE_MAX as usize, limits::PAGE_SIZE_DEFAULT);
    let ttl = (span(limits.ttl_min), span(limits.ttl_max), span(limits.ttl_default()));
    let expected = [
        ("TTL of a lease", format!("{} to {}, {} if not set", ttl.0, ttl.1, ttl.2)),
        ("wait for a lock", span(limits.wait_max)),
        ("waiters of one lock", count(limits.waiters_per_lock)),
        ("waiters of a server", count(limits.waiters_per_server)),
        ("leases on one KeepAlive or Session stream", count(limits.leases_per_stream)),
        ("operations in flight on one Session", count(limits::OPERATIONS_PER_SESSION_MAX)),
        ("lock name", format!("1 to {}", bytes(limits::LOCK_NAME_BYTES_MAX))),
        ("label of a holder", bytes(limits::HOLDER_BYTES_MAX)),
        ("metadata", bytes(limits::METADATA_BYTES_MAX)),
        ("label of an owner", bytes(limits::OWNER_BYTES_MAX)),
        ("reason of a force release", format!("1 to {}", bytes(limits::REASON_BYTES_MAX))),
        ("locks on a page of a listing", format!("{}, {} if not set", count(page.0), page.1)),
        ("waiters on a page of a queue", count(limits::WAITERS_PAGE_MAX as usize)),
        ("Watch streams and observed locks of a server", count(limits::WATCHERS_MAX)),
        ("request message", bytes(limits::REQUEST_BYTES_MAX)),
        ("`max_hold` of a request", format!("its TTL to {}, no bound if not set", span(limits::MAX_HOLD_MAX))),
        ("`min_hold` of a request", format!("0 to {}", span(limits::MIN_HOLD_MAX))),
        ("`lock_delay` of a request", format!("0 to {}", span(limits::LOCK_DELAY_MAX))),
        ("SHARED or SEMAPHORE holders of one lock", count(limits::HOLDERS_MAX)),
        ("`permit_limit` of a semaphore", format!("1 to {}", count(limits::PERMITS_MAX as usize))),
        ("`min_token` above the server's time", span(limits::MIN_TOKEN_AHEAD_MAX)),
        ("memory of ended requests", span(limits::ENDED_MEMORY)),
        ("queue position of a dropped call", span(limits::DROP_GRACE)),
        (
            "queue position of a request at a server that is silent, or that let the lock lapse when it was offered",
            span(limits::MISSED_GRACE),
        ),
        ("answer to a command, from Redis or from the server that leads the lock", span(limits::ANSWER_TIME_MAX)),
        ("reply of one Redis to what it is sent", span(RESPONSE_TIMEOUT)),
        ("reply of one of several Redis servers to a message for another server", span(limits::PARCEL_REPLY_MAX)),
        ("way of a command to the server that leads the lock", span(limits::COMMAND_WINDOW)),
    ];
    let rows = rows(&Page::read("docs/operating/limits.md"), "Limit");
    assert_eq!(rows.len(), expected.len());
    for ((what, limit), row) in expected.iter().zip(rows) {
        assert_eq!((row[0].as_str(), row[1].as_str()), (*what, limit.as_str()));
    }
}

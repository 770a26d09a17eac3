//! Checks README.md against the repository: quoted code, commands, paths, exit codes, configuration and limits.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use clap::{Parser, error::ErrorKind};
use fencepost::{
    cli::{Cli, exit},
    config::Config,
    domain::limits::{self, Limits},
    node::{QUEUE_TIME_MAX, RESPONSE_TIMEOUT},
};
use std::{fs, path::Path, time::Duration};

const README: &str = include_str!("../../README.md");
/// The folders at the root, by which paths are recognized.
const FOLDERS: [&str; 8] = ["src/", "tests/", "proto/", "examples/", "clients/", "crates/", "benches/", "docs/"];

/// The fenced blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let (mut found, mut fence) = (Vec::new(), None);
    for line in README.lines() {
        match (line.strip_prefix("```"), &mut fence) {
            (Some(of), None) => fence = Some((of == language, String::new())),
            (Some(_), Some(_)) => found.extend(fence.take().filter(|(wanted, _)| *wanted).map(|(_, text)| text)),
            (None, Some((_, text))) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(fence.is_none() && !found.is_empty(), "blocks of {language}");
    found
}

/// The code spans of the text.
fn inline_code() -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in README.lines() {
        fenced ^= line.starts_with("```");
        if !fenced && !line.starts_with("```") {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    found
}

/// The commands in console blocks.
fn commands() -> Vec<String> {
    let text = blocks("console").concat().replace("\\\n", " ");
    text.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

/// The words of a shell command, up to the next command of the line.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in command.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '|' | ';' | '&') => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// The error of the command line's parser, if it rejects these words.
fn rejected(words: &[String]) -> Option<ErrorKind> {
    match Cli::try_parse_from(words).err()?.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        kind => Some(kind),
    }
}

#[test]
fn the_parser_accepts_every_command_in_a_console_block() {
    let mut seen = 0;
    for command in commands() {
        let mut words = words(&command);
        if command.starts_with("cargo run --release -- ") {
            words.splice(..4, ["fencepost".to_owned()]);
        }
        if words[0] == "fencepost" {
            seen += 1;
            assert_eq!(rejected(&words), None, "{command}");
        }
    }
    assert!(seen > 10, "{seen}");
    assert_eq!(commands()[0], "cargo run --release -- serve", "the first command");
}

#[test]
fn every_command_in_the_text_exists() {
    let makefile = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Makefile")).unwrap();
    for code in inline_code() {
        if let Some(target) = code.strip_prefix("make ") {
            assert!(makefile.contains(&format!("\n{target}: ")), "{code}");
        }
        let whole = if code.starts_with("serve ") { format!("fencepost {code}") } else { code.to_owned() };
        if whole.starts_with("fencepost ") {
            // The text may name a command without its arguments.
            let why = rejected(&words(&whole));
            assert!(why.is_none_or(|kind| kind == ErrorKind::MissingRequiredArgument), "{code}: {why:?}");
        }
    }
}

#[test]
fn every_path_exists() {
    let links = README.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let links = links.filter(|target| !target.starts_with("http")).map(str::to_owned);
    let code =
        inline_code().into_iter().map(str::to_owned).chain(commands().into_iter().flat_map(|command| words(&command)));
    let paths = code.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)));
    for path in links.chain(paths) {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(&path).exists(), "{path}");
    }
}

/// Checks that the file has the lines of each block in this order, with any indentation.
fn assert_quoted(language: &str, file: &str) {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    for block in blocks(language) {
        let mut lines = text.lines();
        for line in block.lines() {
            assert!(lines.any(|other| other.trim() == line.trim()), "{file} does not have the line: {line}");
        }
    }
}

#[test]
fn quoted_code_is_in_its_file() {
    assert_quoted("rust", "clients/rust/examples/ship.rs");
    assert_quoted("python", "examples/python/lock.py");
    assert_quoted("sql", "tests/api/gc_pause/fence.rs");
}

/// An `INTEGER` has 32 bits in Postgres and MySQL.
#[test]
fn the_column_of_the_token_has_64_bits() {
    let sql = blocks("sql").concat();
    let column = sql.lines().find_map(|line| line.trim().strip_prefix("token ")).unwrap();
    assert_eq!(column.split_whitespace().next(), Some("BIGINT"));
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    assert_eq!(blocks("text"), [format!("{}\n", exit::TABLE.strip_prefix("Exit codes:\n").unwrap())]);
}

#[test]
fn the_configuration_is_the_default() {
    let printed = Config::default().to_toml();
    let keys: String = printed
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(README.contains(&format!("$ fencepost serve --print-config | grep '^[^#]'\n{keys}```\n")), "{keys}");
}

fn count(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", number / 1000, number % 1000),
    }
}

fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds if seconds >= 3600 && seconds % 3600 == 0 => format!("{} h", seconds / 3600),
        0 => format!("{} ms", span.as_millis()),
        seconds => format!("{seconds} s"),
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
        ("reason of a force release", format!("1 to {}", bytes(limits::REASON_BYTES_MAX))),
        ("locks on a page of a listing", format!("{}, {} if not set", count(page.0), page.1)),
        ("Watch streams of a server", count(limits::WATCHERS_MAX)),
        ("request message", bytes(limits::REQUEST_BYTES_MAX)),
        ("`min_token` above the server's time", span(limits::MIN_TOKEN_AHEAD_MAX)),
        ("memory of ended requests", span(limits::ENDED_MEMORY)),
        ("queue position of a dropped call", span(limits::DROP_GRACE)),
        ("wait of a command for an overloaded Redis", span(QUEUE_TIME_MAX)),
        ("answer of Redis to a command", span(RESPONSE_TIMEOUT)),
    ];
    let table = README.lines().skip_while(|line| !line.starts_with("| Limit ")).skip(2);
    let rows: Vec<_> = table.take_while(|line| line.starts_with("| ")).collect();
    assert_eq!(rows.len(), expected.len());
    for ((what, limit), row) in expected.iter().zip(rows) {
        assert!(row.starts_with(&format!("| {what} | {limit} | ")), "| {what} | {limit} | is not\n{row}");
    }
}

//! The rules, each a function from one file to complaints.

use crate::code::{code_of, has_word, named_below};

const RUST_LINES_MAX: usize = 400;
const LUA_LINES_MAX: usize = 40;
/// Lines of Rust, Markdown and proto end here.
const COLUMNS_MAX: usize = 120;

/// From the ground up: a room uses what stands before it, never what stands after it.
const ROOMS: [&str; 6] = ["domain", "store", "locks", "api", "server", "cli"];
/// Used by every room but `domain`, and using no room themselves but for what [`may_use`] says.
const LEAVES: [&str; 4] = ["config", "telemetry", "clock", "sync"];

/// Programs that tests may start, because `.ci/setup` installs them.
const INSTALLED: [&str; 3] = ["cc", "openssl", "redis-server"];
/// The same, because the smallest Debian has them, or README asks for them.
const PRESENT: [&str; 3] = ["env", "git", "setsid"];

/// Everything that is wrong with one file.
pub(crate) fn check(path: &str, text: &str) -> Vec<String> {
    let mut complaints = machine_paths(path, text);
    let lines_max = match path.rsplit('.').next() {
        Some("rs") => RUST_LINES_MAX,
        Some("lua") => LUA_LINES_MAX,
        _ => usize::MAX,
    };
    let lines = text.lines().count();
    if lines > lines_max {
        complaints.push(format!("{path}: {lines} lines; at most {lines_max}: one idea a file"));
    }
    complaints.extend(long_lines(path, text));
    if path.ends_with(".rs") {
        let code = code_of(text);
        complaints.extend(unfinished(path, &code));
        complaints.extend(programs(path, text));
        if let Some(inner) = path.strip_prefix("src/") {
            complaints.extend(directions(path, inner, &code));
            complaints.extend(strangers(path, inner, &code));
            complaints.extend(unseen(path, inner, &code));
        }
    }
    complaints
}

/// Text that cannot be broken is let pass: a row of a table, and what a console printed; in Rust the text of a literal.
fn long_lines(path: &str, text: &str) -> Vec<String> {
    let (is_rust, is_prose) = (path.ends_with(".rs"), path.ends_with(".md"));
    if !(is_rust || is_prose || path.ends_with(".proto")) {
        return Vec::new();
    }
    let code = if is_rust { code_of(text) } else { String::new() };
    let mut code = code.lines();
    let (mut in_console, mut complaints) = (false, Vec::new());
    for (index, line) in text.lines().enumerate() {
        let code = code.next().unwrap_or_default();
        in_console ^= is_prose && line.trim_start().starts_with("```");
        let is_literal = is_rust && !line.trim_start().starts_with("//") && columns(line, code) <= COLUMNS_MAX;
        let passes = is_literal || in_console || is_prose && line.starts_with('|');
        if !passes && line.chars().count() > COLUMNS_MAX {
            complaints.push(format!("{path}:{}: ends beyond column {COLUMNS_MAX}", index + 1));
        }
    }
    complaints
}

/// How far a line goes if only its code counts, and not the text of its literals.
fn columns(line: &str, code: &str) -> usize {
    let indent = line.len() - line.trim_start().len();
    indent + code.split_whitespace().map(|word| word.chars().count() + 1).sum::<usize>()
}

/// Whether the file is the root of a test of the server: one in a folder of `tests`, or the `main.rs` of a folder
/// there.
pub(crate) fn is_test(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    match parts[..] {
        ["tests", "support", ..] => false,
        ["tests", file] | ["tests", _, file] => file.ends_with(".rs"),
        ["tests", _, _, file] => file == "main.rs",
        _ => false,
    }
}

/// What is on one machine only has no place in the repository.
fn machine_paths(path: &str, text: &str) -> Vec<String> {
    // Put together here, so that this file does not hold them.
    let roots = ["work", "root", "home"].map(|folder| format!("/{folder}/"));
    let found = text.lines().enumerate().filter(|(_, line)| roots.iter().any(|root| line.contains(root.as_str())));
    found.map(|(index, line)| format!("{path}:{}: a path of one machine: {}", index + 1, line.trim())).collect()
}

fn unfinished(path: &str, code: &str) -> Vec<String> {
    let packed: String = code.split_whitespace().collect();
    let banned = [
        ("#[ignore", "a test runs or goes"),
        ("todo!(", "finish it"),
        ("unimplemented!(", "finish it"),
        ("dbg!(", "use a log line"),
    ];
    let found = banned.iter().filter(|(pattern, _)| packed.contains(pattern));
    found.map(|(pattern, instead)| format!("{path}: {pattern}: {instead}")).collect()
}

/// A program that a small machine does not have fails a test only there, so each one is named above.
fn programs(path: &str, text: &str) -> Vec<String> {
    if ["src/", "tests/repo/tidy/"].iter().any(|own| path.starts_with(own)) {
        return Vec::new();
    }
    let quoted = text.split("Command::new(\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let started = quoted.filter(|(_, after)| after.starts_with(')')).map(|(name, _)| name);
    let strange = started.filter(|name| !INSTALLED.contains(name) && !PRESENT.contains(name));
    strange.map(|name| format!("{path}: starts {name}: use a crate, or have .ci/setup install it")).collect()
}

fn room_of(inner: &str) -> &str {
    inner.split('/').next().unwrap_or(inner).trim_end_matches(".rs")
}

fn may_use(room: &str, other: &str) -> bool {
    let base = other.split("::").next().unwrap_or(other);
    let rank = |name: &str| ROOMS.iter().position(|room| *room == name);
    match (room, base) {
        _ if room == base => true,
        // The bounds of the configuration and the time of the clock are those of the rules; the log is configured.
        ("config", _) => other == "domain::limits",
        ("telemetry", _) => base == "config",
        ("clock", _) => other == "domain::time",
        ("domain" | "sync", _) => false,
        _ if LEAVES.contains(&base) => true,
        _ => match (rank(room), rank(base)) {
            (Some(own), Some(used)) => used < own,
            _ => false,
        },
    }
}

fn directions(path: &str, inner: &str, code: &str) -> Vec<String> {
    let room = room_of(inner);
    if ["lib", "main"].contains(&room) {
        return Vec::new();
    }
    if !ROOMS.contains(&room) && !LEAVES.contains(&room) {
        return vec![format!("{path}: no such room: {}, {}", ROOMS.join(" <- "), LEAVES.join(", "))];
    }
    let known = |name: &str| {
        let base = name.split("::").next().unwrap_or(name).to_owned();
        ROOMS.contains(&base.as_str()) || LEAVES.contains(&base.as_str())
    };
    let mut complaints = Vec::new();
    for name in named_below(code, "crate") {
        if known(&name) && !may_use(room, &name) {
            complaints.push(format!("{path}: {room} must not use crate::{name}"));
        }
    }
    // `super` would be a back door out of the room.
    let out = named_below(code, "super").into_iter().filter(|name| known(name) && !may_use(room, name));
    complaints.extend(out.map(|name| format!("{path}: {room} must not use super::{name}")));
    complaints
}

/// Who may use which library.
fn strangers(path: &str, inner: &str, code: &str) -> Vec<String> {
    let room = room_of(inner);
    let mut complaints = Vec::new();
    let mut only = |word: &str, allowed: bool, why: &str| {
        if !allowed && has_word(code, word) {
            complaints.push(format!("{path}: {word}: {why}"));
        }
    };
    only("fencepost_proto", ["api", "cli"].contains(&room), "only api and the command line know the generated types");
    only("fencepost_client", room == "cli", "only the command line is a client");
    only("fencepost_bench", room == "cli", "only the command line runs the benchmark");
    only("clap", ["cli", "main"].contains(&room), "only the command line parses arguments");
    let redis = inner.starts_with("store/redis") || inner == "store/mod.rs";
    only("redis", redis, "only store/redis talks to Redis");
    only("deadpool_redis", redis, "only store/redis talks to Redis");
    for word in ["tokio", "tonic", "Instant", "SystemTime", "async"] {
        only(word, room != "domain", "the rules are pure");
    }
    complaints
}

/// What threads and tasks meet at, in the rooms that `crates/schedules` builds: it must see all of it.
fn unseen(path: &str, inner: &str, code: &str) -> Vec<String> {
    if !["store/memory/", "locks/"].iter().any(|seen| inner.starts_with(seen)) || inner.ends_with("/tests.rs") {
        return Vec::new();
    }
    let mut found: Vec<_> =
        ["parking_lot", "atomic", "Condvar", "OnceLock"].into_iter().filter(|word| has_word(code, word)).collect();
    if named_below(code, "tokio").iter().any(|name| name.starts_with("sync")) {
        found.push("tokio::sync");
    }
    found
        .iter()
        .map(|word| format!("{path}: {word}: take it from crate::sync, which crates/schedules replaces"))
        .collect()
}

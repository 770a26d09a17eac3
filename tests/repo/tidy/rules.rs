//! The rules. Each is a function that returns the violations in a file.

use crate::code::{code_of, has_word, named_below, without_literals, words_of};

const RUST_LINES_MAX: usize = 400;
const LUA_LINES_MAX: usize = 40;
/// A larger file is build output, a download or a recording, none of which belongs in the repository.
const FILE_BYTES_MAX: usize = 200_000;
/// The only file that is not text: the API as released, which `proto/tests/compat` reads.
const BINARY: &str = "proto/baseline.binpb";
/// The longest line of Rust, Markdown and proto files.
const COLUMNS_MAX: usize = 120;

/// Shows all modules to the tests, so none of them uses it.
const TESTING: &str = "testing";
/// Modules from the bottom up. Each may use those before it, and none after it.
const LAYERS: [&str; 7] = ["domain", "node", "store", "locks", "api", "server", "cli"];
/// Modules that all layers except `domain` may use. They use no layer, apart from the exceptions in [`may_use`].
const LEAVES: [&str; 6] = ["access", "config", "telemetry", "clock", "files", "sync"];

/// Words that do not occur in `node`, outside of literals.
const WORDS_OF_LOCKS: [&str; 9] =
    ["lease", "holder", "waiter", "token", "fencing", "bucket", "grant", "acquire", "renewal"];

/// Programs that tests may start, because `.ci/setup` installs them.
const INSTALLED: [&str; 9] =
    ["cc", "fish", "haproxy", "nginx", "openssl", "promtool", "python3", "redis-server", "systemd-analyze"];
/// Programs that tests may start, because a minimal Debian has them, or the README requires them.
const PRESENT: [&str; 7] = ["env", "git", "mkfifo", "setpriv", "setsid", "sh", "unshare"];

/// A file that is too large.
pub(crate) fn size(path: &str, bytes: usize) -> Option<String> {
    (bytes > FILE_BYTES_MAX)
        .then(|| format!("{path}: {bytes} bytes; at most {FILE_BYTES_MAX}: remove it, and add it to .gitignore"))
}

/// A file that is not text.
pub(crate) fn binary(path: &str) -> Option<String> {
    (path != BINARY).then(|| format!("{path}: not text: remove it, and add it to .gitignore"))
}

/// All violations in a text file.
pub(crate) fn check(path: &str, text: &str) -> Vec<String> {
    let mut violations = machine_paths(path, text);
    let lines_max = match path.rsplit('.').next() {
        Some("rs") => RUST_LINES_MAX,
        Some("lua") => LUA_LINES_MAX,
        _ => usize::MAX,
    };
    let lines = text.lines().count();
    if lines > lines_max {
        violations.push(format!("{path}: {lines} lines; at most {lines_max}: one idea per file"));
    }
    violations.extend(long_lines(path, text));
    if path.ends_with(".rs") {
        let code = code_of(text);
        violations.extend(unfinished(path, &code));
        violations.extend(programs(path, text));
        if let Some(inner) = path.strip_prefix("src/") {
            violations.extend(dependencies(path, inner, &code));
            violations.extend(libraries(path, inner, &code));
            violations.extend(synchronization(path, inner, &code));
            violations.extend(words_of_locks(path, inner, text));
        }
    }
    violations
}

/// Lines that cannot be broken may be longer: table rows, console output, and string literals in Rust.
fn long_lines(path: &str, text: &str) -> Vec<String> {
    let (is_rust, is_prose) = (path.ends_with(".rs"), path.ends_with(".md"));
    if !(is_rust || is_prose || path.ends_with(".proto")) {
        return Vec::new();
    }
    let code = if is_rust { code_of(text) } else { String::new() };
    let mut code = code.lines();
    let (mut in_console, mut violations) = (false, Vec::new());
    for (index, line) in text.lines().enumerate() {
        let code = code.next().unwrap_or_default();
        in_console ^= is_prose && line.trim_start().starts_with("```");
        let is_literal = is_rust && !line.trim_start().starts_with("//") && columns(line, code) <= COLUMNS_MAX;
        let passes = is_literal || in_console || is_prose && line.starts_with('|');
        if !passes && line.chars().count() > COLUMNS_MAX {
            violations.push(format!("{path}:{}: ends beyond column {COLUMNS_MAX}", index + 1));
        }
    }
    violations
}

/// The length of a line without its literals.
fn columns(line: &str, code: &str) -> usize {
    let indent = line.len() - line.trim_start().len();
    indent + code.split_whitespace().map(|word| word.chars().count() + 1).sum::<usize>()
}

/// Whether the file is the root of a test target: a file in a folder of `tests`, or the `main.rs` of a folder there.
pub(crate) fn is_test(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    match parts[..] {
        ["tests", "support", ..] => false,
        ["tests", file] | ["tests", _, file] => file.ends_with(".rs"),
        ["tests", _, _, file] => file == "main.rs",
        _ => false,
    }
}

/// Paths that exist on one machine only.
fn machine_paths(path: &str, text: &str) -> Vec<String> {
    // Assembled here, so that this file does not contain them.
    let roots = ["work", "root", "home"].map(|folder| format!("/{folder}/"));
    let found = text.lines().enumerate().filter(|(_, line)| roots.iter().any(|root| line.contains(root.as_str())));
    found.map(|(index, line)| format!("{path}:{}: a path of one machine: {}", index + 1, line.trim())).collect()
}

fn unfinished(path: &str, code: &str) -> Vec<String> {
    let packed: String = code.split_whitespace().collect();
    let banned = [
        ("#[ignore", "run the test or remove it"),
        ("todo!(", "finish it"),
        ("unimplemented!(", "finish it"),
        ("dbg!(", "use a log line"),
    ];
    let found = banned.iter().filter(|(pattern, _)| packed.contains(pattern));
    found.map(|(pattern, instead)| format!("{path}: {pattern}: {instead}")).collect()
}

/// Programs that a minimal machine may lack: a test that starts one would fail only there.
fn programs(path: &str, text: &str) -> Vec<String> {
    if ["src/", "tests/repo/tidy/"].iter().any(|own| path.starts_with(own)) {
        return Vec::new();
    }
    let quoted = text.split("Command::new(\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let started = quoted.filter(|(_, after)| after.starts_with(')')).map(|(name, _)| name);
    let unknown = started.filter(|name| !INSTALLED.contains(name) && !PRESENT.contains(name));
    unknown.map(|name| format!("{path}: starts {name}: use a crate, or let .ci/setup install it")).collect()
}

fn module_of(inner: &str) -> &str {
    inner.split('/').next().unwrap_or(inner).trim_end_matches(".rs")
}

fn may_use(module: &str, other: &str) -> bool {
    let base = other.split("::").next().unwrap_or(other);
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    match (module, base) {
        _ if module == base => true,
        // Exceptions: limits and time are types of the domain, and the log has a configuration.
        // The access file is about names and verbs. What those are, `api` knows.
        ("access", _) => ["clock", "files"].contains(&base),
        ("config", _) => base == "files" || other == "domain::limits",
        ("telemetry", _) => base == "config",
        ("clock", _) => other == "domain::time",
        ("domain" | "files" | "sync", _) => false,
        // A node does not depend on what is kept there: from `domain` it takes the time.
        ("node", _) => {
            ["sync", "clock", "files"].contains(&base)
                || ["domain::time", "telemetry::metrics", "telemetry::traces"].contains(&other)
        }
        _ if LEAVES.contains(&base) => true,
        _ => match (rank(module), rank(base)) {
            (Some(own), Some(used)) => used < own,
            _ => false,
        },
    }
}

/// Dependencies between modules go one way.
fn dependencies(path: &str, inner: &str, code: &str) -> Vec<String> {
    let module = module_of(inner);
    if ["lib", "main", TESTING].contains(&module) {
        return Vec::new();
    }
    if !LAYERS.contains(&module) && !LEAVES.contains(&module) {
        return vec![format!("{path}: unknown module; there are {}, {}", LAYERS.join(" <- "), LEAVES.join(", "))];
    }
    let known = |name: &str| {
        let base = name.split("::").next().unwrap_or(name).to_owned();
        base == TESTING || LAYERS.contains(&base.as_str()) || LEAVES.contains(&base.as_str())
    };
    let mut violations = Vec::new();
    for name in named_below(code, "crate") {
        if known(&name) && !may_use(module, &name) {
            violations.push(format!("{path}: {module} must not use crate::{name}"));
        }
    }
    // Paths with `super` can leave the module too.
    let forbidden = named_below(code, "super").into_iter().filter(|name| known(name) && !may_use(module, name));
    violations.extend(forbidden.map(|name| format!("{path}: {module} must not use super::{name}")));
    violations
}

/// Which module may use which library.
fn libraries(path: &str, inner: &str, code: &str) -> Vec<String> {
    let module = module_of(inner);
    let mut violations = Vec::new();
    let mut only = |word: &str, allowed: bool, why: &str| {
        if !allowed && has_word(code, word) {
            violations.push(format!("{path}: {word}: {why}"));
        }
    };
    only("fencepost_proto", ["api", "cli"].contains(&module), "only api and cli know the generated types");
    only("fencepost_client", module == "cli", "only cli is a client");
    only("clap", ["cli", "main"].contains(&module), "only cli parses arguments");
    only("redis", module == "node", "only node talks to Redis");
    for word in ["deadpool", "deadpool_redis"] {
        only(word, module == "node", "only node makes connections to Redis");
    }
    for word in ["tokio", "tonic", "Instant", "SystemTime", "async"] {
        only(word, module != "domain", "the domain is pure");
    }
    violations
}

/// Names and comments of `node` do not speak of locks. Its messages may: they tell an operator what is at stake.
fn words_of_locks(path: &str, inner: &str, text: &str) -> Vec<String> {
    let text = if module_of(inner) == "node" { without_literals(text) } else { String::new() };
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // In code `lock` is a method of a mutex.
        let is_comment = line.trim_start().starts_with("//");
        for word in words_of(line) {
            let singular = word.trim_end_matches('s');
            if WORDS_OF_LOCKS.contains(&singular) || is_comment && singular == "lock" {
                violations.push(format!("{path}:{}: {word}: node must not know locks", index + 1));
            }
        }
    }
    violations
}

/// Modules that `crates/schedules` compiles take all synchronization primitives from `crate::sync`.
fn synchronization(path: &str, inner: &str, code: &str) -> Vec<String> {
    if !["store/memory/", "store/partition/", "locks/"].iter().any(|folder| inner.starts_with(folder))
        || inner.ends_with("/tests.rs")
    {
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

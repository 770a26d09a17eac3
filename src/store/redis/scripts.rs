//! The scripts, put together from the parts in `lua/` when they are first used: one for all commands that Redis is told
//! the same of.
//!
//! Redis runs a script as one step, and has no way to share code between scripts but functions, which an operator would
//! have to load; so each script carries the parts that its commands need. There are few of them, because the collector
//! of Redis' Lua goes through all that were ever loaded. The numbers come from [`limits`](crate::domain::limits), the
//! one table of bounds.

use super::{LAYOUT, inline};
use crate::domain::{
    limits::{
        CALLS_PER_ATTEMPT_MAX, CLAIM_WINDOW, COMMAND_WINDOW, DROP_GRACE, ENDED_MEMORY, MIN_TOKEN_AHEAD_MAX,
        OVERDUE_BATCH, REPLICA_GONE, REPLICA_SILENT, TOKEN_END, TOKEN_SKIP,
    },
    time::micros,
};
use std::{fmt::Write as _, time::Duration};

/// Channels of replicas, and of those who watch, begin with this.
pub const CHANNEL: &str = "fp:c:";
/// How much longer than the times inside say a key is kept: cleanup must never come before its time.
const SLACK: Duration = Duration::from_secs(5);
/// What the text of a lock begins with, with the layout behind it: whatever else lies under its key is not ours.
const MARK: &str = "fp";
/// What the answer of a quick path begins with: nothing that is packed does.
pub(super) const QUICK: u8 = 0xc1;

/// Asks Redis which life it is in.
pub(super) const LIFE: &str = include_str!("lua/lib/life.lua");
/// What a script asks of Redis itself: its clock, read once, and its life.
pub const PRESENT: &str = concat!(include_str!("lua/lib/clock.lua"), include_str!("lua/lib/life.lua"));

macro_rules! commands {
    ($($(#[$doc:meta])* $constant:ident = $name:literal),+ $(,)?) => {
        $($(#[$doc])* pub const $constant: &str = $name;)+

        /// Each by its name and its text: a line that says what Redis is told of it, and the body of a function.
        const COMMANDS: &[(&str, &str)] = &[$(($name, include_str!(concat!("lua/", $name, ".lua")))),+];
    };
}

commands! {
    /// Asks for the lock.
    ACQUIRE = "acquire",
    /// Claims an offer.
    CLAIM = "claim",
    /// Ends a wait.
    GIVE_UP = "give_up",
    /// Cleans up after a call.
    DROP_CALL = "drop_call",
    /// Declines an offer that nobody here waits for.
    DECLINE = "decline",
    /// Gives a lease back.
    RELEASE = "release",
    /// Renews a lease.
    RENEW = "renew",
    /// Renews leases that streams keep.
    RENEW_KEPT = "renew_kept",
    /// Attaches a lease to a stream.
    ATTACH = "attach",
    /// Detaches it.
    DETACH = "detach",
    /// Takes it back at the end of its stream.
    DISCONNECT = "disconnect",
    /// Takes it back for an operator.
    FORCE_RELEASE = "force_release",
    /// Heartbeat and net.
    POLL = "poll",
    /// Reads a lock.
    VIEW = "view",
    /// Asks for events.
    WATCH = "watch",
    /// Fixes the layout.
    META = "meta",
    /// Finds locks.
    LIST = "list",
}

/// The parts of the whole rules, in the order in which they build on each other.
const PARTS: [&str; 20] = [
    include_str!("lua/lib/lock.lua"),
    include_str!("lua/lib/frame.lua"),
    include_str!("lua/lib/ended.lua"),
    include_str!("lua/lib/memory.lua"),
    include_str!("lua/lib/lines.lua"),
    include_str!("lua/lib/waiters.lua"),
    include_str!("lua/lib/queue.lua"),
    include_str!("lua/lib/effects.lua"),
    include_str!("lua/lib/replicas.lua"),
    include_str!("lua/lib/classic.lua"),
    include_str!("lua/lib/promote.lua"),
    include_str!("lua/lib/heal.lua"),
    include_str!("lua/lib/settle.lua"),
    include_str!("lua/lib/answer.lua"),
    include_str!("lua/lib/ahead.lua"),
    include_str!("lua/lib/token.lua"),
    include_str!("lua/lib/grant.lua"),
    include_str!("lua/lib/bind.lua"),
    include_str!("lua/lib/look_up.lua"),
    include_str!("lua/lib/again.lua"),
];

/// The quick paths, by their commands. Each defines `quickly`.
const QUICK_PATHS: [(&str, &[&str]); 4] = [
    (
        "acquire",
        &[QUICK_QUEUE, QUICK_TOKEN, include_str!("lua/quick/enqueue.lua"), include_str!("lua/quick/acquire.lua")],
    ),
    (
        "release",
        &[
            QUICK_QUEUE,
            QUICK_TOKEN,
            include_str!("lua/quick/end.lua"),
            include_str!("lua/quick/hand_over.lua"),
            include_str!("lua/quick/release.lua"),
        ],
    ),
    (
        "renew",
        &[
            include_str!("lua/quick/renew.lua"),
            "local function quickly(base, known_token, name, lease, ttl) return renew_quickly(base, name, lease, nil, ttl) end\n",
        ],
    ),
    (
        "renew_kept",
        &[
            include_str!("lua/quick/renew.lua"),
            "local function quickly(base, known_token, name, lease, attachment) return renew_quickly(base, name, lease, attachment) end\n",
        ],
    ),
];
const QUICK_QUEUE: &str = include_str!("lua/quick/queue.lua");
const QUICK_TOKEN: &str = include_str!("lua/quick/token.lua");

/// What Redis is told of the script that a command is in: whether it may run without memory to spare, whether it
/// writes. Nothing for a command that there is not.
pub fn flags(command: &str) -> &'static str {
    let first = COMMANDS.iter().find(|(name, _)| *name == command).and_then(|(_, text)| text.lines().next());
    first.and_then(|line| line.strip_prefix("--! flags:")).unwrap_or_default().trim()
}

/// The whole source of the script with these [`flags`]. With another present than [`PRESENT`] a test hands time and
/// life in, as it does to the rules. `classic` is the prefix of the keys of classic locks, if such are to be heeded:
/// the quick paths know nothing of them.
///
/// Redis runs all of it for each sending, so what it costs to begin counts: the constants stand in place of their names
/// (`inline.rs`), and what commands need is made by functions that are called when there is such a command.
pub fn source(flags: &str, present: &str, classic: Option<&str>) -> String {
    let commands = || COMMANDS.iter().filter(|(name, _)| self::flags(name) == flags);
    let mut script = if flags.is_empty() { "#!lua\n".to_owned() } else { format!("#!lua flags={flags}\n") };
    script.push_str(&constants(classic));
    script.push_str(present);
    script.push_str(include_str!("lua/lib/head.lua"));
    let is_here = |path: &&(&str, _)| classic.is_none() && commands().any(|(name, _)| *name == path.0);
    push_quick_paths(&QUICK_PATHS.iter().filter(is_here).collect::<Vec<_>>(), &mut script);
    script.push_str("local function wholly(command, base, known_token, ...)\n");
    PARTS.iter().for_each(|part| script.push_str(part));
    for (name, body) in commands() {
        let _ = write!(script, "if command == '{name}' then\n{body}end\n");
    }
    script.push_str("end\n");
    script.push_str(include_str!("lua/lib/tail.lua"));
    inline::constants(&script)
}

/// A function that makes the quick path of a command, if it has one.
fn push_quick_paths(paths: &[&(&str, &[&str])], script: &mut String) {
    script.push_str("local function quick_path(command)\n");
    if !paths.is_empty() {
        let known = paths.iter().map(|(name, _)| format!("command ~= '{name}'")).collect::<Vec<_>>();
        let _ = writeln!(script, "if {} then return nil end", known.join(" and "));
        script.push_str(include_str!("lua/quick/plain.lua"));
    }
    for (name, parts) in paths {
        let _ = write!(script, "if command == '{name}' then\n{}return quickly\nend\n", parts.concat());
    }
    script.push_str("end\n");
}

/// Lua that has `lock_of`, which reads the text of a lock into its fields: for tests, and whoever has to look at one by
/// hand.
pub fn reader() -> String {
    inline::constants(&(constants(None) + include_str!("lua/lib/lock.lua")))
}

/// For how long the key of a lease of this TTL is kept, in ms, from its grant.
pub fn kept_for(ttl: Duration) -> String {
    (ttl + ENDED_MEMORY + SLACK).as_micros().div_ceil(1_000).to_string()
}

/// What the scripts know by name, in Lua.
fn constants(classic: Option<&str>) -> String {
    // Byte by byte, so that nothing in it can end the string.
    let quoted = |bytes: &[u8]| bytes.iter().fold("'".to_owned(), |text, byte| format!("{text}\\{byte:03}")) + "'";
    let mark = format!("{MARK}{LAYOUT}");
    let lacking = [mark.as_bytes(), b"\0  ", &(-1.0_f64).to_le_bytes().repeat(11)].concat();
    let texts = [
        ("CHANNEL", quoted(CHANNEL.as_bytes())),
        ("META", quoted(super::keys::META.as_bytes())),
        ("MARK", quoted(mark.as_bytes())),
        ("QUICK", quoted(&[QUICK])),
        // The head of a lock that is not there.
        ("NOTHING", quoted(&lacking)),
        ("CLASSIC", classic.map_or_else(|| "nil".to_owned(), |prefix| quoted(prefix.as_bytes()))),
    ];
    let numbers = [
        ("MEMORY", micros(ENDED_MEMORY)),
        ("GRACE", micros(DROP_GRACE)),
        ("CLAIM", micros(CLAIM_WINDOW)),
        ("WINDOW", micros(COMMAND_WINDOW)),
        ("SILENT", micros(REPLICA_SILENT)),
        ("GONE", micros(REPLICA_GONE)),
        ("SKIP", micros(TOKEN_SKIP)),
        ("SECOND", micros(Duration::from_secs(1))),
        // At this pace more ends are remembered than Redis searches a list for at no cost to speak of.
        ("SOON", micros(ENDED_MEMORY / 32)),
        ("DAY", micros(MIN_TOKEN_AHEAD_MAX)),
        ("TOKEN_END", TOKEN_END),
        ("BATCH", OVERDUE_BATCH as u64),
        ("CALLS_MAX", CALLS_PER_ATTEMPT_MAX as u64),
        ("SLACK_MS", micros(SLACK) / 1_000),
    ];
    let numbers = numbers.map(|(name, number)| (name, number.to_string()));
    let mut lines = String::new();
    for (name, value) in texts.into_iter().chain(numbers) {
        let _ = writeln!(lines, "local {name} = {value}");
    }
    lines + include_str!("lua/lib/layout.lua")
}

#[cfg(test)]
mod tests {
    use super::{ACQUIRE, CLAIM, COMMANDS, LIST, VIEW, flags};

    /// With Redis at its maxmemory whatever gives locks back goes on, and only what takes them is refused.
    #[test]
    fn each_command_is_in_the_script_that_it_belongs_to() {
        for (name, text) in COMMANDS {
            assert!(text.starts_with("--! flags:"), "{name}");
            let wanted = match *name {
                ACQUIRE | CLAIM => "",
                VIEW | LIST => "no-writes",
                _ => "allow-oom",
            };
            assert_eq!(flags(name), wanted, "{name}");
        }
    }
}

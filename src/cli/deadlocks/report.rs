//! Deadlocks as text for people, and what is not known.

use super::graph::{Blocked, Blocker, Deadlock, Unknown};
use crate::cli::{
    calls::waiters::mode,
    look::{ERROR, Look},
    text,
};
use fencepost_client::raw::v1::{LockHolder, LockMode, LockWaiter};
use prost_types::Duration;

/// A block of lines for each deadlock: each request, and below it those for whom it waits.
pub(super) fn text(found: &[Deadlock], look: Look) -> String {
    let mut lines = Vec::new();
    for Deadlock(waits) in found {
        let mut owners: Vec<_> = waits.iter().map(|blocked| owner(&blocked.waiter.owner)).collect();
        owners.dedup();
        lines.push(look.wrap(&format!("{} of {}", look.paint(ERROR, "deadlock"), text::list(owners)), "  "));
        for blocked in waits {
            let each = blocked.blockers.iter().map(|blocker| format!("    {}", blocking(blocker)));
            let all = [format!("  {}", waiting(blocked))].into_iter().chain(each);
            lines.extend(all.map(|line| look.wrap(&line, "      ")));
        }
    }
    lines.join("\n")
}

/// What the report does not say.
pub(super) fn notes(found: usize, unknown: Unknown) -> Vec<String> {
    let mut notes = Vec::new();
    if found == 0 {
        notes.push("no owners wait for each other".to_owned());
    } else {
        notes.push(
            "an owner that does several things at a time may go on all the same; otherwise nothing does before a wait \
             times out, or one of the locks is released"
                .to_owned(),
        );
    }
    if unknown.without_owner > 0 {
        let count = unknown.without_owner;
        notes.push(format!(
            "requests and holders without an owner (--owner): {count}; what else they hold is not known"
        ));
    }
    if unknown.not_shown > 0 {
        notes.push(format!("holders that the server does not show: {}", unknown.not_shown));
    }
    notes
}

fn owner(label: &str) -> String {
    if label.is_empty() { "a request without an owner".to_owned() } else { text::visible(label) }
}

fn since(span: Option<&Duration>) -> String {
    text::span(text::from_wire(span))
}

fn waiting(Blocked { lock_name, waiter, .. }: &Blocked) -> String {
    format!(
        "{} has waited for {} for {} ({})",
        owner(&waiter.owner),
        text::visible(lock_name),
        since(waiter.waiting_since.as_ref()),
        requested(waiter),
    )
}

fn blocking(blocker: &Blocker) -> String {
    match blocker {
        Blocker::Holder(holder) => {
            let held = since(holder.held_since.as_ref());
            format!("{} has held it for {held} ({})", owner(&holder.owner), granted(holder))
        }
        Blocker::Ahead(waiter) => {
            let waited = since(waiter.waiting_since.as_ref());
            format!("{} is before it, for {waited} ({})", owner(&waiter.owner), requested(waiter))
        }
    }
}

fn requested(waiter: &LockWaiter) -> String {
    words(&waiter.holder, &mode(waiter), &waiter.identity)
}

fn granted(holder: &LockHolder) -> String {
    let how = match (holder.mode(), holder.permits) {
        (LockMode::Shared, _) => format!("token {}, shared", holder.fencing_token),
        _ => format!("token {}{}", holder.fencing_token, text::permits(holder, ", ")),
    };
    words(&holder.holder, &how, &holder.identity)
}

fn words(label: &str, how: &str, identity: &str) -> String {
    let identity = if identity.is_empty() { String::new() } else { format!(", identity {}", text::visible(identity)) };
    format!("{}, {how}{identity}", text::name(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: i64) -> Option<Duration> {
        Some(Duration { seconds, nanos: 0 })
    }

    fn waiter(owner: &str, holder: &str) -> LockWaiter {
        LockWaiter {
            owner: owner.to_owned(),
            holder: holder.to_owned(),
            mode: LockMode::Exclusive.into(),
            waiting_since: seconds(12),
            ..Default::default()
        }
    }

    #[test]
    fn a_deadlock_is_shown_with_its_locks_owners_and_holders() {
        let holder = LockHolder {
            owner: "job-2".to_owned(),
            holder: "w2".to_owned(),
            identity: "ann".to_owned(),
            fencing_token: 7,
            mode: LockMode::Shared.into(),
            held_since: seconds(75),
            ..Default::default()
        };
        let one = Blocked {
            lock_name: "b".to_owned(),
            waiter: waiter("job-1", "w1"),
            blockers: vec![Blocker::Holder(holder), Blocker::Ahead(waiter("", "w3"))],
        };
        let two = Blocked {
            lock_name: "a\u{202e}".to_owned(),
            waiter: LockWaiter { permits: 2, mode: LockMode::Semaphore.into(), ..waiter("job-2", "") },
            blockers: Vec::new(),
        };
        let expected = [
            "deadlock of job-1 and job-2",
            "  job-1 has waited for b for 12 s (w1, exclusive)",
            "    job-2 has held it for 1 min 15 s (w2, token 7, shared, identity ann)",
            "    a request without an owner is before it, for 12 s (w3, exclusive)",
            r"  job-2 has waited for a\u{202e} for 12 s (a holder without a label, 2 permits)",
        ];
        assert_eq!(text(&[Deadlock(vec![one, two])], Look::PLAIN), expected.join("\n"));
        assert_eq!(text(&[], Look::PLAIN), "");
    }

    #[test]
    fn notes_say_what_is_not_known() {
        let said = notes(0, Unknown { without_owner: 3, not_shown: 4 }).join("\n");
        assert!(said.starts_with("no owners wait") && said.contains("(--owner): 3;") && said.contains(": 4"), "{said}");
        let said = notes(1, Unknown::default());
        assert!(said.len() == 1 && said[0].contains("several things at a time"), "{said:?}");
    }
}

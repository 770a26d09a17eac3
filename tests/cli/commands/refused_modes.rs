//! Options of modes, delays and owners that cannot be: each is refused with its reason, by the program itself (2) or by
//! the server (64), and nothing is acquired.

use crate::support::Server;

/// A command that acquires, as a user types it before the options.
const COMMANDS: [(&[&str], &[&str]); 4] = [
    (&["acquire", "a"], &[]),
    (&["hold", "a"], &[]),
    (&["run", "a"], &["--", "true"]),
    (&["run", "a", "--also", "b"], &["--", "true"]),
];

/// Runs all commands with these options.
#[track_caller]
fn assert_refused(server: &Server, options: &[&str], code: i32, says: &str) {
    // `run_also` tests that several locks of one command have none of these.
    let of_one = ["--shared", "--limit", "--permits", "--limit-version", "--min-hold"];
    let is_of_one = options.iter().any(|option| of_one.contains(option));
    for (words, command) in COMMANDS.iter().filter(|(words, _)| !is_of_one || !words.contains(&"--also")) {
        let refused = server.run(&[words, options, command].concat()).expect(code).says(says);
        assert_eq!(refused.out, "");
    }
}

#[test]
fn a_mode_that_cannot_be_is_refused() {
    let server = Server::start();
    for (options, code, says) in [
        (&["--mode", "77"][..], 2, "unexpected argument '--mode'"),
        (&["--permits", "2"], 2, "--limit <N>"),
        (&["--limit-version", "2"], 2, "--limit <N>"),
        (&["--limit", "3", "--shared"], 2, "cannot be used with '--shared'"),
        (&["--shared", "--permits", "2"], 2, "cannot be used with"),
        (&["--shared", "--limit-version", "2"], 2, "cannot be used with"),
        (&["--limit", "0"], 2, "0 is not in 1.."),
        (&["--limit", "3", "--permits", "0"], 2, "0 is not in 1.."),
        (&["--limit", "-1"], 2, "-1"),
        (&["--limit", "3", "--permits", "4"], 64, "permits must be at most permit_limit, which is 3"),
        (&["--limit", "1000001"], 64, "permit_limit must be 1 to 1000000"),
    ] {
        assert_refused(&server, options, code, says);
    }
    assert!(server.is_free("a"));
}

#[test]
fn a_span_or_an_owner_beyond_its_limit_is_refused() {
    let server = Server::start();
    let long = "x".repeat(129);
    for (options, code, says) in [
        (&["--lock-delay", "60001ms"][..], 64, "lock_delay must be 0s to 1m"),
        (&["--min-hold", "86401s"], 64, "min_hold must be 0s to 24h"),
        (&["--max-hold", "29s"], 64, "max_hold must be at least the TTL of the lease, 30s"),
        (&["--max-hold", "59s", "--ttl", "1m"], 64, "max_hold must be at least the TTL of the lease, 1m"),
        (&["--max-hold", "604801s"], 64, "and at most 168h"),
        (&["--max-hold", "0s"], 2, "must be above 0"),
        (&["--lock-delay=-1s"], 2, "must be a duration with a unit"),
        (&["--min-hold=-1s"], 2, "must be a duration with a unit"),
        (&["--max-hold=-1s"], 2, "must be a duration with a unit"),
        (&["--owner", &long], 64, "owner must have at most 128 bytes"),
        (&["--owner", "a\nb"], 64, "owner must not contain control characters"),
    ] {
        assert_refused(&server, options, code, says);
    }
    assert!(server.is_free("a") && server.is_free("b"));
}

#[test]
fn a_request_id_is_refused_with_any_other_term() {
    let server = Server::start();
    let id = ["--request-id", "0ea85d06-5d6b-4f61-8a5f-1f5e5c1c0b11"];
    let terms = ["--limit", "4", "--limit-version", "7", "--owner", "job-7", "--holder", "w"];
    let taken = server.run(&[&["acquire", "a"], &id[..], &terms].concat()).expect(0);
    for other in [
        &["--shared", "--owner", "job-7"][..],
        &["--owner", "job-7"],
        &["--limit", "4", "--limit-version", "7", "--owner", "job-7", "--permits", "2"],
        &["--limit", "5", "--limit-version", "7", "--owner", "job-7"],
        &["--limit", "4", "--limit-version", "8", "--owner", "job-7"],
        &["--limit", "4", "--limit-version", "7", "--owner", "job-8"],
        &["--limit", "4", "--limit-version", "7", "--owner", "job-7", "--min-hold", "1m"],
        &["--limit", "4", "--limit-version", "7", "--owner", "job-7", "--lock-delay", "1m"],
        &["--limit", "4", "--limit-version", "7", "--owner", "job-7", "--max-hold", "1m"],
    ] {
        let says = "request_id was used before with other parameters: use a new one for a new request";
        server.run(&[&["acquire", "a", "--holder", "w"], &id[..], other].concat()).expect(64).says(says);
    }
    // The same request is answered with its lease.
    let again = server.run(&[&["acquire", "a"], &id[..], &terms].concat()).expect(0);
    assert_eq!(again.field("lease id"), taken.field("lease id"));
}

#[test]
fn programs_that_disagree_about_a_semaphore_are_told_the_limit_in_force() {
    let server = Server::start();
    server.run(&["acquire", "a", "--limit", "4", "--limit-version", "1"]).expect(0);
    for other in [
        &["--limit", "5", "--limit-version", "1"][..],
        &["--limit", "9", "--permits", "5"],
        &["--limit", "9", "--permits", "5", "--wait", "1m"],
    ] {
        for words in [&["acquire", "a"][..], &["run", "a"], &["hold", "a"]] {
            let command: &[&str] = if words[0] == "run" { &["--", "true"] } else { &[] };
            let refused = server.run(&[words, other, command].concat()).expect(64);
            refused.says("limit 4 of version 1 is in force").says("give a changed limit a higher version");
        }
    }
    server.run(&["acquire", "a", "--limit", "9", "--permits", "3"]).expect(0);
}

#[test]
fn readers_and_a_semaphore_exclude_each_other() {
    let server = Server::start();
    server.run(&["acquire", "held", "--limit", "4"]).expect(0);
    server.run(&["acquire", "read", "--shared"]).expect(0);
    for wait in ["0s", "1m"] {
        for words in [
            &["acquire", "held", "--shared"][..],
            &["acquire", "read", "--limit", "4"],
            &["hold", "held", "--shared"],
            &["run", "read", "--limit", "4", "true"],
        ] {
            let refused = server.run(&[&words[..2], &["--wait", wait], &words[2..]].concat()).expect(64);
            refused.says("the lock is in use in another mode").says("use another name for one of the two");
        }
    }
}

#[test]
fn a_refusal_says_how_many_share_the_lock() {
    let server = Server::start();
    for number in 0..10 {
        server.run(&["acquire", "a", "--shared", "--holder", &format!("reader-{number}")]).expect(0);
        server.run(&["acquire", "b", "--limit", "10", "--holder", &format!("worker-{number}")]).expect(0);
    }
    server.run(&["acquire", "a"]).expect(75).says("a is shared by reader-0 (token ").says(" and 2 more");
    server.run(&["run", "a", "--wait", "50ms", "--", "true"]).expect(75).says("timed out").says(" and 2 more");
    server.run(&["run", "a", "--also", "c", "--", "true"]).expect(75).says(" and 2 more");
    let answer = server.run(&["acquire", "a", "--json"]).expect(75).json();
    assert_eq!((&answer["holderCount"], answer["holders"].as_array().map(Vec::len)), (&10.into(), Some(8)));
    let answer = server.run(&["acquire", "b", "--limit", "10", "--json"]).expect(75).json();
    assert_eq!(answer["semaphore"], serde_json::json!({"permitsUsed": "10", "permitLimit": 10}));
}

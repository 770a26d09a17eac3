//! `acquire --export`, and the variables that commands read.

use crate::support::{Ended, Process, Server, fencepost};
use std::process::Command;

/// Runs a script that calls this server as `$FENCEPOST`.
fn script(server: &Server, text: &str) -> Ended {
    let mut command = Command::new("env");
    command.args(["sh", "-c", text]).env("FENCEPOST_SERVER", &server.url);
    command.env("FENCEPOST", env!("CARGO_BIN_EXE_fencepost"));
    Process::start(&mut command).ended()
}

#[test]
fn a_shell_gets_the_lease_in_variables() {
    let server = Server::start();
    let name = "it's $HOME \"42\"";
    let ended = script(
        &server,
        r#"lock="it's \$HOME \"42\""; eval "$("$FENCEPOST" acquire "$lock" --export)" || exit 1
           echo "$FENCEPOST_LOCK"
           "$FENCEPOST" check-token "$FENCEPOST_LOCK" "$FENCEPOST_TOKEN" > /dev/null || exit 2
           [ -n "$FENCEPOST_GRANT_ID" ] || exit 3
           "$FENCEPOST" release "$FENCEPOST_LOCK""#,
    );
    assert_eq!(ended.expect(0).out, format!("{name}\nreleased {name}\n"));
}

#[test]
fn a_failed_acquire_fails_the_shell_and_unsets_the_variables_of_an_earlier_lease() {
    let server = Server::start();
    server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    let ended = script(
        &server,
        r#"export FENCEPOST_LEASE_ID=earlier FENCEPOST_TOKEN=7
           eval "$("$FENCEPOST" acquire a --export)"; echo "$? [$FENCEPOST_TOKEN$FENCEPOST_LEASE_ID]""#,
    );
    assert_eq!(ended.expect(0).says("a is held by").out, "75 []\n");
    assert_eq!(script(&server, r#"set -e; eval "$("$FENCEPOST" acquire a --export)"; echo on"#).expect(75).out, "");
}

/// Variables replace options, and a message shows only what is missing.
#[test]
fn options_that_a_variable_replaces_are_not_shown_as_required() {
    let mut command = fencepost(&["get"]);
    command.env("FENCEPOST_SERVER", "127.0.0.1:1").env("FENCEPOST_CA", "/nowhere");
    let ended = Process::start(&mut command).ended().expect(2).says("<NAME>");
    assert!(!ended.err.contains("--server") && !ended.err.contains("--ca"), "{ended:?}");
    let help = Process::start(&mut fencepost(&["get", "--help"])).ended().expect(0);
    let words = help.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for variable in ["FENCEPOST_SERVER", "FENCEPOST_CA", "FENCEPOST_CERT", "FENCEPOST_KEY"] {
        assert!(words.contains(&format!("[env: {variable}]")), "{words}");
    }
}

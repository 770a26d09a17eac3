//! What a person sees on a terminal: the line of a wait, colours, and lines that fit.

use crate::{
    screen::{CTRL_C, Shell},
    support::{Server, await_that},
};

const XTERM: (&str, &str) = ("TERM", "xterm");
const ERASED: &str = "\r\u{1b}[2K";

fn release(server: &Server, taken: &crate::support::Ended) {
    server.run(&["release", "a", "--lease-id", taken.field("lease id")]).expect(0);
}

fn take(server: &Server) -> crate::support::Ended {
    server.run(&["acquire", "a", "--ttl", "1m", "--holder", "worker-7"]).expect(0)
}

#[test]
fn a_wait_shows_who_holds_the_lock_and_how_many_are_before_it_until_it_is_served() {
    let server = Server::start();
    let taken = take(&server);
    let first = server.spawn(&["run", "a", "--wait", "1m", "--", "sh", "-c", "echo first; read x"]);
    await_that("a waiter", || server.waiters("a") == 1);
    let mut shell = Shell::start_in(&server, Some(120), &[XTERM]);
    shell.commands("\"$FENCEPOST\" run a --wait 1m echo \"ser\"ved");
    shell.shows(&format!("{ERASED}waiting for a: held by worker-7 (token {}) for another ", taken.field("token")));
    shell.shows(" s; 1 before you");
    // The first waiter runs a command whose stdin is empty, and so the second one is served.
    release(&server, &taken);
    first.ended().expect(1);
    let before = shell.shows("served");
    assert!(before.ends_with(ERASED), "the line is gone before the command runs: {before:?}");
    shell.prints_status();
    shell.shows("status=0.");
}

#[test]
fn the_line_goes_away_when_the_wait_is_interrupted() {
    let server = Server::start();
    let _taken = take(&server);
    for command in ["run a --wait 1m true", "acquire a --wait 1m", "hold a --wait 1m"] {
        let mut shell = Shell::start_in(&server, Some(40), &[XTERM]);
        shell.commands(&format!("\"$FENCEPOST\" {command}"));
        let line = "waiting for a: held by worker-7 (token";
        shell.shows(&format!("{ERASED}{line}"));
        // Cut, so that it stays one line.
        shell.shows("…");
        shell.types(CTRL_C);
        shell.shows(ERASED);
        shell.prints_status();
        shell.shows("status=130.");
    }
    assert_eq!(server.waiters("a"), 0);
}

#[test]
fn a_quiet_wait_shows_nothing() {
    let server = Server::start();
    let taken = take(&server);
    let mut quiet = Shell::start_in(&server, Some(120), &[XTERM]);
    quiet.commands("\"$FENCEPOST\" run a --wait 1m --quiet echo \"ser\"ved");
    await_that("a waiter", || server.waiters("a") == 1);
    // Another one, which began later, shows its line.
    let mut other = Shell::start_in(&server, Some(120), &[XTERM]);
    other.commands("\"$FENCEPOST\" acquire a --wait 1m");
    other.shows("1 before you");
    release(&server, &taken);
    let before = quiet.shows("served");
    assert!(!before.contains("waiting for") && !before.contains(ERASED), "{before:?}");
}

#[test]
fn a_wait_in_the_background_leaves_the_terminal_to_the_shell() {
    let server = Server::start();
    let taken = take(&server);
    let mut shell = Shell::start_in(&server, Some(120), &[XTERM]);
    shell.commands("\"$FENCEPOST\" run a --wait 1m echo \"ser\"ved &");
    await_that("a waiter", || server.waiters("a") == 1);
    let mut other = Shell::start_in(&server, Some(120), &[XTERM]);
    other.commands("\"$FENCEPOST\" acquire a --wait 1m");
    other.shows("1 before you");
    release(&server, &taken);
    let before = shell.shows("served");
    assert!(!before.contains("waiting for") && !before.contains(ERASED), "{before:?}");
}

#[test]
fn a_terminal_gets_colours_and_lines_that_fit_unless_it_wants_none() {
    let server = Server::start();
    let taken = take(&server);
    let mut shell = Shell::start_in(&server, Some(50), &[XTERM]);
    shell.commands("\"$FENCEPOST\" run a true");
    shell.shows("\u{1b}[1m\u{1b}[31mfencepost:\u{1b}[0m a is held by worker-7");
    shell.shows("\r\n  "); // the rest of the message
    shell.commands("\"$FENCEPOST\" ls");
    shell.shows("\u{1b}[1mLOCK  HOLDER");
    shell.shows(taken.field("token"));
    shell.commands("export NO_COLOR=1; \"$FENCEPOST\" ls; \"$FENCEPOST\" run a true");
    let plain = shell.shows("fencepost: a is held by worker-7");
    let table = &plain[plain.rfind("LOCK  HOLDER").expect("the table")..];
    assert!(!table.contains('\u{1b}'), "{table:?}");
}

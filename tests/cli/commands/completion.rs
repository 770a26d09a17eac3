//! Completion of lock names, in the shells that are installed.

use crate::{
    screen::Shell,
    support::{Ended, Process, Server, fencepost},
};
use std::{
    process::Command,
    time::{Duration, Instant},
};

fn hold(server: &Server, names: &[&str]) {
    for name in names {
        server.run(&["acquire", name, "--ttl", "5m"]).expect(0);
    }
}

fn completed(server: &Server, words: &[&str]) -> Ended {
    server.run(&[&["complete-names", "--"], words].concat()).expect(0)
}

#[test]
fn the_server_names_the_locks_that_are_held() {
    let server = Server::start();
    hold(&server, &["orders/1", "orders/2", "reports", "reports\u{202e}"]);
    assert_eq!(completed(&server, &["get", ""]).out, "orders/1\norders/2\nreports\n", "and none that cannot be typed");
    assert_eq!(completed(&server, &["release", "--lease-id", "x", "orders/"]).out, "orders/1\norders/2\n");
    assert_eq!(completed(&server, &["get", "reports", ""]).out, "");
    assert_eq!(completed(&server, &["get", "--server", &server.url, "rep"]).out, "reports\n");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test measures time")]
fn without_a_server_there_is_nothing_to_complete_and_nothing_to_say() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // Nothing listens on port 1, and the other one does not answer.
    for address in ["127.0.0.1:1".to_owned(), silent.local_addr().unwrap().to_string(), "not a server".to_owned()] {
        let began = Instant::now();
        let words = ["complete-names", "--", "get", "--server", &address, ""];
        let ended = Process::start(&mut fencepost(&words)).ended().expect(0);
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""), "{address}");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}

/// Makes `fencepost` a command of the shell, with the completions that it prints.
fn load(shell: &mut Shell, how: &str) {
    let path = std::path::Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().unwrap().display();
    shell.commands(&format!("PATH={path}:$PATH; {how}"));
}

#[test]
fn bash_completes_the_name_of_a_lock() {
    let server = Server::start();
    hold(&server, &["nightly:report 1"]);
    let mut shell = Shell::start(&server);
    load(&mut shell, "eval \"$(fencepost completions bash)\"");
    // Readline begins a new word at the colon, and the space is quoted.
    for (line, rest) in [("fencepost get ni\t", "ghtly:report\\ 1 "), ("fencepost get nightly:re\t", "port\\ 1 ")] {
        shell.commands("echo \"rea\"dy");
        shell.shows("ready");
        shell.shows("> ");
        shell.types(line);
        shell.shows(rest);
        shell.types("\n");
        shell.shows("nightly:report 1 is held by");
    }
}

#[test]
fn zsh_completes_the_name_of_a_lock() {
    let server = Server::start();
    hold(&server, &["nightly:report 1"]);
    let mut shell = Shell::start_in(&server, Some(120), &[("TERM", "xterm")]);
    load(&mut shell, "exec zsh -f");
    shell.types("PS1='ze'd:; autoload -U compinit; compinit -D -u; source <(fencepost completions zsh)\n");
    shell.shows("zed:");
    shell.types("fencepost get ni\t");
    shell.shows("ghtly:report\\ 1");
    shell.types("\n");
    shell.shows("nightly:report 1 is held by");
}

#[test]
fn fish_completes_the_name_of_a_lock() {
    let mut command = Command::new("fish");
    let server = Server::start();
    hold(&server, &["nightly:report 1"]);
    let path = std::path::Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().unwrap().display().to_string();
    let script = format!(
        "set -x PATH {path} $PATH; fencepost completions fish | source; complete -C 'fencepost get ni'; \
         complete -C 'fencepost get '"
    );
    command.args(["--no-config", "-c", &script]).env("FENCEPOST_SERVER", &server.url);
    assert_eq!(Process::start(&mut command).ended().expect(0).out, "nightly:report 1\nnightly:report 1\n");
}

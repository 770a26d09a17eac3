//! Several servers, of which the first accepts connections and says nothing, as a process does that is stopped.

use crate::support::{Process, Server, fencepost};
use nix::sys::signal::Signal;
use std::net::TcpListener;

/// The addresses of something that hangs, and of a server behind it.
struct Servers {
    named: String,
    /// The kernel accepts for it.
    _hung: TcpListener,
    live: Server,
}

impl Servers {
    fn start() -> Self {
        let (hung, live) = (TcpListener::bind("127.0.0.1:0").unwrap(), Server::start());
        let named = format!("{},{}", hung.local_addr().unwrap(), live.url);
        Self { named, _hung: hung, live }
    }

    fn spawn(&self, arguments: &[&str]) -> Process {
        Process::start(fencepost(arguments).env("FENCEPOST_SERVER", &self.named))
    }

    /// Runs these commands at a time, which have to succeed.
    fn succeed(&self, commands: &[&[&str]]) {
        let running: Vec<_> = commands.iter().map(|words| (words, self.spawn(words))).collect();
        for (words, process) in running {
            let ended = process.ended();
            assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
        }
    }
}

#[test]
fn a_server_that_hangs_does_not_keep_calls_from_the_next_one() {
    let servers = Servers::start();
    let taken = servers.live.run(&["acquire", "a", "--shared", "--ttl", "10m"]).expect(0);
    let (id, token) = (taken.field("lease id"), taken.field("token"));
    servers.succeed(&[
        &["get", "a"],
        &["ls"],
        &["waiters", "a"],
        &["check-token", "a", token],
        &["renew", "a", "--lease-id", id],
        &["describe", "a", "k=v", "--lease-id", id],
        &["acquire", "b"],
        &["acquire", "c", "--wait", "20s"],
        &["run", "d", "--", "true"],
        &["run", "e", "--wait", "20s", "--", "true"],
        &["run", "f", "--also", "g", "--", "true"],
    ]);
    servers.succeed(&[&["convert", "a", "shared", "--lease-id", id, "--token", token]]);
    servers.succeed(&[&["release", "a", "--lease-id", id]]);
}

#[test]
fn what_stays_with_a_server_finds_the_one_that_does_not_hang() {
    let servers = Servers::start();
    let (holding, observing, watching) =
        (servers.spawn(&["hold", "a"]), servers.spawn(&["observe", "a"]), servers.spawn(&["watch"]));
    assert!(holding.line().starts_with("holding a (token "));
    assert!(observing.line().contains("  a  "));
    servers.live.run(&["acquire", "b"]).expect(0);
    while !watching.line().contains("  b  ") {}
    holding.signal(Signal::SIGTERM);
    holding.ended().expect(0);
}

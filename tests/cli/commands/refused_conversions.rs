//! `convert` and `describe` that change nothing, and why.

use crate::support::{Ended, Server};

/// A lease that `acquire` gave.
struct Lease {
    name: &'static str,
    token: String,
    id: String,
}

impl Lease {
    fn acquire(server: &Server, name: &'static str, options: &[&str]) -> Self {
        let taken = server.run(&[&["acquire", name], options].concat()).expect(0);
        Self { name, token: taken.field("token").to_owned(), id: taken.field("lease id").to_owned() }
    }

    fn convert(&self, server: &Server, to: &str) -> Ended {
        server.run(&["convert", self.name, to, "--lease-id", &self.id, "--token", &self.token])
    }

    fn describe(&self, server: &Server) -> Ended {
        server.run(&["describe", self.name, "k=v", "--lease-id", &self.id])
    }

    fn release(&self, server: &Server) {
        server.run(&["release", self.name, "--lease-id", &self.id]).expect(0);
    }
}

/// The mode and the token of the only holder.
fn held(server: &Server, name: &str) -> (String, String) {
    let lock = &server.run(&["get", name, "--json"]).json()["lock"];
    assert_eq!(lock["holderCount"], 1, "{lock}");
    let text = |field: &str| lock["holders"][0][field].as_str().unwrap().to_owned();
    (text("mode"), text("fencingToken"))
}

#[test]
fn only_the_modes_of_a_writer_and_a_reader_can_be_converted_to() {
    let server = Server::start();
    let lease = Lease::acquire(&server, "a", &[]);
    for mode in ["semaphore", "unspecified", "77", ""] {
        lease.convert(&server, mode).expect(2).says("[possible values: shared, exclusive]");
    }
    assert_eq!(held(&server, "a"), ("LOCK_MODE_EXCLUSIVE".to_owned(), lease.token));
    let permit = Lease::acquire(&server, "b", &["--limit", "2"]);
    for mode in ["shared", "exclusive"] {
        let refused = permit.convert(&server, mode).expect(64).says("a lease of a semaphore cannot be converted");
        refused.says("release it, and acquire the lock in the other mode");
    }
}

#[test]
fn an_upgrade_beside_a_reader_or_its_delay_changes_nothing() {
    let server = Server::start();
    let lease = Lease::acquire(&server, "a", &["--shared", "--holder", "reader-1"]);
    let other = Lease::acquire(&server, "a", &["--shared", "--holder", "reader-2", "--min-hold", "1m"]);
    let refused = lease.convert(&server, "exclusive").expect(75).says("a is shared by reader-1 (token ");
    let refused = refused.says(" and reader-2 (token ").says("nothing was changed; try again when");
    assert!(!refused.err.contains("delay") && refused.out.is_empty(), "{refused:?}");
    other.release(&server);
    let refused = lease.convert(&server, "exclusive").expect(75).says("a is shared by reader-1 (token ");
    refused.says("or a delay keeps the place of one that has gone: nothing was changed");
    assert_eq!(held(&server, "a"), ("LOCK_MODE_SHARED".to_owned(), lease.token.clone()));
    server.run(&["force-release", "a", "--token", &other.token, "--reason", "a test"]).expect(0);
    lease.convert(&server, "exclusive").expect(0);
}

#[test]
fn a_lease_that_has_ended_is_lost() {
    let server = Server::start();
    let lease = Lease::acquire(&server, "a", &[]);
    server.run(&["force-release", "a", "--token", &lease.token, "--reason", "it is stuck"]).expect(0);
    let told = |successor: &str| format!("the lease of a was revoked{successor}: stop the work");
    for ended in [lease.convert(&server, "shared"), lease.describe(&server)] {
        ended.expect(1).says(&told(""));
    }
    let next = Lease::acquire(&server, "a", &[]);
    let successor = format!("; the lock is now held under token {}", next.token);
    for ended in [lease.convert(&server, "exclusive"), lease.describe(&server)] {
        ended.expect(1).says(&told(&successor));
    }
    next.release(&server);
    for ended in [next.convert(&server, "shared"), next.describe(&server)] {
        ended.expect(1).says("the lease of a was released: stop the work");
    }
}

#[test]
fn a_token_from_before_a_conversion_is_outdated() {
    let server = Server::start();
    let lease = Lease::acquire(&server, "a", &["--shared"]);
    lease.convert(&server, "exclusive").expect(0);
    let (mode, token) = held(&server, "a");
    let refused = lease.convert(&server, "shared").expect(1).says("it was converted since");
    refused.says("only the answer to that conversion counts");
    assert_eq!(held(&server, "a"), (mode, token));
}

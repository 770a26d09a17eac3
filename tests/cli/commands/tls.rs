//! Commands that call a server over TLS or a Unix socket.

use crate::{
    addresses::CALLS,
    authority::{Authority, Files},
    certificates::Valid,
    support::{Ended, Process, Server, fencepost},
};
use std::{fs, path::Path, process::Command};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server with this certificate.
fn server(files: &Files, flags: &[&str]) -> Server {
    let tls = ["--tls-cert", text(&files.certificate), "--tls-key", text(&files.key)];
    Server::start_with(&[&tls, flags].concat())
}

fn https(server: &Server) -> String {
    server.url.replace("http://", "https://")
}

/// How commands find the server.
struct Caller<'a> {
    address: String,
    ca: &'a Path,
    client: Option<&'a Files>,
}

impl Caller<'_> {
    /// A command with the files in flags.
    fn command(&self, words: &[&str]) -> Command {
        let (words, rest) = words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
        let mut flags = vec!["--server", &self.address, "--ca", text(self.ca)];
        if let Some(files) = self.client {
            flags.extend(["--cert", text(&files.certificate), "--key", text(&files.key)]);
        }
        fencepost(&[words, &flags, rest].concat())
    }

    fn run(&self, words: &[&str]) -> Ended {
        Process::start(&mut self.command(words)).ended()
    }

    /// The same with the files in variables.
    fn run_by_variables(&self, words: &[&str]) -> Ended {
        let mut command = fencepost(words);
        command.env("FENCEPOST_SERVER", &self.address).env("FENCEPOST_CA", self.ca);
        if let Some(files) = self.client {
            command.env("FENCEPOST_CERT", &files.certificate).env("FENCEPOST_KEY", &files.key);
        }
        Process::start(&mut command).ended()
    }
}

/// Runs every command that calls a server. The last one ends it.
fn every_command_works(caller: &Caller) {
    let watch = Process::start(&mut caller.command(&["watch", "--json"]));
    assert!(watch.line().contains("STARTED"), "the stream has begun");
    let taken = caller.run(&["acquire", "a", "--wait", "1s"]).expect(0);
    let (lease, token) = (taken.field("lease id").to_owned(), taken.field("token").to_owned());
    assert!(caller.run_by_variables(&["get", "a"]).expect(0).out.contains(&token));
    assert!(caller.run_by_variables(&["ls"]).expect(0).out.contains("a"));
    caller.run(&["renew", "a", "--lease-id", &lease]).expect(0);
    caller.run(&["check-token", "a", &token]).expect(0);
    caller.run(&["release", "a", "--lease-id", &lease]).expect(0);
    caller.run(&["run", "a", "--wait", "1s", "--", "true"]).expect(0);
    caller.run_by_variables(&["run", "a", "--", "false"]).expect(1);
    let taken = caller.run(&["acquire", "a"]).expect(0);
    caller.run(&["force-release", "a", "--token", taken.field("token"), "--reason", "test"]).expect(0);
    caller.run(&["drain"]).expect(0);
}

#[test]
fn every_command_works_over_tls() {
    let authority = Authority::new("one");
    let (ca, me) = (authority.file(), authority.client());
    let server = server(&authority.server(), &[]);
    let caller = Caller { address: https(&server), ca: &ca, client: Some(&me) };
    every_command_works(&Caller { client: None, ..caller });
    server.process.ended().expect(0);
}

#[test]
fn every_command_works_with_a_client_certificate() {
    let authority = Authority::new("one");
    let (ca, me) = (authority.file(), authority.client());
    let server = server(&authority.server(), &["--tls-client-ca", text(&ca)]);
    every_command_works(&Caller { address: https(&server), ca: &ca, client: Some(&me) });
    server.process.ended().expect(0);
}

#[test]
fn every_command_works_over_a_unix_socket() {
    let (authority, folder) = (Authority::new("one"), tempfile::tempdir().unwrap());
    let address = format!("unix:{}", folder.path().join("fencepost.sock").display());
    let server = Server::start_at(&address, &[], &[]);
    // A Unix socket needs no TLS: the files, which may be set for other servers, are not used.
    every_command_works(&Caller { address, ca: &authority.file(), client: None });
    server.process.ended().expect(0);
}

/// Checks that commands fail at once and say why, also those that could wait.
fn all_fail(address: &str, flags: &[&str], says: &[&str]) {
    let start = |words: &[&str]| {
        let (command, rest) = words.split_at(1);
        Process::start(&mut fencepost(&[command, &["--server", address], flags, rest].concat()))
    };
    // All at once. `ended` waits with a bound.
    for process in CALLS.map(start) {
        let mut ended = process.ended().expect(69);
        for text in says {
            ended = ended.says(text);
        }
    }
}

#[test]
fn certificates_that_cannot_be_trusted_are_explained() {
    let (authority, other) = (Authority::new("one"), Authority::new("two"));
    let trusted = authority.file();
    let ca = ["--ca", text(&trusted)];
    let named = authority.issue("named", &["locks.example"], Valid::Now);
    for (files, says) in [
        (other.server(), ["the server's certificate is not trusted", "pass the file of its authority with --ca"]),
        (authority.self_signed(), ["self-signed", "--ca"]),
        (named, ["only for locks.example", "name the server as its certificate does"]),
    ] {
        let server = server(&files, &[]);
        all_fail(&https(&server), &ca, &says);
    }
}

#[test]
fn ports_with_and_without_tls_are_told_apart() {
    let authority = Authority::new("one");
    let trusted = authority.file();
    let (plain, tls) = (Server::start(), server(&authority.server(), &[]));
    all_fail(&https(&plain), &["--ca", text(&trusted)], &["it may be a port without TLS"]);
    all_fail(&tls.url, &[], &["does not speak gRPC without TLS", "write https://"]);
}

#[test]
fn client_certificates_that_are_missing_or_refused_are_explained() {
    let (authority, other) = (Authority::new("one"), Authority::new("two"));
    let trusted = authority.file();
    let server = server(&authority.server(), &["--tls-client-ca", text(&trusted)]);
    let ca = ["--ca", text(&trusted)];
    all_fail(&https(&server), &ca, &["asks for a client certificate, and none was given", "--cert and --key"]);
    for files in [other.client(), authority.issue("expired", &[], Valid::Formerly)] {
        let cert = ["--cert", text(&files.certificate), "--key", text(&files.key)];
        all_fail(&https(&server), &[&ca[..], &cert].concat(), &["refused the client certificate", "--cert, --key"]);
    }
}

#[test]
fn unusable_files_are_explained() {
    let (authority, other) = (Authority::new("one"), Authority::new("two"));
    let folder = tempfile::tempdir().unwrap();
    let (missing, noise) = (folder.path().join("missing.pem"), folder.path().join("noise.pem"));
    fs::write(&noise, "noise").unwrap();
    let (me, others, trusted) = (authority.client(), other.client(), authority.file());
    let (cert, https) = (text(&me.certificate), "https://127.0.0.1:1");
    for (server, flags, code, says) in [
        (https, &["--ca", text(&missing)][..], 64, "missing.pem: No such file"),
        (https, &["--ca", text(&noise)], 64, "it contains no certificate in PEM format"),
        (https, &["--ca", text(&trusted), "--cert", cert, "--key", text(&others.key)], 64, "it is not the key of"),
        (https, &["--cert", cert], 2, "--cert needs the key of the certificate: --key"),
        (https, &["--key", cert], 2, "--key needs the certificate of the key: --cert"),
        ("127.0.0.1:1", &["--ca", text(&trusted)], 64, "write https://127.0.0.1:1"),
    ] {
        let run = |words: &[&str], rest: &[&str]| {
            Process::start(&mut fencepost(&[words, &["--server", server], flags, rest].concat())).ended()
        };
        run(&["get", "a"], &[]).expect(code).says(says).says("--");
        run(&["run", "a"], &["--", "true"]).expect(code).says(says);
    }
}

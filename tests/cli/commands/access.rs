//! Commands with credentials, and those for the access file.

use crate::{
    addresses::CALLS,
    support::{Ended, Process, Server, fencepost},
};
use nix::libc::O_NONBLOCK;
use serde_json::{Value, json};
use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    process::Command,
    thread,
    time::Duration,
};
use tokio::time::Instant;

/// A folder with files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    /// A token of this name, in a file, and its entry.
    fn token(&self, name: &str) -> (String, String) {
        let made = run(&["token", "new", name]).expect(0);
        let (token, entry) = made.out.split_once("\n\n").unwrap();
        (self.write(name, &format!("{token}\n")), format!("{entry}\n"))
    }
}

fn run(arguments: &[&str]) -> Ended {
    Process::start(&mut fencepost(arguments)).ended()
}

const RULES: &str = "
[[rule]]
who = [\"app\"]
may = [\"acquire\", \"read\", \"check\"]
locks = [\"app/\"]

[[rule]]
who = [\"operator\"]
may = [\"read\", \"force\", \"operate\"]
locks = [\"\"]
";

#[test]
fn commands_send_the_token_of_a_file() {
    let folder = Folder::new();
    let ((app, app_entry), (operator, operator_entry)) = (folder.token("app"), folder.token("operator"));
    let access = folder.write("access.toml", &format!("mode = \"enforce\"\n{app_entry}{operator_entry}{RULES}"));
    let server = Server::start_with(&["--access", &access]);
    let missing = "give the file of a token with --credentials or FENCEPOST_CREDENTIALS";
    for call in CALLS {
        server.run(call).expect(77).says(missing);
    }
    server.run(&["run", "app/1", "true"]).expect(77).says(missing);
    server.run(&["run", "app/1", "--also", "app/2", "true"]).expect(77).says(missing);

    let with = |file: &str, words: &[&str]| server.run(&[words, &["--credentials", file]].concat());
    let taken = with(&app, &["acquire", "app/1", "--ttl", "1m"]).expect(0);
    with(&app, &["renew", "app/1", "--lease-id", taken.field("lease id")]).expect(0);
    with(&app, &["get", "app/1"]).expect(0);
    with(&app, &["ls", "app/"]).expect(0);
    with(&app, &["check-token", "app/1", taken.field("token")]).expect(0);
    with(&app, &["ls"]).expect(77).says("within app/");
    with(&app, &["acquire", "other"]).expect(77).says("no rule permits \"app\" to acquire \"other\"");
    with(&app, &["watch"]).expect(77).says("within app/");
    let revoke = ["force-release", "app/1", "--token", taken.field("token"), "--reason", "test"];
    with(&app, &revoke).expect(77).says("no rule permits \"app\" to force");
    with(&operator, &revoke).expect(0);
    let variable = server.command(&["run", "app/1", "true"]).env("FENCEPOST_CREDENTIALS", &app).status().unwrap();
    assert!(variable.success());

    let wrong = folder.write("wrong", "fp_wrong");
    let refused = with(&wrong, &["get", "app/1"]).expect(77).says("put another one into the file of --credentials");
    assert!(!refused.err.contains("fp_wrong") && !server.log().contains("fp_wrong"), "{refused:?}");
    let log = server.log();
    let secrets = [&app, &operator].map(|file| fs::read_to_string(file).unwrap());
    assert!(secrets.iter().all(|secret| !log.contains(secret.trim())), "{log}");
    assert!(log.contains("denied by the access file") && log.contains("app"), "{log}");
    with(&app, &["drain", "--yes"]).expect(77);
    with(&operator, &["drain", "--yes"]).expect(0);
}

#[test]
fn a_token_has_a_name_that_the_access_file_accepts() {
    let folder = Folder::new();
    let longest = "x".repeat(512);
    for bad in ["", &format!("{longest}x"), "a\nb", "a\u{1b}[31m", "\u{7f}"] {
        let refused =
            run(&["token", "new", bad]).expect(2).says("must have 1 to 512 bytes, none of them control characters");
        assert!(refused.out.is_empty(), "{refused:?}");
    }
    for fine in [&longest, "k8s:ns/pod \"*\" é"] {
        let made = run(&["token", "new", fine]).expect(0);
        let (_, entry) = made.out.split_once("\n\n").unwrap();
        let file = folder.write("access.toml", &format!("mode = \"enforce\"\n{entry}{RULES}"));
        run(&["access", "check", "--file", &file, "--as", "app", "read", "app/1"]).expect(0);
    }
}

#[test]
fn a_file_without_a_token_is_named() {
    let folder = Folder::new();
    let server = Server::start();
    for (text, said) in [
        ("", "is empty: write the token alone into it"),
        ("s3c\ns3c", "has several lines: write the token alone into it"),
        ("Bearer s3c", "begins with the word Bearer, which is sent anyway: write the token alone into it"),
    ] {
        let file = folder.write("token", text);
        let by_option = server.run(&["get", "a", "--credentials", &file]).expect(64);
        let by_option = by_option.says(&format!("--credentials: {file} {said}"));
        let by_variable = server.command(&["get", "a"]).env("FENCEPOST_CREDENTIALS", &file).output().unwrap();
        let err = String::from_utf8(by_variable.stderr).unwrap();
        assert!(err.contains(&format!("FENCEPOST_CREDENTIALS: {file} {said}")) && err.lines().count() == 1, "{err}");
        assert!(!by_option.err.contains("s3c") && !err.contains("s3c"), "{err}");
    }
    let none = folder.path("none").display().to_string();
    server.run(&["get", "a", "--credentials", &none]).expect(64).says("does not exist");
    let file = folder.write("token", "secret");
    server.run(&["get", "a", "--credentials", &file]).expect(0);
    let plain = run(&["get", "a", "--credentials", &file, "--server", "192.0.2.1:7420"]).expect(64);
    plain.says("write https://").says("or leave out --credentials");
}

#[test]
fn a_server_needs_a_file_that_it_can_use() {
    let folder = Folder::new();
    let file = folder.write("access.toml", "mode = \"enforce\"\nrules = 1");
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--access", &file]).expect(78);
    refused.says(&file).says("line 2, column 1: unknown field `rules`");
    let mut empty = fencepost(&["serve", "--listen", "127.0.0.1:0"]);
    let refused = Process::start(empty.env("FENCEPOST_ACCESS", "")).ended().expect(78);
    refused.says("FENCEPOST_ACCESS: set, but empty");
}

#[test]
fn doctor_says_what_is_odd_in_a_file() {
    let folder = Folder::new();
    let (_, entry) = folder.token("app");
    let file = folder.write("access.toml", &format!("mode = \"enforce\"\n{entry}{RULES}"));
    let doctor = |more: &[&str]| run(&[&["doctor", "--access", &file], more].concat());
    let told = doctor(&[]).expect(0);
    let lines: Vec<_> = told.out.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "ok       access       the file can be used: mode enforce; entries: token 1, jwt 0, certificate 0, rule 2, quota 0",
            "warning  rule         rule 2 (line 13): nobody can be \"operator\"",
            "                      at stake: what it permits, it permits nobody: perhaps the name is misspelt",
            "                      change: write the name as a token, a certificate or the prefix of an issuer has it, or remove it",
        ]
    );
    let report = doctor(&["--json"]).expect(0).json();
    assert_eq!((&report["access"], &report["severity"]), (&json!(file), &json!("warning")));
    assert_eq!((&report["findings"][1]["check"], &report["store"]), (&json!("rule"), &Value::Null));
    let both = doctor(&["--store", "redis://127.0.0.1:1"]).expect(69).says("cannot check redis://127.0.0.1:1");
    assert!(both.out.starts_with(&format!("{file}\nok       access")), "{both:?}");
    run(&["doctor"]).expect(2).says("--store <URL>");
    folder.write("access.toml", "mode = 1");
    doctor(&[]).expect(78).says(&file).says("cannot be used: line 1, column 8");
}

#[test]
fn a_pipe_may_be_the_audit_log_if_somebody_reads_it() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.display().to_string();
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--audit-log", &pipe]).expect(78);
    refused.says(&pipe).says("it is a pipe that nobody reads: start its reader first");

    let open = |options: &mut OpenOptions| options.custom_flags(O_NONBLOCK).open(&pipe).unwrap();
    let mut reader = open(OpenOptions::new().read(true));
    let server = Server::start_with(&["--audit-log", &pipe]);
    server.run(&["force-release", "a", "--token", "1", "--reason", "stuck"]).expect(1);
    let line = some_text(&mut reader);
    assert!(line.starts_with("{\"time\":") && line.ends_with("}\n") && line.contains("force_release"), "{line}");

    // A reader that reads no more keeps neither the server nor its end waiting.
    let mut filler = open(OpenOptions::new().write(true));
    while filler.write(&[b'x'; 4_096]).is_ok() {}
    server.run(&["drain", "--yes"]).expect(0);
    let log = server.drained();
    assert!(log.contains("lines of the audit log are lost") && log.contains("\"lines\":1"), "{log}");
}

/// What is in a pipe, once there is something.
fn some_text(pipe: &mut File) -> String {
    let (mut bytes, end) = (vec![0; 4_096], Instant::now() + Duration::from_secs(20));
    loop {
        if let Ok(length @ 1..) = pipe.read(&mut bytes) {
            return String::from_utf8_lossy(&bytes[..length]).into_owned();
        }
        assert!(Instant::now() < end, "nothing is written");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_file_is_checked_without_a_server() {
    let folder = Folder::new();
    let file = folder.write("access.toml", &format!("mode = \"enforce\"\n{RULES}"));
    let check = |words: &[&str]| run(&[&["access", "check", "--file", &file, "--as"], words].concat());
    let permitted = check(&["app", "acquire", "app/1"]).expect(0);
    assert_eq!(permitted.out.trim(), "permitted: rule 1 (line 4) permits app to acquire app/1 by \"app/\"");
    let permitted = check(&["operator", "operate"]).expect(0);
    assert_eq!(permitted.out.trim(), "permitted: rule 2 (line 9) permits operator to operate");
    let refused = check(&["app", "force", "app/1"]).expect(77);
    assert_eq!(refused.out.trim(), "not permitted: no rule permits app to force app/1");
    let quota = "[[quota]]\nwho = [\"app\"]\nwaits = 7\n";
    folder.write("access.toml", &format!("mode = \"enforce\"\n{RULES}\n{quota}"));
    for shown in [check(&["app", "acquire", "app/1"]).expect(0), check(&["app", "acquire", "app"]).expect(77)] {
        assert_eq!(shown.out.lines().nth(1), Some("quota: line 13: waits 7"), "{shown:?}");
    }
    check(&["app", "acquire"]).expect(2);
    check(&["app", "write", "app/1"]).expect(2).says("acquire, read, check, force, operate");
    folder.write("access.toml", "mode = 1");
    check(&["app", "acquire", "app/1"]).expect(78).says("line 1, column 8");
}

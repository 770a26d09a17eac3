//! `run` and processes of its command that it may not signal, because they became another user: sudo, setuid programs.
//!
//! Only root can make such processes. Run as another user, the tests skip.

use crate::{
    marks::{Marks, end, is_gone},
    support::{Server, await_some, await_that},
};
use nix::sys::signal::{Signal, kill};
use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

/// The command becomes another user; `run` has no right to signal that one, only the right to become it.
const BECOME_ANOTHER: &str = "setpriv --reuid=1 --keep-groups";

/// `run` as an ordinary user, in a folder that all users can write to.
struct Running {
    server: Server,
    child: Child,
    marks: Marks,
    folder: tempfile::TempDir,
}

impl Running {
    /// Starts `run a sh -c script` as an ordinary user. `None` if this test may not become one.
    fn start(script: impl Fn(&str) -> String) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can start a process that run may not signal");
            return None;
        }
        let (server, folder, marks) = (Server::start(), tempfile::tempdir().unwrap(), Marks::new());
        // The folder of the build may be closed to other users.
        let binary = folder.path().join("fencepost");
        fs::copy(env!("CARGO_BIN_EXE_fencepost"), &binary).unwrap();
        File::create(marks.path()).unwrap();
        for open in [folder.path(), Path::new(&marks.path()), Path::new(&marks.path()).parent().unwrap()] {
            fs::set_permissions(open, Permissions::from_mode(0o777)).unwrap();
        }
        let errors = File::create(folder.path().join("stderr")).unwrap();
        // Without the ignored signals that children inherit.
        let mut command = Command::new("env");
        command
            .args(["--default-signal", "setpriv"])
            .args(["--reuid=65534", "--keep-groups", "--inh-caps=-all,+setuid", "--ambient-caps=-all,+setuid"])
            .arg(binary)
            .args(["run", "a", "--ttl", "30s", "--", "sh", "-c", &script(&marks.path())])
            .env("FENCEPOST_SERVER", &server.url);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap();
        Some(Self { server, child, marks, folder })
    }

    /// The pid of the work, once it is `sleep`: messages name the program.
    fn pid(&self) -> String {
        let pid = self.marks.await_value("pid");
        let name = format!("/proc/{pid}/comm");
        await_that("the work is sleep", || fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep"));
        pid
    }

    fn token(&self) -> String {
        let shown = self.server.run(&["get", "a", "--json"]).json();
        shown["lock"]["holders"][0]["fencingToken"].as_str().unwrap().to_owned()
    }

    fn errors(&self) -> PathBuf {
        self.folder.path().join("stderr")
    }

    fn await_message(&self, text: &str) {
        await_that(text, || fs::read_to_string(self.errors()).unwrap().contains(text));
    }

    fn signal(&self, signal: Signal) {
        kill(nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        await_some("the end of run", || self.child.try_wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn work(marks: &str) -> String {
    format!("exec {BECOME_ANOTHER} sh -c 'echo pid=$$ >> {marks}; exec sleep 60'")
}

#[test]
fn a_signal_that_does_not_reach_the_command_is_reported() {
    let Some(mut running) = Running::start(work) else { return };
    let (pid, token) = (running.pid(), running.token());
    for name in [Signal::SIGTERM, Signal::SIGINT] {
        running.signal(name);
        let undelivered = format!("{name} was not delivered, because run may not signal process {pid} (sleep)");
        running.await_message(&undelivered);
        running.await_message(&format!("process {pid} (sleep) still runs under token {token}"));
    }
    assert!(!is_gone(&pid) && !running.server.is_free("a"));
    end(&pid);
    assert_eq!(running.ended().code(), Some(128 + 9));
    assert!(running.server.is_free("a"));
}

#[test]
fn a_command_that_cannot_be_killed_is_named_with_its_token_when_the_lease_is_revoked() {
    let Some(mut running) = Running::start(work) else { return };
    let (pid, token) = (running.pid(), running.token());
    running.server.run(&["force-release", "a", "--token", &token, "--reason", "it is stuck"]).expect(0);
    assert_eq!(running.ended().code(), Some(70));
    assert!(!is_gone(&pid));
    running.await_message(&format!("revoked, but process {pid} (sleep) still runs under token {token}"));
    assert!(!fs::read_to_string(running.errors()).unwrap().contains("killed"));
    end(&pid);
}

#[test]
fn the_lock_is_kept_until_a_process_that_cannot_be_stopped_has_exited() {
    // `run` may stop it before it becomes another user.
    let is_sleep = |marks: &str| format!("[ \"$(cat /proc/$(sed -n s/^pid=//p {marks})/comm)\" = sleep ]");
    let script = |marks: &str| {
        let until = format!("until {}; do sleep 0.01; done 2>/dev/null", is_sleep(marks));
        format!("(exec >/dev/null 2>&1; {}) & {until}; exit 3", work(marks))
    };
    let Some(mut running) = Running::start(script) else { return };
    let (pid, token) = (running.pid(), running.token());
    running.await_message("left processes behind");
    running.await_message(&format!("process {pid} (sleep) still runs under token {token}: run may not stop it"));
    running.await_message("the lock is kept until it has exited");
    assert!(!is_gone(&pid) && !running.server.is_free("a"));
    end(&pid);
    assert_eq!(running.ended().code(), Some(3));
    assert!(running.server.is_free("a"));
}

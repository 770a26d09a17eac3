//! The scripts of `docs/recipes.md`, each on several machines at once. Their programs are written by the test.

use crate::support::{Process, Server, await_that};
use nix::sys::signal::Signal;
use std::{
    fs::{self, OpenOptions, Permissions},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};
use tempfile::TempDir;

/// A folder in which the scripts find the programs that they run.
struct Folder {
    server: Server,
    dir: TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { server: Server::start(), dir: tempfile::tempdir().unwrap() }
    }

    /// Writes a program that the recipe runs.
    fn program(&self, name: &str, script: &str) {
        let path = self.dir.path().join(name);
        // Closed before it runs: a program that is open for writing cannot be executed.
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
        write!(file, "#!/bin/sh\n{script}\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    /// Starts a recipe, as a machine of its own does.
    fn start(&self, recipe: &str, arguments: &[&str]) -> Process {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recipes").join(recipe);
        let binaries = Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().unwrap().to_str().unwrap();
        let mut command = Command::new("env");
        command.args(["sh"]).arg(script).args(arguments);
        command.current_dir(self.dir.path()).env("SHARED", self.dir.path());
        command.env("PATH", format!("{binaries}:{}", std::env::var("PATH").unwrap()));
        command.env("FENCEPOST_SERVER", &self.server.url);
        Process::start(&mut command)
    }

    /// The lines that the programs have written to the file `log`.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn await_waiter(&self, lock: &str) {
        await_that("a machine waits", || self.server.run(&["get", lock, "--json"]).json()["lock"]["waiters"] == 1);
    }

    fn await_log(&self, lines: usize) -> Vec<String> {
        await_that(&format!("{lines} lines in the log"), || self.log().len() >= lines);
        self.log()
    }
}

#[test]
fn a_cron_job_runs_once_on_three_machines() {
    let folder = Folder::new();
    folder.program("report", "echo report >> log; sleep 0.3");
    let machines = [(); 3].map(|()| folder.start("nightly.sh", &[]));
    for machine in machines {
        machine.ended().expect(0);
    }
    assert_eq!(folder.log(), ["report"]);
    // A machine that is late.
    folder.start("nightly.sh", &[]).ended().expect(0);
    assert_eq!(folder.log(), ["report"]);
}

#[test]
fn a_cron_job_that_fails_is_run_by_the_next_machine() {
    let folder = Folder::new();
    folder.program("report", "echo report >> log; [ $(wc -l < log) -gt 1 ]");
    folder.start("nightly.sh", &[]).ended().expect(1);
    folder.start("nightly.sh", &[]).ended().expect(0);
    folder.start("nightly.sh", &[]).ended().expect(0);
    assert_eq!(folder.log(), ["report", "report"]);
}

#[test]
fn the_first_standby_follows_a_leader_that_ends() {
    let folder = Folder::new();
    folder.program("scheduler", r#"echo "$FENCEPOST_TOKEN" >> log; exec sleep 60"#);
    let leader = folder.start("leader.sh", &[]);
    let first = folder.await_log(1);
    let standby = folder.start("leader.sh", &[]);
    folder.await_waiter("leader/scheduler");
    assert_eq!(folder.log(), first, "one leader");
    leader.signal(Signal::SIGTERM);
    leader.ended().expect(143);
    let tokens: Vec<u64> = folder.await_log(2).iter().map(|line| line.parse().unwrap()).collect();
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    standby.signal(Signal::SIGTERM);
    standby.ended().expect(143);
}

#[test]
fn each_worker_has_a_shard_of_its_own() {
    let folder = Folder::new();
    folder.program("worker", r#"echo "$1" >> log; while [ ! -e stop ]; do sleep 0.02; done"#);
    let workers = [(); 4].map(|()| folder.start("shard.sh", &[]));
    let mut shards = folder.await_log(4);
    shards.sort();
    assert_eq!(shards, ["0", "1", "2", "3"]);
    folder.start("shard.sh", &[]).ended().expect(75).says("shards/3 is held");
    fs::write(folder.dir.path().join("stop"), "").unwrap();
    for worker in workers {
        worker.ended().expect(0);
    }
}

#[test]
fn deploys_run_one_after_another() {
    let folder = Folder::new();
    folder.program(
        "deploy",
        r#"echo "begin $1" >> log; while [ ! -e "go$1" ]; do sleep 0.02; done; echo "end $1" >> log"#,
    );
    let first = folder.start("deploy.sh", &["7"]);
    folder.await_log(1);
    let second = folder.start("deploy.sh", &["8"]);
    let shown = folder.server.run(&["get", "deploy/production", "--json"]).json();
    assert_eq!(shown["lock"]["holders"][0]["metadata"]["version"], "7", "{shown}");
    folder.await_waiter("deploy/production");
    for version in ["7", "8"] {
        fs::write(folder.dir.path().join(format!("go{version}")), "").unwrap();
    }
    first.ended().expect(0);
    second.ended().expect(0);
    assert_eq!(folder.log(), ["begin 7", "end 7", "begin 8", "end 8"]);
}

#[test]
fn one_replica_migrates_while_the_others_wait() {
    let folder = Folder::new();
    folder.program("migrate", "[ -e migrated ] && exit 0; echo begin >> log; sleep 0.3; echo end >> log; : > migrated");
    folder.program("serve", "echo serve >> log");
    let replicas = [(); 3].map(|()| folder.start("start.sh", &[]));
    for replica in replicas {
        replica.ended().expect(0);
    }
    assert_eq!(folder.log(), ["begin", "end", "serve", "serve", "serve"]);
}

#[test]
fn a_replica_whose_migration_fails_does_not_start() {
    let folder = Folder::new();
    folder.program("migrate", "exit 3");
    folder.program("serve", "echo serve >> log");
    folder.start("start.sh", &[]).ended().expect(3);
    assert_eq!(folder.log(), Vec::<String>::new());
}

#[test]
fn transfers_in_opposite_directions_take_turns() {
    let folder = Folder::new();
    folder.program("transfer", r#"echo "$1 begins" >> log; sleep 0.2; echo "$1 ends" >> log"#);
    let transfers = [["7", "9"], ["9", "7"], ["7", "8"]].map(|accounts| folder.start("transfer.sh", &accounts));
    for transfer in transfers {
        transfer.ended().expect(0);
    }
    let log = folder.log();
    for turn in log.chunks(2) {
        assert_eq!(turn[0].replace("begins", "ends"), turn[1], "{log:?}");
    }
    assert_eq!(log.len(), 6);
}

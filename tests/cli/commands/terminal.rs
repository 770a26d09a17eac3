//! `run` in a shell on a terminal: the command reads what is typed, and Ctrl-C, Ctrl-Z and fg do what they do for any
//! command.

use crate::{
    marks::Marks,
    support::{Server, await_that},
};
use nix::pty::openpty;
use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// An interactive shell on a terminal of its own.
struct Shell {
    child: Child,
    keys: File,
    screen: Arc<Mutex<String>>,
}

impl Shell {
    fn start(server: &Server) -> Self {
        let terminal = openpty(None, None).unwrap();
        let end = || Stdio::from(terminal.slave.try_clone().unwrap());
        // setsid makes the terminal the session's own, as a login does; and no signal is ignored, whoever runs the
        // tests.
        let mut command = std::process::Command::new("setsid");
        command.args(["--ctty", "--wait", "env", "--default-signal", "bash", "--norc", "--noprofile", "-i"]);
        command.env("FENCEPOST_SERVER", &server.url).env("FENCEPOST", env!("CARGO_BIN_EXE_fencepost"));
        command.env("PS1", PROMPT);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut output, seen) = (File::from(terminal.master.try_clone().unwrap()), screen.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keys: File::from(terminal.master), screen }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for words that come after what was seen before, and forgets up to there.
    fn shows(&self, words: &str) {
        await_that(&format!("{words:?} on {:?}", self.screen), || {
            let mut screen = self.screen.lock().unwrap();
            let Some(at) = screen.find(words) else { return false };
            screen.drain(..at + words.len());
            true
        });
    }

    /// Types a command when the shell is ready for it: what is typed earlier, while it changes the terminal's mode, may
    /// be lost.
    fn commands(&mut self, line: &str) {
        self.shows(PROMPT);
        self.types(line);
        self.types("\n");
    }

    /// Types a line until the command reads and repeats it, for the same reason.
    fn types_until_repeated(&mut self, word: &str) {
        let repeated = format!("{word}\r\n{word}\r\n");
        await_that(&repeated, || {
            self.types(&format!("{word}\n"));
            thread::sleep(Duration::from_millis(100));
            self.screen.lock().unwrap().contains(&repeated)
        });
        self.shows(&repeated);
    }

    /// Has the exit code said. The mark is put together by the shell, so that what is typed does not show it.
    fn asks_status(&mut self) {
        self.commands("echo \"status\"=$?.");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.keys.write_all(b"\x03\nexit\nexit\n");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PROMPT: &str = "at your service> ";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";

#[test]
fn the_command_reads_what_is_typed() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a -- sh -c 'echo \"rea\"dy; read x; echo \"got\"=$x; exit 6'");
    shell.shows("ready");
    shell.types("hello\n");
    shell.shows("got=hello");
    shell.asks_status();
    shell.shows("status=6.");
}

#[test]
fn control_c_reaches_the_command() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a -- sh -c 'echo \"rea\"dy; exec sleep 60'");
    shell.shows("ready");
    shell.types(CTRL_C);
    shell.asks_status();
    shell.shows("status=130.");
    assert!(server.is_free("a"));
}

#[test]
fn control_z_stops_the_job_and_fg_goes_on() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a --ttl 30s -- sh -c 'echo \"rea\"dy; cat; echo \"after\" cat'");
    shell.shows("ready");
    shell.types_until_repeated("one");
    shell.types(CTRL_Z);
    shell.shows("Stopped");
    // The shell has the terminal back.
    shell.commands("echo \"she\"ll");
    shell.shows("shell");
    shell.commands("fg");
    shell.types_until_repeated("two");
    shell.types(CTRL_D);
    shell.shows("after cat");
    shell.asks_status();
    shell.shows("status=0.");
}

/// While the job stands still nobody renews its lease: no process of it may go on alone.
#[test]
fn control_z_stops_also_who_does_not_heed_it() {
    let (server, marks) = (Server::start(), Marks::new());
    let mut shell = Shell::start(&server);
    let stubborn = format!(
        "(trap \"\" TSTP; echo child_pid=$(exec sh -c \"echo \\$PPID\") >> {}; while :; do sleep 0.1; done) &",
        marks.path()
    );
    shell.commands(&format!("\"$FENCEPOST\" run a --ttl 30s -- sh -c '{stubborn} echo \"rea\"dy; cat'"));
    shell.shows("ready");
    let child = marks.await_value("child_pid");
    let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
    shell.types_until_repeated("one");
    shell.types(CTRL_Z);
    shell.shows("Stopped");
    await_that("the child stands still", || state().contains(") T "));
    shell.commands("fg");
    await_that("the child goes on", || !state().contains(") T "));
    shell.types_until_repeated("two");
    shell.types(CTRL_D);
}

#[test]
fn a_job_that_was_stopped_past_its_lease_does_not_go_on() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a --ttl 5s -- sh -c 'echo \"rea\"dy; cat; echo \"after\" cat'");
    shell.shows("ready");
    // Not before its child runs: a shell that is stopped while it starts one hangs until that is continued.
    shell.types_until_repeated("one");
    shell.types(CTRL_Z);
    shell.shows("Stopped");
    await_that("the lease has expired", || server.is_free("a"));
    shell.commands("fg");
    shell.shows("killed the command");
    shell.asks_status();
    shell.shows("status=70.");
    assert!(!shell.screen.lock().unwrap().contains("after cat"));
}

#[test]
fn in_the_background_it_leaves_the_terminal_to_the_shell() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a --ttl 30s -- sh -c 'echo \"rea\"dy; read x; echo \"got\"=$x' &");
    // It wants to read, and stops until it is brought to the front.
    shell.commands("until jobs | grep 'Stopp'ed; do sleep 0.02; done");
    shell.shows("Stopped");
    shell.commands("fg");
    await_that("it reads", || {
        shell.types("hello\n");
        thread::sleep(Duration::from_millis(100));
        shell.screen.lock().unwrap().contains("got=hello")
    });
    shell.commands("echo \"sta\"tus");
    shell.shows("status");
}

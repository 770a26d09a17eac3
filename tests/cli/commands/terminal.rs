//! `run` in a shell on a terminal: the command can read, and Ctrl-C, Ctrl-Z and fg work as for any command.

use crate::{
    marks::Marks,
    screen::{CTRL_C, CTRL_D, CTRL_Z, Shell},
    support::{Server, await_that},
};
use std::{thread, time::Duration};

#[test]
fn the_command_reads_from_the_terminal() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a -- sh -c 'echo \"rea\"dy; read x; echo \"got\"=$x; exit 6'");
    shell.shows("ready");
    shell.types("hello\n");
    shell.shows("got=hello");
    shell.prints_status();
    shell.shows("status=6.");
}

#[test]
fn control_c_reaches_the_command() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a -- sh -c 'echo \"rea\"dy; exec sleep 60'");
    shell.shows("ready");
    shell.types(CTRL_C);
    shell.prints_status();
    shell.shows("status=130.");
    assert!(server.is_free("a"));
}

#[test]
fn control_z_stops_the_job_and_fg_continues_it() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a --ttl 30s -- sh -c 'echo \"rea\"dy; cat; echo \"after\" cat'");
    shell.shows("ready");
    shell.types_until_echoed("one");
    shell.types(CTRL_Z);
    shell.shows("Stopped");
    // The shell has the terminal again.
    shell.commands("echo \"she\"ll");
    shell.shows("shell");
    shell.commands("fg");
    shell.types_until_echoed("two");
    shell.types(CTRL_D);
    shell.shows("after cat");
    shell.prints_status();
    shell.shows("status=0.");
}

/// While the job is stopped, nobody renews its lease: no process of it may continue.
#[test]
fn control_z_also_stops_processes_that_ignore_it_or_left_the_group() {
    // An ignored signal stays ignored across exec. A shell that starts children in a loop will not do: dash uses vfork,
    // and a parent whose child is stopped before its exec waits in state D, not T.
    for start in ["trap \"\" TSTP; exec sh", "exec setsid sh"] {
        let (server, marks) = (Server::start(), Marks::new());
        let mut shell = Shell::start(&server);
        let stubborn = format!("({start} -c \"echo child_pid=\\$\\$ >> {}; exec sleep 60\") &", marks.path());
        shell.commands(&format!("\"$FENCEPOST\" run a --ttl 30s -- sh -c '{stubborn} echo \"rea\"dy; cat'"));
        shell.shows("ready");
        let child = marks.await_value("child_pid");
        let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        shell.types_until_echoed("one");
        shell.types(CTRL_Z);
        shell.shows("Stopped");
        await_that("the child is stopped", || state().contains(") T "));
        shell.commands("fg");
        await_that("the child continues", || !state().contains(") T "));
        shell.types_until_echoed("two");
        shell.types(CTRL_D);
    }
}

#[test]
fn a_job_stopped_beyond_its_lease_does_not_continue() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a --ttl 5s -- sh -c 'echo \"rea\"dy; cat; echo \"after\" cat'");
    shell.shows("ready");
    // Wait until its child runs: a shell that is stopped while it starts a child hangs until the child continues.
    shell.types_until_echoed("one");
    shell.types(CTRL_Z);
    shell.shows("Stopped");
    await_that("the lease has expired", || server.is_free("a"));
    shell.commands("fg");
    shell.shows("killed the command");
    shell.prints_status();
    shell.shows("status=70.");
    assert!(!shell.screen().contains("after cat"));
}

#[test]
fn in_the_background_it_leaves_the_terminal_to_the_shell() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.commands("\"$FENCEPOST\" run a --ttl 30s -- sh -c 'echo \"rea\"dy; read x; echo \"got\"=$x' &");
    // The command tries to read, and is stopped until it is in the foreground.
    shell.commands("until jobs | grep 'Stopp'ed; do sleep 0.02; done");
    shell.shows("Stopped");
    shell.commands("fg");
    await_that("the command reads", || {
        shell.types("hello\n");
        thread::sleep(Duration::from_millis(100));
        shell.screen().contains("got=hello")
    });
    shell.commands("echo \"sta\"tus");
    shell.shows("status");
}

//! An interactive shell on a terminal of its own, as a person has it.

use crate::support::{Server, await_some, await_that};
use nix::pty::{Winsize, openpty};
use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// An interactive shell on its own terminal.
pub(crate) struct Shell {
    child: Child,
    keys: File,
    screen: Arc<Mutex<String>>,
}

impl Shell {
    /// A shell whose commands call this server.
    pub(crate) fn start(server: &Server) -> Self {
        Self::start_in(server, None, &[])
    }

    /// The same on a terminal of this width, with these variables.
    pub(crate) fn start_in(server: &Server, columns: Option<u16>, env: &[(&str, &str)]) -> Self {
        let size = columns.map(|ws_col| Winsize { ws_row: 24, ws_col, ws_xpixel: 0, ws_ypixel: 0 });
        let terminal = openpty(size.as_ref(), None).unwrap();
        let end = || Stdio::from(terminal.slave.try_clone().unwrap());
        // setsid makes the terminal the controlling one, as a login does. The shell must not inherit ignored signals
        // from the runner of the tests.
        let mut command = std::process::Command::new("setsid");
        command.args(["--ctty", "--wait", "env", "--default-signal", "bash", "--norc", "--noprofile", "-i"]);
        command.env("FENCEPOST_SERVER", &server.url).env("FENCEPOST", env!("CARGO_BIN_EXE_fencepost"));
        command.env("PS1", PROMPT).env_remove("NO_COLOR").envs(env.iter().copied());
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

    pub(crate) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// What the terminal got and no test has waited for yet.
    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits for a text on the screen, and drops the screen up to its end. Returns what was before it.
    pub(crate) fn shows(&self, text: &str) -> String {
        await_some(&format!("{text:?} on {:?}", self.screen), || {
            let mut screen = self.screen.lock().unwrap();
            let at = screen.find(text)?;
            let before = screen[..at].to_owned();
            screen.drain(..at + text.len());
            Some(before)
        })
    }

    /// Types a command after the prompt. Earlier input may be lost, because the shell changes the terminal's mode.
    pub(crate) fn commands(&mut self, line: &str) {
        self.shows(PROMPT);
        self.types(line);
        self.types("\n");
    }

    /// Types a line until the command echoes it, for the same reason.
    pub(crate) fn types_until_echoed(&mut self, word: &str) {
        let echoed = format!("{word}\r\n{word}\r\n");
        await_that(&echoed, || {
            self.types(&format!("{word}\n"));
            thread::sleep(Duration::from_millis(100));
            self.screen.lock().unwrap().contains(&echoed)
        });
        self.shows(&echoed);
    }

    /// Prints the exit code. The quotes keep the typed command from matching the expected output.
    pub(crate) fn prints_status(&mut self) {
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
pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const CTRL_Z: &str = "\x1a";

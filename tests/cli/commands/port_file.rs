//! `serve --port-file`: how a program that starts a server learns its address.

use crate::support::{Process, Server, await_some, fencepost};
use nix::sys::signal::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A folder for port files and sockets.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn serve(listen: &str, file: &Path) -> Process {
    let flags = ["serve", "--listen", listen, "--log-level", "warn", "--port-file", file.to_str().unwrap()];
    Process::start(&mut fencepost(&flags))
}

/// The first text of the file.
fn addresses(file: &Path) -> String {
    await_some("the port file", || fs::read_to_string(file).ok())
}

/// Asserts that a server answers at this address.
fn assert_answers(address: &str) {
    Process::start(&mut fencepost(&["ls", "--server", address])).ended().expect(0);
}

#[test]
fn the_port_file_has_the_address_and_is_removed_at_the_end() {
    let folder = Folder::new();
    let server = serve("127.0.0.1:0", &folder.path("port"));
    let text = addresses(&folder.path("port"));
    let port = text.strip_prefix("127.0.0.1:").and_then(|rest| rest.strip_suffix('\n')).unwrap();
    assert_ne!(port.parse::<u16>().unwrap(), 0, "the first text that a reader finds is complete");
    assert_eq!(folder.files(), ["port"], "no temporary file is left");
    assert_answers(text.trim_end());
    server.signal(Signal::SIGTERM);
    server.ended().expect(0);
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn each_address_of_a_name_has_a_line() {
    let folder = Folder::new();
    let server = Server::start_at("localhost:0", &["--port-file", folder.path("port").to_str().unwrap()], &[]);
    let text = addresses(&folder.path("port"));
    for address in text.lines() {
        assert!(server.log().contains(&format!("\"addr\":\"{address}\"")), "{address}");
        assert_answers(address);
    }
    assert_eq!(text.lines().count(), server.log().matches("\"listening\"").count());
}

#[test]
fn the_port_file_has_the_path_of_a_unix_socket() {
    let folder = Folder::new();
    let listen = format!("unix:{}", folder.path("socket").display());
    let server = serve(&listen, &folder.path("port"));
    assert_eq!(addresses(&folder.path("port")), format!("{listen}\n"));
    assert_answers(&listen);
    server.signal(Signal::SIGTERM);
    server.ended().expect(0);
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn a_server_replaces_what_a_killed_one_left() {
    let folder = Folder::new();
    let file = folder.path("port");
    let killed = serve("127.0.0.1:0", &file);
    let old = addresses(&file);
    killed.signal(Signal::SIGKILL);
    killed.ended();
    assert_eq!(addresses(&file), old, "nobody removed it");
    let _server = serve("127.0.0.1:0", &file);
    // The kernel may give the same port again, but the server answers.
    let new = await_some("the new file", || {
        let text = fs::read_to_string(&file).ok()?;
        Process::start(&mut fencepost(&["ls", "--server", text.trim_end()])).ended().code.eq(&0).then_some(text)
    });
    assert_eq!(new.lines().count(), 1);
}

#[test]
fn a_server_that_cannot_listen_leaves_no_address_of_an_earlier_one() {
    let (folder, server) = (Folder::new(), Server::start());
    let file = folder.path("port");
    fs::write(&file, "127.0.0.1:1\n").unwrap();
    serve(server.url.trim_start_matches("http://"), &file).ended().expect(1).says("cannot listen on");
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn a_server_that_cannot_listen_leaves_the_file_of_a_running_one() {
    let folder = Folder::new();
    let file = folder.path("port");
    let _running = serve("127.0.0.1:0", &file);
    let text = addresses(&file);
    serve(text.trim_end(), &file).ended().expect(1).says("cannot listen on");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_server_leaves_the_file_of_its_successor() {
    let folder = Folder::new();
    let file = folder.path("port");
    let first = serve("127.0.0.1:0", &file);
    let old = addresses(&file);
    let second = serve("127.0.0.1:0", &file);
    let new = await_some("the file of the second", || fs::read_to_string(&file).ok().filter(|text| *text != old));
    first.signal(Signal::SIGTERM);
    first.ended().expect(0);
    assert_eq!(addresses(&file), new);
    second.signal(Signal::SIGTERM);
    second.ended().expect(0);
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn a_port_file_that_cannot_be_written_ends_the_server() {
    let folder = Folder::new();
    let refused = serve("127.0.0.1:0", &folder.path("missing/port")).ended().expect(74);
    refused.says("cannot write the port file").says("missing/port").says("make its folder first");
    // A rename would replace a device such as /dev/stdout.
    for odd in [folder.0.path(), Path::new("/dev/null")] {
        serve("127.0.0.1:0", odd).ended().expect(74).says("is not a regular file").says("--port-file");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let below = file.path().join("port");
    serve("127.0.0.1:0", &below).ended().expect(74).says("choose another path with --port-file");
}

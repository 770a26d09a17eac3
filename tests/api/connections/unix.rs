//! `--listen unix:/path`.

use crate::{
    binary::{Process, Server, await_that, fencepost},
    support::{Lock, acquire_request, until},
};
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use nix::sys::signal::Signal;
use std::{
    fs,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    process::Stdio,
    time::Duration,
};
use tonic::transport::{Channel, Endpoint};

fn listen(path: &Path) -> String {
    format!("unix:{}", path.display())
}

fn serve(path: &Path) -> Process {
    Process::start(&mut fencepost(&["serve", "--listen", &listen(path)]))
}

fn client(path: &Path) -> LockServiceClient<Channel> {
    LockServiceClient::new(Endpoint::from_shared(listen(path)).unwrap().connect_lazy())
}

#[tokio::test]
async fn a_unix_socket_serves_its_user_only_and_is_removed_at_exit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fencepost.sock");
    let server = Server::start_at(&listen(&path), &["--log-level", "debug"], &[]);
    let file = fs::symlink_metadata(&path).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let mut client = client(&path);
    let lease = client.acquire_lease(acquire_request("a", Duration::from_secs(30))).await;
    client.release_lease(&lease).await;
    until(async || server.log().contains("\"peer\":\"unix\"")).await;
    server.process.signal(Signal::SIGTERM);
    server.process.ended().expect(0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_socket_of_a_killed_server_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fencepost.sock");
    let server = Server::start_at(&listen(&path), &[], &[]);
    server.process.signal(Signal::SIGKILL);
    server.process.ended();
    assert!(path.exists());
    let _server = Server::start_at(&listen(&path), &[], &[]);
    client(&path).lock_info("a").await;
}

#[tokio::test]
async fn the_socket_of_a_live_process_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fencepost.sock");
    let _server = Server::start_at(&listen(&path), &[], &[]);
    serve(&path).ended().expect(1).says("another process listens on this socket").says("--listen unix:");
    client(&path).lock_info("a").await;
    // Also one that does not accept, and has a full backlog.
    let path = folder.path().join("other.sock");
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(0).unwrap();
    let _waiting = UnixStream::connect(&path).unwrap();
    serve(&path).ended().expect(1).says("another process listens on this socket");
}

#[test]
fn files_that_are_no_sockets_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::write(&path, "precious").unwrap();
    serve(&path).ended().expect(1).says("the file exists and is not a socket");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).unwrap();
    serve(&link).ended().expect(1).says("not a socket");
}

#[test]
fn a_path_that_cannot_be_used_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    serve(&folder.path().join("missing/a.sock")).ended().expect(1).says("make the folder first");
    serve(&folder.path().join("a".repeat(108))).ended().expect(1).says("cannot listen on unix:").says("--listen unix:");
}

#[test]
fn of_servers_that_start_at_once_one_serves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fencepost.sock");
    drop(UnixListener::bind(&path).unwrap());
    let start = || fencepost(&["serve", "--listen", &listen(&path)]).stderr(Stdio::null()).spawn().unwrap();
    let mut running: Vec<_> = (0..4).map(|_| start()).collect();
    await_that("all but one give up", || {
        running.retain_mut(|child| child.try_wait().unwrap().is_none());
        running.len() <= 1
    });
    await_that("the last one serves", || UnixStream::connect(&path).is_ok());
    let mut last = running.pop().unwrap();
    assert!(last.try_wait().unwrap().is_none());
    last.kill().unwrap();
    last.wait().unwrap();
}

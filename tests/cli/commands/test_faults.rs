//! `serve --test-faults`: leases and replies are lost on demand.

use crate::support::{Process, Server, await_some, fencepost};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
};

/// A server, and the address of its port for faults.
fn server() -> (Server, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("port");
    let server = Server::start_with(&["--test-faults", "127.0.0.1:0", "--port-file", file.to_str().unwrap()]);
    let lines = await_some("the port file", || fs::read_to_string(&file).ok());
    (server, lines.lines().last().unwrap().to_owned())
}

/// The status and the body of the reply to an order.
fn order(address: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
        .and_then(|()| stream.write_all(body.as_bytes()))
        .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
    (status, reply.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn a_lost_lease_ends_its_command() {
    let (server, faults) = server();
    assert_eq!(order(&faults, "/lose", "orders/42"), (404, "nobody holds lock \"orders/42\"\n".to_owned()));
    assert_eq!(order(&faults, "/lose", "a\nb").0, 400);
    let holder = Process::start(&mut fencepost(&["hold", "orders/42", "--server", &server.url]));
    holder.line();
    assert_eq!(order(&faults, "/lose", "orders/42").0, 204);
    holder.ended().expect(70);
}

#[test]
fn a_lost_reply_is_asked_for_again() {
    let (server, faults) = server();
    let acquire = || {
        let acquired = server.run(&["acquire", "orders/42", "--json"]).expect(0).json();
        let field = |name: &str| acquired["lease"][name].as_str().unwrap().to_owned();
        (field("fencingToken").parse::<u64>().unwrap(), field("leaseId"))
    };
    let drop_reply = || assert_eq!(order(&faults, "/drop-reply", "").0, 204);
    let (token, lease) = acquire();
    // A read loses nothing.
    drop_reply();
    server.run(&["get", "orders/42"]).expect(0);
    server.run(&["release", "orders/42", "--lease-id", &lease]).expect(0);
    drop_reply();
    let (next, lease) = acquire();
    assert_eq!(next, token + 1, "one grant, of which the client learned when it asked again");
    server.run(&["release", "orders/42", "--lease-id", &lease]).expect(0);
}

#[test]
fn it_is_refused_beside_a_real_store_and_where_others_reach_it() {
    let refused = |flags: &[&str]| {
        Process::start(&mut fencepost(&[&["serve", "--listen", "127.0.0.1:0"], flags].concat())).ended().expect(78)
    };
    refused(&["--test-faults", "127.0.0.1:0", "--store", "redis://127.0.0.1:1"]).says("--store memory:");
    refused(&["--test-faults", "0.0.0.0:0"]).says("choose 127.0.0.1");
}

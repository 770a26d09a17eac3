//! The port itself: its address, its bounds, and what it answers to strangers.

use crate::{
    binary::{Process, Server, await_that, fencepost},
    http::{connect, get, read_to_end, send},
    start,
};
use std::io::Write;

#[test]
fn the_first_page_says_what_this_server_is() {
    let (server, address) = start(&[]);
    await_that("readiness", || get(&address, "/readyz").status == 200);
    let page = get(&address, "/");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-type: text/plain; charset=utf-8"), "{page:?}");
    let version = format!("version   {}", env!("CARGO_PKG_VERSION"));
    for part in [version.as_str(), "store     memory", "profile   ", "uptime    ", "state     ready", "/metrics"] {
        assert!(page.body.contains(part), "{part:?} is not in {page:?}");
    }
    drop(server);
}

#[test]
fn the_password_of_the_store_is_on_no_page() {
    let (server, address) = start(&["--store", "redis://user:hidden@127.0.0.1:1/7"]);
    for path in ["/", "/readyz", "/metrics"] {
        let page = get(&address, path);
        assert!(!page.body.contains("hidden") && !page.body.contains("user"), "{page:?}");
    }
    assert!(get(&address, "/").body.contains("store     redis"));
    drop(server);
}

#[test]
fn other_pages_and_methods_are_refused() {
    let (server, address) = start(&[]);
    let missing = get(&address, "/metric");
    assert_eq!(missing.status, 404);
    assert!(missing.body.contains("/metrics"), "{missing:?}");
    let post = format!("POST /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(send(&address, &post).status, 405);
    drop(server);
}

/// A web page can post to a loopback address, and the body of a Drain is five zeros.
#[test]
fn a_web_page_cannot_call_the_admin_service() {
    let (server, address) = start(&[]);
    let head = "Content-Type: text/plain\r\nConnection: close\r\nContent-Length: 5";
    let drain =
        format!("POST /fencepost.v1.AdminService/Drain HTTP/1.1\r\nHost: {address}\r\n{head}\r\n\r\n\0\0\0\0\0");
    assert_eq!(send(&address, &drain).status, 404);
    await_that("readiness", || get(&address, "/readyz").status == 200);
    drop(server);
}

/// A web page of a stranger, whose name resolves to 127.0.0.1 after a while.
#[test]
fn on_loopback_requests_for_the_names_of_strangers_are_refused() {
    let ask = |address: &str, path: &str, host: &str| {
        send(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    let (server, address) = start(&[]);
    let port = address.rsplit(':').next().unwrap();
    for path in ["/", "/metrics", "/livez", "/readyz", "/none"] {
        let refused = ask(&address, path, &format!("evil.example:{port}"));
        assert_eq!(refused.status, 421);
        assert!(refused.body.contains("localhost") && refused.body.contains("--admin-listen"), "{refused:?}");
        assert_ne!(ask(&address, path, &format!("localhost:{port}")).status, 421);
        // A probe of Kubernetes sends the address of the pod.
        assert_ne!(ask(&address, path, &format!("10.0.0.7:{port}")).status, 421);
    }
    assert_eq!(send(&address, "GET /livez HTTP/1.0\r\n\r\n").status, 200, "no browser sends no host");
    drop(server);
    // Scrapers use the names of the machine.
    let server = Server::start_with(&["--admin-listen", "0.0.0.0:0", "--plaintext"]);
    let address = server.admin_address().replace("0.0.0.0", "127.0.0.1");
    assert_eq!(ask(&address, "/metrics", "fencepost-1:7429").status, 200);
}

#[test]
fn a_port_in_use_is_reported_with_its_option() {
    let (server, address) = start(&[]);
    let second = fencepost(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", &address]);
    let refused = Process::start(&mut { second }).ended().expect(1);
    refused.says(&format!("cannot listen on {address}")).says("--admin-listen");
    drop(server);
}

#[test]
fn none_opens_no_port() {
    let server = Server::start_with(&["--admin-listen", "none"]);
    assert!(!server.log().contains("admin port"), "{}", server.log());
}

#[test]
fn by_default_the_port_is_on_loopback() {
    let mut command = fencepost(&["serve", "--print-config"]);
    let printed = Process::start(command.env_remove("FENCEPOST_ADMIN_LISTEN")).ended().expect(0);
    assert!(printed.out.contains("\nadmin_listen = \"127.0.0.1:7429\"\n"), "{printed:?}");
}

#[test]
fn an_address_that_others_can_reach_has_to_be_asked_for() {
    let flags = ["--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"];
    let refused = Process::start(&mut fencepost(&[&["serve"], &flags[..]].concat())).ended().expect(78);
    refused.says("admin_listen").says("--plaintext");
    let server = Server::start_with(&["--admin-listen", "0.0.0.0:0", "--plaintext"]);
    assert!(server.admin_address().starts_with("0.0.0.0:"), "{}", server.log());
}

#[test]
fn a_connection_serves_several_requests() {
    let (server, address) = start(&[]);
    let mut stream = connect(&address);
    let request = format!("GET /livez HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let last = format!("GET /livez HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all((request.repeat(2) + &last).as_bytes()).unwrap();
    let text = String::from_utf8(read_to_end(&stream)).unwrap();
    assert_eq!(text.matches("200 OK").count(), 3, "{text}");
    drop(server);
}

/// The most open connections of the port.
const CONNECTIONS_MAX: usize = 64;

/// What a bound has refused.
fn refused(address: &str, bound: &str) -> u32 {
    let page = get(address, "/metrics").body;
    let sample = format!("fencepost_refusals_total{{bound=\"{bound}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&sample)).unwrap().parse().unwrap()
}

fn assert_probes_answer(address: &str) {
    for path in ["/livez", "/readyz"] {
        assert_eq!(get(address, path).status, 200);
    }
    assert!(refused(address, "admin_connections") >= 1);
}

/// Connections that send nothing, and two whose first request never ends.
#[test]
fn silent_connections_delay_no_probe_and_are_closed() {
    let (server, address) = start(&[]);
    let silent: Vec<_> = (0..CONNECTIONS_MAX).map(|_| connect(&address)).collect();
    (&silent[62]).write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    (&silent[63]).write_all(b"PRI * HT").unwrap();
    assert_probes_answer(&address);
    await_that("the log names the bound", || server.log().contains("\"bound\":\"admin_connections\""));
    for stream in &silent {
        assert_eq!(read_to_end(stream), b"");
    }
    await_that("they are counted", || refused(&address, "admin_request_time") >= 32);
}

/// Connections on which a request was answered, and that stay open.
#[test]
fn idle_connections_delay_no_probe() {
    let (server, address) = start(&[]);
    let idle: Vec<_> = (0..CONNECTIONS_MAX).map(|_| connect(&address)).collect();
    for mut stream in &idle {
        stream.write_all(format!("GET /livez HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    }
    assert_probes_answer(&address);
    drop((server, idle));
}

#[test]
fn a_client_that_does_not_read_is_cut() {
    let (server, address) = start(&[]);
    let mut unread = connect(&address);
    // Their answers are more than the kernel takes for a client that does not read.
    let asked = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").repeat(1_000);
    unread.write_all(asked.as_bytes()).unwrap();
    await_that("it is cut", || refused(&address, "admin_unread") == 1);
    drop((server, unread));
}

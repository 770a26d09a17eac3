//! Forms of addresses: of servers to call, of ports that are not gRPC, and to listen on.

use crate::{
    redis::Redis,
    screen::Shell,
    support::{Ended, Process, Server, fencepost},
};
use std::{
    io::{Read, Write},
    net::{Ipv6Addr, TcpListener, TcpStream},
    path::Path,
    thread,
};

/// Commands that call a server: reads, writes, and those that could wait for long.
pub(crate) const CALLS: [&[&str]; 7] = [
    &["get", "a"],
    &["ls"],
    &["watch"],
    &["drain", "--yes"],
    &["acquire", "a"],
    &["acquire", "a", "--wait", "1h"],
    &["run", "a", "--wait", "1h", "--", "true"],
];

fn run(arguments: &[&str]) -> Ended {
    Process::start(&mut fencepost(arguments)).ended()
}

/// The address of a server, as `host:port`.
fn address(server: &Server) -> &str {
    server.url.trim_start_matches("http://")
}

#[test]
fn addresses_with_and_without_http_are_accepted() {
    let server = Server::start();
    let (host_and_port, port) = (address(&server), address(&server).rsplit(':').next().unwrap());
    let by_name = format!("localhost:{port}");
    // Nothing listens on port 1.
    let second = format!("127.0.0.1:1,{host_and_port}");
    for named in [host_and_port, &server.url, &by_name, &format!("http://{by_name}/"), &second] {
        let taken = run(&["acquire", "a", "--server", named]).expect(0);
        run(&["release", "a", "--lease-id", taken.field("lease id"), "--server", named]).expect(0);
        run(&["run", "a", "--server", named, "--", "true"]).expect(0);
        let mut by_variable = fencepost(&["get", "a"]);
        Process::start(by_variable.env("FENCEPOST_SERVER", named)).ended().expect(0);
    }
}

#[test]
fn no_web_proxy_is_asked() {
    let server = Server::start();
    let by_name = format!("localhost:{}", address(&server).rsplit(':').next().unwrap());
    for named in [address(&server), &by_name] {
        let mut acquire = fencepost(&["run", "a", "--server", named, "--", "true"]);
        for scheme in ["http", "https", "grpc", "all"] {
            // Nothing listens on port 1.
            acquire.env(format!("{scheme}_proxy"), "http://127.0.0.1:1");
            acquire.env(format!("{}_PROXY", scheme.to_uppercase()), "http://127.0.0.1:1");
        }
        acquire.env_remove("no_proxy").env_remove("NO_PROXY");
        Process::start(&mut acquire).ended().expect(0);
    }
}

#[test]
fn an_invalid_address_is_explained() {
    for (named, why) in [
        ("not a server", "invalid server address \"not a server\": the host must be an IP address, or a name"),
        ("https://localhost:7420/locks", "nothing may follow host:port"),
        ("unix:fencepost.sock", "a Unix socket needs an absolute path"),
        ("::1:7420", "an IPv6 address needs brackets"),
        ("localhost:port", "the port must be a number from 1 to 65535"),
    ] {
        run(&["get", "a", "--server", named]).expect(64).says(why).says("FENCEPOST_SERVER");
        run(&["run", "a", "--server", named, "--", "true"]).expect(64).says(why);
    }
}

/// A server that is not gRPC. On each connection it answers the first request and keeps the connection open; with
/// `None` it closes the connection at once.
fn other_server(answer: Option<&'static [u8]>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let Some(answer) = answer else { return };
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(answer);
                while matches!(stream.read(&mut request), Ok(1..)) {}
            });
        }
    });
    address
}

#[test]
fn a_port_that_is_not_grpc_is_reported() {
    let redis = Redis::start(&[]);
    let at_redis = format!("127.0.0.1:{}", redis.port);
    for (named, why) in [
        (at_redis, "it sent \"-ERR unknown command"),
        (other_server(Some(b"HTTP/1.1 400 Bad Request\r\n\r\n")), "it sent \"HTTP/1.1 400 Bad Request\""),
        (other_server(Some(b"")), "or hangs (it accepted the connection and sent nothing"),
        (other_server(None), "it closed the connection and sent nothing"),
    ] {
        let start = |words: &[&str]| Process::start(fencepost(words).env("FENCEPOST_SERVER", &named));
        // All at once, because each retries for a few seconds. `ended` waits with a bound.
        for process in CALLS.map(start) {
            let ended = process.ended().expect(69);
            ended.says(&format!("fencepost: {named} does not speak gRPC")).says(why).says("FENCEPOST_SERVER");
        }
    }
}

/// At once, even by commands that could wait for long: `ended` waits with a bound.
#[test]
fn the_admin_port_is_reported() {
    let server = Server::start_with(&["--admin-listen", "127.0.0.1:0"]);
    let admin = server.admin_address();
    for words in [&["get", "a"][..], &["acquire", "a"], &["acquire", "a", "--wait", "1h"], &["hold", "a"]] {
        let ended = Process::start(fencepost(words).env("FENCEPOST_SERVER", &admin)).ended().expect(69);
        ended.says(&format!("{admin} does not implement this call")).says("admin port");
    }
}

/// The addresses that a server listens on, from its log.
fn listening(server: &Server) -> Vec<String> {
    let lines = server.log();
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let listening = lines.filter(|line| line["message"] == "listening");
    listening.map(|line| line["addr"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_server_listens_on_all_addresses() {
    let server = Server::start_at(":0", &["--plaintext"], &[]);
    let addresses = listening(&server);
    let [addr] = addresses.as_slice() else { panic!("{addresses:?}") };
    let port = addr.rsplit(':').next().unwrap();
    // The address in the log works for clients, with and without IPv6.
    run(&["get", "a", "--server", addr]).expect(0);
    run(&["get", "a", "--server", &format!("127.0.0.1:{port}")]).expect(0);
    let ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    assert_eq!(TcpStream::connect((Ipv6Addr::LOCALHOST, port.parse().unwrap())).is_ok(), ipv6);
    if ipv6 {
        run(&["get", "a", "--server", &format!("[::1]:{port}")]).expect(0);
    }
}

#[test]
fn a_server_listens_on_the_addresses_of_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fencepost.toml");
    std::fs::write(&file, "listen = 'localhost:0'\nttl_min = '100ms'\n").unwrap();
    let servers = [
        Server::start_at("localhost:0", &[], &[]),
        Server::start_bare(&[], &[("FENCEPOST_LISTEN", Path::new("localhost:0"))]),
        Server::start_bare(&[], &[("FENCEPOST_CONFIG", &file)]),
    ];
    for server in servers {
        for addr in listening(&server) {
            assert!(addr.starts_with("127.") || addr.starts_with("[::1]:"), "{addr}");
            run(&["get", "a", "--server", &addr]).expect(0);
            let port = addr.rsplit(':').next().unwrap();
            run(&["get", "a", "--server", &format!("localhost:{port}")]).expect(0);
        }
    }
    run(&["serve", "--listen", "no-such-host.invalid:7420"])
        .expect(1)
        .says("cannot listen on no-such-host.invalid:7420");
    let printed = run(&["serve", "--print-config", "--listen", ":7420"]).expect(0);
    assert!(printed.out.contains("\nlisten = \":7420\"\n"), "{printed:?}");
}

#[test]
fn a_server_that_the_command_line_does_not_name_is_not_drained_by_accident() {
    let (first, second) = (Server::start(), Server::start());
    run(&["drain"]).expect(64).says("--yes").says("--server").says("127.0.0.1:7420");
    let list = format!("{},{}", address(&first), address(&second));
    let drain = |flags: &[&str]| {
        let mut command = fencepost(&[&["drain"], flags].concat());
        Process::start(command.env("FENCEPOST_SERVER", &list)).ended()
    };
    // The value of an unset variable.
    for empty in ["", " ", ",", "127.0.0.1:1,"] {
        drain(&["--server", empty]).expect(2).says("--server").says("must not be empty");
        drain(&["--yes", "--server", empty]).expect(2);
    }
    let refused = drain(&[]).expect(64).says(address(&first)).says("--yes");
    assert!(!refused.err.contains(address(&second)), "{refused:?}");
    first.run(&["status"]).expect(0);
    drain(&["--yes"]).expect(0);
    first.process.ended().expect(0);
    // Only the first one is meant, also when it does not answer.
    drain(&["--yes"]).expect(69);
    second.run(&["status"]).expect(0);
    run(&["drain", "--server", address(&second)]).expect(0);
    second.process.ended().expect(0);
}

#[test]
fn on_a_terminal_drain_asks_and_names_the_server() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    for (answer, status) in [("", 64), ("no", 64), ("y", 0)] {
        shell.commands("\"$FENCEPOST\" drain");
        shell.shows(&format!("drain ends the server at {}: drain it? [y/N] ", server.url));
        shell.types(&format!("{answer}\n"));
        shell.prints_status();
        shell.shows(&format!("status={status}."));
    }
    server.process.ended().expect(0);
}

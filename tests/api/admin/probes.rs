//! `/livez`, `/readyz` and `fencepost health`: with and without the store, and while the server drains.

use crate::{
    binary::{Ended, Process, Server, await_that, fencepost},
    http::get,
    redis_server::Redis,
    start,
};
use nix::sys::signal::Signal;

/// `fencepost health` on this address.
fn health(address: &str, flags: &[&str]) -> Ended {
    Process::start(&mut fencepost(&[&["health", "--admin-listen", address], flags].concat())).ended()
}

/// Waits until a gauge has this value: the server sets it after the state that it shows.
fn await_gauge(address: &str, name: &str, value: &str) {
    await_that(&format!("{name} {value}"), || {
        let text = get(address, "/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name} is not in {text}")) == value
    });
}

#[test]
fn a_server_in_memory_is_ready() {
    let (server, address) = start(&[]);
    let (live, ready) = (get(&address, "/livez"), get(&address, "/readyz"));
    assert_eq!((live.status, live.body.as_str()), (200, "ok\n"));
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    assert_eq!(health(&address, &[]).expect(0).out, "ready\n");
    assert_eq!(health(&address, &["--live"]).expect(0).out, "ok\n");
    await_gauge(&address, "fencepost_store_up", "1");
    await_gauge(&address, "fencepost_draining", "0");
    drop(server);
}

#[test]
fn a_server_is_ready_while_its_redis_is_there() {
    let port = Redis::free_port();
    let (server, address) = start(&["--store", &format!("redis://127.0.0.1:{port}")]);
    let ready = || get(&address, "/readyz");
    let first = ready();
    assert_eq!(first.status, 503);
    assert!(first.body.starts_with("starting: "), "{first:?}");
    health(&address, &[]).expect(1).says("not ready: starting: ");
    health(&address, &["--live"]).expect(0);

    let mut redis = Redis::start_at(port, &[]);
    await_that("readiness", || ready().status == 200);
    await_gauge(&address, "fencepost_store_up", "1");
    server.run(&["acquire", "a"]).expect(0);

    redis.kill();
    await_that("no readiness", || ready().status == 503);
    assert!(ready().body.starts_with("store down: "), "{:?}", ready());
    await_gauge(&address, "fencepost_store_up", "0");
    assert_eq!(get(&address, "/livez").status, 200);
    health(&address, &[]).expect(1).says("not ready: store down: ");

    redis.restart(false);
    await_that("readiness", || ready().status == 200);
    health(&address, &[]).expect(0);
}

#[test]
fn the_admin_port_stays_open_during_the_drain() {
    let (server, address) = start(&["--drain-timeout", "5m"]);
    // An open stream delays the end of the drain.
    let held = server.spawn(&["run", "a", "--ttl", "2s", "--", "sh", "-c", "echo running; exec sleep 60"]);
    assert_eq!(held.line(), "running");
    server.process.signal(Signal::SIGTERM);
    await_that("the drain", || get(&address, "/readyz").status == 503);
    assert!(get(&address, "/readyz").body.starts_with("draining: "));
    assert_eq!(get(&address, "/livez").status, 200);
    await_gauge(&address, "fencepost_draining", "1");
    health(&address, &[]).expect(1).says("not ready: draining");
    held.signal(Signal::SIGTERM);
    held.ended();
    server.process.ended().expect(0);
    health(&address, &[]).expect(69).says("no answer from the admin port");
}

#[test]
fn health_without_an_answer_says_why() {
    let address = format!("127.0.0.1:{}", Redis::free_port());
    health(&address, &[]).expect(69).says("refused").says("--admin-listen");
    health("none", &[]).expect(64).says("none");
    health("127.0.0.1:0", &[]).expect(64).says("port 0");
    // The port of the API is for gRPC only.
    let server = Server::start();
    health(server.url.trim_start_matches("http://"), &[]).expect(69).says("is this the admin port");
}

#[test]
fn health_takes_the_address_from_the_variable_of_the_server() {
    let (server, address) = start(&[]);
    let port = address.rsplit_once(':').unwrap().1;
    for host in ["", "0.0.0.0", "localhost"] {
        let mut command = fencepost(&["health"]);
        Process::start(command.env("FENCEPOST_ADMIN_LISTEN", format!("{host}:{port}"))).ended().expect(0);
    }
    drop(server);
}

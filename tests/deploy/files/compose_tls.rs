//! The service of `tls.yaml` with its certificates: a server with its variables, and a Redis with its arguments.

use crate::{
    binary::{Process, Server, await_that, fencepost},
    redis_server::Redis,
    tools::{ROOT, passes, read},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Where compose mounts the certificates in the server, and in Redis.
const MOUNTED: [&str; 2] = ["/etc/fencepost/tls", "/tls"];

/// The FENCEPOST_ variables of the file, with other certificates and another Redis.
fn variables(folder: &Path, redis_port: u16) -> Vec<(String, PathBuf)> {
    let text = read("deploy/compose/tls.yaml");
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("FENCEPOST_"));
    let found: Vec<_> = lines
        .map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            let value = value.trim_matches('"').replace(MOUNTED[0], folder.to_str().unwrap());
            let value = value.replace("redis:6379", &format!("localhost:{redis_port}"));
            (name.to_owned(), PathBuf::from(value))
        })
        .collect();
    assert!(found.len() > 5, "{found:?}");
    found
}

/// The arguments of the Redis of the file that concern TLS.
fn redis_arguments(folder: &Path) -> Vec<String> {
    let text = read("deploy/compose/tls.yaml");
    let command = text.split_once("redis-server --port 0").unwrap().1.split_once("--appendonly").unwrap().0;
    let folder = folder.to_str().unwrap();
    let words = command.split_whitespace().map(|word| match word.strip_prefix(MOUNTED[1]) {
        Some(file) => format!("{folder}{file}"),
        None => word.to_owned(),
    });
    words.collect()
}

fn acquire(address: &str, folder: &Path, with_certificate: bool) -> Process {
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let mut command = fencepost(&["acquire", "a", "--ttl", "1m", "--server", address, "--ca", &file("ca.crt")]);
    if with_certificate {
        command.args(["--cert", &file("client.crt"), "--key", &file("client.key")]);
    }
    Process::start(&mut command)
}

#[test]
fn a_server_with_the_variables_of_compose_serves_clients_that_have_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    passes(Command::new("env").args(["bash", "deploy/compose/certificates"]).arg(folder.path()).current_dir(ROOT));
    let port = Redis::free_port();
    let arguments: Vec<_> =
        redis_arguments(folder.path()).iter().map(|word| word.replace("6379", &port.to_string())).collect();
    let _redis = Redis::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let variables = variables(folder.path(), port);
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_path())).collect();
    let server = Server::start_bare(&["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"], &variables);
    let (_, port) = server.url.rsplit_once(':').unwrap();
    let address = format!("https://localhost:{port}");
    await_that("a lease through TLS", || acquire(&address, folder.path(), true).ended().code == 0);
    assert_ne!(acquire(&address, folder.path(), false).ended().code, 0);
}

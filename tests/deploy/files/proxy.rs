//! nginx and HAProxy as processes, with the configuration that we ship, in front of three servers on one Redis.

use crate::{
    binary::{Process, Server, await_some, await_that, fencepost},
    redis_server::Redis,
    tools::{read, system},
};
use nix::sys::signal::Signal;
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    process::Command,
};

/// The address in the configurations, and that of the admin port.
const PORT: &str = "7420";
const ADMIN_PORT: &str = "7429";

/// Three servers that share a Redis.
pub(crate) struct Cluster {
    servers: Vec<(Server, SocketAddr)>,
    _redis: Redis,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let redis = Redis::start(&[]);
        let flags = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--store", &redis.url()];
        let servers = (0..3).map(|_| {
            let server = Server::start_bare(&flags, &[]);
            let admin = await_some("the admin address in the log", || admin_address(&server.log()));
            await_that("the server is ready", || {
                let mut health = fencepost(&["health", "--admin-listen", &admin.to_string()]);
                Process::start(&mut health).ended().code == 0
            });
            (server, admin)
        });
        Self { servers: servers.collect(), _redis: redis }
    }

    /// Puts the addresses of the servers in place of those in the configuration.
    fn addressed(&self, text: &str, address_of: impl Fn(SocketAddr, SocketAddr) -> String) -> String {
        self.servers.iter().zip(1..).fold(text.to_owned(), |text, ((server, admin), number)| {
            let address = server.url.trim_start_matches("http://").parse().unwrap();
            replaced(&text, &format!("fencepost-{number}:{PORT}"), &address_of(address, *admin))
        })
    }
}

pub(crate) fn admin_address(log: &str) -> Option<SocketAddr> {
    let line = log.split_inclusive('\n').find(|line| line.contains("admin port open") && line.ends_with('\n'))?;
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    Some(line["addr"].as_str().unwrap().parse().unwrap())
}

/// A proxy process.
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    process: Option<Process>,
    _folder: tempfile::TempDir,
}

impl Proxy {
    /// nginx with our configuration after a change.
    pub(crate) fn nginx(cluster: &Cluster, change: impl Fn(&str) -> String) -> Self {
        let (folder, addr) = (tempfile::tempdir().unwrap(), free_address());
        let path = folder.path().display();
        let text = cluster.addressed(&read("deploy/proxies/nginx.conf"), |server, _| server.to_string());
        let text = replaced(&text, &format!("listen {PORT} "), &format!("listen {addr} "));
        // The folders of the package belong to root.
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|kind| format!("    {kind}_temp_path {path}/{kind};\n")).concat();
        let text = replaced(&text, "http {\n", &format!("http {{\n{temporary}"));
        let file = folder.path().join("nginx.conf");
        fs::write(&file, change(&text)).unwrap();
        let mut nginx = system(Command::new("nginx"));
        nginx.arg("-p").arg(folder.path()).arg("-c").arg(file).args(["-e", "stderr"]);
        nginx.args(["-g", &format!("daemon off; pid {path}/pid;")]);
        Self::start(&mut nginx, addr, folder)
    }

    /// HAProxy with our configuration after a change.
    pub(crate) fn haproxy(cluster: &Cluster, change: impl Fn(&str) -> String) -> Self {
        let (folder, addr) = (tempfile::tempdir().unwrap(), free_address());
        let text = replaced(&read("deploy/proxies/haproxy.cfg"), &format!(" check port {ADMIN_PORT} "), " check ");
        let text = cluster.addressed(&text, |server, admin| format!("{server} port {}", admin.port()));
        let text = replaced(&text, &format!("bind :{PORT} "), &format!("bind {addr} "));
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, change(&text)).unwrap();
        let mut haproxy = system(Command::new("haproxy"));
        // In the foreground. A warning is an error.
        haproxy.args(["-db", "-dW", "-f"]).arg(file);
        Self::start(&mut haproxy, addr, folder)
    }

    fn start(command: &mut Command, addr: SocketAddr, folder: tempfile::TempDir) -> Self {
        let process = Process::start(command);
        await_that("the proxy listens", || TcpStream::connect(addr).is_ok());
        Self { addr, process: Some(process), _folder: folder }
    }
}

impl Drop for Proxy {
    /// Stops nginx with its workers, which would outlive a process that is killed.
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal(Signal::SIGTERM);
            process.ended();
        }
    }
}

/// Replaces text that has to be there.
pub(crate) fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in the configuration");
    text.replace(from, to)
}

fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], Redis::free_port()))
}

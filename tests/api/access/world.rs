//! A server with an access file and an admin port, in the process of the test.

use crate::{http1::get, issuer::Issuer, support::within};
use fencepost::testing::{
    config::{AdminPlace, Config, Environment},
    server::{Ports, bind, bind_admin, serve},
};
use fencepost_proto::v1::{admin_service_client::AdminServiceClient, lock_service_client::LockServiceClient};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, SystemTime},
};
use tokio::task::JoinHandle;
use tonic::{
    Request, Status,
    metadata::MetadataValue,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

/// A channel whose calls carry these credentials.
pub(crate) type Shown = InterceptedService<Channel, Credentials>;

/// The value of an `authorization` header, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Credentials(pub(crate) Option<String>);

impl Credentials {
    pub(crate) fn bearer(token: &str) -> Self {
        Self(Some(format!("Bearer {token}")))
    }
}

impl tonic::service::Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", MetadataValue::try_from(value.as_str()).unwrap());
        }
        Ok(request)
    }
}

/// The folder of an access file and of the keys of an issuer.
pub(crate) struct Files {
    folder: tempfile::TempDir,
    pub(crate) issuer: Issuer,
}

impl Files {
    pub(crate) fn new() -> Self {
        let it = Self { folder: tempfile::tempdir().unwrap(), issuer: Issuer::new() };
        it.write("jwks.json", &it.issuer.key_set());
        it
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file as one step.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    /// Writes the access file, in which KEYS stands for the file of the keys.
    pub(crate) fn rules(&self, text: &str) {
        self.write("access.toml", &text.replace("KEYS", &self.path("jwks.json").display().to_string()));
    }
}

/// An entry for a token that is this text.
pub(crate) fn token(name: &str, secret: &str) -> String {
    let digest = digest(&SHA256, secret.as_bytes());
    let sha256: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\n[[token]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\n")
}

/// A rule.
pub(crate) fn rule(who: &str, may: &[&str], locks: &[&str]) -> String {
    format!("\n[[rule]]\nwho = [\"{who}\"]\nmay = {may:?}\nlocks = {locks:?}\n")
}

/// An issuer of tokens.
pub(crate) const ISSUER: &str = r#"
[[jwt]]
issuer = "https://issuer.example"
audience = "fencepost"
keys = "KEYS"
algorithms = ["RS256", "ES256", "EdDSA"]
prefix = "k8s:"
"#;

/// The claims of a token that is valid for so many seconds.
pub(crate) fn claims(name: &str, seconds: i64) -> Value {
    // The time of the system, which is that of a new file.
    let now = tempfile::tempfile().unwrap().metadata().unwrap().modified().unwrap();
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let expires = i64::try_from(now).unwrap() + seconds;
    json!({"iss": "https://issuer.example", "aud": "fencepost", "sub": name, "exp": expires})
}

/// A running server.
pub(crate) struct World {
    pub(crate) addr: SocketAddr,
    pub(crate) admin: SocketAddr,
    task: JoinHandle<()>,
}

impl World {
    /// Starts a server with the access file in this folder.
    pub(crate) async fn start(files: &Files) -> Self {
        Self::start_with(files, |_| {}).await
    }

    pub(crate) async fn start_with(files: &Files, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::load(Vec::new(), &Environment::new(), |_| Ok(())).unwrap();
        config.access = Some(files.path("access.toml"));
        config.limits.ttl_min = Duration::from_millis(50);
        config.admin_service = AdminPlace::Everywhere;
        config.listen = "127.0.0.1:0".parse().unwrap();
        config.admin_listen = "127.0.0.1:0".parse().unwrap();
        config.drain_timeout = Duration::ZERO;
        change(&mut config);
        let (api, admin_port) = (bind(&config).await.unwrap(), bind_admin(&config).await.unwrap());
        let addr = api.addresses().unwrap()[0].parse().unwrap();
        let admin = admin_port[0].local_addr().unwrap();
        let task = tokio::spawn(async move {
            let ports = Ports { api, admin: admin_port, faults: Vec::new() };
            serve(config, ports, std::future::pending()).await.unwrap();
        });
        Self { addr, admin, task }
    }

    pub(crate) fn locks(&self, credentials: &Credentials) -> LockServiceClient<Shown> {
        LockServiceClient::with_interceptor(channel(self.addr), credentials.clone())
    }

    pub(crate) fn operator(&self, addr: SocketAddr, credentials: &Credentials) -> AdminServiceClient<Shown> {
        AdminServiceClient::with_interceptor(channel(addr), credentials.clone())
    }

    /// The sum of the samples of this name with this label.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> f64 {
        let admin = self.admin.to_string();
        let page = within(tokio::task::spawn_blocking(move || get(&admin, "/metrics"))).await.unwrap();
        let lines = page.body.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn channel(addr: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{addr}")).unwrap().tcp_nodelay(true).connect_lazy()
}

//! Tokens that are valid for 5 s carry a lease for as long as its client wants.

use crate::{
    issuer::Issuer,
    language::Language,
    report::{Outcomes, for_each},
    world::{Cell, World, address, server_on},
};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    task::AbortHandle,
    time::{Instant, interval, sleep},
};

const TTL: Duration = Duration::from_secs(6);
const VALID_FOR: Duration = Duration::from_secs(5);
/// Between two tokens.
const RENEWED: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

const RULES: &str = r#"mode = "enforce"

[[jwt]]
issuer = "https://issuer.example"
audience = "fencepost"
keys = "KEYS"
algorithms = ["ES256"]
prefix = "jwt:"

[[rule]]
who = ["jwt:interop"]
may = ["acquire", "read"]
locks = [""]
"#;

/// How long the leases are kept.
fn span() -> Duration {
    let seconds = std::env::var("FENCEPOST_INTEROP_TOKEN_SECONDS").map_or(12, |text| text.parse().unwrap());
    Duration::from_secs(seconds)
}

/// A file whose token is replaced again and again.
struct Rotated {
    path: PathBuf,
    rotating: AbortHandle,
}

impl Rotated {
    fn begin(folder: &Path, issuer: Issuer) -> Self {
        let path = folder.join("token");
        let (new, file) = (folder.join("new"), path.clone());
        let write = move || {
            // The time of the system, which is that of a new file.
            let now = tempfile::tempfile().unwrap().metadata().unwrap().modified().unwrap();
            let valid_until = (now + VALID_FOR).duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let claims = json!({
                "iss": "https://issuer.example", "aud": "fencepost", "sub": "interop", "exp": valid_until.as_secs(),
            });
            fs::write(&new, issuer.token("ES256", &claims)).unwrap();
            fs::rename(&new, &file).unwrap();
        };
        write();
        let rotating = tokio::spawn(async move {
            let mut ticks = interval(RENEWED);
            loop {
                ticks.tick().await;
                write();
            }
        });
        Self { path, rotating: rotating.abort_handle() }
    }
}

impl Drop for Rotated {
    fn drop(&mut self) {
        self.rotating.abort();
    }
}

/// Each language keeps a lease for longer than two tokens are valid, without a gap. Its server asks for tokens; they
/// are read from a file.
pub(crate) async fn tokens(world: Arc<World>, languages: Vec<Language>) -> Outcomes {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new();
    let (keys, access) = (folder.path().join("jwks.json"), folder.path().join("access.toml"));
    fs::write(&keys, issuer.key_set()).unwrap();
    fs::write(&access, RULES.replace("KEYS", &keys.display().to_string())).unwrap();
    let server = server_on(None, &["--access", &access.display().to_string()]);
    let (address, rotated) = (address(&server), Rotated::begin(folder.path(), issuer));
    let kept = for_each(&languages, |language| {
        let cell = Cell { world: world.clone(), language, check: "tokens" };
        keeps(cell, address.clone(), rotated.path.clone())
    });
    kept.await
}

async fn keeps(cell: Cell, address: String, token: PathBuf) {
    let (client, name) = (cell.driver_in("client", &[("FENCEPOST_CREDENTIALS", &token)]), cell.name("lock"));
    let first = fs::read_to_string(&token).unwrap();
    client.open(&[&address]).await;
    let lock = client.acquire(&name, TTL).await;
    let end = Instant::now() + span();
    while Instant::now() < end {
        assert!(client.valid_for(&name).await.is_some(), "the client counts on its lock all the time");
        sleep(LOOK).await;
    }
    // Asked with the newest token.
    let found = client.call("get", json!({ "name": name })).await.expect("get is answered");
    assert_eq!(found["token"].as_u64(), Some(lock.token), "it is the lease that was granted");
    assert!(client.events("lost", &name).is_empty());
    assert_eq!(client.release(&name).await, "released");
    // The control: a client that keeps its first token is refused.
    let stale = cell.driver("stale");
    stale.call("open", json!({ "servers": [address], "token": first })).await.expect("the client opens");
    let (kind, answer) = stale.ask_acquire("other", &name, TTL, Duration::ZERO).await.failed().await;
    assert_eq!((kind.as_str(), &answer["code"]), ("refused", &json!("UNAUTHENTICATED")), "{answer}");
}

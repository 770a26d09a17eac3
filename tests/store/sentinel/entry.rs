//! Passwords and TLS: of the Sentinels, and of the Redis that they name.

use crate::{Kept, Redis, authority::Authority, world::Sentinel};
use fencepost::testing::node::{NodeUrl, TlsFiles};

#[tokio::test]
async fn sentinels_and_their_primary_have_passwords_of_their_own() {
    let redis = Redis::start(&["--requirepass", "node"]);
    let sentinel = Sentinel::start(redis.port, "requirepass watch\nsentinel auth-pass main node", Some("watch")).await;
    let url = |who: &str, more: &str| format!("redis+sentinel://{who}127.0.0.1:{}/main/2{more}", sentinel.port);
    let kept = Kept::to(&url(":node@", "?sentinel_password=watch"));
    kept.is_up().await;
    kept.count().await.unwrap();
    assert_eq!(redis.info("keyspace", "db2").split(',').next(), Some("keys=1"));
    for (who, more, says) in [
        (":node@", "", "it requires another password than the URL has for Sentinels"),
        (":node@", "?sentinel_password=node", "?sentinel_user=…&sentinel_password=…"),
        (
            ":watch@",
            "?sentinel_password=watch",
            "as the primary of main: Redis answers, and does not accept the user or the password",
        ),
        ("", "?sentinel_password=watch", "as the primary of main: Redis answers, but requires a password"),
    ] {
        Kept::to(&url(who, more)).goes_down(says).await;
    }
    let other = url(":node@", "?sentinel_password=watch").replace("/main", "/other");
    Kept::to(&other).goes_down("it knows no primary other").await;
    let no_sentinel = format!("redis+sentinel://:node@127.0.0.1:{}/main?sentinel_password=node", redis.port);
    Kept::to(&no_sentinel).goes_down("it does not answer like a Sentinel: is this its port?").await;
}

/// As in the documents.
const RIGHTS: &str = "+hello +sentinel|master +sentinel|get-master-addr-by-name +subscribe &+switch-master";

#[tokio::test]
async fn a_user_of_the_sentinels_needs_few_rights() {
    let redis = Redis::start(&[]);
    let user = |rights: &str| format!("user app on >pw -@all {rights}");
    let enough = Sentinel::start(redis.port, &user(RIGHTS), None).await;
    let few = Sentinel::start(redis.port, &user("+hello +sentinel|master"), None).await;
    let url =
        |it: &Sentinel| format!("redis+sentinel://127.0.0.1:{}/main?sentinel_user=app&sentinel_password=pw", it.port);
    let kept = Kept::to(&url(&enough));
    kept.moves_to(&redis).await;
    let clients = || enough.command(&["CLIENT", "LIST"]).text();
    assert!(clients().lines().any(|client| client.contains("user=app") && client.contains(" sub=1 ")), "{}", clients());
    Kept::to(&url(&few))
        .goes_down(&format!("its user lacks permissions; grant them with ACL SETUSER … {RIGHTS}"))
        .await;
}

#[tokio::test]
async fn sentinels_and_their_primary_are_entered_over_tls() {
    let (authority, other) = (Authority::new("one"), Authority::new("two"));
    let (server, ca) = (authority.server(), authority.file());
    let files = [("tls-cert-file", &server.certificate), ("tls-key-file", &server.key), ("tls-ca-cert-file", &ca)];
    let args: Vec<String> =
        files.iter().flat_map(|(name, file)| [format!("--{name}"), file.display().to_string()]).collect();
    let port = Redis::free_port().to_string();
    let mut all = vec!["--tls-port", &port, "--tls-auth-clients", "no"];
    all.extend(args.iter().map(String::as_str));
    let _redis = Redis::start(&all);
    // It enters Redis over TLS as well.
    let tls_port = Redis::free_port();
    let lines: Vec<String> = files.iter().map(|(name, file)| format!("{name} {}", file.display())).collect();
    let more = format!("tls-port {tls_port}\ntls-replication yes\ntls-auth-clients no\n{}", lines.join("\n"));
    let _sentinel = Sentinel::start(port.parse().unwrap(), &more, None).await;
    let url = NodeUrl::parse(&format!("rediss+sentinel://127.0.0.1:{tls_port}/main")).unwrap();
    let with = |ca| url.clone().with_tls(TlsFiles { ca: Some(ca), ..TlsFiles::default() }).unwrap();
    let kept = Kept::new(with(ca.clone()));
    kept.is_up().await;
    kept.count().await.unwrap();
    Kept::new(with(other.file())).goes_down("names no primary: the certificate of Redis comes from an authority").await;
    let plain = format!("redis+sentinel://127.0.0.1:{tls_port}/main");
    Kept::to(&plain).goes_down("names no primary").await;
}

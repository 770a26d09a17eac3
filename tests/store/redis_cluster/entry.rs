//! Which Redis may be entered by which URL, and how members are named and entered.

use crate::{
    Kept, Redis, RedisCluster,
    authority::Authority,
    cluster::{PRIMARY, REPLICA},
};
use fencepost::testing::node::{NodeUrl, TlsFiles};

/// A cluster of one member that has all slots, and does not know its own address.
fn alone(args: &[&str]) -> Redis {
    let redis = Redis::start(&[&["--cluster-enabled", "yes"], args].concat());
    assert_eq!(redis.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).text(), "OK");
    redis
}

#[tokio::test]
async fn each_kind_of_redis_has_its_kind_of_url() {
    let (plain, member) = (Redis::start(&[]), alone(&[]));
    let address = |redis: &Redis| format!("127.0.0.1:{}", redis.port);
    let kept = Kept::to(&format!("redis+cluster://{}", address(&member)));
    kept.moves_to(&address(&member)).await;
    assert_eq!(kept.counts().await, Ok(1));
    Kept::to(&format!("redis://{}", address(&member)))
        .goes_down(&format!("write redis+cluster://{} in the URL", address(&member)))
        .await;
    Kept::to(&format!("redis+cluster://{}", address(&plain)))
        .goes_down(&format!("this Redis is not in cluster mode: write redis://{}", address(&plain)))
        .await;
    // A cluster whose slots have no primary, and two clusters.
    let empty = Redis::start(&["--cluster-enabled", "yes"]);
    Kept::to(&format!("redis+cluster://{}", address(&empty))).goes_down("its cluster_state is fail").await;
    let other = alone(&[]);
    Kept::to(&format!("redis+cluster://{},{}", address(&member), address(&other)))
        .goes_down("the URL names members of different Redis Clusters")
        .await;
}

/// As in the documents.
const RIGHTS: &str = "+@scripting +@pubsub +@read +@write +@connection +info +time +cluster|info +cluster|nodes \
                      +cluster|slots ~{fp}* &{fp}:to:*";

#[tokio::test]
async fn a_user_needs_few_rights() {
    let redis = alone(&[]);
    let user = |name: &str, rights: &str| {
        let words = format!("ACL SETUSER {name} on >pw -@all {rights}");
        assert_eq!(redis.command(&words.split(' ').collect::<Vec<_>>()).text(), "OK");
        format!("redis+cluster://{name}:pw@127.0.0.1:{}", redis.port)
    };
    let kept = Kept::to(&user("enough", RIGHTS));
    kept.moves_to(&format!("127.0.0.1:{}", redis.port)).await;
    kept.counts().await.unwrap();
    let mut pushes = kept.node.subscribe("{fp}:to:one");
    pushes.recv().await.unwrap();
    assert_eq!(kept.node.connection(1).unwrap().publish("{fp}:to:one", b"x").await, Ok(1));
    Kept::to(&user("few", &RIGHTS.replace(" +cluster|nodes", "")))
        .goes_down("grant them with ACL SETUSER … +cluster|info +cluster|nodes +cluster|slots")
        .await;
    Kept::to(&format!("redis+cluster://enough:other@127.0.0.1:{}", redis.port))
        .goes_down("does not accept the user or the password")
        .await;
}

#[tokio::test]
async fn members_are_entered_over_tls() {
    let (authority, other) = (Authority::new("one"), Authority::new("two"));
    let (server, ca) = (authority.server(), authority.file());
    let files = [("tls-cert-file", &server.certificate), ("tls-key-file", &server.key), ("tls-ca-cert-file", &ca)];
    let files: Vec<String> =
        files.iter().flat_map(|(name, file)| [format!("--{name}"), file.display().to_string()]).collect();
    let port = Redis::free_port().to_string();
    let mut args = vec!["--tls-port", &port, "--tls-auth-clients", "no", "--tls-cluster", "yes", "--cluster-port", "0"];
    args.extend(files.iter().map(String::as_str));
    let _redis = alone(&args);
    let url = NodeUrl::parse(&format!("rediss+cluster://127.0.0.1:{port}")).unwrap();
    let with = |ca| url.clone().with_tls(TlsFiles { ca: Some(ca), ..TlsFiles::default() }).unwrap();
    let kept = Kept::new(with(ca.clone()));
    kept.moves_to(&format!("127.0.0.1:{port}")).await;
    kept.counts().await.unwrap();
    Kept::new(with(other.file())).goes_down("names none: the certificate of Redis comes from an authority").await;
}

/// `cluster-preferred-endpoint-type`, as services behind one address have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_may_be_named_in_several_ways() {
    let cluster = RedisCluster::start();
    let set = |name: &str, value: &str| {
        for member in 0..6 {
            cluster.ok(member, &["CONFIG", "SET", name, value]);
        }
    };
    set("cluster-preferred-endpoint-type", "unknown-endpoint");
    let port = cluster.members[PRIMARY].port;
    // The host that was asked is meant.
    let seed = format!("redis+cluster://localhost:{}", cluster.members[0].port);
    let unknown = Kept::to(&seed);
    unknown.moves_to(&format!("localhost:{port}")).await;
    unknown.counts().await.unwrap();
    set("cluster-preferred-endpoint-type", "hostname");
    unknown.goes_down("set cluster-announce-hostname on each member").await;
    set("cluster-announce-hostname", "LocalHost");
    unknown.moves_to(&format!("localhost:{port}")).await;
    set("cluster-preferred-endpoint-type", "ip");
    unknown.moves_to(&format!("127.0.0.1:{port}")).await;
    cluster.fail_over_to(REPLICA);
    unknown.moves_to(&cluster.address(REPLICA)).await;
}

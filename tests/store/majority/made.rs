//! Clusters are made once, and of nodes that serve no other.

use crate::cluster::*;

#[tokio::test]
async fn a_cluster_is_made_of_nodes_that_serve_no_other() {
    let cluster = Cluster::of(3).await;
    let mut server = cluster.idle_server();
    server.connect();
    for node in 0..3 {
        timeout(PATIENCE, server.nodes.up(node)).await.unwrap();
    }
    create(&server.nodes, &cluster.mark, 1_000).await.expect("it may be repeated");
    let other = Mark { cluster: ClusterId(8), ..cluster.mark.clone() };
    let refused = create(&server.nodes, &other, 1_000).await.unwrap_err();
    assert!(matches!(refused, CreateError::InUse { .. }), "{refused}");
}

#[tokio::test]
async fn a_cluster_is_not_made_again_over_a_node_that_forgot() {
    let mut cluster = Cluster::of(3).await;
    drop(cluster.server().await);
    cluster.redis[0].kill();
    cluster.redis[0].restart(false);
    let mut server = cluster.idle_server();
    server.connect();
    for node in 0..3 {
        timeout(PATIENCE, server.nodes.up(node)).await.unwrap();
    }
    let refused = create(&server.nodes, &cluster.mark, 1_000).await.unwrap_err();
    assert!(matches!(refused, CreateError::InUse { .. }), "{refused}");
    assert!(!cluster.has_headers(0), "an empty member would count as one that has all");
}

#[tokio::test]
async fn a_cluster_is_not_made_again_over_what_restarted_nodes_kept() {
    let mut cluster = Cluster::of(1).await;
    let server = cluster.server().await;
    server.acquire_all().await;
    drop(server);
    let kept = |cluster: &Cluster| {
        (0..PARTITIONS)
            .map(|partition| cluster.redis[0].command(&["HLEN", &format!("{{fp}}:q{partition}:c")]))
            .collect::<Vec<_>>()
    };
    let before = kept(&cluster);
    cluster.redis[0].command(&["SAVE"]);
    cluster.redis[0].restart(true);
    let mut server = cluster.idle_server();
    server.connect();
    timeout(PATIENCE, server.nodes.up(0)).await.unwrap();
    let refused = create(&server.nodes, &cluster.mark, 1_000).await.unwrap_err();
    assert!(matches!(refused, CreateError::InUse { .. }), "{refused}");
    assert_eq!(kept(&cluster), before);
}

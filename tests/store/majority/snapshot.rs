//! A large snapshot.

use crate::cluster::*;

/// Notes the bytes of the largest send.
struct Weighed {
    nodes: Arc<RedisNodes>,
    most: AtomicUsize,
}

impl NodeClient for Weighed {
    async fn send(&self, node: usize, requests: Vec<NodeRequest>) -> Result<Answers, Lost> {
        let bytes = |request: &NodeRequest| {
            if let NodeRequest::OfPartition { request, .. } = request { request.bytes() } else { 0 }
        };
        self.most.fetch_max(requests.iter().map(bytes).sum(), Ordering::Relaxed);
        self.nodes.send(node, requests).await
    }

    async fn up(&self, node: usize) {
        self.nodes.up(node).await;
    }

    fn wall_clock(&self, node: usize) -> impl Future<Output = Option<u64>> + Send {
        self.nodes.wall_clock(node)
    }

    async fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> Result<bool, Lost> {
        self.nodes.publish(node, to, parcel).await
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        self.nodes.listen(node, me)
    }
}

#[tokio::test]
async fn a_large_snapshot_goes_in_many_sends() {
    let mut cluster = Cluster::of(3).await;
    let mut server = cluster.idle_server();
    server.connect();
    let weighed = Arc::new(Weighed { nodes: Arc::clone(&server.nodes), most: AtomicUsize::new(0) });
    let (clock, notices) = (Arc::new(ProcessClock::start()), Arc::new(NoNotices));
    let client = Arc::clone(&weighed);
    let store = Arc::new(QuorumStore::new(client, cluster.mark.clone(), clock, &Limits::default(), notices));
    let runs = Arc::clone(&store);
    server.running.push(tokio::spawn(async move { runs.run().await }));
    let led = async {
        while store.list("", None, usize::MAX).await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, led).await.unwrap();
    cluster.redis[2].kill();
    let metadata = Metadata::new([("k".to_owned(), "v".repeat(METADATA_BYTES_MAX - 1))]).unwrap();
    // Three times what one send may have.
    let locks = u32::try_from(3 * SEND_FULL_FROM_BYTES / METADATA_BYTES_MAX).unwrap();
    for first in (0..locks).step_by(50) {
        let each = (first..first + 50).map(async |number| {
            let mut request = acquire(new_request(), TTL, false);
            request.terms.metadata = metadata.clone();
            granted(store.acquire(&lock(number), request).await.unwrap());
        });
        join_all(each).await;
    }
    cluster.redis[2].restart(false);
    let admitted = async {
        while !cluster.has_headers(2) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, admitted).await.expect("the node is admitted");
    let most = weighed.most.load(Ordering::Relaxed);
    assert!(most < SEND_FULL_FROM_BYTES + STAGED_BYTES_MAX, "{most}");
}

//! Listings of locks.

use crate::{
    redis_server::Redis,
    server_on,
    support::{Lock, Server, acquire_request, within},
};
use fencepost::testing::domain::limits::{METADATA_BYTES_MAX, PAGE_BYTES_MAX};
use fencepost_proto::v1;
use prost::Message;
use std::{collections::HashMap, time::Duration};

const TTL: Duration = Duration::from_secs(60);

/// The names on all pages, in order.
async fn listed(server: &Server, prefix: &str, page_size: u32) -> Vec<String> {
    let mut request = v1::ListRequest { prefix: prefix.into(), page_size, page_token: String::new() };
    let (mut client, mut names) = (server.client(), Vec::new());
    loop {
        // gRPC clients accept messages of 4 MiB by default.
        let page = within(client.list(request.clone())).await.unwrap().into_inner();
        assert!(page.encoded_len() < 2 * PAGE_BYTES_MAX, "{} bytes", page.encoded_len());
        names.extend(page.locks.into_iter().map(|lock| lock.lock_name));
        if page.next_page_token.is_empty() {
            names.sort();
            return names;
        }
        request.page_token = page.next_page_token;
    }
}

#[tokio::test]
async fn a_listing_has_only_the_locks_whose_names_start_with_the_prefix() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let other_names = ["a}:l:secret", "a}:l:secret/2", "}:l:secret", "a/secret"];
    for name in ["secret", "secret/1", "secret*/1"].iter().chain(&other_names) {
        server.client().acquire_lease(acquire_request(name, TTL)).await;
    }
    for page_size in [1, 2, 1_000] {
        assert_eq!(listed(&server, "secret", page_size).await, ["secret", "secret*/1", "secret/1"]);
    }
    assert_eq!(listed(&server, "secret*", 1).await, ["secret*/1"]);
    assert_eq!(listed(&server, "a}:l:s", 1).await, ["a}:l:secret", "a}:l:secret/2"]);
}

#[tokio::test]
async fn the_pages_of_a_listing_fit_into_a_message() {
    const LOCKS: usize = 1_100;
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let large: HashMap<_, _> = [("k".into(), "x".repeat(METADATA_BYTES_MAX - 1))].into();
    let mut names: Vec<_> = (0..LOCKS).map(|number| format!("a/{number}")).collect();
    for name in &names {
        server
            .client()
            .acquire_lease(v1::AcquireRequest { metadata: large.clone(), ..acquire_request(name, TTL) })
            .await;
    }
    names.sort();
    assert_eq!(listed(&server, "a/", 1_000).await, names);
}

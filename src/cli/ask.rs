//! Asks servers whether they are ready, and which store each of them uses.

use super::{
    args::ServerArgs,
    exit::{Failure, USAGE},
};
use crate::api::{STORE_ID_METADATA, STORE_METADATA};
use fencepost_client::{CallError, ServerAddress, Tls, raw};
use futures_util::future::join_all;
use serde::Serialize;
use std::time::Duration;
use tokio::time::timeout;
use tonic::metadata::MetadataMap;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

/// How long each of several servers may take to say which store it uses, before a lock is acquired through one of them.
const BEFORE_ACQUIRE_MAX: Duration = Duration::from_millis(500);

/// Whether a server is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Ready,
    NotReady,
    Unreachable,
}

/// A server, and what it says.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Server {
    pub(super) address: String,
    pub(super) state: State,
    /// The kind of store, if the server says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<String>,
    /// Which store it is, if the server knows it. Servers with the same id share their locks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store_id: Option<String>,
    /// Why it is unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// What all servers say, each within this time.
pub(super) async fn ask_all(args: &ServerArgs, time_max: Duration) -> Result<Vec<Server>, Failure> {
    let tls = args.tls()?;
    let answers = join_all(args.addresses().into_iter().map(|address| ask(address, &tls, time_max))).await;
    answers.into_iter().collect()
}

/// What is wrong if servers that are named together do not share a store.
pub(super) fn divided(servers: &[Server]) -> Option<String> {
    let known: Vec<_> = servers.iter().filter_map(|server| Some((server, server.store_id.as_ref()?))).collect();
    let (_, first) = known.first()?;
    if known.iter().all(|(_, id)| id == first) {
        return None;
    }
    let each = known.iter().map(|(server, id)| {
        let kind = server.store.as_deref().unwrap_or("of an unknown kind");
        format!("{} has store {kind} {id}", server.address)
    });
    Some(format!(
        "these servers do not share a store, so a lock of one of them excludes nobody on the others ({}): start all with \
         the same --store",
        each.collect::<Vec<_>>().join(", ")
    ))
}

/// Refuses to acquire through several servers that do not share a store. Who does not answer in time is not waited for.
pub(super) async fn require_one_store(args: &ServerArgs) -> Result<(), Failure> {
    if args.addresses().len() < 2 {
        return Ok(());
    }
    match divided(&ask_all(args, BEFORE_ACQUIRE_MAX).await?) {
        Some(why) => Err(Failure::new(USAGE, why)),
        None => Ok(()),
    }
}

async fn ask(address: String, tls: &Tls, time_max: Duration) -> Result<Server, Failure> {
    let parsed: ServerAddress = address.parse().map_err(|error| Failure::new(USAGE, format!("{error}")))?;
    let check = async {
        let mut health = HealthClient::new(raw::connect(&parsed, tls).await.map_err(|error| explained(&error))?);
        let answer = health.check(HealthCheckRequest::default()).await;
        let answer = answer.map_err(|status| status.message().to_owned())?;
        let [store, id] = [STORE_METADATA, STORE_ID_METADATA].map(|name| said(answer.metadata(), name));
        Ok((answer.into_inner().status(), store, id))
    };
    let checked = timeout(time_max, check).await.unwrap_or_else(|_| Err("no answer in time".to_owned()));
    let (state, store, store_id, error) = match checked {
        Ok((ServingStatus::Serving, store, id)) => (State::Ready, store, id, None),
        Ok((_, store, id)) => (State::NotReady, store, id, None),
        Err(why) => (State::Unreachable, None, None, Some(why)),
    };
    Ok(Server { address, state, store, store_id, error })
}

/// Only visible characters.
fn said(metadata: &MetadataMap, name: &str) -> Option<String> {
    metadata.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn explained(error: &CallError) -> String {
    error.explanation().map_or_else(|| error.cause(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_different_stores_are_named() {
        let server = |address: &str, id: Option<&str>| Server {
            address: address.to_owned(),
            state: State::Ready,
            store: Some("redis".to_owned()),
            store_id: id.map(str::to_owned),
            error: None,
        };
        let (a, b, c) = (server("a:1", Some("x")), server("b:1", Some("x")), server("c:1", None));
        assert_eq!(divided(&[a.clone(), b, c]), None, "who does not say which store it has may share it");
        let said = divided(&[a, server("d:1", Some("y"))]).unwrap();
        assert!(said.contains("(a:1 has store redis x, d:1 has store redis y)"), "{said}");
    }
}

//! Facts about a Redis, and access to their values.

use super::service::{self, Service};
use std::collections::BTreeMap;

/// The facts that the checks judge. Where Redis refused a question, the error is its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where it is: `host:port`, or `host:port/database`.
    pub address: String,
    /// Whether it has to be a member of a Redis Cluster.
    pub in_cluster: bool,
    /// Whether it has keys with a TTL that must not be removed before their time.
    pub keeps_ttls: bool,
    /// The text of INFO.
    pub info: Result<String, String>,
    /// The relevant settings, from CONFIG GET.
    pub settings: Result<BTreeMap<String, String>, String>,
    /// Whether scripts may be run. Not asked where they run already.
    pub scripts: Result<(), String>,
    /// Whether its clock may be read.
    pub clock: Result<(), String>,
}

impl Facts {
    /// The managed service that it is a part of, if that is known.
    pub(super) fn service(&self) -> Option<Service> {
        let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
        service::of(host, self.info("os"))
    }

    /// A field of INFO, unless it is empty.
    pub(super) fn info(&self, name: &str) -> Option<&str> {
        let lines = self.info.as_ref().ok()?.lines();
        let mut found = lines.filter_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
        found.next().filter(|value| !value.is_empty())
    }

    pub(super) fn info_number(&self, name: &str) -> Option<u64> {
        self.info(name)?.parse().ok()
    }

    /// A setting, even an empty one.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.as_ref().ok()?.get(name).map(String::as_str)
    }

    pub(super) fn setting_number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// The lines of INFO that describe replicas, one each.
    pub(super) fn replicas(&self) -> impl Iterator<Item = &str> {
        let lines = self.info.as_deref().unwrap_or_default().lines();
        lines.filter_map(|line| {
            let (name, value) = line.trim_end().split_once(':')?;
            name.strip_prefix("slave")?.parse::<u32>().ok().map(|_| value)
        })
    }
}

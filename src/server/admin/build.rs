//! Build information of this program.

use crate::config::StoreUrl;
use std::env::consts::{ARCH, OS};

/// What this program is, and which store it uses. Has no secrets: no part of the store's URL but its scheme.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Build {
    store: &'static str,
}

impl Build {
    pub(in crate::server) fn with(store: &StoreUrl) -> Self {
        let store = match store {
            StoreUrl::Memory => "memory",
            StoreUrl::Redis(urls) if urls.len() == 1 => "redis",
            StoreUrl::Redis(_) => "quorum",
        };
        Self { store }
    }

    /// The kind of store.
    pub(in crate::server) fn store(self) -> &'static str {
        self.store
    }

    /// Names and values, in the order in which they are shown.
    pub(in crate::server) fn facts(self) -> Vec<(&'static str, String)> {
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let facts = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("os", OS),
            ("arch", ARCH),
            ("profile", profile),
            ("store", self.store),
        ];
        facts.map(|(name, value)| (name, value.to_owned())).into()
    }
}

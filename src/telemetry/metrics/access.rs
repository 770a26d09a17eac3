//! What the access file refuses, and its changes.

use super::label::{Counters, Label, label};
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

label! {
    /// Why a caller may not do something.
    Denial = "reason" {
        /// It shows no credentials.
        CredentialsMissing = "credentials_missing",
        /// Its credentials are not valid.
        CredentialsInvalid = "credentials_invalid",
        /// Its credentials have expired.
        CredentialsExpired = "credentials_expired",
        /// No rule permits it.
        NotPermitted = "not_permitted",
    }
}

label! {
    /// Whether what is denied is refused.
    AccessMode = "mode" {
        /// It is carried out.
        Observe = "observe",
        /// It is refused.
        Enforce = "enforce",
    }
}

label! {
    /// What came of a changed access file.
    AccessReload = "outcome" {
        /// It is used.
        Ok = "ok",
        /// It cannot be used.
        Failed = "failed",
    }
}

/// What the access file refuses, and its changes.
#[derive(Debug)]
pub struct AccessMetrics {
    /// By mode and reason.
    denials: Box<[Box<[Counter]>]>,
    /// Changes of the file.
    pub reloads: Counters<AccessReload>,
}

impl AccessMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let denials = Family::<[(&'static str, &'static str); 2], Counter>::default();
        let help = "Operations that the access file denies: refused, or only counted in mode observe";
        registry.register("access_denials", help, denials.clone());
        let counter = |mode: AccessMode, reason: Denial| {
            denials.get_or_create_owned(&[(Denial::NAME, reason.text()), (AccessMode::NAME, mode.text())])
        };
        let of_mode = |mode: &AccessMode| Denial::ALL.iter().map(|reason| counter(*mode, *reason)).collect();
        let help = "Changes of the access file, or of keys that it names: used, or not fit for use";
        Self {
            denials: AccessMode::ALL.iter().map(of_mode).collect(),
            reloads: Counters::register(registry, "access_reloads", help),
        }
    }

    /// Counts a denial.
    pub fn denied(&self, reason: Denial, mode: AccessMode) {
        self.denials[mode.index()][reason.index()].inc();
    }
}

impl Default for AccessMetrics {
    /// Metrics that nobody scrapes.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

//! The user and the file with the password of the store, and their dependencies on other options.

use super::StoreUrl;
use std::path::PathBuf;

/// User and password of the Redis, if the URL has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreLogin {
    /// The user; empty: Redis' `default`.
    pub user: String,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
}

impl StoreLogin {
    /// The key of an option that cannot be used as it is, and the reason.
    pub(super) fn problem(&self, store: &StoreUrl) -> Option<(&'static str, &'static str)> {
        if self.password_file.is_none() {
            return (!self.user.is_empty())
                .then_some(("store_user", "needs the file with its password as well: --store-password-file FILE"));
        }
        let is_on_redis = !store.urls().is_empty();
        (!is_on_redis).then_some(("store_password_file", "needs a store on Redis: --store redis://…"))
    }
}

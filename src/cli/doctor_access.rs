//! `doctor --access`: what is odd in an access file.

use super::exit::{CONFIG, Failure};
use crate::{
    access::{self, Oddity},
    clock::unix_time,
    node::doctor::Finding,
};
use std::path::Path;

/// The findings about a file that can be used.
pub(super) fn findings(path: &Path) -> Result<Vec<Finding>, Failure> {
    let examined = access::examine(path, unix_time())
        .map_err(|error| Failure::new(CONFIG, format!("{} cannot be used: {error}", path.display())))?;
    let oddities = examined.oddities.into_iter();
    let warnings =
        oddities.map(|Oddity { kind, found, at_stake, change }| Finding::warning(kind, found, at_stake, change));
    Ok([Finding::ok("access", examined.summary)].into_iter().chain(warnings).collect())
}

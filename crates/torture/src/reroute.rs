//! Leads a process that connects to an address to a link of its own. All servers of a quorum name its nodes by the same
//! addresses, and each has a link of its own to each node.

use crate::{proxy::Link, shim};
use anyhow::Result;
use std::path::{Path, PathBuf};

const SOURCE: &str = include_str!("reroute_shim.c");

/// Leads processes elsewhere.
pub(crate) struct Reroute(PathBuf);

impl Reroute {
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let folder = folder.join("reroute");
        std::fs::create_dir(&folder)?;
        Ok(Self(shim::compile(&folder, SOURCE)?))
    }

    /// The environment of a process for which the ports of the first links are those of the others.
    pub(crate) fn env<'a>(
        &self,
        routes: impl IntoIterator<Item = (&'a Link, &'a Link)>,
    ) -> Vec<(&'static str, PathBuf)> {
        let routes: Vec<_> = routes.into_iter().map(|(from, to)| format!("{}:{}", from.port, to.port)).collect();
        vec![("LD_PRELOAD", self.0.clone()), ("REROUTE", routes.join(",").into())]
    }
}

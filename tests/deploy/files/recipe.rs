//! What the recipes of docs/access.md make, for tests that follow them: certificates, keys, tokens and an access file.

use crate::{
    binary::{Process, fencepost},
    issuer::Issuer,
    proxy::replaced,
    tools::{ROOT, passes, read},
};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// When the tokens of the issuer end: in the year 2100.
const EXPIRES: u64 = 4_102_444_800;

/// A folder with certificates, and the issuer of a cluster.
pub(crate) struct Recipe {
    folder: tempfile::TempDir,
    issuer: Issuer,
}

/// The access file of `deploy/`, as it is read.
pub(crate) fn access_file() -> toml::Table {
    read("deploy/access/access.toml").parse().unwrap()
}

/// The only value of this key in the entry for the tokens of the cluster.
pub(crate) fn of_cluster(key: &str) -> String {
    let file = access_file();
    let entries = file["jwt"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0][key].as_str().unwrap().to_owned()
}

impl Recipe {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        passes(Command::new("env").args(["bash", "deploy/compose/certificates"]).arg(folder.path()).current_dir(ROOT));
        Self { folder, issuer: Issuer::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The content of a file of the folder.
    pub(crate) fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The access file of `deploy/`, which refuses what no rule permits, with the keys of the cluster in this file.
    pub(crate) fn enforced(&self, keys: &Path) -> String {
        let text = replaced(&read("deploy/access/access.toml"), "\nmode = \"observe\"\n\n", "\nmode = \"enforce\"\n\n");
        replaced(&text, &of_cluster("keys"), keys.to_str().unwrap())
    }

    /// The public keys of the cluster.
    pub(crate) fn keys(&self) -> String {
        self.issuer.key_set()
    }

    /// A token for this audience, as a cluster signs it for a pod with this service account.
    pub(crate) fn cluster_token(&self, audience: &str, namespace: &str, account: &str) -> String {
        let subject = format!("system:serviceaccount:{namespace}:{account}");
        let claims = json!({"iss": of_cluster("issuer"), "aud": [audience], "sub": subject, "exp": EXPIRES});
        self.issuer.token("RS256", &claims)
    }

    /// A static token and its entry.
    pub(crate) fn static_token(name: &str) -> (String, String) {
        let made = Process::start(&mut fencepost(&["token", "new", name])).ended().expect(0).out;
        let (token, entry) = made.split_once("\n\n").unwrap();
        (token.to_owned(), format!("\n{entry}"))
    }
}

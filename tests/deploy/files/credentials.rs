//! The server and a job with the credentials and the variables of their units.

use crate::{
    binary::{Ended, Process, Server, fencepost},
    recipe::Recipe,
    systemd::{INSTALLED, Unit},
    tools::{ROOT, read},
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder of a unit with its credentials, as systemd makes it: only the user of the unit can read it, and nobody
/// can write.
struct Credentials(tempfile::TempDir);

impl Credentials {
    /// Of a unit that has this one only.
    fn new(unit: &str, content: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix("LoadCredential=")).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let (name, _) = lines[0].split_once(':').unwrap();
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o400)).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o500)).unwrap();
        Self(folder)
    }

    /// The variables of the unit, with this folder in place of that of systemd.
    fn variables(&self, unit: &Unit, name: &str) -> Vec<(String, PathBuf)> {
        let at = format!("/run/credentials/{name}");
        let here = self.0.path().to_str().unwrap();
        let mut variables: Vec<_> =
            unit.variables().into_iter().map(|(name, value)| (name, value.replace(&at, here).into())).collect();
        let in_folder = |(_, value): &&(String, PathBuf)| value.starts_with(here);
        assert_eq!(variables.iter().filter(in_folder).count(), 1, "{variables:?}");
        variables.push(("CREDENTIALS_DIRECTORY".to_owned(), here.into()));
        variables
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        // So that the folder can be removed.
        fs::set_permissions(self.0.path(), Permissions::from_mode(0o700)).unwrap();
    }
}

/// The server of the unit with the drop-in, with TLS for other machines.
fn server(recipe: &Recipe, credentials: &Credentials) -> Server {
    let variables = credentials.variables(&Unit::server_with_access(), "fencepost.service");
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_path())).collect();
    let config = Path::new(ROOT).join("deploy/systemd/fencepost.toml");
    let [certificate, key] = ["server.crt", "server.key"].map(|name| recipe.path(name).display().to_string());
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let here = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--store", "memory:"];
    Server::start_bare(&[&["--config", config.to_str().unwrap()][..], &tls, &here].concat(), &variables)
}

/// Runs what the unit of the job runs, with this token.
fn job(recipe: &Recipe, server: &Server, token: &str) -> Ended {
    let unit = read("deploy/access/billing.service");
    let credentials = Credentials::new(&unit, token);
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    let (job, words) = words.split_last().unwrap();
    assert!(words[0] == INSTALLED && job.starts_with("/usr/local/bin/"), "{line}");
    let mut command = fencepost(&[&words[1..], &["true"]].concat());
    command.envs(credentials.variables(&Unit::client(), "billing.service"));
    called(&mut command, recipe, server)
}

/// Runs a command against the server with TLS.
fn called(command: &mut Command, recipe: &Recipe, server: &Server) -> Ended {
    let (_, port) = server.url.rsplit_once(':').unwrap();
    let command = command.env("FENCEPOST_SERVER", format!("https://localhost:{port}"));
    Process::start(command.env("FENCEPOST_CA", recipe.path("ca.crt"))).ended()
}

#[test]
fn a_server_and_a_job_use_the_credentials_of_their_units() {
    let recipe = Recipe::new();
    let keys = recipe.path("jwks.json");
    fs::write(&keys, recipe.keys()).unwrap();
    let [(billing, entry), (stranger, _)] = ["billing", "stranger"].map(Recipe::static_token);
    let access = recipe.enforced(&keys) + &entry;
    let credentials = Credentials::new(&read("deploy/systemd/access.conf"), &access);
    let server = server(&recipe, &credentials);
    job(&recipe, &server, &billing).expect(0);
    job(&recipe, &server, &stranger).expect(77);
    let none = called(&mut fencepost(&["acquire", "billing/nightly"]), &recipe, &server);
    none.expect(77).says("--credentials or FENCEPOST_CREDENTIALS");
    assert!(!server.log().contains("\"level\":\"ERROR\""), "{}", server.log());
}

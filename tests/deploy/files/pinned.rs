//! What the files of `deploy/` and the Dockerfile take from the rest of the repository: versions, options, ports.

use crate::{
    binary::{Process, fencepost},
    tools::{ROOT, files_in, passes, read},
};
use std::{collections::BTreeSet, path::Path, process::Command};

/// Variables of the files that are not options of the server: those of compose.
const OF_COMPOSE: [&str; 2] = ["FENCEPOST_IMAGE", "FENCEPOST_USER"];

/// Files for clients.
const OF_CLIENTS: [&str; 2] = ["deploy/access/billing.service", "deploy/access/pod.yaml"];

/// All files of `deploy/`, and the Dockerfile.
fn files() -> Vec<String> {
    let kubernetes = ["kubernetes/access", "kubernetes/base", "kubernetes/tls"];
    let mut files = vec!["Dockerfile".to_owned()];
    for folder in ["access", "compose", "grafana", "prometheus", "proxies", "systemd"].into_iter().chain(kubernetes) {
        let found = files_in(&format!("deploy/{folder}"));
        files.extend(found.into_iter().filter(|path| Path::new(ROOT).join(path).is_file()));
    }
    files
}

#[test]
fn variables_are_options_of_the_server_or_of_clients() {
    let help_of = |command: &str| Process::start(&mut fencepost(&[command, "--help"])).ended().expect(0).out;
    let [of_server, of_client] = ["serve", "run"].map(help_of);
    let mut found = BTreeSet::new();
    for path in files() {
        // A client does not know the options of a server.
        let help = if OF_CLIENTS.contains(&&*path) { &of_client } else { &of_server };
        let text = read(&path);
        for (start, _) in text.match_indices("FENCEPOST_") {
            let end = text[start..].find(|next: char| !next.is_ascii_uppercase() && next != '_');
            let name = text[start..].split_at(end.unwrap_or(text.len() - start)).0.to_owned();
            assert!(
                OF_COMPOSE.contains(&&*name)
                    || help.contains(&format!("{name}]"))
                    || help.contains(&format!("{name}=")),
                "{path}: {name} is not an option"
            );
            found.insert(name);
        }
    }
    assert!(found.len() > 10, "{found:?}");
}

#[test]
fn the_file_of_the_service_has_options_that_exist() {
    let mut command = fencepost(&["serve", "--print-config", "--config", "deploy/systemd/fencepost.toml"]);
    let command = command.current_dir(ROOT).env_remove("FENCEPOST_ADMIN_LISTEN").env_remove("FENCEPOST_ADMIN_SERVICE");
    let printed = Process::start(command).ended().expect(0).out;
    // Nobody reads lease ids on the network.
    for line in ["listen = \"127.0.0.1:7420\"", "plaintext = false", "admin_service = \"admin\""] {
        assert!(printed.lines().any(|printed| printed == line), "{line} {printed}");
    }
}

#[test]
fn no_file_offers_the_calls_of_operators_to_clients() {
    for path in ["compose/single.yaml", "compose/replicas.yaml", "compose/tls.yaml", "kubernetes/base/deployment.yaml"]
    {
        assert!(!read(&format!("deploy/{path}")).contains("everywhere"), "{path}");
    }
}

#[test]
fn the_lines_for_tls_in_the_file_of_the_service_are_options() {
    let text = read("deploy/systemd/fencepost.toml");
    let (plain, tls) = text.split_once("listen = \"127.0.0.1:7420\"\n").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{plain}{}", tls.replace("# listen", "listen").replace("# tls_", "tls_")))
        .unwrap();
    let printed =
        Process::start(fencepost(&["serve", "--print-config", "--config"]).arg(file.path())).ended().expect(0);
    assert!(printed.out.contains("listen = \":7420\"") && printed.out.contains("clients.crt"), "{printed:?}");
}

/// Both ways to give the server its access file concern the same file.
#[test]
fn the_line_for_access_in_the_file_of_the_service_is_an_option() {
    let text = read("deploy/systemd/fencepost.toml").replace("# access =", "access =");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let printed =
        Process::start(fencepost(&["serve", "--print-config", "--config"]).arg(file.path())).ended().expect(0);
    let line = printed.out.lines().find_map(|line| line.strip_prefix("access = ")).unwrap();
    let credential = format!("LoadCredential=access.toml:{}\n", line.trim_matches('"'));
    assert!(read("deploy/systemd/access.conf").contains(&credential), "{credential}");
}

#[test]
fn the_version_is_that_of_the_workspace() {
    let version = env!("CARGO_PKG_VERSION");
    for path in files_in("deploy/compose").iter().filter(|path| path.ends_with(".yaml")) {
        assert!(read(path).contains(&format!("image: ${{FENCEPOST_IMAGE:-fencepost:{version}}}")), "{path}");
    }
    let kustomization = read("deploy/kubernetes/base/kustomization.yaml");
    assert!(kustomization.contains(&format!("newTag: \"{version}\"")), "{kustomization}");
}

#[test]
fn the_image_is_built_with_the_pinned_toolchain_and_all_manifests() {
    let (docker, toolchain) = (read("Dockerfile"), read("rust-toolchain.toml"));
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(docker.contains(&format!("ARG BUILDER_IMAGE=docker.io/library/rust:{channel}-")), "{channel}");
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    for member in members.trim_end_matches(']').split(", ").map(|member| member.trim_matches('"')) {
        assert!(docker.contains(&format!("COPY {member}/Cargo.toml {member}/\n")), "{member} is not in the Dockerfile");
    }
}

/// The script makes what compose mounts.
#[test]
fn certificates_for_a_trial_are_made_and_are_those_that_compose_names() {
    let folder = tempfile::tempdir().unwrap();
    passes(Command::new("env").args(["bash", "deploy/compose/certificates"]).arg(folder.path()).current_dir(ROOT));
    let compose = read("deploy/compose/tls.yaml");
    for name in ["ca.crt", "server.crt", "server.key", "client.crt", "client.key"] {
        assert!(compose.contains(&format!("/{name}")) && folder.path().join(name).is_file(), "{name}");
    }
    let path = |name: &str| folder.path().join(name);
    for (name, purpose) in [("server.crt", "sslserver"), ("client.crt", "sslclient")] {
        let mut verify = Command::new("openssl");
        passes(verify.args(["verify", "-purpose", purpose, "-CAfile"]).arg(path("ca.crt")).arg(path(name)));
    }
}

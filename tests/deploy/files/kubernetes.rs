//! The manifests, as kustomize renders them.

use crate::{
    binary::{Process, fencepost},
    tools::{fails, passes, read, spoilt, tool},
};
use std::{fs, path::Path, process::Command};

/// The oldest version with all that we use (`preStop.sleep` without a feature gate), and the newest one known.
const VERSIONS: [&str; 2] = ["1.30", "1.37"];
const FOLDERS: [&str; 3] = ["base", "tls", "access"];
/// Connections have a second to close after the drain, and the store has a second for cleanups; one more for a busy
/// node.
const CLOSE_SECONDS: u64 = 3;

/// The objects of a folder.
pub(crate) fn rendered(folder: &str) -> String {
    passes(tool("kustomize").args(["build", &format!("deploy/kubernetes/{folder}")])).out
}

fn validated(file: &Path, version: &str) -> Command {
    let mut command = tool("kubernetes-validate");
    command.args(["--strict", "--kubernetes-version", version]).arg(file);
    command
}

/// The number in the only line that starts with this key.
fn number(text: &str, key: &str) -> u64 {
    let found: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix(key)).collect();
    assert_eq!(found.len(), 1, "{key} {found:?}");
    found[0].trim().parse().unwrap()
}

#[test]
fn manifests_have_the_types_of_kubernetes() {
    for folder in FOLDERS {
        let text = rendered(folder);
        let kinds = ["Namespace", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"];
        assert!(kinds.iter().all(|kind| text.contains(&format!("kind: {kind}\n"))), "{text}");
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        fs::write(file.path(), &text).unwrap();
        for version in VERSIONS {
            passes(&mut validated(file.path(), version));
        }
        let wrong = spoilt(&text, "topologySpreadConstraints:", "topologySpread:", ".yaml");
        fails(&mut validated(wrong.path(), VERSIONS[0]), "topologySpread");
    }
}

#[test]
fn the_pod_of_a_client_has_the_types_of_kubernetes() {
    for version in VERSIONS {
        passes(&mut validated(Path::new("deploy/access/pod.yaml"), version));
    }
    let wrong = spoilt(&read("deploy/access/pod.yaml"), "serviceAccountToken:", "serviceAccount:", ".yaml");
    fails(&mut validated(wrong.path(), VERSIONS[0]), "serviceAccount");
}

#[test]
fn a_misspelt_field_of_a_kustomization_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = read("deploy/kubernetes/base/kustomization.yaml");
    fs::write(folder.path().join("kustomization.yaml"), text.replace("namespace:", "nameSpaced:")).unwrap();
    fails(tool("kustomize").arg("build").arg(folder.path()), "nameSpaced");
}

/// Kubernetes kills what has not ended by then, and streams with it.
#[test]
fn the_drain_fits_into_the_grace_period() {
    let options = Process::start(&mut fencepost(&["serve", "--print-config"])).ended().expect(0).out;
    let drain = options.lines().find_map(|line| line.strip_prefix("drain_timeout = ")).unwrap();
    let drain: u64 = drain.trim_matches('"').strip_suffix('s').unwrap().parse().unwrap();
    let text = rendered("base");
    let (grace, sleep) = (number(&text, "terminationGracePeriodSeconds:"), number(&text, "seconds:"));
    assert!(grace >= sleep + drain + CLOSE_SECONDS, "{grace} s for {sleep} s, {drain} s and {CLOSE_SECONDS} s");
    for path in ["single", "replicas", "tls"].map(|name| format!("deploy/compose/{name}.yaml")) {
        let compose = read(&path);
        let grace = compose.lines().find_map(|line| line.trim().strip_prefix("stop_grace_period: ")).unwrap();
        assert!(grace.strip_suffix('s').unwrap().parse::<u64>().unwrap() >= drain + CLOSE_SECONDS, "{path}");
    }
    assert!(number(&read("deploy/systemd/fencepost.service"), "TimeoutStopSec=") >= drain + CLOSE_SECONDS);
}

#[test]
fn with_tls_the_service_does_not_say_h2c() {
    assert!(rendered("base").contains("appProtocol: kubernetes.io/h2c"));
    for folder in ["tls", "access"] {
        let tls = rendered(folder);
        assert!(!tls.contains("h2c") && tls.contains("name: FENCEPOST_TLS_CERT"), "{tls}");
    }
}

#[test]
fn servers_reach_redis_and_its_sentinels() {
    let text = read("deploy/kubernetes/base/network.yaml");
    let egress = text.split_once("egress:").unwrap().1;
    for port in ["port: 6379 ", "port: 26379 "] {
        assert!(egress.contains(port), "{port} {egress}");
    }
}

/// A server refuses variables that it does not know: Kubernetes is not to add any.
#[test]
fn a_pod_has_the_variables_of_its_manifest_only() {
    for folder in FOLDERS {
        let text = rendered(folder);
        assert!(text.contains("enableServiceLinks: false\n"), "{text}");
    }
}

//! The servers of `deploy/kubernetes/access` and the pod of `deploy/access`, with their variables and their mounts.

use crate::{
    binary::{Ended, Process, Server, await_that, fencepost},
    kubernetes::rendered,
    mounted::Mounted,
    proxy::replaced,
    recipe::{Recipe, of_cluster},
    redis_server::Redis,
    tools::{documents, read},
};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The variable of the store is from a secret of its own.
const STORE: &str = "FENCEPOST_STORE";
/// What the cluster writes into the pod of a client: its token and the authority of the servers.
const OF_POD: [&str; 2] = ["token", "ca.crt"];

/// What a container of a pod has.
struct Container(Value);

/// The only object of this kind.
fn object(yaml: &str, kind: &str) -> Value {
    let mut found = documents(yaml).into_iter().filter(|object| object["kind"] == kind);
    let object = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "two of {kind}");
    object
}

/// The pods of the overlay.
fn pods() -> Value {
    object(&rendered("access"), "Deployment")["spec"]["template"]["spec"].clone()
}

/// The items of a list.
fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().unwrap_or_else(|| panic!("no {key} in {of}"))
}

fn text(of: &Value) -> &str {
    of.as_str().unwrap_or_else(|| panic!("no text: {of}"))
}

impl Container {
    fn of(pod: &Value) -> Self {
        assert_eq!(list(pod, "containers").len(), 1);
        Self(pod["containers"][0].clone())
    }

    /// Its variables. Those that come from a secret have no value.
    fn variables(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        list(&self.0, "env").iter().map(|variable| (text(&variable["name"]), variable["value"].as_str()))
    }

    fn variable(&self, name: &str) -> &str {
        self.variables().find(|(own, _)| *own == name).and_then(|found| found.1).unwrap_or_else(|| panic!("no {name}"))
    }

    /// The folder of a volume. Kubernetes updates folders, but no single file that is mounted.
    fn mounted_at(&self, volume: &str) -> &str {
        let mount = list(&self.0, "volumeMounts").iter().find(|mount| mount["name"] == volume);
        let mount = mount.unwrap_or_else(|| panic!("{volume} is not mounted"));
        assert!(mount["readOnly"] == true && mount["subPath"].is_null(), "{mount}");
        text(&mount["mountPath"])
    }
}

/// The variables that the image sets, but for addresses.
fn of_image() -> (&'static str, PathBuf) {
    let variable = "FENCEPOST_PLAINTEXT";
    assert!(read("Dockerfile").contains(&format!("{variable}=true")));
    (variable, "true".into())
}

/// A server of the overlay, whose files are in these folders.
fn server(store: &Redis, access: &Mounted, tls: &Mounted) -> Server {
    let container = Container::of(&pods());
    let folders = [("access", access), ("tls", tls)].map(|(name, folder)| (container.mounted_at(name), folder.path()));
    let value = |(name, value): (&str, Option<&str>)| match value {
        None if name == STORE => PathBuf::from(store.url()),
        None => panic!("{name} has no value"),
        Some(value) => {
            let inside =
                folders.iter().find_map(|(at, folder)| Some(folder.join(Path::new(value).strip_prefix(at).ok()?)));
            inside.unwrap_or_else(|| value.into())
        }
    };
    let mut variables: Vec<_> = container.variables().map(|found| (found.0, value(found))).collect();
    assert!(variables.len() > 4, "{variables:?}");
    variables.push(of_image());
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_path())).collect();
    Server::start_bare(&["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"], &variables)
}

/// The pod of a client.
struct Client {
    container: Container,
    audience: String,
}

impl Client {
    fn new() -> Self {
        let pod = object(&read("deploy/access/pod.yaml"), "Pod");
        let volume = &list(&pod["spec"], "volumes")[0];
        let sources = list(&volume["projected"], "sources");
        let written = [&sources[0]["serviceAccountToken"]["path"], &sources[1]["configMap"]["items"][0]["path"]];
        assert_eq!(written, OF_POD);
        let audience = text(&sources[0]["serviceAccountToken"]["audience"]).to_owned();
        Self { container: Container::of(&pod["spec"]), audience }
    }

    /// Runs a command under a lock, as the pod does if this is its folder.
    fn run(&self, server: &Server, folder: &Path, lock: &str) -> Ended {
        let at = self.container.mounted_at("fencepost");
        let mut command = fencepost(&["run", lock, "--", "true"]);
        for (name, value) in self.container.variables() {
            command.env(name, value.unwrap().replace(at, folder.to_str().unwrap()));
        }
        let (_, port) = server.url.rsplit_once(':').unwrap();
        command.env("FENCEPOST_SERVER", format!("https://localhost:{port}"));
        if !folder.join(OF_POD[0]).exists() {
            command.env_remove("FENCEPOST_CREDENTIALS");
        }
        Process::start(&mut command).ended()
    }
}

#[test]
fn pods_with_a_token_are_served_without_a_certificate_and_a_changed_secret_counts() {
    let (recipe, client) = (Recipe::new(), Client::new());
    let authority = recipe.content("ca.crt");
    let folder_of = |token: Option<String>| {
        let token = token.map(|token| (OF_POD[0], token));
        Mounted::new(&token.into_iter().chain([(OF_POD[1], authority.clone())]).collect::<Vec<_>>())
    };
    let pod = object(&read("deploy/access/pod.yaml"), "Pod");
    let (namespace, account) = (text(&pod["metadata"]["namespace"]), text(&pod["spec"]["serviceAccountName"]));
    let token = |namespace: &str| recipe.cluster_token(&client.audience, namespace, account);
    let (billing, shop, nobody) = (folder_of(Some(token(namespace))), folder_of(Some(token("shop"))), folder_of(None));

    let mut access = Mounted::new(&[("access.toml", String::new()), ("jwks.json", recipe.keys())]);
    let keys = access.path().join("jwks.json");
    let rules = recipe.enforced(&keys);
    access.write(&[("access.toml", rules.clone()), ("jwks.json", recipe.keys())]);
    let certificate = [("tls.crt", "server.crt"), ("tls.key", "server.key"), ("ca.crt", "ca.crt")];
    let tls = Mounted::new(&certificate.map(|(name, made)| (name, recipe.content(made))));
    let redis = Redis::start(&[]);
    let server = server(&redis, &access, &tls);

    let run = |folder: &Mounted, lock: &str| client.run(&server, folder.path(), lock);
    await_that("a lease of the pod", || run(&billing, "billing/nightly").code == 0);
    run(&nobody, "billing/nightly").expect(77).says("--credentials or FENCEPOST_CREDENTIALS");
    run(&billing, "orders/nightly").expect(77).says("no rule permits");
    run(&shop, "billing/nightly").expect(77).says("no rule permits");
    // Another audience is another service's token.
    let stolen = folder_of(Some(recipe.cluster_token("other", namespace, account)));
    run(&stolen, "billing/nightly").expect(77);

    let changed = replaced(&rules, &format!("serviceaccount:{namespace}:*"), "serviceaccount:shop:*");
    access.write(&[("access.toml", changed), ("jwks.json", recipe.keys())]);
    await_that("the changed secret counts", || run(&shop, "billing/nightly").code == 0);
    run(&billing, "billing/nightly").expect(77).says("no rule permits");
}

/// Where the access file says that the keys are, and where the variable says that it is itself.
#[test]
fn the_files_of_the_secret_are_where_the_access_file_and_its_variable_say() {
    let container = Container::of(&pods());
    let at = container.mounted_at("access");
    assert_eq!(container.variable("FENCEPOST_ACCESS"), format!("{at}/access.toml"));
    assert_eq!(of_cluster("keys"), format!("{at}/jwks.json"));
    let command = "create secret generic fencepost-access --from-file=access.toml --from-file=jwks.json";
    for path in ["docs/access.md", "deploy/kubernetes/access/kustomization.yaml"] {
        assert!(read(path).contains(command), "{path}");
    }
}

#[test]
fn only_the_server_reads_the_secret() {
    let pods = pods();
    let volume = list(&pods, "volumes").iter().find(|volume| volume["name"] == "access").unwrap();
    assert_eq!(volume["secret"]["secretName"], "fencepost-access");
    // For the owner and the group: without that of `fsGroup` the server could not read it.
    assert_eq!(volume["secret"]["defaultMode"], 0o440);
    assert_eq!(pods["securityContext"]["fsGroup"], pods["securityContext"]["runAsGroup"]);
    assert_eq!(pods["automountServiceAccountToken"], false);
}

#[test]
fn the_pod_of_a_client_may_reach_the_servers() {
    let (overlay, pod) = (rendered("access"), object(&read("deploy/access/pod.yaml"), "Pod"));
    let policy = object(&overlay, "NetworkPolicy");
    let admitted = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"].as_object().unwrap();
    assert!(!admitted.is_empty());
    for (label, value) in admitted {
        assert_eq!(&pod["metadata"]["labels"][label], value, "{label}");
    }
    let services = documents(&overlay).into_iter().filter(|object| object["kind"] == "Service");
    let addresses: Vec<_> = services
        .map(|it| {
            let (name, namespace) = (text(&it["metadata"]["name"]), text(&it["metadata"]["namespace"]));
            format!("https://{name}.{namespace}:{}", it["spec"]["ports"][0]["port"])
        })
        .collect();
    let server = Container::of(&pod["spec"]);
    assert!(addresses.iter().any(|address| address == server.variable("FENCEPOST_SERVER")), "{addresses:?}");
    assert_eq!(Client::new().audience, of_cluster("audience"));
}

//! Identities of client certificates.

use crate::{
    certificates::{Authority, Identity, Valid},
    support::{assert_refused, within},
    world::{Credentials, Files, Shown, World, rule, token},
};
use fencepost::testing::config::TlsFiles;
use fencepost_proto::v1::{GetRequest, lock_service_client::LockServiceClient};
use tonic::{
    Code,
    transport::{Certificate, ClientTlsConfig, Endpoint},
};

fn client(world: &World, trusted: &Authority, identity: &Identity, shown: &Credentials) -> LockServiceClient<Shown> {
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(trusted.pem()));
    let tls = tls.identity(tonic::transport::Identity::from_pem(&identity.cert, &identity.key));
    let endpoint = Endpoint::from_shared(format!("https://{}", world.addr)).unwrap().tls_config(tls).unwrap();
    LockServiceClient::with_interceptor(endpoint.connect_lazy(), shown.clone())
}

#[tokio::test]
async fn a_certificate_is_an_identity_unless_a_token_is_shown() {
    let (files, authority) = (Files::new(), Authority::new("one"));
    let server = authority.issue("server");
    files.write("cert.pem", &server.cert);
    files.write("key.pem", &server.key);
    files.write("ca.pem", &authority.pem());
    files.rules(
        &("mode = \"enforce\"\n[[certificate]]\nsan = \"*.workers.example\"\nname = \"worker\"\n\
           [[certificate]]\nsan = \"ship.example\"\n"
            .to_owned()
            + &token("operator", "operator")
            + &rule("worker", &["read"], &["a/"])
            + &rule("ship.example", &["read"], &["ship/"])
            + &rule("operator", &["read"], &["z/"])),
    );
    let world = World::start_with(&files, |config| {
        let (cert, key, client_ca) = (files.path("cert.pem"), files.path("key.pem"), Some(files.path("ca.pem")));
        config.tls = Some(TlsFiles { cert, key, client_ca });
    })
    .await;
    let issue = |hosts: &[&str]| authority.issue_for("client", hosts, Valid::Now);
    let get = async |identity: &Identity, shown: &Credentials, name: &str| {
        let mut client = client(&world, &authority, identity, shown);
        within(client.get(GetRequest { lock_name: name.to_owned() })).await.map(drop)
    };
    let (none, operator) = (Credentials(None), Credentials::bearer("operator"));
    let (worker, ship) = (issue(&["one.workers.example"]), issue(&["ship.example"]));
    get(&worker, &none, "a/1").await.unwrap();
    get(&ship, &none, "ship/1").await.unwrap();
    assert_refused(get(&ship, &none, "a/1").await, Code::PermissionDenied, "NOT_PERMITTED");
    for nobody in [issue(&["other.example"]), issue(&["one.workers.example", "ship.example"]), issue(&[])] {
        assert_refused(get(&nobody, &none, "a/1").await, Code::Unauthenticated, "CREDENTIALS_INVALID");
    }
    // A token names somebody else, and one that is refused is not replaced by the certificate.
    get(&worker, &operator, "z/1").await.unwrap();
    assert_refused(get(&worker, &operator, "a/1").await, Code::PermissionDenied, "NOT_PERMITTED");
    let wrong = Credentials::bearer("wrong");
    assert_refused(get(&worker, &wrong, "a/1").await, Code::Unauthenticated, "CREDENTIALS_INVALID");
}

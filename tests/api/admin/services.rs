//! Where AdminService is offered.

use crate::{
    binary::{Process, fencepost},
    start,
    support::channel,
};
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use fencepost_proto::v1::{DrainRequest, GetRequest, admin_service_client::AdminServiceClient};
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1 as reflect;

const ADMIN: &str = "fencepost.v1.AdminService";
const LOCKS: &str = "fencepost.v1.LockService";

/// The services that reflection lists.
async fn listed(address: &str) -> Vec<String> {
    let request = reflect::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(reflect::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut client = reflect::server_reflection_client::ServerReflectionClient::new(channel(address.parse().unwrap()));
    let mut answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
    let reflect::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else {
        panic!("{answer:?}");
    };
    list.service.into_iter().map(|service| service.name).collect()
}

#[tokio::test]
async fn admin_service_can_be_on_the_admin_port_only() {
    let (server, admin) = start(&["--admin-service", "admin"]);
    let main = server.url.trim_start_matches("http://").to_owned();
    let on_main = channel(main.parse().unwrap());
    let refused = AdminServiceClient::new(on_main.clone()).drain(DrainRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    let names = listed(&main).await;
    assert!(names.contains(&LOCKS.to_owned()) && !names.contains(&ADMIN.to_owned()), "{names:?}");
    let mut health = HealthClient::new(on_main);
    let known = health.check(HealthCheckRequest { service: LOCKS.to_owned() }).await;
    assert!(known.is_ok(), "{known:?}");
    let unknown = health.check(HealthCheckRequest { service: ADMIN.to_owned() }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);

    let names = listed(&admin).await;
    assert!(names.contains(&ADMIN.to_owned()) && !names.contains(&LOCKS.to_owned()), "{names:?}");
    let mut locks = LockServiceClient::new(channel(admin.parse().unwrap()));
    let refused = locks.get(GetRequest { lock_name: "a".to_owned() }).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "the admin port has no locks");
}

#[test]
fn an_operator_uses_the_admin_port() {
    let (server, admin) = start(&["--admin-service", "admin"]);
    let taken = server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    let token = taken.field("token");
    let revoke = ["force-release", "a", "--token", token, "--reason", "it is stuck"];
    // The port of locks says where these calls are.
    server.run(&revoke).expect(69).says("on the admin port").says("127.0.0.1:7429").says("nothing was done");
    server.run(&["drain", "--yes"]).expect(69).says("on the admin port").says("--admin-service everywhere");
    let on_admin =
        |arguments: &[&str]| Process::start(&mut fencepost(&[arguments, &["--server", &admin]].concat())).ended();
    on_admin(&revoke).expect(0);
    assert!(server.is_free("a"));
    on_admin(&["drain"]).expect(0);
    server.process.ended().expect(0);
}

#[tokio::test]
async fn by_default_admin_service_is_on_the_admin_port_only() {
    let mut command = fencepost(&["serve", "--print-config"]);
    let printed = Process::start(command.env_remove("FENCEPOST_ADMIN_SERVICE")).ended().expect(0);
    assert!(printed.out.contains("\nadmin_service = \"admin\"\n"), "{printed:?}");
    let (server, admin) = start(&["--admin-service", "everywhere"]);
    let main = server.url.trim_start_matches("http://").to_owned();
    for address in [main, admin] {
        let names = listed(&address).await;
        assert!(names.contains(&ADMIN.to_owned()), "{address}: {names:?}");
    }
}

//! TLS, client certificates and bearer tokens.

use crate::{
    authority::{Authority, Files},
    driver::Driver,
    gateway::Gateway,
    world::{Cell, LONG, NO_WAIT, address},
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(2);
const TOKEN: &str = "a.bearer-token_of~1+2/3==";

/// A server asks for client certificates, and a gateway in front of another server for a token as well. Locks are kept
/// through both.
pub(crate) async fn connections(cell: Cell) {
    let authority = Authority::new("interop");
    let (files, ca) = (authority.server(), authority.file());
    let server = cell.world.another_server(&[
        "--tls-cert",
        files.certificate.to_str().unwrap(),
        "--tls-key",
        files.key.to_str().unwrap(),
        "--tls-client-ca",
        ca.to_str().unwrap(),
    ]);
    let gateway = Gateway::to(&cell.world.address, &authority, TOKEN).await;
    let direct = format!("https://{}", address(&server));
    let certificate = authority.client();
    let all = |address: &str| settings(address, &authority, &certificate, TOKEN);
    works(&cell, "direct", all(&direct)).await;
    works(&cell, "gateway", all(&gateway.address)).await;
    refused(&cell, &authority, &certificate, &direct, &gateway.address).await;
    // Killed, it would leave the locks of the other clients, which share its Redis, without a leader for a while.
    server.process.signal(Signal::SIGTERM);
    server.drained();
}

/// What a client needs for both.
fn settings(address: &str, authority: &Authority, client: &Files, token: &str) -> Value {
    let (ca, cert, key) = (authority.file(), &client.certificate, &client.key);
    json!({ "servers": [address], "holder": "interop", "ca": ca, "cert": cert, "key": key, "token": token })
}

/// All calls and the session go over the connection.
async fn works(cell: &Cell, part: &str, settings: Value) {
    let (client, name) = (cell.driver(part), cell.name(part));
    client.call("open", settings).await.expect("the client opens");
    let lock = client.acquire(&name, TTL).await;
    sleep(TTL * 3 / 2).await;
    assert!(client.valid_for(&name).await.is_some(), "{part}: the lock is kept");
    let found = client.call("get", json!({ "name": name })).await.expect("get is answered");
    assert_eq!((found["token"].as_u64(), found["holder"].as_str()), (Some(lock.token), Some("interop")), "{part}");
    assert_eq!(client.release(&name).await, "released", "{part}");
}

/// The control: without the certificate, without the token, or with another authority, nothing is granted.
async fn refused(cell: &Cell, authority: &Authority, client: &Files, direct: &str, gateway: &str) {
    let without = |fields: &[&str], address| {
        let mut settings = settings(address, authority, client, TOKEN);
        fields.iter().for_each(|field| drop(settings.as_object_mut().unwrap().remove(*field)));
        settings
    };
    let other = Authority::new("another");
    let untrusted = settings(direct, &other, client, TOKEN);
    let unreachable = [("no-certificate", without(&["cert", "key"], direct)), ("another-authority", untrusted)];
    for (part, settings) in unreachable {
        refusal(cell, part, settings).await;
    }
    let another_token = settings(gateway, authority, client, "another");
    for (part, settings) in [("no-token", without(&["token"], gateway)), ("another-token", another_token)] {
        assert_eq!(refusal(cell, part, settings).await, "UNAUTHENTICATED", "{part}");
    }
}

/// The code with which an acquire fails.
async fn refusal(cell: &Cell, part: &str, settings: Value) -> String {
    let (client, name): (Driver, _) = (cell.driver(part), cell.name(part));
    client.call("open", settings).await.expect("the client opens");
    let (kind, answer) = client.ask_acquire(&name, &name, LONG, NO_WAIT).await.failed().await;
    assert_eq!(kind, "refused", "{part}: {answer}");
    answer["code"].as_str().expect("code").to_owned()
}

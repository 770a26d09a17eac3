//! The admin port with TLS.

use crate::{
    authority::{Authority, Files},
    binary::{Ended, Process, Server, fencepost},
    http::{connect, read_to_end},
};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::Arc,
};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server whose admin port others can reach, and its address on this machine.
fn start(authority: &Authority, flags: &[&str]) -> (Server, String) {
    let files = authority.server();
    let tls = ["--tls-cert", text(&files.certificate), "--tls-key", text(&files.key), "--admin-tls"];
    let server = Server::start_with(&[&["--admin-listen", "0.0.0.0:0"], &tls[..], flags].concat());
    let address = server.admin_address().replace("0.0.0.0", "127.0.0.1");
    (server, address)
}

/// The answer to a scraper that has no certificate and speaks HTTP/1.1.
fn get(authority: &Authority, address: &str, path: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut config =
        config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

/// A command with this certificate, or none.
fn run(authority: &Authority, address: &str, client: Option<&Files>, words: &[&str]) -> Ended {
    let (server, ca) = (format!("https://{address}"), authority.file());
    let mut words = [words, &["--server", &server, "--ca", text(&ca)]].concat();
    if let Some(files) = client {
        words.extend(["--cert", text(&files.certificate), "--key", text(&files.key)]);
    }
    Process::start(&mut fencepost(&words)).ended()
}

const REVOKE: [&str; 6] = ["force-release", "a", "--token", "7", "--reason", "it is stuck"];

#[test]
fn scrapers_need_no_certificate_and_plain_text_gets_no_answer() {
    let authority = Authority::new("one");
    let ca = authority.file();
    let (server, address) = start(&authority, &["--tls-client-ca", text(&ca)]);
    assert!(get(&authority, &address, "/livez").starts_with("HTTP/1.1 200 "));
    assert!(get(&authority, &address, "/metrics").contains("# EOF"));
    let health = ["health", "--admin-tls", "--admin-listen", &address];
    assert_eq!(Process::start(&mut fencepost(&health)).ended().expect(0).out, "ready\n");
    let without = Process::start(&mut fencepost(&["health", "--admin-listen", &address])).ended();
    without.expect(69).says("--admin-tls");
    let mut plain = connect(&address);
    plain.write_all(format!("GET /livez HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    assert!(!String::from_utf8_lossy(&read_to_end(&plain)).contains("HTTP"), "{}", server.log());
    run(&authority, &address, None, &REVOKE).expect(1).says("nobody holds a");
    drop(server);
}

#[test]
fn a_certificate_is_the_identity_of_an_operator() {
    let authority = Authority::new("one");
    let folder = tempfile::tempdir().unwrap();
    let (rules, ca) = (folder.path().join("access.toml"), authority.file());
    let permitted = "[[certificate]]\nsan = \"operator.example\"\n\
                     [[rule]]\nwho = [\"operator.example\"]\nmay = [\"force\"]\nlocks = [\"\"]\n";
    fs::write(&rules, format!("mode = \"enforce\"\n{permitted}")).unwrap();
    let (server, address) = start(&authority, &["--tls-client-ca", text(&ca), "--access", text(&rules)]);
    let (operator, other) =
        (authority.issue("operator", &["operator.example"], crate::certificates::Valid::Now), authority.client());
    run(&authority, &address, Some(&operator), &REVOKE).expect(1).says("nobody holds a");
    for nobody in [None, Some(&other)] {
        run(&authority, &address, nobody, &REVOKE).expect(77);
    }
    assert!(get(&authority, &address, "/readyz").starts_with("HTTP/1.1 200 "), "probes stay open");
    drop(server);
}

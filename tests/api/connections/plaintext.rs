//! Plain text on an address that other machines can reach has to be asked for.

use crate::{
    binary::{Process, Server, fencepost},
    certificates::Authority,
    tls_server::Files,
};

fn serve(flags: &[&str]) -> Process {
    Process::start(&mut fencepost(&[&["serve"], flags].concat()))
}

#[test]
fn an_address_that_is_not_loopback_needs_tls_or_plaintext() {
    for address in [":0", "0.0.0.0:0"] {
        let refused = serve(&["--listen", address]).ended().expect(78);
        refused.says(&format!("listen = {address:?}")).says("--tls-cert FILE and --tls-key FILE").says("--plaintext");
        let server = Server::start_at(address, &["--plaintext"], &[]);
        server.run(&["get", "a"]).expect(0);
    }
    let files = Files::new(&Authority::new("one").issue("server"));
    let [cert, key] = [files.text("cert.pem"), files.text("key.pem")];
    Server::start_at("0.0.0.0:0", &["--tls-cert", &cert, "--tls-key", &key], &[]);
}

#[test]
fn loopback_addresses_and_names_need_neither() {
    for address in ["127.0.0.1:0", "127.8.9.1:0", "localhost:0"] {
        Server::start_at(address, &[], &[]).run(&["get", "a"]).expect(0);
    }
}

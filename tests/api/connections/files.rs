//! A server does not start with files of TLS that cannot work. It says which file, why, and what to do.

use crate::{
    binary::{Ended, Process, fencepost},
    certificates::{Authority, Valid},
    tls_server::Files,
};

/// A server that must not start.
fn refused(flags: &[String]) -> Ended {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Process::start(&mut fencepost(&[&["serve", "--listen", "127.0.0.1:0"], &flags[..]].concat())).ended().expect(78)
}

fn good() -> (Authority, Files) {
    let authority = Authority::new("one");
    let files = Files::new(&authority.issue("server"));
    files.put_authorities(&[&authority]);
    (authority, files)
}

#[test]
fn missing_files_are_all_reported() {
    let (_, files) = good();
    for name in ["cert.pem", "key.pem", "ca.pem"] {
        std::fs::remove_file(files.path(name)).unwrap();
    }
    let refused = refused(&files.mutual_flags()).says("3 problems");
    for (key, name) in [("tls_cert", "cert.pem"), ("tls_key", "key.pem"), ("tls_client_ca", "ca.pem")] {
        let says = format!("{key} = {:?}: cannot be read: No such file", files.text(name));
        assert!(refused.err.contains(&says), "{says} is not in {refused:?}");
    }
}

#[test]
fn files_without_the_right_pem_are_refused() {
    let (_, files) = good();
    for (name, says) in [
        ("cert.pem", "contains no certificate: it must be a PEM file"),
        ("key.pem", "contains no private key: it must be a PEM file"),
        ("ca.pem", "contains no certificate: it must be a PEM file"),
    ] {
        let (_, files) = good();
        files.write(name, "no PEM");
        refused(&files.mutual_flags()).says(&files.text(name)).says(says);
    }
    files.write("cert.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    refused(&files.flags()).says(&files.text("cert.pem")).says("certificate 1 is not an X.509 certificate");
    files.write("cert.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    refused(&files.flags()).says(&files.text("cert.pem")).says("is not a valid PEM file");
    let (_, files) = good();
    files.write("key.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    refused(&files.flags()).says(&files.text("key.pem")).says("is encrypted").says("openssl pkey");
    files.write("key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    refused(&files.flags()).says(&files.text("key.pem")).says("cannot be used");
}

#[test]
fn a_folder_in_place_of_a_file_is_refused() {
    let (_, files) = good();
    std::fs::remove_file(files.path("key.pem")).unwrap();
    std::fs::create_dir(files.path("key.pem")).unwrap();
    refused(&files.flags()).says(&files.text("key.pem")).says("is not a file");
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (authority, files) = good();
    files.write("key.pem", &authority.issue("other").key);
    let says = format!("does not belong to the certificate in {}", files.text("cert.pem"));
    refused(&files.flags()).says(&files.text("key.pem")).says(&says);
}

#[test]
fn a_certificate_outside_its_validity_is_refused() {
    let (authority, files) = good();
    for (valid, says) in
        [(Valid::Formerly, "certificate 1 has expired on "), (Valid::Later, "certificate 1 is not valid before ")]
    {
        files.put(&authority.issue_valid("server", valid));
        refused(&files.flags()).says(&files.text("cert.pem")).says(says);
    }
    // An intermediate counts as well: clients would refuse the chain.
    let server = authority.issue("server");
    files.put(&server);
    files.write("cert.pem", &(server.cert + &Authority::valid("old", Valid::Formerly).pem()));
    refused(&files.flags()).says("certificate 2 has expired on ");
}

#[test]
fn authorities_that_are_not_valid_now_do_not_count() {
    let (authority, files) = good();
    let old = Authority::valid("old", Valid::Formerly);
    files.put_authorities(&[&old]);
    refused(&files.mutual_flags()).says("has no authority that is valid now: certificate 1 has expired on ");
    files.put_authorities(&[&authority, &old]);
    let server = crate::tls_server::server(&files.mutual_flags());
    assert!(server.log().contains("certificate 2 has expired on "), "{}", server.log());
}

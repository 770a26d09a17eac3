//! A server process with TLS, and its files.

use crate::{
    binary::Server,
    certificates::{Authority, Identity},
};
use std::{fs, net::SocketAddr, path::PathBuf};

/// The files of TLS, in a folder of their own.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    /// The files of this certificate.
    pub(crate) fn new(identity: &Identity) -> Self {
        let it = Self(tempfile::tempdir().unwrap());
        it.put(identity);
        it
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        // As one step, as tools that renew certificates do.
        fs::write(self.path("new"), content).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    /// Replaces the certificate and its key.
    pub(crate) fn put(&self, identity: &Identity) {
        self.write("cert.pem", &identity.cert);
        self.write("key.pem", &identity.key);
    }

    /// Replaces the authorities of client certificates.
    pub(crate) fn put_authorities(&self, authorities: &[&Authority]) {
        self.write("ca.pem", &authorities.iter().map(|authority| authority.pem()).collect::<String>());
    }

    /// The flags for the certificate and the key.
    pub(crate) fn flags(&self) -> Vec<String> {
        ["--tls-cert".to_owned(), self.text("cert.pem"), "--tls-key".to_owned(), self.text("key.pem")].to_vec()
    }

    /// The same, and those for the authorities of clients.
    pub(crate) fn mutual_flags(&self) -> Vec<String> {
        [self.flags(), vec!["--tls-client-ca".to_owned(), self.text("ca.pem")]].concat()
    }
}

/// A server with these flags.
pub(crate) fn server(flags: &[String]) -> Server {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Server::start_with(&flags)
}

pub(crate) fn addr(server: &Server) -> SocketAddr {
    server.url.trim_start_matches("http://").parse().unwrap()
}

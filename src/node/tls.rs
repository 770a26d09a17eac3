//! TLS to a Redis: its files, and the meaning of its errors.

use super::files::{NodeFile, NodeFileProblem, read};
use deadpool_redis::redis::{Client, ClientTlsConfig, ConnectionInfo, TlsCertificates};
use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error as PemError, PemObject},
    },
    sign::CertifiedKey,
};
use std::path::{Path, PathBuf};

/// PEM files for the connections to a Redis. They are read for each connection, so that a rotation needs no restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities that may issue the certificate of Redis, in place of the machine's roots.
    pub ca: Option<PathBuf>,
    /// The client certificate, with its chain.
    pub cert: Option<PathBuf>,
    /// The private key of the client certificate.
    pub key: Option<PathBuf>,
}

const NO_CERTIFICATE: &str = "contains no certificate: it must be a PEM file with -----BEGIN CERTIFICATE-----";
const NO_KEY: &str = "contains no unencrypted private key: it must be a PEM file with -----BEGIN PRIVATE KEY-----";

impl TlsFiles {
    /// Reads and checks the files, and adds them to the settings of a connection.
    pub(super) fn add_to(&self, info: &ConnectionInfo) -> Result<ConnectionInfo, NodeFileProblem> {
        let root_cert = self.ca.as_deref().map(authorities).transpose()?;
        let client_tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(identity(cert, key)?),
            (Some(cert), None) => return Err(problem(NodeFile::Cert, cert, "is given without its private key")),
            (None, Some(key)) => return Err(problem(NodeFile::Key, key, "is given without its certificate")),
            (None, None) => None,
        };
        let path = self.ca.as_ref().or(self.cert.as_ref()).cloned().unwrap_or_default();
        let client = Client::build_with_tls(info.clone(), TlsCertificates { client_tls, root_cert });
        let client = client.map_err(|error| problem(NodeFile::Ca, &path, format!("cannot be used: {error}")))?;
        Ok(client.get_connection_info().clone())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn problem(file: NodeFile, path: &Path, why: impl Into<String>) -> NodeFileProblem {
    NodeFileProblem::new(file, path, why)
}

/// The certificates of a PEM file; at least one.
fn certificates(file: NodeFile, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, NodeFileProblem> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| problem(file, path, format!("is not a valid PEM file: {error}")))?;
    if found.is_empty() { Err(problem(file, path, NO_CERTIFICATE)) } else { Ok(found) }
}

fn authorities(path: &Path) -> Result<Vec<u8>, NodeFileProblem> {
    let pem = read(NodeFile::Ca, path)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(NodeFile::Ca, path, &pem)? {
        let added = roots.add(certificate);
        added
            .map_err(|error| problem(NodeFile::Ca, path, format!("has a certificate that cannot be used: {error}")))?;
    }
    Ok(pem)
}

fn identity(cert: &Path, key: &Path) -> Result<ClientTlsConfig, NodeFileProblem> {
    let (client_cert, client_key) = (read(NodeFile::Cert, cert)?, read(NodeFile::Key, key)?);
    let chain = certificates(NodeFile::Cert, cert, &client_cert)?;
    let parsed = PrivateKeyDer::from_pem_slice(&client_key).map_err(|error| match error {
        PemError::NoItemsFound => problem(NodeFile::Key, key, NO_KEY),
        other => problem(NodeFile::Key, key, format!("is not a valid PEM file: {other}")),
    })?;
    CertifiedKey::from_der(chain, parsed, &ring::default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let why = format!("does not belong to the certificate in {}: give the key of that one", cert.display());
            problem(NodeFile::Key, key, why)
        }
        other => problem(NodeFile::Key, key, format!("cannot be used: {other}")),
    })?;
    Ok(ClientTlsConfig { client_cert, client_key })
}

/// What a failure of TLS means and what to do, from the text of the error: the library hides its type.
pub(super) fn explain(said: &str) -> Option<String> {
    const WHY: [(&str, &str); 9] = [
        ("invalid peer certificate: UnknownIssuer", UNTRUSTED),
        // Another authority of the same name.
        ("invalid peer certificate: BadSignature", UNTRUSTED),
        ("certificate expired", "the certificate of Redis has expired: renew it, or correct the clock of this machine"),
        (
            "certificate not valid yet",
            "the certificate of Redis is not valid yet: correct the clock of this machine, or issue a new one",
        ),
        (
            "certificate not valid for name",
            "the certificate of Redis is not valid for the host in the URL: name Redis as its certificate does, or \
             issue one for this host",
        ),
        (
            "CaUsedAsEndEntity",
            "the certificate of Redis is that of an authority: give Redis a server certificate (basicConstraints \
             CA:FALSE)",
        ),
        (
            "fatal alert: CertificateRequired",
            "Redis asks for a client certificate, and none is given: name one with --store-cert and --store-key",
        ),
        // The other alerts about certificates are about the client's: Redis has no other to judge.
        ("received fatal alert: ", "Redis refused the TLS connection; a client certificate is in --store-cert"),
        ("received corrupt message", "the port does not speak TLS: write redis:// in the URL, or name the TLS port"),
    ];
    let (_, why) = WHY.iter().find(|(text, _)| said.contains(text))?;
    Some(format!("{why} ({said})"))
}

const UNTRUSTED: &str = "the certificate of Redis comes from an authority that is not trusted here, or is self-signed: \
                         name the file of its authority with --store-ca (or SSL_CERT_FILE)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_about_client_certificates_are_told_apart() {
        let explained = |said| explain(said).unwrap();
        assert!(explained("received fatal alert: CertificateRequired").contains("none is given"));
        assert!(explained("received fatal alert: UnknownCA").contains("refused"));
        assert_eq!(explain("connection refused"), None);
    }
}

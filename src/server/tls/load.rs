//! Makes the configuration of TLS from the contents of the files.

use super::{
    Configs,
    files::{Content, Contents},
    validity::Expiry,
};
use crate::config::{ConfigError, Problem, TlsFiles};
use std::{path::Path, sync::Arc};
use tokio_rustls::rustls::{
    Error, InconsistentKeys, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer, time::ASN1Time};

/// The only protocol of the API, HTTP/2, and the first choice on the admin port.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// A configuration that is ready for handshakes.
pub(super) struct Loaded {
    pub(super) configs: Configs,
    /// When the chain of the server expires.
    pub(super) expiry: Expiry,
    /// The authorities of client certificates, if there are any.
    authorities: Option<Authorities>,
}

impl Loaded {
    pub(super) fn log(&self, message: &'static str) {
        let authorities = self.authorities.as_ref().map(|authorities| authorities.roots.len());
        tracing::info!(certificate_expires = %self.expiry.at, client_authorities = authorities, "{message}");
        for problem in self.authorities.iter().flat_map(|authorities| &authorities.skipped) {
            tracing::warn!(%problem, "ignoring an authority of tls_client_ca");
        }
    }
}

/// The authorities that may sign client certificates.
struct Authorities {
    roots: Arc<RootCertStore>,
    /// Why others of the file are not used.
    skipped: Vec<String>,
}

/// Checks the contents. All problems are reported together.
pub(super) fn load(files: &TlsFiles, contents: &Contents) -> Result<Loaded, ConfigError> {
    let mut problems = Vec::new();
    let chain = noted(&mut problems, "tls_cert", &files.cert, chain(&contents.cert));
    let key = noted(&mut problems, "tls_key", &files.key, private_key(&contents.key));
    let authorities = contents.client_ca.as_ref().zip(files.client_ca.as_ref());
    let authorities =
        authorities.and_then(|(content, path)| noted(&mut problems, "tls_client_ca", path, authorities_in(content)));
    let (Some((chain, expiry)), Some(key), true) = (chain, key, problems.is_empty()) else {
        return Err(ConfigError { problems });
    };
    let configs = configs(&chain, &key, authorities.as_ref()).map_err(|error| {
        let (key, path, rule) = match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                let cert = files.cert.display();
                (
                    "tls_key",
                    &files.key,
                    format!("does not belong to the certificate in {cert}: give the key of that one"),
                )
            }
            Error::InvalidCertificate(_) => ("tls_cert", &files.cert, format!("cannot be used: {error}")),
            _ => ("tls_key", &files.key, format!("cannot be used: {error}")),
        };
        ConfigError { problems: vec![problem(key, path, rule)] }
    })?;
    Ok(Loaded { configs, expiry, authorities })
}

fn problem(key: &str, path: &Path, rule: String) -> Problem {
    Problem { at: key.to_owned(), value: path.display().to_string(), rule }
}

/// The value, or `None` if there is a problem, which is noted.
fn noted<T>(problems: &mut Vec<Problem>, key: &str, path: &Path, result: Result<T, String>) -> Option<T> {
    result.map_err(|rule| problems.push(problem(key, path, rule))).ok()
}

/// The certificate with its intermediates, and when the first of them expires.
fn chain(content: &Content) -> Result<(Vec<CertificateDer<'static>>, Expiry), String> {
    let chain = certificates(content)?;
    let mut expiry = None;
    for (index, certificate) in chain.iter().enumerate() {
        let ends = valid_now(certificate).map_err(|why| format!("certificate {} {why}", index + 1))?;
        expiry = Some(expiry.map_or(ends, |first: Expiry| first.first(ends)));
    }
    expiry.map(|expiry| (chain, expiry)).ok_or_else(|| NO_CERTIFICATE.to_owned())
}

const NO_CERTIFICATE: &str = "contains no certificate: it must be a PEM file with -----BEGIN CERTIFICATE-----";

/// At least one certificate.
fn certificates(content: &Content) -> Result<Vec<CertificateDer<'static>>, String> {
    let content = content.as_ref().map_err(Clone::clone)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(content)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("is not a valid PEM file: {error}"))?;
    if found.is_empty() { Err(NO_CERTIFICATE.to_owned()) } else { Ok(found) }
}

/// When the certificate expires, if it is valid now.
fn valid_now(certificate: &CertificateDer<'_>) -> Result<Expiry, String> {
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|error| format!("is not an X.509 certificate: {error}"))?;
    let (validity, now) = (certificate.validity(), ASN1Time::now());
    if now > validity.not_after {
        return Err(format!("has expired on {}: renew it", validity.not_after));
    }
    if now < validity.not_before {
        let since = validity.not_before;
        return Err(format!("is not valid before {since}: check the clock of this machine, or issue a new one"));
    }
    Ok(Expiry::of(validity))
}

fn private_key(content: &Content) -> Result<PrivateKeyDer<'static>, String> {
    let content = content.as_ref().map_err(Clone::clone)?;
    PrivateKeyDer::from_pem_slice(content).map_err(|error| {
        // Encrypted in PKCS #8, or in the older format of OpenSSL.
        let encrypted = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];
        let encrypted = encrypted.iter().any(|text| content.windows(text.len()).any(|part| part == text.as_bytes()));
        if encrypted {
            return "is encrypted: decrypt it (openssl pkey -in FILE -out NEW) and let only the server read it"
                .to_owned();
        }
        format!("contains no private key: it must be a PEM file with -----BEGIN PRIVATE KEY----- ({error})")
    })
}

/// At least one authority that is valid now. rustls does not check the validity of an authority itself.
fn authorities_in(content: &Content) -> Result<Authorities, String> {
    let (mut roots, mut skipped) = (RootCertStore::empty(), Vec::new());
    for (index, certificate) in certificates(content)?.into_iter().enumerate() {
        let number = index + 1;
        match valid_now(&certificate) {
            Err(why) => skipped.push(format!("certificate {number} {why}")),
            Ok(_) => {
                roots.add(certificate).map_err(|error| format!("certificate {number} cannot be used: {error}"))?;
            }
        }
    }
    if roots.is_empty() {
        return Err(format!("has no authority that is valid now: {}", skipped.join("; ")));
    }
    Ok(Authorities { roots: Arc::new(roots), skipped })
}

fn configs(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
    authorities: Option<&Authorities>,
) -> Result<Configs, Error> {
    let mut api = config(chain.to_vec(), key.clone_key(), authorities, Clients::ShowCertificates)?;
    api.alpn_protocols = vec![HTTP2.to_vec()];
    let mut admin = config(chain.to_vec(), key.clone_key(), authorities, Clients::MayShowCertificates)?;
    admin.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(Configs { api: Arc::new(api), admin: Arc::new(admin) })
}

/// What clients do if there are authorities that sign their certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clients {
    ShowCertificates,
    MayShowCertificates,
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Option<&Authorities>,
    clients: Clients,
) -> Result<ServerConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(Authorities { roots, .. }) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider);
            let verifier = match clients {
                Clients::ShowCertificates => verifier,
                Clients::MayShowCertificates => verifier.allow_unauthenticated(),
            };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| Error::General(error.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key)?;
    if authorities.is_some() {
        // rustls does not verify a certificate again when a session is resumed. It may have expired since.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

//! Certificate authorities, and certificates made on the spot.
#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "test code")]

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A certificate authority with a folder for the files that it makes.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Validity {
    Now,
    Past,
    Future,
}

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(&[], Validity::Now);
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    /// The certificate of the authority.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for a server on this machine.
    pub(crate) fn server(&self) -> Files {
        self.issue("server", &["localhost", "127.0.0.1", "::1"], Validity::Now)
    }

    /// A certificate for a client.
    pub(crate) fn client(&self) -> Files {
        self.issue("client", &["a client"], Validity::Now)
    }

    /// A certificate for these names. Replaces that of the same file name.
    pub(crate) fn issue(&self, file: &str, names: &[&str], validity: Validity) -> Files {
        let key = KeyPair::generate().unwrap();
        let mut params = params(names, validity);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        write(self.folder.path(), file, &certificate.pem(), &key)
    }

    /// The certificate and the key of the authority itself, as servers with a self-signed certificate use them.
    pub(crate) fn own(&self) -> Files {
        write(self.folder.path(), "own", &self.issuer.pem(), self.issuer.key())
    }

    /// A certificate for this machine that no authority has issued.
    pub(crate) fn self_signed(&self) -> Files {
        let key = KeyPair::generate().unwrap();
        let certificate = params(&["localhost", "127.0.0.1"], Validity::Now).self_signed(&key).unwrap();
        write(self.folder.path(), "self-signed", &certificate.pem(), &key)
    }
}

fn params(names: &[&str], validity: Validity) -> CertificateParams {
    // A name with a space is no host name.
    let hosts: Vec<_> = names.iter().filter(|name| !name.contains(' ')).map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    if let Some(name) = names.first() {
        params.distinguished_name.push(DnType::CommonName, *name);
    }
    // Far from now on both sides, whatever the clock of the machine says.
    let (from, to) = match validity {
        Validity::Now => (1975, 4000),
        Validity::Past => (1975, 2000),
        Validity::Future => (3000, 4000),
    };
    (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
    params
}

fn write(folder: &Path, name: &str, certificate: &str, key: &KeyPair) -> Files {
    let files = Files { certificate: folder.join(format!("{name}.pem")), key: folder.join(format!("{name}.key")) };
    fs::write(&files.certificate, certificate).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    files
}

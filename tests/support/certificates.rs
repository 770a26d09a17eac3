//! Certificates made on the spot.
#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "test code")]

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::time::{Duration, SystemTime};

/// When a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Valid {
    Now,
    Formerly,
    Later,
    /// For so long from now.
    For(Duration),
    /// After so long.
    After(Duration),
}

/// A certificate and its key, as PEM files have them.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) cert: String,
    pub(crate) key: String,
    pub(crate) der: Vec<u8>,
}

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// The names and addresses of this machine.
pub(crate) const THIS_MACHINE: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The time of the system, which is that of a new file.
fn now() -> SystemTime {
    tempfile::tempfile().unwrap().metadata().unwrap().modified().unwrap()
}

fn params(name: &str, hosts: &[&str], valid: Valid) -> CertificateParams {
    let mut params = CertificateParams::new(hosts.iter().copied().map(str::to_owned).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    // Far from now on both sides, whatever the clock of the machine says.
    let year = |year| date_time_ymd(year, 1, 1);
    (params.not_before, params.not_after) = match valid {
        Valid::Now => (year(1975), year(4000)),
        Valid::Formerly => (year(1975), year(2000)),
        Valid::Later => (year(3000), year(4000)),
        Valid::For(time) => (year(1975), (now() + time).into()),
        Valid::After(time) => ((now() + time).into(), year(4000)),
    };
    params
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self::valid(name, Valid::Now)
    }

    pub(crate) fn valid(name: &str, valid: Valid) -> Self {
        let mut params = params(name, &THIS_MACHINE, valid);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this machine, as server and as client.
    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.issue_valid(name, Valid::Now)
    }

    pub(crate) fn issue_valid(&self, name: &str, valid: Valid) -> Identity {
        self.issue_for(name, &THIS_MACHINE, valid)
    }

    /// A certificate for these hosts, as server and as client.
    pub(crate) fn issue_for(&self, name: &str, hosts: &[&str], valid: Valid) -> Identity {
        let (mut params, key) = (params(name, hosts, valid), KeyPair::generate().unwrap());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let cert = params.signed_by(&key, &self.0).unwrap();
        Identity { cert: cert.pem(), key: key.serialize_pem(), der: cert.der().to_vec() }
    }

    /// The certificate and the key of the authority itself.
    pub(crate) fn own(&self) -> Identity {
        Identity { cert: self.pem(), key: self.0.key().serialize_pem(), der: self.0.der().to_vec() }
    }
}

/// A certificate that no authority has signed.
pub(crate) fn self_signed(name: &str) -> Identity {
    let key = KeyPair::generate().unwrap();
    let cert = params(name, &THIS_MACHINE, Valid::Now).self_signed(&key).unwrap();
    Identity { cert: cert.pem(), key: key.serialize_pem(), der: cert.der().to_vec() }
}

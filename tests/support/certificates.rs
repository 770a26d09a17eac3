//! Certificates made on the spot.
#![allow(dead_code, reason = "no test uses all of it")]

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// When a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Valid {
    Now,
    Formerly,
    Later,
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

fn params(name: &str, valid: Valid) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = match valid {
        Valid::Now => (date_time_ymd(2001, 1, 1), date_time_ymd(2201, 1, 1)),
        Valid::Formerly => (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1)),
        Valid::Later => (date_time_ymd(2200, 1, 1), date_time_ymd(2201, 1, 1)),
    };
    params
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self::valid(name, Valid::Now)
    }

    pub(crate) fn valid(name: &str, valid: Valid) -> Self {
        let mut params = params(name, valid);
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
        let (mut params, key) = (params(name, valid), KeyPair::generate().unwrap());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let cert = params.signed_by(&key, &self.0).unwrap();
        Identity { cert: cert.pem(), key: key.serialize_pem(), der: cert.der().to_vec() }
    }
}

/// A certificate that no authority has signed.
pub(crate) fn self_signed(name: &str) -> Identity {
    let key = KeyPair::generate().unwrap();
    let cert = params(name, Valid::Now).self_signed(&key).unwrap();
    Identity { cert: cert.pem(), key: key.serialize_pem(), der: cert.der().to_vec() }
}

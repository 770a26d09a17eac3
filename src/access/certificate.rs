//! Identities of client certificates: one name of the certificate (a SAN), never its common name.

use super::file::Who;
use serde::Deserialize;
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer};

/// What stands for one segment of a name.
const ANY_SEGMENT: &str = "*";

/// The name in a client certificate by which its holder is known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum San {
    /// Its only URI, such as a SPIFFE ID.
    Uri(String),
    /// Its only DNS name, if it has no URI.
    Dns(String),
}

/// What the server knows from the client certificate of a connection, which the TLS handshake has verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// None if it has no name that identifies its holder.
    san: Option<San>,
    /// When it expires, in Unix time.
    pub(super) expires: i64,
}

impl Certificate {
    /// Reads a verified certificate; `None` if it cannot be read.
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let names = certificate.subject_alternative_name().ok()?;
        let names = names.map(|names| &names.value.general_names[..]).unwrap_or_default();
        let uris = names.iter().filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None });
        let hosts =
            names.iter().filter_map(|name| if let GeneralName::DNSName(host) = name { Some(*host) } else { None });
        // SPIFFE demands exactly one URI. Of several names, none says who it is.
        let san = match (only(uris.clone()), uris.count()) {
            (Some(uri), _) => Some(San::Uri(uri.to_owned())),
            (None, 0) => only(hosts).map(|host| San::Dns(host.to_ascii_lowercase())),
            (None, _) => None,
        };
        Some(Self { san, expires: certificate.validity().not_after.timestamp() })
    }
}

fn only<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names.next().filter(|_| names.next().is_none())
}

/// Which names an entry of the access file accepts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct SanPattern {
    is_uri: bool,
    segments: Vec<String>,
}

impl SanPattern {
    /// Whether a name that fits can be such an identity.
    pub(super) fn can_be(&self, who: &Who) -> bool {
        let (text, is_whole) = match who {
            Who::Exact(name) => (name, true),
            Who::Prefix(beginning) => (beginning, false),
        };
        let mut parts: Vec<&str> = text.split(separator(self.is_uri)).collect();
        let begun = if is_whole { None } else { parts.pop() };
        let fits = |(pattern, part): (&String, &&str)| {
            if pattern == ANY_SEGMENT { !part.is_empty() } else { pattern == part }
        };
        let rest = self.segments.get(parts.len()..).unwrap_or_default();
        let rest_fits = match (begun, rest.first()) {
            (None, next) => next.is_none(),
            (Some(begun), next) => next.is_some_and(|next| next == ANY_SEGMENT || next.starts_with(begun)),
        };
        parts.len() <= self.segments.len() && self.segments.iter().zip(&parts).all(fits) && rest_fits
    }

    /// As the file writes it.
    pub(super) fn written(&self) -> String {
        self.segments.join(&separator(self.is_uri).to_string())
    }

    /// The name, if the certificate has one that fits.
    pub(super) fn matched<'a>(&self, certificate: &'a Certificate) -> Option<&'a str> {
        let name = match certificate.san.as_ref()? {
            San::Uri(uri) if self.is_uri => uri,
            San::Dns(host) if !self.is_uri => host,
            _ => return None,
        };
        let mut segments = name.split(separator(self.is_uri));
        let fits = |pattern: &String| {
            // A certificate for all hosts of a domain is nobody's own.
            let segment = segments.next().filter(|segment| !segment.contains(ANY_SEGMENT));
            segment.is_some_and(|segment| if pattern == ANY_SEGMENT { !segment.is_empty() } else { pattern == segment })
        };
        (self.segments.iter().all(fits) && segments.next().is_none()).then_some(name)
    }
}

fn separator(is_uri: bool) -> char {
    if is_uri { '/' } else { '.' }
}

impl TryFrom<String> for SanPattern {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_uri = text.contains("://");
        if text.is_empty() {
            return Err("must be a URI such as spiffe://example.org/billing, or a host name");
        }
        let text = if is_uri { text } else { text.to_ascii_lowercase() };
        let segments: Vec<String> = text.split(separator(is_uri)).map(str::to_owned).collect();
        // A trust domain is the operator's own; another one must not fit by chance.
        let fixed = if is_uri { 3 } else { 0 };
        let is_odd =
            |(at, segment): (usize, &String)| segment.contains(ANY_SEGMENT) && (segment != ANY_SEGMENT || at < fixed);
        if segments.iter().enumerate().any(is_odd) || segments.iter().all(|segment| segment == ANY_SEGMENT) {
            return Err("* must be a whole segment of the path of a URI, or a whole label of a host name");
        }
        Ok(Self { is_uri, segments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SanType};

    fn certificate(names: Vec<SanType>) -> Certificate {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names;
        params.distinguished_name.push(rcgen::DnType::CommonName, "billing");
        Certificate::read(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der()).unwrap()
    }

    fn uri(text: &str) -> SanType {
        SanType::URI(text.try_into().unwrap())
    }

    fn host(text: &str) -> SanType {
        SanType::DnsName(text.try_into().unwrap())
    }

    fn fits(pattern: &str, names: Vec<SanType>) -> bool {
        SanPattern::try_from(pattern.to_owned()).unwrap().matched(&certificate(names)).is_some()
    }

    #[test]
    fn a_star_is_one_segment() {
        let pattern = "spiffe://prod.example/ns/*/sa/billing";
        assert!(fits(pattern, vec![uri("spiffe://prod.example/ns/pay/sa/billing")]));
        for other in [
            "spiffe://prod.example/ns/pay/x/sa/billing",
            "spiffe://prod.example/ns//sa/billing",
            "spiffe://prod.example/ns/pay/sa/billing/x",
            "spiffe://prod.example/ns/pay/sa",
            "spiffe://test.example/ns/pay/sa/billing",
            "https://prod.example/ns/pay/sa/billing",
        ] {
            assert!(!fits(pattern, vec![uri(other)]), "{other}");
        }
        assert!(fits("*.Workers.example", vec![host("A.workers.example")]));
        assert!(!fits("*.workers.example", vec![host("a.b.workers.example")]));
        assert!(!fits("*.workers.example", vec![host("*.workers.example")]));
    }

    #[test]
    fn a_rule_can_name_what_a_pattern_fits() {
        let can_be = |pattern: &str, who: &str| {
            let who = Who::try_from(who.to_owned()).unwrap();
            SanPattern::try_from(pattern.to_owned()).unwrap().can_be(&who)
        };
        let pattern = "spiffe://a.example/ns/*/sa/billing";
        for who in ["spiffe://a.example/ns/x/sa/billing", "*", "spiffe:*", "spiffe://a.example/ns/x*"] {
            assert!(can_be(pattern, who), "{who}");
        }
        for who in [
            "spiffe://a.example/ns//sa/billing",
            "spiffe://a.example/ns/x/sa",
            "spiffe://a.example/ns/x/sa/billing/y",
            "spiffe://a.example/ns/x/sa/billing/*",
            "spiffe://a.example/nt*",
            "billing",
        ] {
            assert!(!can_be(pattern, who), "{who}");
        }
        assert!(can_be("*.a.example", "x.a.example") && can_be("*.a.example", "x*") && !can_be("*.a.example", "a.b*"));
    }

    #[test]
    fn only_one_name_identifies_a_holder() {
        let (one, other) = (uri("spiffe://a/b"), uri("spiffe://a/c"));
        assert!(fits("spiffe://a/b", vec![one.clone()]));
        assert!(fits("spiffe://a/b", vec![one.clone(), host("x.example")]), "the URI comes first");
        assert!(!fits("spiffe://a/b", vec![one.clone(), other]));
        assert!(!fits("x.example", vec![one, host("x.example")]));
        assert!(fits("x.example", vec![host("x.example")]));
        assert!(!fits("x.example", vec![host("x.example"), host("y.example")]));
        assert!(!fits("billing", vec![]), "the common name is not looked at");
    }

    #[test]
    fn a_pattern_names_a_trust_domain() {
        for bad in ["", "spiffe://*/b", "spiffe://a/b*", "*", "*.*", "a*.example", "*://a/b"] {
            assert!(SanPattern::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_nobody() {
        assert_eq!(Certificate::read(b"no"), None);
        assert!(certificate(vec![]).expires > 0);
    }
}

//! Where the keys of an issuer are: in a file, or at a URL from which the server fetches them.

use hyper::Uri;
use serde::Deserialize;
use std::{fmt, path::PathBuf};

const SCHEME: &str = "https";
const PORT: u16 = 443;

/// Where the keys of an issuer are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum KeysAt {
    /// A path. Unless it is absolute, it begins in the folder of the access file, so that a server and a workstation
    /// that checks the file find the keys beside it.
    File(PathBuf),
    Url(KeysUrl),
}

/// A URL of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeysUrl(Uri);

impl TryFrom<String> for KeysAt {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.contains("://") { text.try_into().map(Self::Url) } else { Ok(Self::File(text.into())) }
    }
}

impl TryFrom<String> for KeysUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let url: Uri = text.parse().map_err(|_| "must be a file, or a URL such as https://issuer.example/jwks.json")?;
        if url.scheme_str() != Some(SCHEME) {
            return Err("must begin with https://: whoever can change keys on their way can sign tokens");
        }
        match url.authority() {
            Some(authority) if authority.as_str().contains('@') => Err("must have no user and no password"),
            Some(authority) if !authority.host().is_empty() => Ok(Self(url)),
            _ => Err("must name a host behind https://"),
        }
    }
}

impl fmt::Display for KeysAt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(out),
            Self::Url(url) => url.fmt(out),
        }
    }
}

impl fmt::Display for KeysUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl KeysUrl {
    /// Its host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(PORT)
    }

    /// Its host and port, as it has them.
    pub fn authority(&self) -> &str {
        self.0.authority().map(hyper::http::uri::Authority::as_str).unwrap_or_default()
    }

    /// Its path and query.
    pub fn path(&self) -> &str {
        self.0.path_and_query().map_or("/", hyper::http::uri::PathAndQuery::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_a_file_or_behind_tls() {
        let at = |text: &str| KeysAt::try_from(text.to_owned());
        assert_eq!(at("/etc/jwks.json"), Ok(KeysAt::File("/etc/jwks.json".into())));
        let Ok(KeysAt::Url(url)) = at("https://issuer.example/a/jwks?x=1") else { panic!() };
        assert_eq!((url.host(), url.port(), url.path()), ("issuer.example", 443, "/a/jwks?x=1"));
        let Ok(KeysAt::Url(url)) = at("https://[::1]:8443") else { panic!() };
        assert_eq!((url.host(), url.port(), url.path(), url.authority()), ("::1", 8443, "/", "[::1]:8443"));
        for (bad, said) in [
            ("http://issuer.example/", "must begin with https://"),
            ("ftp://issuer.example/", "must begin with https://"),
            ("https://", "must be a file, or a URL"),
            ("https://user:s3cret@issuer.example/", "no user and no password"),
            ("https://issuer example/", "must be a file, or a URL"),
        ] {
            let refusal = at(bad).unwrap_err();
            assert!(refusal.contains(said) && !refusal.contains("s3cret"), "{bad}: {refusal}");
        }
    }
}

//! Server addresses as people write them.

use crate::facts;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The address of a server: a host name or an IP address, and a port; or the path of a Unix socket.
///
/// Parsed from `host:port`, as usual in gRPC, or `http://host:port`; with TLS from `https://host:port`. An IPv6 address
/// needs brackets. Without a port the [default port](Self::DEFAULT_PORT) is used. A Unix socket is `unix:/path` or
/// `unix:///path`:
///
/// ```
/// use fencepost_client::ServerAddress;
/// let address = |text: &str| text.parse::<ServerAddress>().map(|address| address.to_string());
/// assert_eq!(address("locks.internal:7421").unwrap(), "locks.internal:7421");
/// assert_eq!(address("http://[::1]:7421").unwrap(), "[::1]:7421");
/// assert_eq!(address("localhost").unwrap(), "localhost:7420");
/// assert_eq!(address("https://locks.internal").unwrap(), "https://locks.internal:7420");
/// assert_eq!(address("unix:///run/fencepost.sock").unwrap(), "unix:/run/fencepost.sock");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerAddress(Place);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Port {
        /// As in a URL: an IPv6 address includes its brackets.
        host: String,
        port: u16,
        tls: bool,
    },
    Unix(PathBuf),
}

/// A text is not a server address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid server address {text:?}: {rule}")]
pub struct AddressError {
    text: String,
    rule: &'static str,
}

const NO_UNIX: &str = "this system has no Unix sockets; write host:port";
const UNIX_PATH: &str = "a Unix socket needs an absolute path, such as unix:/run/fencepost.sock";
const SCHEME: &str = "the scheme must be http://, https:// or unix:; write host:port, or https://host:port for TLS";
const EMPTY: &str = "it is empty; write host:port, such as 127.0.0.1:7420";
const LIST: &str = "it names several servers; give each by itself";
const USER: &str = "a user or a password in front of @ is not supported; write host:port";
const PATH: &str = "nothing may follow host:port, and this has a path";
const HOST_MISSING: &str = "the host is missing; write host:port, such as localhost:7420";
const HOST: &str = "the host must be an IP address, or a name of letters, digits, hyphens, underscores and dots";
const BRACKETS: &str = "an IPv6 address needs brackets, such as [::1]:7420";
const PORT: &str = "the port must be a number from 1 to 65535";

impl ServerAddress {
    /// The port of an address without one.
    pub const DEFAULT_PORT: u16 = facts::DEFAULT_PORT;

    /// Whether connections to this address use TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self.0, Place::Port { tls: true, .. })
    }

    /// Whether this is a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.0, Place::Unix(_))
    }

    /// Whether connections stay on this machine or use TLS, so that nobody on the network sees what they carry.
    pub(crate) fn is_private(&self) -> bool {
        self.is_tls() || self.is_unix() || self.host().is_some_and(is_loopback)
    }

    /// The path, if this is a Unix socket.
    pub(crate) fn unix_path(&self) -> Option<&Path> {
        match &self.0 {
            Place::Unix(path) => Some(path),
            Place::Port { .. } => None,
        }
    }

    /// The host without brackets; `None` for a Unix socket.
    pub(crate) fn host(&self) -> Option<&str> {
        match &self.0 {
            Place::Port { host, .. } => Some(host.trim_start_matches('[').trim_end_matches(']')),
            Place::Unix(_) => None,
        }
    }

    /// Host and port as in a URL. gRPC names a Unix socket `localhost`.
    pub(crate) fn authority(&self) -> String {
        match &self.0 {
            Place::Port { host, port, .. } => format!("{host}:{port}"),
            Place::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Port { host, port, tls: false } => write!(f, "{host}:{port}"),
            Place::Port { host, port, tls: true } => write!(f, "https://{host}:{port}"),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        parse(text).map(Self).map_err(|rule| AddressError { text: shown(text), rule })
    }
}

/// Whether the host is this machine, by its name or its address.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The text without what may be a password: the part before @.
fn shown(text: &str) -> String {
    text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, host)| format!("***@{host}"))
}

fn parse(text: &str) -> Result<Place, &'static str> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest.strip_suffix('/').unwrap_or(rest)),
        None => match text.split_once(':').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("unix")) {
            Some((_, path)) => return unix(path),
            None => (String::new(), text),
        },
    };
    let tls = match scheme.as_str() {
        "" | "http" => false,
        "https" => true,
        "unix" => return unix(text.split_once("://").map_or(rest, |(_, path)| path)),
        _ => return Err(SCHEME),
    };
    if rest.is_empty() {
        return Err(EMPTY);
    }
    if rest.contains(',') {
        return Err(LIST);
    }
    if rest.contains('@') {
        return Err(USER);
    }
    if rest.contains(['/', '?', '#']) {
        return Err(PATH);
    }
    let (host, port) = split(rest)?;
    let port = match port {
        None => ServerAddress::DEFAULT_PORT,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0).ok_or(PORT)?
        }
        Some(_) => return Err(PORT),
    };
    Ok(Place::Port { host: host.to_owned(), port, tls })
}

fn unix(path: &str) -> Result<Place, &'static str> {
    match path {
        _ if !cfg!(unix) => Err(NO_UNIX),
        _ if !path.starts_with('/') || path.ends_with('/') || path.contains('\0') => Err(UNIX_PATH),
        _ if path.contains(',') => Err(LIST),
        _ => Ok(Place::Unix(path.into())),
    }
}

/// Splits off the port, if there is one, and checks the host.
fn split(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(inside) = text.strip_prefix('[') {
        let (address, rest) = inside.split_once(']').ok_or(BRACKETS)?;
        address.parse::<Ipv6Addr>().map_err(|_| BRACKETS)?;
        let host = &text[..address.len() + 2];
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(BRACKETS),
        };
    }
    if text.parse::<Ipv6Addr>().is_ok() || text.matches(':').count() > 1 {
        return Err(BRACKETS);
    }
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    if host.is_empty() || (port.is_none() && host.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(HOST_MISSING);
    }
    let numeric = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let named = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !named || (numeric && host.parse::<Ipv4Addr>().is_err()) {
        return Err(HOST);
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_the_same_address() {
        for (text, host_and_port) in [
            ("127.0.0.1:7421", "127.0.0.1:7421"),
            ("locks.internal:1", "locks.internal:1"),
            ("my_service-1:65535", "my_service-1:65535"),
            ("[::1]:7421", "[::1]:7421"),
            ("[fd00::2]", "[fd00::2]:7420"),
            ("localhost", "localhost:7420"),
            ("10.0.0.1", "10.0.0.1:7420"),
        ] {
            for written in [text.to_owned(), format!(" {text} "), format!("http://{text}"), format!("HTTP://{text}/")] {
                let address: ServerAddress = written.parse().unwrap();
                assert_eq!(address.to_string(), host_and_port, "{written:?}");
                assert_eq!(address.authority(), host_and_port);
                assert!(!address.is_tls() && !address.is_unix(), "{written:?}");
            }
        }
    }

    #[test]
    fn https_is_tls() {
        for (text, shown, host) in [
            ("https://127.0.0.1:7421", "https://127.0.0.1:7421", "127.0.0.1"),
            ("HTTPS://locks.internal/", "https://locks.internal:7420", "locks.internal"),
            (" https://[::1]:7421 ", "https://[::1]:7421", "::1"),
        ] {
            let address: ServerAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.host()), (shown, Some(host)));
            assert!(address.is_tls(), "{text:?}");
            assert_eq!(shown.parse(), Ok(address));
        }
    }

    #[cfg(unix)]
    #[test]
    fn unix_sockets_have_a_path() {
        for text in ["unix:/run/a.sock", "unix:///run/a.sock", " UNIX:/run/a.sock"] {
            let address: ServerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), "unix:/run/a.sock");
            assert_eq!(address.unix_path(), Some(Path::new("/run/a.sock")));
            assert!(address.is_unix() && !address.is_tls() && address.host().is_none());
        }
    }

    #[test]
    fn only_some_addresses_are_private() {
        for (text, private) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9", true),
            ("[::1]:1", true),
            ("LocalHost", true),
            ("https://locks.internal", true),
            ("10.0.0.1", false),
            ("localhost.example", false),
            ("[fd00::2]", false),
        ] {
            assert_eq!(text.parse::<ServerAddress>().unwrap().is_private(), private, "{text}");
        }
    }

    #[test]
    fn an_error_names_the_broken_rule() {
        for (text, rule) in [
            ("", EMPTY),
            ("http://", EMPTY),
            ("https://", EMPTY),
            ("https://a:1/locks", PATH),
            ("https://a:0", PORT),
            ("unix:", UNIX_PATH),
            ("unix:fencepost.sock", UNIX_PATH),
            ("unix://run/fencepost.sock", UNIX_PATH),
            ("unix:/run/", UNIX_PATH),
            ("unix:/run/a,unix:/run/b", LIST),
            ("dns:///localhost:7420", SCHEME),
            ("redis://localhost:6379", SCHEME),
            ("a:1,b:1", LIST),
            ("http://a:1/locks", PATH),
            ("a:1/", PATH),
            (":7420", HOST_MISSING),
            ("7420", HOST_MISSING),
            ("::1", BRACKETS),
            ("::1:7420", BRACKETS),
            ("[::1", BRACKETS),
            ("[::1]7420", BRACKETS),
            ("[localhost]:7420", BRACKETS),
            ("a:b:1", BRACKETS),
            ("localhost:", PORT),
            ("localhost:0", PORT),
            ("localhost:65536", PORT),
            ("localhost:+1", PORT),
            ("localhost:http", PORT),
            ("1.2.3:7420", HOST),
            ("256.0.0.1:7420", HOST),
            ("not a server", HOST),
            ("höst:7420", HOST),
        ] {
            let error = text.parse::<ServerAddress>().unwrap_err();
            assert_eq!(error.to_string(), format!("invalid server address {text:?}: {rule}"));
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let error = "http://user:secret@localhost:7420".parse::<ServerAddress>().unwrap_err().to_string();
        assert!(error.contains(USER) && !error.contains("secret"), "{error}");
        // The scheme is refused before the user is parsed.
        let error = "redis://user:secret@localhost:6379".parse::<ServerAddress>().unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}

//! Server addresses as people write them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The address of a server: a host name or an IP address, and a port.
///
/// Parsed from `host:port`, as usual in gRPC, or `http://host:port`. An IPv6 address needs brackets. Without a port the
/// [default port](Self::DEFAULT_PORT) is used:
///
/// ```
/// use fencepost_client::ServerAddress;
/// let address = |text: &str| text.parse::<ServerAddress>().map(|address| address.to_string());
/// assert_eq!(address("locks.internal:7421").unwrap(), "locks.internal:7421");
/// assert_eq!(address("http://[::1]:7421").unwrap(), "[::1]:7421");
/// assert_eq!(address("localhost").unwrap(), "localhost:7420");
/// assert!(address("https://localhost:7420").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerAddress {
    /// As in a URL: an IPv6 address includes its brackets.
    host: String,
    port: u16,
}

/// A text is not a server address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid server address {text:?}: {rule}")]
pub struct AddressError {
    text: String,
    rule: &'static str,
}

const TLS: &str = "https:// (TLS) is not supported yet; write host:port for a port without TLS";
const UNIX: &str = "Unix sockets are not supported yet; write host:port";
const SCHEME: &str = "the scheme must be http://; write host:port";
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
    pub const DEFAULT_PORT: u16 = 7420;

    /// The address as a URL, for [`tonic::transport::Endpoint`].
    pub fn url(&self) -> String {
        format!("http://{self}")
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        // The part before @ may be a password.
        let shown = text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, host)| format!("***@{host}"));
        parse(text).map_err(|rule| AddressError { text: shown, rule })
    }
}

fn parse(text: &str) -> Result<ServerAddress, &'static str> {
    let rest = without_scheme(text)?;
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
    Ok(ServerAddress { host: host.to_owned(), port })
}

fn without_scheme(text: &str) -> Result<&str, &'static str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return if text.starts_with("unix:") { Err(UNIX) } else { Ok(text) };
    };
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok(rest.strip_suffix('/').unwrap_or(rest)),
        "https" => Err(TLS),
        "unix" => Err(UNIX),
        _ => Err(SCHEME),
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
                assert_eq!(address.url(), format!("http://{host_and_port}"));
                assert!(tonic::transport::Endpoint::from_shared(address.url()).is_ok(), "{written:?}");
            }
        }
    }

    #[test]
    fn an_error_names_the_broken_rule() {
        for (text, rule) in [
            ("", EMPTY),
            ("http://", EMPTY),
            ("https://localhost:7420", TLS),
            ("unix:/run/fencepost.sock", UNIX),
            ("unix:///run/fencepost.sock", UNIX),
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

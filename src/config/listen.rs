//! The addresses to listen on, and their text forms.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    str::FromStr,
};

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// On TCP.
    Tcp(ListenAddress),
    /// On a Unix socket at this absolute path.
    Unix(PathBuf),
}

/// A TCP address to listen on. A name is resolved when the server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// The addresses of this machine to listen on.
    pub host: ListenHost,
    /// 0 lets the system choose.
    pub port: u16,
}

/// The addresses of this machine to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenHost {
    /// All addresses, IPv6 and IPv4.
    All,
    /// This address, or all addresses of its family if it is unspecified.
    Ip(IpAddr),
    /// The addresses that this name resolves to.
    Name(String),
}

/// Where the admin port listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminListen {
    /// There is no admin port.
    None,
    /// On this address.
    At(ListenAddress),
}

/// The text of [`AdminListen::None`].
const NO_ADMIN_PORT: &str = "none";

const RULE: &str = "must be host:port, such as 127.0.0.1:7420, localhost:7420 or [::1]:7420, \
                    or :7420 for all addresses of this machine";

const UNIX_RULE: &str = "must be unix: and an absolute path, such as unix:/run/fencepost/fencepost.sock";

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            // In `unix://host/path` a host is not possible, so that form is more likely a mistake than a path.
            Some(path) if path.starts_with('/') && !path.starts_with("//") && !path.contains(char::is_control) => {
                Ok(Self::Unix(path.into()))
            }
            Some(_) => Err(UNIX_RULE.to_owned()),
            None => {
                text.parse().map(Self::Tcp).map_err(|rule: &str| format!("{rule}; or unix:/path for a Unix socket"))
            }
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (host, port) = text.rsplit_once(':').ok_or(RULE)?;
        let port = match port.bytes().all(|byte| byte.is_ascii_digit()) {
            true => port.parse().map_err(|_| RULE)?,
            false => return Err(RULE),
        };
        Ok(Self { host: host.parse()?, port })
    }
}

impl FromStr for ListenHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Ok(Self::All);
        }
        if let Some(rest) = text.strip_prefix('[') {
            let address = rest.strip_suffix(']').and_then(|address| address.parse::<Ipv6Addr>().ok());
            return address.map(|address| Self::Ip(address.into())).ok_or(RULE);
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Ip(address.into()));
        }
        let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let named = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if named && !numeric { Ok(Self::Name(text.to_owned())) } else { Err(RULE) }
    }
}

impl FromStr for AdminListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            NO_ADMIN_PORT => Ok(Self::None),
            _ => text.parse().map(Self::At).map_err(|rule: &str| format!("{rule}; or none: no admin port")),
        }
    }
}

impl fmt::Display for AdminListen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str(NO_ADMIN_PORT),
            Self::At(address) => address.fmt(out),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            ListenHost::All => write!(out, ":{}", self.port),
            ListenHost::Ip(IpAddr::V6(address)) => write!(out, "[{address}]:{}", self.port),
            ListenHost::Ip(IpAddr::V4(address)) => write!(out, "{address}:{}", self.port),
            ListenHost::Name(name) => write!(out, "{name}:{}", self.port),
        }
    }
}

//! Host names that requests at the admin port may have: protection against DNS rebinding.
//!
//! A web page of a stranger may let its own name resolve to 127.0.0.1 (DNS rebinding), and then the operator's browser
//! lets it read the answers of a port on loopback. The `Host` header gives that away: it has the name. A port that
//! other machines can reach answers any name, because scrapers and proxies use the names of the machine, and whoever
//! reaches it needs no trick.

use crate::config::{AdminListen, ListenAddress, ListenHost};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{
        StatusCode, Version,
        header::{HOST, HeaderValue},
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};
use tokio::net::TcpListener;

const REFUSAL: &str = "this port is on loopback, and answers no requests for other host names: use an IP address or \
                       localhost, or name the host in --admin-listen\n";

/// The hosts for which requests are answered.
#[derive(Clone, Debug)]
pub(in crate::server) enum Hosts {
    /// Any.
    All,
    /// IP addresses, `localhost` and this name.
    Loopback(Option<Arc<str>>),
}

impl Hosts {
    /// Those of a port with this configured address, on these listeners.
    pub(in crate::server) fn of(configured: &AdminListen, listeners: &[TcpListener]) -> Self {
        let is_loopback =
            |listener: &TcpListener| listener.local_addr().is_ok_and(|bound| bound.ip().to_canonical().is_loopback());
        if !listeners.iter().all(is_loopback) {
            return Self::All;
        }
        Self::Loopback(match configured {
            AdminListen::At(ListenAddress { host: ListenHost::Name(name), .. }) => Some(name.as_str().into()),
            _ => None,
        })
    }

    fn include(&self, host: &HeaderValue) -> bool {
        let Self::Loopback(configured) = self else { return true };
        let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
        let Some(authority) = authority else { return false };
        let name = authority.host().trim_end_matches('.');
        let is = |known: &str| name.eq_ignore_ascii_case(known.trim_end_matches('.'));
        let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        name.parse::<Ipv4Addr>().is_ok()
            || v6.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
            || is("localhost")
            || configured.as_deref().is_some_and(is)
    }
}

/// Refuses requests for other hosts. Browsers speak HTTP/2 over TLS only, which this port does not have; and a request
/// without a host is not from a browser.
pub(super) async fn only_known(State(hosts): State<Hosts>, request: Request, next: Next) -> Response<Body> {
    let known = request.headers().get_all(HOST).iter().all(|host| hosts.include(host));
    if known || request.version() == Version::HTTP_2 {
        next.run(request).await
    } else {
        (StatusCode::MISDIRECTED_REQUEST, REFUSAL).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_loopback_other_names_are_refused() {
        let hosts = Hosts::Loopback(Some("ops.internal".into()));
        let includes = |host: &'static str| hosts.include(&HeaderValue::from_static(host));
        let known =
            ["127.0.0.1:7429", "10.1.2.3:7429", "[::1]:7429", "[::1]", "localhost", "LocalHost.:1", "ops.internal"];
        for host in known {
            assert!(includes(host), "{host}");
        }
        for host in ["evil.example:7429", "localhost.evil.example", "127.0.0.1.evil.example", "", "a b", "[::1", "::1"]
        {
            assert!(!includes(host), "{host}");
        }
        assert!(Hosts::All.include(&HeaderValue::from_static("evil.example")));
    }
}

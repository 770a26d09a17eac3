//! `health`: asks the admin port of a server on this machine whether the server is ready. For health checks of
//! containers, which need no certificates there.

use super::{
    any_certificate::accept_any,
    exit::{Failure, NO, UNAVAILABLE, USAGE},
};
use crate::config::{AdminListen, Config, ListenAddress, ListenHost};
use clap::{ArgAction, Args};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use std::{
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};

/// How long the server may take for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The answer has a line.
const ANSWER_BYTES_MAX: usize = 4_096;

/// Which server to ask, and what.
#[derive(Args, Clone, Debug)]
pub(crate) struct HealthArgs {
    /// Address of the admin port: that of the server, for which the variable is the same. An address that stands for
    /// all addresses of this machine means its loopback address
    #[arg(long, value_name = "ADDRESS", env = "FENCEPOST_ADMIN_LISTEN", default_value_t = default_address())]
    admin_listen: String,
    /// Speak TLS, as a server with the same variable does. The certificate is not checked, as no probe of Kubernetes
    /// does: it is seldom for the loopback address
    #[arg(
        long,
        value_name = "BOOL",
        env = "FENCEPOST_ADMIN_TLS",
        num_args = 0..=1,
        default_missing_value = "true",
        default_value_t = false,
        action = ArgAction::Set
    )]
    admin_tls: bool,
    /// Ask whether the server runs, not whether it is ready
    #[arg(long)]
    live: bool,
}

fn default_address() -> String {
    Config::default().admin_listen.to_string()
}

pub(super) async fn health(args: HealthArgs) -> Result<(), Failure> {
    let address = address(&args.admin_listen)?;
    let path = if args.live { "/livez" } else { "/readyz" };
    let asked = timeout(ANSWER_TIMEOUT, ask(&address, args.admin_tls, path)).await;
    let (status, text) = asked.unwrap_or_else(|_| Err("no answer in time".to_owned())).map_err(|why| {
        let advice = "is a server running there? Name its admin port with --admin-listen or FENCEPOST_ADMIN_LISTEN, \
                      and give --admin-tls if it speaks TLS";
        Failure::new(UNAVAILABLE, format!("no answer from the admin port at {address} ({why}): {advice}"))
    })?;
    match status {
        StatusCode::OK => Ok(io::stdout().lock().write_all(text.as_bytes())?),
        StatusCode::SERVICE_UNAVAILABLE => Err(Failure::new(NO, format!("not ready: {}", text.trim_end()))),
        other => {
            let why = "is this the admin port of a Fencepost server?";
            Err(Failure::new(UNAVAILABLE, format!("{address} answered {other} to {path}: {why}")))
        }
    }
}

/// The address to ask. Fails if there is none.
fn address(text: &str) -> Result<ListenAddress, Failure> {
    match text.parse() {
        Ok(AdminListen::At(address)) if address.port != 0 => Ok(address),
        Ok(AdminListen::At(_)) => {
            Err(Failure::new(USAGE, "--admin-listen has port 0, and the server chose another one"))
        }
        Ok(AdminListen::None) => {
            Err(Failure::new(USAGE, "--admin-listen is none: the server has no admin port to ask"))
        }
        Err(rule) => Err(Failure::new(USAGE, format!("--admin-listen = {text:?}: {rule}"))),
    }
}

/// Where a server that listens on `address` can be reached on this machine.
async fn reachable(address: &ListenAddress) -> io::Result<Vec<SocketAddr>> {
    let loopback = |ip: IpAddr| SocketAddr::new(ip, address.port);
    Ok(match &address.host {
        ListenHost::All => vec![loopback(Ipv4Addr::LOCALHOST.into()), loopback(Ipv6Addr::LOCALHOST.into())],
        ListenHost::Ip(IpAddr::V4(ip)) if ip.is_unspecified() => vec![loopback(Ipv4Addr::LOCALHOST.into())],
        ListenHost::Ip(IpAddr::V6(ip)) if ip.is_unspecified() => vec![loopback(Ipv6Addr::LOCALHOST.into())],
        ListenHost::Ip(ip) => vec![SocketAddr::new(*ip, address.port)],
        ListenHost::Name(name) => lookup_host((name.as_str(), address.port)).await?.collect(),
    })
}

/// Gets a page. Returns its status and its text, or why there is no answer.
async fn ask(address: &ListenAddress, tls: bool, path: &str) -> Result<(StatusCode, String), String> {
    let why = |error: &dyn std::error::Error| error.to_string();
    let addresses = reachable(address).await.map_err(|error| why(&error))?;
    let stream = TcpStream::connect(addresses.as_slice()).await.map_err(|error| why(&error))?;
    // Not the configured address: it may name no host.
    let peer = stream.peer_addr().map_err(|error| why(&error))?;
    if !tls {
        return get(stream, peer, path).await;
    }
    let stream = accept_any(stream, peer.ip()).await.map_err(|error| why(&error))?;
    get(stream, peer, path).await
}

async fn get(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: SocketAddr,
    path: &str,
) -> Result<(StatusCode, String), String> {
    let why = |error: &dyn std::error::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| why(&error))?;
    let request = Request::get(path).header(HOST, peer.to_string()).body(Empty::<Bytes>::new());
    let answer = async {
        let response = sender.send_request(request.map_err(|error| why(&error))?).await.map_err(|error| why(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
        Ok((head.status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    };
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // Only drives the connection. Its end is the end of the answer as well.
        _ = connection => answer.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_for_all_addresses_means_loopback() {
        for (text, expected) in [
            ("127.0.0.1:7429", "127.0.0.1:7429"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            (":80", "127.0.0.1:80"),
        ] {
            let found = reachable(&address(text).unwrap()).await.unwrap();
            assert_eq!(found[0], expected.parse().unwrap(), "{text}");
        }
    }

    #[test]
    fn without_an_address_there_is_nothing_to_ask() {
        for (text, why) in [("none", "none"), ("127.0.0.1:0", "port 0"), ("nowhere", "must be host:port")] {
            let failure = address(text).unwrap_err();
            assert_eq!(failure.code, USAGE);
            assert!(failure.message.contains(why), "{failure:?}");
        }
    }
}

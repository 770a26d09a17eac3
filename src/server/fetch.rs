//! Fetches the keys of an issuer over HTTPS: one GET on a connection of its own, bounded in size and time.

use crate::access::KeysUrl;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{ACCEPT, HOST},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use std::{fmt::Display, sync::Arc, time::Duration};
use tokio::{net::TcpStream, task::spawn_blocking, time::timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

/// How long an issuer may take for its keys.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of a key set: some hundred keys.
const KEYS_BYTES_MAX: usize = 256 * 1_024;

/// What is at this URL; otherwise why there is nothing.
pub(super) async fn fetch(url: &KeysUrl) -> Result<Vec<u8>, String> {
    let no_answer = || Err(format!("no answer within {} s", FETCH_TIMEOUT.as_secs()));
    timeout(FETCH_TIMEOUT, get(url)).await.unwrap_or_else(|_| no_answer())
}

async fn get(url: &KeysUrl) -> Result<Vec<u8>, String> {
    // The roots are files. They are read each time, because they may be replaced.
    let tls = spawn_blocking(connector).await.map_err(because("the roots cannot be read"))??;
    let name = ServerName::try_from(url.host().to_owned()).map_err(because("its host is no name of a server"))?;
    let tcp = TcpStream::connect((url.host(), url.port())).await.map_err(because("cannot connect"))?;
    let stream = tls.connect(name, tcp).await.map_err(because("TLS failed"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(because("no HTTP"))?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = Request::get(url.path()).header(HOST, url.authority()).header(ACCEPT, "application/json");
    let request = request.body(Empty::<Bytes>::new()).map_err(because("the request cannot be made"))?;
    let answer = sender.send_request(request).await.map_err(because("no answer"))?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answers {}, and redirects are not followed", answer.status()));
    }
    let body = Limited::new(answer.into_body(), KEYS_BYTES_MAX).collect().await;
    let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => format!("it has more than {KEYS_BYTES_MAX} bytes"),
        None => format!("the answer broke off: {error}"),
    })?;
    Ok(body.to_bytes().to_vec())
}

fn because<E: Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

/// Trusts the roots of the machine, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`, as the clients do.
fn connector() -> Result<TlsConnector, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        return Err("this machine has no root certificates: name some in SSL_CERT_FILE".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(because("TLS cannot be set up"))?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

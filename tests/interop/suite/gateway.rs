//! A gateway in front of a server, as large installations have one: it ends TLS, asks for client certificates, and
//! passes on only the requests with its bearer token.

use crate::authority::Authority;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_body_util::{Either, Empty};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http2::{SendRequest, handshake},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use std::sync::Arc;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use tonic::Code;

/// Dropped, it stops listening. Its connections end when one side closes them.
pub(crate) struct Gateway {
    /// For clients.
    pub(crate) address: String,
    listening: JoinHandle<()>,
}

impl Gateway {
    /// Listens on a free port, with a certificate of this authority, and passes on to a server.
    pub(crate) async fn to(server: &str, authority: &Authority, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let (acceptor, server) = (TlsAcceptor::from(tls(authority)), server.to_owned());
        let authorization = Arc::<str>::from(format!("Bearer {token}"));
        let listening = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, acceptor.clone(), server.clone(), authorization.clone()));
            }
        });
        Self { address, listening }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn tls(authority: &Authority) -> Arc<ServerConfig> {
    let (provider, files) = (Arc::new(default_provider()), authority.server());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build().unwrap();
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let certificate = CertificateDer::from_pem_file(files.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(files.key).unwrap();
    let mut config = versions.with_client_cert_verifier(clients).with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// Serves one connection, through a connection of its own to the server.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, server: String, authorization: Arc<str>) {
    // The client says why a handshake failed.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let onward = TokioIo::new(TcpStream::connect(server).await.unwrap());
    let (sender, connection) = handshake(TokioExecutor::new(), onward).await.unwrap();
    tokio::spawn(connection);
    let service = service_fn(move |request| pass(request, sender.clone(), authorization.clone()));
    // An error is the end of the connection by the client.
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn pass(
    request: Request<Incoming>,
    mut onward: SendRequest<Incoming>,
    authorization: Arc<str>,
) -> hyper::Result<Response<Either<Incoming, Empty<Bytes>>>> {
    if request.headers().get(AUTHORIZATION).is_none_or(|value| value.as_bytes() != authorization.as_bytes()) {
        let mut refusal = Response::new(Either::Right(Empty::new()));
        refusal.headers_mut().insert(CONTENT_TYPE, "application/grpc".parse().unwrap());
        refusal.headers_mut().insert("grpc-status", (Code::Unauthenticated as i32).into());
        return Ok(refusal);
    }
    Ok(onward.send_request(request).await?.map(Either::Left))
}

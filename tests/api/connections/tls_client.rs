//! Clients with TLS: one that shows what was negotiated, and channels for calls.

use crate::certificates::{Authority, Identity};
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ALL_VERSIONS, ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What a client sees of a connection that serves.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) version: ProtocolVersion,
    /// Whether the client resumed an earlier session.
    pub(crate) resumed: bool,
    /// The server's certificate.
    pub(crate) cert: Vec<u8>,
}

/// A client that remembers sessions.
#[derive(Clone)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    addr: SocketAddr,
}

impl TlsClient {
    /// A client that trusts these authorities.
    pub(crate) fn new(addr: SocketAddr, trusted: &[&Authority], identity: Option<&Identity>) -> Self {
        Self::with_versions(addr, trusted, identity, ALL_VERSIONS)
    }

    pub(crate) fn with_versions(
        addr: SocketAddr,
        trusted: &[&Authority],
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in trusted {
            roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = vec![CertificateDer::from_pem_slice(identity.cert.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { config: Arc::new(config), addr }
    }

    /// The same, with other protocols to choose from.
    pub(crate) fn offering(mut self, protocols: &[&str]) -> Self {
        let config = Arc::make_mut(&mut self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self
    }

    pub(crate) async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.addr).await?;
        TlsConnector::from(self.config.clone()).connect(ServerName::from(self.addr.ip()), stream).await
    }

    /// Connects and carries out a request. The error is that of the first step that failed.
    pub(crate) async fn ask(&self) -> Result<Seen, Error> {
        let mut stream = self.connect().await?;
        let (_, session) = stream.get_ref();
        let seen = Seen {
            version: session.protocol_version().unwrap(),
            resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
            cert: session.peer_certificates().unwrap()[0].to_vec(),
        };
        request(&mut stream).await?;
        Ok(seen)
    }
}

/// Carries out a request over HTTP/2. Any answer will do.
pub(crate) async fn request(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<(), Error> {
    let (sender, connection) = h2::client::handshake(stream).await?;
    let asking = async {
        let mut sender = sender.ready().await?;
        let (response, _) = sender.send_request(http::Request::get("https://localhost/").body(())?, true)?;
        response.await?;
        Ok(())
    };
    tokio::select! {
        answered = asking => answered,
        ended = connection => Err(ended.err().map_or("the connection has ended".into(), Into::into)),
    }
}

/// The generated client, over TLS.
pub(crate) fn calls(addr: SocketAddr, trusted: &Authority, identity: Option<&Identity>) -> LockServiceClient<Channel> {
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(trusted.pem()));
    if let Some(identity) = identity {
        tls = tls.identity(tonic::transport::Identity::from_pem(&identity.cert, &identity.key));
    }
    let endpoint = Endpoint::from_shared(format!("https://{addr}")).unwrap().tls_config(tls).unwrap();
    LockServiceClient::new(endpoint.connect_lazy())
}

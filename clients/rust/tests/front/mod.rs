//! Ends TLS in front of a fake server, with certificates and settings that change while it runs.
#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "test code")]

use crate::authority::Files;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

#[derive(Default)]
pub(crate) struct Settings {
    /// Clients need a certificate of these authorities.
    pub(crate) clients_of: Option<PathBuf>,
    pub(crate) only_tls12: bool,
}

#[derive(Clone)]
pub(crate) struct Front {
    address: String,
    config: Arc<Mutex<Arc<ServerConfig>>>,
    /// Closes the connections of earlier values.
    closed: watch::Sender<u32>,
}

/// What follows the handshake.
#[derive(Clone, Debug)]
enum Behind {
    Server(String),
    Words(&'static [u8]),
}

impl Front {
    /// In front of the server at this URL.
    pub(crate) async fn start(url: &str, files: &Files, settings: &Settings) -> Self {
        let behind = Behind::Server(url.trim_start_matches("http://").to_owned());
        Self::serve(behind, files, settings, false).await
    }

    /// Sends these words after the handshake.
    pub(crate) async fn speaking(words: &'static [u8], files: &Files) -> Self {
        Self::serve(Behind::Words(words), files, &Settings::default(), false).await
    }

    /// Resets the connection without an alert if it refuses a client.
    pub(crate) async fn without_alerts(url: &str, files: &Files, settings: &Settings) -> Self {
        let behind = Behind::Server(url.trim_start_matches("http://").to_owned());
        Self::serve(behind, files, settings, true).await
    }

    async fn serve(behind: Behind, files: &Files, settings: &Settings, is_rude: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let config = Arc::new(Mutex::new(config(files, settings)));
        let front = Self { address, config, closed: watch::Sender::new(0) };
        let serving = front.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (config, mut closed) = (serving.config.lock().unwrap().clone(), serving.closed.subscribe());
                let behind = behind.clone();
                tokio::spawn(async move {
                    let talk = async {
                        if is_rude { hang_up(stream, config).await } else { talk(stream, config, behind).await }
                    };
                    tokio::select! {
                        () = talk => {}
                        _ = closed.changed() => {}
                    }
                });
            }
        });
        front
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Changes the settings for new connections.
    pub(crate) fn set(&self, files: &Files, settings: &Settings) {
        *self.config.lock().unwrap() = config(files, settings);
    }

    /// Closes all open connections.
    pub(crate) fn close_all(&self) {
        self.closed.send_modify(|count| *count += 1);
    }
}

async fn talk(stream: TcpStream, config: Arc<ServerConfig>, behind: Behind) {
    // A failed handshake has sent its alert.
    let Ok(mut stream) = TlsAcceptor::from(config).accept(stream).await else { return };
    match behind {
        Behind::Words(words) => {
            stream.write_all(words).await.unwrap();
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
        Behind::Server(address) => {
            let mut server = TcpStream::connect(address).await.unwrap();
            let _ = copy_bidirectional(&mut stream, &mut server).await;
        }
    }
}

/// Does a handshake that ends before the server reads the client's certificate.
async fn hang_up(stream: TcpStream, config: Arc<ServerConfig>) {
    let stream = stream.into_std().unwrap();
    let (mut reader, mut writer) = (stream.try_clone().unwrap(), stream);
    reader.set_nonblocking(false).unwrap();
    let finished = tokio::task::spawn_blocking(move || {
        let mut connection = rustls::ServerConnection::new(config).unwrap();
        connection.read_tls(&mut reader).unwrap();
        connection.process_new_packets().unwrap();
        while connection.wants_write() {
            connection.write_tls(&mut writer).unwrap();
        }
        // The client has finished its side when its next flight arrives, which stays unread: the socket is reset.
        let mut byte = [0];
        reader.peek(&mut byte).unwrap();
    });
    finished.await.unwrap();
}

fn config(files: &Files, settings: &Settings) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let versions = if settings.only_tls12 { &[&TLS12][..] } else { &[&TLS13, &TLS12] };
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
    let builder = match &settings.clients_of {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(path).unwrap() {
                roots.add(certificate.unwrap()).unwrap();
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate).unwrap().map(Result::unwrap).collect();
    let mut config = builder.with_single_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap()).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

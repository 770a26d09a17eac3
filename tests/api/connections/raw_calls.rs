//! Calls of Get whose headers and DATA frames the test chooses, on a connection that answers pings.

use crate::support::within;
use bytes::Bytes;
use h2::{
    SendStream,
    client::{Builder, ResponseFuture, SendRequest},
};
use http::{HeaderMap, StatusCode};
use std::net::SocketAddr;
use tokio::{net::TcpStream, task::JoinHandle};

/// A whole message: not compressed, three bytes, the lock "a".
pub(crate) const MESSAGE: &[u8] = &[0, 0, 0, 0, 3, 10, 1, b'a'];

/// The content type of calls.
pub(crate) const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// A whole message without fields.
pub(crate) const EMPTY_MESSAGE: &[u8] = &[0, 0, 0, 0, 0];

/// A connection.
pub(crate) struct RawCalls {
    calls: SendRequest<Bytes>,
    to: SocketAddr,
    task: JoinHandle<Result<(), h2::Error>>,
}

impl RawCalls {
    pub(crate) async fn open(stream: TcpStream) -> Self {
        Self::open_with(&Builder::new(), stream).await
    }

    /// With these settings of the client.
    pub(crate) async fn open_with(settings: &Builder, stream: TcpStream) -> Self {
        let to = stream.peer_addr().unwrap();
        let (calls, connection) = within(settings.handshake(stream)).await.unwrap();
        Self { calls, to, task: tokio::spawn(connection) }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.task.is_finished()
    }

    /// Calls Get with these further headers and this part of a message.
    pub(crate) async fn get(
        &self,
        headers: &[(&str, &str)],
        bytes: &'static [u8],
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let headers = [&[GRPC], headers].concat();
        self.send("fencepost.v1.LockService/Get", &headers, bytes).await
    }

    /// Sends these headers and this part of a message to a method.
    pub(crate) async fn send(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        bytes: &'static [u8],
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut calls = within(self.calls.clone().ready()).await.unwrap();
        let request = http::Request::post(format!("http://{}/{method}", self.to)).header("te", "trailers");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (response, mut message) = calls.send_request(request.body(()).unwrap(), false).unwrap();
        // A server counts empty frames as an attack.
        if !bytes.is_empty() {
            let ends = bytes == MESSAGE || bytes == EMPTY_MESSAGE;
            message.send_data(Bytes::from_static(bytes), ends).unwrap();
        }
        (response, message)
    }

    /// Carries out a call. The server's settings have arrived with its answer.
    pub(crate) async fn call(&self) {
        let (response, _message) = self.get(&[], MESSAGE).await;
        let (status, headers) = head(response).await;
        assert_eq!((status, headers.get("grpc-status")), (StatusCode::OK, None));
    }
}

impl Drop for RawCalls {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The beginning of a response.
pub(crate) async fn head(response: ResponseFuture) -> (StatusCode, HeaderMap) {
    let response = within(response).await.unwrap();
    (response.status(), response.headers().clone())
}

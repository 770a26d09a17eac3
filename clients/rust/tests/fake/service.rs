//! The calls of the scripted server.

use super::{Fake, TTL, Unanswered, session, wire};
use fencepost_client::raw::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

fn text_of<T>(request: &Request<T>, header: &str) -> Option<String> {
    request.metadata().get(header).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

#[tonic::async_trait]
impl v1::lock_service_server::LockService for Fake {
    async fn acquire(&self, request: Request<v1::AcquireRequest>) -> Result<Response<v1::AcquireResponse>, Status> {
        let (timeout, authorization) = (text_of(&request, "grpc-timeout"), text_of(&request, "authorization"));
        let request = request.into_inner();
        let mut unanswered = Unanswered { fake: self.clone(), attempt: Some(request.attempt) };
        let action = self.update(|state| {
            let action = (state.on_acquire)(&request);
            state.acquires.push(request);
            state.timeouts.push(timeout);
            state.authorizations.push(authorization);
            action
        });
        let answer = action.run().await;
        unanswered.answered();
        if let Ok(answer) = &answer {
            self.update(|state| state.granted.extend(answer.lease.iter().map(|lease| lease.lease_id.clone())));
        }
        answer.map(Response::new)
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseResponse>, Status> {
        let request = request.into_inner();
        let action = self.update(|state| {
            let action = (state.on_release)(&request);
            state.releases.push(request);
            action
        });
        action.run().await.map(Response::new)
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::RenewResponse>, Status> {
        self.update(|state| state.renews.push(request.into_inner()));
        let outcome = v1::renew_response::Outcome::Renewed.into();
        Ok(Response::new(v1::RenewResponse { outcome, ttl: wire(TTL), ..Default::default() }))
    }

    async fn convert(&self, request: Request<v1::ConvertRequest>) -> Result<Response<v1::ConvertResponse>, Status> {
        let request = request.into_inner();
        let action = self.update(|state| {
            let action = (state.on_convert)(&request);
            state.converts.push(request);
            action
        });
        action.run().await.map(Response::new)
    }

    async fn describe(&self, request: Request<v1::DescribeRequest>) -> Result<Response<v1::DescribeResponse>, Status> {
        let request = request.into_inner();
        let action = self.update(|state| {
            let action = (state.on_describe)(&request);
            state.describes.push(request);
            action
        });
        action.run().await.map(Response::new)
    }

    /// The token of a page is its index.
    async fn list_waiters(
        &self,
        request: Request<v1::ListWaitersRequest>,
    ) -> Result<Response<v1::ListWaitersResponse>, Status> {
        let page: usize = request.into_inner().page_token.parse().unwrap_or(0);
        let pages = &self.state().waiters;
        let next_page_token = if page + 1 < pages.len() { (page + 1).to_string() } else { String::new() };
        Ok(Response::new(v1::ListWaitersResponse { waiters: pages[page].clone(), next_page_token, lock: None }))
    }

    type ObserveStream = ReceiverStream<Result<v1::ObserveResponse, Status>>;

    async fn observe(&self, _: Request<v1::ObserveRequest>) -> Result<Response<Self::ObserveStream>, Status> {
        let (to_client, states) = mpsc::channel(8);
        self.update(|state| match state.refuses_observers.clone() {
            Some(status) => {
                state.refused_observers += 1;
                Err(status)
            }
            None => {
                state.observers.push(to_client);
                Ok(())
            }
        })?;
        Ok(Response::new(ReceiverStream::new(states)))
    }

    type KeepAliveStream = ReceiverStream<Result<v1::KeepAliveResponse, Status>>;

    async fn keep_alive(
        &self,
        _: Request<Streaming<v1::KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        Err(Status::unimplemented("keep_alive"))
    }

    type SessionStream = ReceiverStream<Result<v1::SessionResponse, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        self.update(|state| state.authorizations.push(text_of(&request, "authorization")));
        let refuses = self.state().refuses.clone();
        refuses.map_or(Ok(()), Err)?;
        let mut response = Response::new(session::open(self.clone(), request.into_inner()));
        if let Some(id) = &self.state().store_id {
            response.metadata_mut().insert("fencepost-store-id", id.parse().unwrap());
        }
        Ok(response)
    }

    async fn get(&self, _: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        Err(Status::unimplemented("get"))
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        Err(Status::unimplemented("list"))
    }

    type WatchStream = ReceiverStream<Result<v1::WatchResponse, Status>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.update(|state| state.authorizations.push(text_of(&request, "authorization")));
        let (events, stream) = mpsc::channel(1);
        let started = v1::WatchResponse { kind: v1::watch_response::Kind::Started.into(), ..Default::default() };
        events.try_send(Ok(started)).unwrap();
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn check_token(
        &self,
        request: Request<v1::CheckTokenRequest>,
    ) -> Result<Response<v1::CheckTokenResponse>, Status> {
        let newest_token = request.into_inner().fencing_token;
        Ok(Response::new(v1::CheckTokenResponse { newest_token, ..Default::default() }))
    }
}

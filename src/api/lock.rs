//! LockService: check, call, convert.

use super::{
    Api, convert, deadline::deadline, keepalive::KeepAliveStream, reply, session::SessionStream, status::status,
};
use crate::{locks::LocksError, store::LockStore};
use fencepost_proto::v1::{self, lock_service_server::LockService};
use std::pin::Pin;
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

#[tonic::async_trait]
impl<S: LockStore> LockService for Api<S> {
    async fn acquire(&self, request: Request<v1::AcquireRequest>) -> Result<Response<v1::AcquireResponse>, Status> {
        let arrived = Instant::now();
        let deadline = deadline(request.metadata(), arrived);
        let (name, call) = convert::acquire(request.into_inner(), self.locks.limits(), arrived, deadline)?;
        let answer = self.locks.acquire(&name, call).await.map_err(|error| status(&error))?;
        Ok(Response::new(reply::acquire(name, answer)))
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseResponse>, Status> {
        let request = request.into_inner();
        let (name, lease_id) = convert::lease(request.lock_name, &request.lease_id)?;
        let outcome = self.locks.release(&name, lease_id).await.map_err(|error| status(&error))?;
        Ok(Response::new(reply::release(outcome)))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::RenewResponse>, Status> {
        let arrived = Instant::now();
        let request = request.into_inner();
        let ttl = convert::optional_ttl(request.ttl, self.locks.limits())?;
        let (name, lease_id) = convert::lease(request.lock_name, &request.lease_id)?;
        let (outcome, held_for) =
            self.locks.renew(&name, lease_id, ttl, arrived).await.map_err(|error| status(&error))?;
        Ok(Response::new(reply::renew(outcome, held_for)))
    }

    type KeepAliveStream = KeepAliveStream;

    async fn keep_alive(
        &self,
        request: Request<Streaming<v1::KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        if self.locks.is_draining() {
            return Err(status(&LocksError::Draining));
        }
        Ok(Response::new(super::keepalive::serve(self, request.into_inner())))
    }

    type SessionStream = SessionStream;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        if self.locks.is_draining() {
            return Err(status(&LocksError::Draining));
        }
        Ok(Response::new(super::session::serve(self, request.into_inner())))
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        let name = convert::name(request.into_inner().lock_name)?;
        let view = self.locks.view(&name).await.map_err(|error| status(&error))?;
        Ok(Response::new(v1::GetResponse { lock: Some(reply::lock(name, view)) }))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let request = request.into_inner();
        convert::prefix(&request.prefix)?;
        let limit = convert::page_size(request.page_size)?;
        let from = Some(request.page_token.as_str()).filter(|token| !token.is_empty());
        let page = self.locks.list(&request.prefix, from, limit).await.map_err(|error| status(&error))?;
        Ok(Response::new(v1::ListResponse {
            locks: page.locks.into_iter().map(|(name, view)| reply::lock(name, view)).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let prefix = request.into_inner().prefix;
        convert::prefix(&prefix)?;
        let watching = self.locks.watch(prefix).await.map_err(|error| status(&error))?;
        // Dropped with the response, the watch ends.
        Ok(Response::new(Box::pin(async_stream::stream! {
            let started = v1::watch_response::Kind::Started;
            yield Ok(v1::WatchResponse { kind: started.into(), ..v1::WatchResponse::default() });
            while let Some(item) = watching.next().await {
                yield Ok(reply::watch(item));
            }
            yield Err(status(&LocksError::Draining));
        })))
    }

    async fn check_token(
        &self,
        request: Request<v1::CheckTokenRequest>,
    ) -> Result<Response<v1::CheckTokenResponse>, Status> {
        let (name, token) = convert::check_token(request.into_inner())?;
        let (status_of_token, newest) = self.locks.check_token(&name, token).await.map_err(|error| status(&error))?;
        Ok(Response::new(reply::check_token(status_of_token, newest)))
    }
}

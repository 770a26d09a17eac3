//! LockService: check, dispatch, convert.

use super::{Api, convert, deadline::deadline, dispatch::Caller, reply, session::SessionStream, shown};
use crate::{
    locks::{Dispatch as _, LocksError, Permission, Target, keepalive},
    store::Store,
    telemetry::metrics::OperationKind,
};
use fencepost_proto::v1::{self, lock_service_server::LockService};
use std::{
    pin::{Pin, pin},
    sync::Arc,
};
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

#[tonic::async_trait]
impl<S: Store> LockService for Api<S> {
    async fn acquire(&self, request: Request<v1::AcquireRequest>) -> Result<Response<v1::AcquireResponse>, Status> {
        let (caller, arrived) = (self.caller(&request), Instant::now());
        let deadline = deadline(request.metadata().as_ref(), || arrived);
        let identity = caller.identity();
        let (name, call) = convert::acquire(request.into_inner(), identity, self.locks.limits(), arrived, deadline)?;
        let wait = call.wait;
        let answer = caller
            .dispatch(
                OperationKind::Acquire,
                Target::Lock(&name),
                pin!(caller.while_permitted(wait, &name, pin!(self.locks.acquire(&name, call)))),
            )
            .await?;
        Ok(Response::new(reply::acquire(name, answer)))
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseResponse>, Status> {
        let caller = self.caller(&request);
        let request = request.into_inner();
        let (name, lease_id) = convert::lease(request.lock_name, &request.lease_id)?;
        let outcome = caller
            .dispatch(OperationKind::Release, Target::Lock(&name), pin!(self.locks.release(&name, lease_id)))
            .await?;
        Ok(Response::new(reply::release(outcome)))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::RenewResponse>, Status> {
        let (caller, arrived) = (self.caller(&request), Instant::now());
        let request = request.into_inner();
        let ttl = convert::optional_ttl(request.ttl, self.locks.limits())?;
        let (name, lease_id) = convert::lease(request.lock_name, &request.lease_id)?;
        let (outcome, held_for) = caller
            .dispatch(OperationKind::Renew, Target::Lock(&name), pin!(self.locks.renew(&name, lease_id, ttl, arrived)))
            .await?;
        Ok(Response::new(reply::renew(outcome, held_for)))
    }

    async fn convert(&self, request: Request<v1::ConvertRequest>) -> Result<Response<v1::ConvertResponse>, Status> {
        let (caller, arrived) = (self.caller(&request), Instant::now());
        let (name, lease, to) = convert::conversion(request.into_inner())?;
        let (answer, held_for) = caller
            .dispatch(OperationKind::Convert, Target::Lock(&name), pin!(self.locks.convert(&name, lease, to, arrived)))
            .await?;
        Ok(Response::new(reply::convert(answer, held_for)))
    }

    async fn describe(&self, request: Request<v1::DescribeRequest>) -> Result<Response<v1::DescribeResponse>, Status> {
        let caller = self.caller(&request);
        let (name, lease_id, description) = convert::description(request.into_inner())?;
        let outcome = caller
            .dispatch(
                OperationKind::Describe,
                Target::Lock(&name),
                pin!(self.locks.describe(&name, lease_id, description)),
            )
            .await?;
        Ok(Response::new(reply::describe(outcome)))
    }

    type KeepAliveStream = Pin<Box<dyn Stream<Item = Result<v1::KeepAliveResponse, Status>> + Send>>;

    async fn keep_alive(
        &self,
        request: Request<Streaming<v1::KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        let caller = self.caller(&request);
        let permission = self.open_stream(&caller, OperationKind::KeepAlive).await?;
        let inbound = request.into_inner().map(|message| message.and_then(convert::keep_alive));
        let outbound = keepalive::keep_alive(self.locks.clone(), permission, inbound, self.drain_grace);
        // The transport polls and drops it: no task keeps it alive.
        Ok(self.stream(Box::pin(outbound.map(|message| message.map(reply::keep_alive).map_err(Status::from)))))
    }

    type SessionStream = SessionStream;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let caller = self.caller(&request);
        let permission = self.open_stream(&caller, OperationKind::Session).await?;
        Ok(self.stream(super::session::serve(self, (caller, permission), request.into_inner())))
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        let caller = self.caller(&request);
        let name = convert::name(request.into_inner().lock_name)?;
        let view = caller.dispatch(OperationKind::Get, Target::Lock(&name), pin!(self.locks.view(&name, None))).await?;
        Ok(Response::new(v1::GetResponse { lock: Some(shown::lock(name, view)) }))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let caller = self.caller(&request);
        let request = request.into_inner();
        convert::prefix(&request.prefix)?;
        let limit = convert::page_size(request.page_size)?;
        let from = Some(request.page_token.as_str()).filter(|token| !token.is_empty());
        self.pages.next().await;
        let page = caller
            .dispatch(
                OperationKind::List,
                Target::Prefix(&request.prefix),
                pin!(self.locks.list(&request.prefix, from, limit)),
            )
            .await?;
        Ok(Response::new(v1::ListResponse {
            locks: page.locks.into_iter().map(|(name, view)| shown::lock(name, view)).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let caller = self.caller(&request);
        let prefix = request.into_inner().prefix;
        convert::prefix(&prefix)?;
        let (in_use, watching) = caller
            .dispatch(
                OperationKind::Watch,
                Target::Prefix(&prefix),
                pin!(async { Ok((caller.watches()?, self.locks.watch(prefix.clone()).await?)) }),
            )
            .await?;
        // Dropped with the response, the watch ends.
        Ok(Response::new(Box::pin(async_stream::stream! {
            let _in_use = in_use;
            let started = v1::watch_response::Kind::Started;
            yield Ok(v1::WatchResponse { kind: started.into(), ..v1::WatchResponse::default() });
            let mut stopped = pin!(caller.stopped(OperationKind::Watch, Target::Prefix(&prefix)));
            let ended = loop {
                let next = tokio::select! {
                    biased;
                    stopped = &mut stopped => Err(stopped),
                    item = watching.next() => item.ok_or(LocksError::Draining),
                };
                match next {
                    Ok(item) => yield Ok(reply::watch(item)),
                    Err(ended) => break ended,
                }
            };
            yield Err(ended.into());
        })))
    }

    type ObserveStream = Pin<Box<dyn Stream<Item = Result<v1::ObserveResponse, Status>> + Send>>;

    async fn observe(&self, request: Request<v1::ObserveRequest>) -> Result<Response<Self::ObserveStream>, Status> {
        let caller = self.caller(&request);
        let name = convert::name(request.into_inner().lock_name)?;
        let (in_use, mut observing) = caller
            .dispatch(
                OperationKind::Observe,
                Target::Lock(&name),
                pin!(async { Ok((caller.watches()?, self.locks.observe(&name).await?)) }),
            )
            .await?;
        // Dropped with the response, the observer ends.
        Ok(Response::new(Box::pin(async_stream::stream! {
            let _in_use = in_use;
            let mut stopped = pin!(caller.stopped(OperationKind::Observe, Target::Lock(&name)));
            let ended = loop {
                let next = tokio::select! {
                    biased;
                    stopped = &mut stopped => Err(stopped),
                    view = observing.next() => view,
                };
                match next {
                    Ok(view) => yield Ok(v1::ObserveResponse { lock: Some(shown::lock(name.clone(), view)) }),
                    Err(ended) => break ended,
                }
            };
            yield Err(ended.into());
        })))
    }

    async fn list_waiters(
        &self,
        request: Request<v1::ListWaitersRequest>,
    ) -> Result<Response<v1::ListWaitersResponse>, Status> {
        let caller = self.caller(&request);
        let (name, after, max) = convert::list_waiters(request.into_inner())?;
        let view = caller
            .dispatch(OperationKind::ListWaiters, Target::Lock(&name), pin!(self.locks.list_waiters(&name, after, max)))
            .await?;
        Ok(Response::new(shown::waiters(name, view)))
    }

    async fn check_token(
        &self,
        request: Request<v1::CheckTokenRequest>,
    ) -> Result<Response<v1::CheckTokenResponse>, Status> {
        let caller = self.caller(&request);
        let (name, token) = convert::check_token(request.into_inner())?;
        let view = caller
            .dispatch(OperationKind::CheckToken, Target::Lock(&name), pin!(self.locks.view(&name, Some(token))))
            .await?;
        Ok(Response::new(reply::check_token(view.token_status(token), view.newest_token)))
    }
}

impl<S: Store> Api<S> {
    /// Opens a stream that keeps leases. Returns what its client may do on it, if that is restricted.
    async fn open_stream(
        &self,
        caller: &Caller,
        kind: OperationKind,
    ) -> Result<Option<Arc<dyn Permission>>, LocksError> {
        caller
            .dispatch(
                kind,
                Target::Server,
                pin!(async {
                    self.locks.check_draining()?;
                    caller.opens_stream()
                }),
            )
            .await
    }
}

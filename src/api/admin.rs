//! AdminService: an operator's RPCs.

use super::{Api, convert, reply};
use crate::{
    locks::{Dispatch as _, Target},
    store::Store,
    telemetry::metrics::OperationKind,
};
use fencepost_proto::v1::{self, admin_service_server::AdminService};
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl<S: Store> AdminService for Api<S> {
    async fn force_release(
        &self,
        request: Request<v1::ForceReleaseRequest>,
    ) -> Result<Response<v1::ForceReleaseResponse>, Status> {
        let caller = self.caller(&request);
        let (name, expected, reason) = convert::force_release(request.into_inner())?;
        let revocation = self.locks.force_release(&name, expected, reason);
        let outcome = caller.dispatch(OperationKind::ForceRelease, Target::Lock(&name), revocation).await?;
        Ok(Response::new(reply::force_release(outcome)))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        let drain = async {
            let busy = self.locks.busy();
            self.locks.drain();
            Ok(busy)
        };
        let (waiters, streams) = self.caller(&request).dispatch(OperationKind::Drain, Target::Server, drain).await?;
        Ok(Response::new(v1::DrainResponse {
            waiters: u32::try_from(waiters).unwrap_or(u32::MAX),
            streams: u32::try_from(streams).unwrap_or(u32::MAX),
        }))
    }
}

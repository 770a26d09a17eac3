//! AdminService: what an operator does.

use super::{Api, convert, reply, status::status};
use crate::store::LockStore;
use fencepost_proto::v1::{self, admin_service_server::AdminService};
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl<S: LockStore> AdminService for Api<S> {
    async fn force_release(
        &self,
        request: Request<v1::ForceReleaseRequest>,
    ) -> Result<Response<v1::ForceReleaseResponse>, Status> {
        let (name, expected, reason) = convert::force_release(request.into_inner())?;
        let outcome = self.locks.force_release(&name, expected, &reason).await.map_err(|error| status(&error))?;
        Ok(Response::new(reply::force_release(outcome)))
    }

    async fn drain(&self, _: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        let (waiters, streams) = self.locks.busy();
        self.locks.drain();
        Ok(Response::new(v1::DrainResponse {
            waiters: u32::try_from(waiters).unwrap_or(u32::MAX),
            streams: u32::try_from(streams).unwrap_or(u32::MAX),
        }))
    }
}

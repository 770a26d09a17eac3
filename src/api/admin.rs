//! AdminService: an operator's RPCs.

use super::{Api, convert, dispatch::Caller, guard::Visitor, reply};
use crate::{
    clock::wall_time,
    domain::outcome::RevokeOutcome,
    locks::{Dispatch as _, LocksError, Target},
    store::Store,
    telemetry::{audit::AuditEvent, metrics::OperationKind},
};
use fencepost_proto::v1::{self, admin_service_server::AdminService};
use std::pin::pin;
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl<S: Store> AdminService for Api<S> {
    async fn force_release(
        &self,
        request: Request<v1::ForceReleaseRequest>,
    ) -> Result<Response<v1::ForceReleaseResponse>, Status> {
        let caller = self.caller(&request);
        let (name, expected, reason) = convert::force_release(request.into_inner())?;
        let event = AuditEvent {
            event: "force_release",
            reason: Some(reason.as_str().to_owned()),
            lock_name: Some(name.as_str().to_owned()),
            fencing_token: Some(expected.get()),
            ..AuditEvent::default()
        };
        let outcome = caller
            .dispatch(
                OperationKind::ForceRelease,
                Target::Lock(&name),
                pin!(self.locks.force_release(&name, expected, reason)),
            )
            .await;
        let came_of_it = |outcome: &RevokeOutcome| match outcome {
            RevokeOutcome::Revoked(_) => "revoked",
            RevokeOutcome::NotHeld => "not_held",
            RevokeOutcome::TokenMismatch(_) => "token_mismatch",
        };
        self.note(&caller, event, outcome.as_ref().map(came_of_it));
        Ok(Response::new(reply::force_release(outcome?)))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        let caller = self.caller(&request);
        let drained = caller
            .dispatch(
                OperationKind::Drain,
                Target::Server,
                pin!(async {
                    let busy = self.locks.busy();
                    self.locks.drain();
                    Ok(busy)
                }),
            )
            .await;
        let event = AuditEvent { event: "drain", ..AuditEvent::default() };
        self.note(&caller, event, drained.as_ref().map(|_| "begun"));
        let (waiters, streams) = drained?;
        Ok(Response::new(v1::DrainResponse {
            waiters: u32::try_from(waiters).unwrap_or(u32::MAX),
            streams: u32::try_from(streams).unwrap_or(u32::MAX),
        }))
    }
}

impl<S> Api<S> {
    /// Notes in the audit log what an operator did. What was denied is in it already.
    fn note(&self, caller: &Caller, event: AuditEvent, outcome: Result<&'static str, &LocksError>) {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(LocksError::Denied(_)) => return,
            Err(_) => "failed",
        };
        let Some(audit) = &self.audit else { return };
        let identity = caller.visitor.as_ref().and_then(Visitor::identity).map(|name| name.to_string());
        let peer = caller.peer.map(|peer| peer.to_string());
        audit.note(wall_time(), &AuditEvent { outcome, identity, peer, ..event });
    }
}

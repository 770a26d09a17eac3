//! Calls and operations of clients.

use super::{
    Buckets,
    label::{Label, label},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};
use std::sync::OnceLock;

label! {
    /// A method of the API.
    Method = "method" {
        /// LockService.Acquire.
        Acquire = "Acquire",
        /// LockService.Release.
        Release = "Release",
        /// LockService.Renew.
        Renew = "Renew",
        /// LockService.Convert.
        Convert = "Convert",
        /// LockService.Describe.
        Describe = "Describe",
        /// LockService.KeepAlive.
        KeepAlive = "KeepAlive",
        /// LockService.Session.
        Session = "Session",
        /// LockService.Get.
        Get = "Get",
        /// LockService.List.
        List = "List",
        /// LockService.Watch.
        Watch = "Watch",
        /// LockService.Observe.
        Observe = "Observe",
        /// LockService.ListWaiters.
        ListWaiters = "ListWaiters",
        /// LockService.CheckToken.
        CheckToken = "CheckToken",
        /// AdminService.ForceRelease.
        ForceRelease = "ForceRelease",
        /// AdminService.Drain.
        Drain = "Drain",
        /// Health.Check.
        HealthCheck = "HealthCheck",
        /// Health.Watch.
        HealthWatch = "HealthWatch",
        /// Reflection, and whatever this server does not know.
        Other = "other",
    }
}

impl Method {
    /// The method of a path, `/package.Service/Method`.
    pub fn of(path: &str) -> Self {
        match path {
            "/fencepost.v1.LockService/Acquire" => Self::Acquire,
            "/fencepost.v1.LockService/Release" => Self::Release,
            "/fencepost.v1.LockService/Renew" => Self::Renew,
            "/fencepost.v1.LockService/Convert" => Self::Convert,
            "/fencepost.v1.LockService/Describe" => Self::Describe,
            "/fencepost.v1.LockService/Observe" => Self::Observe,
            "/fencepost.v1.LockService/ListWaiters" => Self::ListWaiters,
            "/fencepost.v1.LockService/KeepAlive" => Self::KeepAlive,
            "/fencepost.v1.LockService/Session" => Self::Session,
            "/fencepost.v1.LockService/Get" => Self::Get,
            "/fencepost.v1.LockService/List" => Self::List,
            "/fencepost.v1.LockService/Watch" => Self::Watch,
            "/fencepost.v1.LockService/CheckToken" => Self::CheckToken,
            "/fencepost.v1.AdminService/ForceRelease" => Self::ForceRelease,
            "/fencepost.v1.AdminService/Drain" => Self::Drain,
            "/grpc.health.v1.Health/Check" => Self::HealthCheck,
            "/grpc.health.v1.Health/Watch" => Self::HealthWatch,
            _ => Self::Other,
        }
    }

    /// Whether the request is a stream, which has any number of messages at any time.
    pub fn takes_stream(self) -> bool {
        matches!(self, Self::KeepAlive | Self::Session | Self::Other)
    }

    /// Whether the call is a stream, which ends when its client or the server ends it.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::KeepAlive | Self::Session | Self::Watch | Self::Observe | Self::HealthWatch | Self::Other)
    }
}

label! {
    /// An operation of a client, by a call or on a session.
    OperationKind = "operation" {
        /// Acquires a lock.
        Acquire = "acquire",
        /// Releases a lease.
        Release = "release",
        /// Renews a lease.
        Renew = "renew",
        /// Converts a lease.
        Convert = "convert",
        /// Describes a lease.
        Describe = "describe",
        /// Opens a KeepAlive stream.
        KeepAlive = "keep_alive",
        /// Opens a Session.
        Session = "session",
        /// Reads a lock.
        Get = "get",
        /// Lists locks.
        List = "list",
        /// Opens a Watch stream.
        Watch = "watch",
        /// Opens an Observe stream.
        Observe = "observe",
        /// Reads a lock and its queue.
        ListWaiters = "list_waiters",
        /// Checks a token.
        CheckToken = "check_token",
        /// Revokes a lease.
        ForceRelease = "force_release",
        /// Drains the server.
        Drain = "drain",
    }
}

/// The names of the status codes of gRPC, by number.
pub const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The code of a call that was dropped.
pub const CANCELLED: usize = 1;
/// The code of an answer without a known code.
pub const UNKNOWN: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
    outcome: &'static str,
}

type Seconds = Family<[(&'static str, &'static str); 1], Histogram, fn() -> Histogram>;

/// Calls and operations of clients.
#[derive(Debug)]
pub struct CallMetrics {
    calls: Family<CallLabels, Counter>,
    /// By method and code. Made at the first call with that code, because most pairs never occur.
    ended: Box<[[OnceLock<Counter>; CODES.len()]]>,
    seconds: Box<[Option<Histogram>]>,
    /// By operation: those that failed, and those that did not.
    operations: Box<[[Counter; 2]]>,
}

impl CallMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let calls = Family::<CallLabels, Counter>::default();
        registry.register("calls", "Calls that have ended, by status; CANCELLED if the client gave up", calls.clone());
        let times: Seconds = Family::new_with_constructor(|| Buckets::Short.histogram());
        let help = "Time from the arrival of a call to its answer, without streams. An Acquire that waits takes long";
        registry.register_with_unit("call", help, Unit::Seconds, times.clone());
        let time = |method: Method| times.get_or_create_owned(&[(Method::NAME, method.text())]);
        let seconds = Method::ALL.iter().map(|method| (!method.is_stream()).then(|| time(*method))).collect();
        let operations = Family::<OperationLabels, Counter>::default();
        registry.register(
            "operations",
            "Operations of clients, by calls and on sessions. Refused arguments are not counted",
            operations.clone(),
        );
        let operation = |kind: &OperationKind| {
            let of = |outcome| operations.get_or_create_owned(&OperationLabels { operation: kind.text(), outcome });
            [of("error"), of("ok")]
        };
        let ended = Method::ALL.iter().map(|_| [const { OnceLock::new() }; CODES.len()]).collect();
        Self { calls, ended, seconds, operations: OperationKind::ALL.iter().map(operation).collect() }
    }

    /// Counts a call that has ended with this code.
    pub fn ended(&self, method: Method, code: usize) {
        let code = if code < CODES.len() { code } else { UNKNOWN };
        let labels = CallLabels { method: method.text(), code: CODES[code] };
        self.ended[method.index()][code].get_or_init(|| self.calls.get_or_create_owned(&labels)).inc();
    }

    /// Where the times of a method go; `None` for streams.
    pub fn seconds(&self, method: Method) -> Option<&Histogram> {
        self.seconds[method.index()].as_ref()
    }

    /// Counts an operation.
    pub fn operation(&self, kind: OperationKind, ok: bool) {
        self.operations[kind.index()][usize::from(ok)].inc();
    }
}

impl Default for CallMetrics {
    /// Metrics that nobody scrapes.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

//! The codes of gRPC.

use std::fmt;

/// The gRPC code of an error. [`CallError`](crate::CallError) has methods that say what a code means for its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "gRPC defines them")]
pub enum Code {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    pub(crate) fn of(code: tonic::Code) -> Self {
        use tonic::Code as Tonic;
        match code {
            Tonic::Ok => Self::Ok,
            Tonic::Cancelled => Self::Cancelled,
            Tonic::Unknown => Self::Unknown,
            Tonic::InvalidArgument => Self::InvalidArgument,
            Tonic::DeadlineExceeded => Self::DeadlineExceeded,
            Tonic::NotFound => Self::NotFound,
            Tonic::AlreadyExists => Self::AlreadyExists,
            Tonic::PermissionDenied => Self::PermissionDenied,
            Tonic::ResourceExhausted => Self::ResourceExhausted,
            Tonic::FailedPrecondition => Self::FailedPrecondition,
            Tonic::Aborted => Self::Aborted,
            Tonic::OutOfRange => Self::OutOfRange,
            Tonic::Unimplemented => Self::Unimplemented,
            Tonic::Internal => Self::Internal,
            Tonic::Unavailable => Self::Unavailable,
            Tonic::DataLoss => Self::DataLoss,
            Tonic::Unauthenticated => Self::Unauthenticated,
        }
    }

    /// Its name in gRPC, such as `INVALID_ARGUMENT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

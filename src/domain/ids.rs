//! Identities. A request id and a lease id are credentials: their `Debug` shows the first digits alone, for failed
//! tests.

use super::codec;
use minicbor::{Decode, Encode};
use std::fmt;
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $debug:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[cbor(n(0), with = "codec::id")] pub Uuid);

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let show: fn(&Uuid) -> String = $debug;
                write!(out, "{}({})", stringify!($name), show(&self.0))
            }
        }
    };
}

fn first_digits(id: &Uuid) -> String {
    id.simple().to_string().chars().take(6).chain(['…']).collect()
}

id!(
    /// Names one request for a lock across all its transmissions. Made by the client. Whoever knows it can get the
    /// lease.
    RequestId,
    first_digits
);
id!(
    /// Proves ownership of a lease. Random, made by the server; never listed, logged or shown to others.
    LeaseId,
    first_digits
);
id!(
    /// The public name of a grant, to be kept beside the token in the protected store.
    GrantId,
    Uuid::to_string
);
id!(
    /// One attachment of a lease to one KeepAlive stream. Made by the server at random.
    AttachmentId,
    Uuid::to_string
);
id!(
    /// One run of one server process. Drawn at random at its start.
    ReplicaId,
    Uuid::to_string
);

/// Tells one call from every other of its attempt. Drawn at random by the server that received the call, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct CallId(#[n(0)] pub u64);

/// One call of a request: a transmission, as one server received it.
///
/// The attempt alone does not name it: a proxy, gRPC's own retry policy, or a client that does not count may send one
/// attempt several times, and the cleanup after one of these calls must not take away another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct Call {
    /// The request that it transmits.
    #[n(0)]
    pub request: RequestId,
    /// The client's count of transmissions.
    #[n(1)]
    pub attempt: u32,
    /// Which call of this attempt it is.
    #[n(2)]
    pub id: CallId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_of_a_credential_does_not_give_it_away() {
        let id = Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
        assert_eq!(format!("{:?}", LeaseId(id)), "LeaseId(123456…)");
        assert_eq!(format!("{:?}", RequestId(id)), "RequestId(123456…)");
        assert_eq!(format!("{:?}", GrantId(id)), "GrantId(12345678-9abc-def0-1234-56789abcdef0)");
    }
}

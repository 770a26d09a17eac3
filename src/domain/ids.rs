//! Identities. A request id and a lease id are credentials: their `Debug` shows the first digits alone, for failed
//! tests.

use sha1_smol::Sha1;
use std::fmt;
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $debug:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

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
    /// Proves ownership of a lease. Made by the server ([`LeaseId::of`]); never listed, logged or shown to others.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// One call of a request: a transmission, as one server received it.
///
/// The attempt alone does not name it: a proxy, gRPC's own retry policy, or a client that does not count may send one
/// attempt several times, and the cleanup after one of these calls must not take away another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    /// The request that it transmits.
    pub request: RequestId,
    /// The client's count of transmissions.
    pub attempt: u32,
    /// Which call of this attempt it is.
    pub id: CallId,
}

impl LeaseId {
    /// The id of a lease that may be granted to this request. Its first half is a hash of the request, so a store that
    /// indexes ended requests by that half finds them by their leases too; with any other id a late duplicate could
    /// lock again. The second half is random (62 bits of it are kept): whoever knows the request does not know the
    /// lease, and a request that comes again after it was forgotten gets another id. Stored, so the same in every
    /// server and every version.
    pub fn of(request: RequestId, random: u64) -> Self {
        let digest = Sha1::from(request.0.as_bytes()).digest().bytes();
        let mut bytes = [0; 16];
        let (first, second) = bytes.split_at_mut(8);
        first.copy_from_slice(&digest[..8]);
        second.copy_from_slice(&random.to_be_bytes());
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_leases_begin_with_what_goes_by_their_request() {
        let request = RequestId(Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0));
        let hex = |random| LeaseId::of(request, random).0.to_string();
        assert_eq!(hex(0), "d8376dcb-6eea-84fd-8000-000000000000");
        assert_eq!(hex(u64::MAX), "d8376dcb-6eea-84fd-bfff-ffffffffffff");
    }

    #[test]
    fn debug_of_a_credential_does_not_give_it_away() {
        let id = Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
        assert_eq!(format!("{:?}", LeaseId(id)), "LeaseId(123456…)");
        assert_eq!(format!("{:?}", RequestId(id)), "RequestId(123456…)");
        assert_eq!(format!("{:?}", GrantId(id)), "GrantId(12345678-9abc-def0-1234-56789abcdef0)");
    }
}

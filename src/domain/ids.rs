//! Identities. A request id and a lease id are credentials: their `Debug` shows only enough to tell two apart in a failed test.

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
    /// Names one wish for a lock across all transmissions of it. Made by the client; whoever knows it can pick up the lease.
    RequestId,
    first_digits
);
id!(
    /// Proof that a lease is one's own. Made by the server at random; never listed, logged or shown to others.
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
    /// One life of one server process. Made at random at its start.
    ReplicaId,
    Uuid::to_string
);
id!(
    /// One life of what keeps the sequencers: a process start for the memory store, a run of a primary for Redis.
    Incarnation,
    Uuid::to_string
);

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

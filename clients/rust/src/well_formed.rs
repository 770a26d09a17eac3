//! What the API takes for a lease. A message of a session is refused as a whole, and the session with it: one lease
//! that breaks a rule would take down all others that are kept there, again and again. So it must never get that far.

use crate::v1;
use uuid::Uuid;

/// The longest lock name that a server takes.
const LOCK_NAME_BYTES_MAX: usize = 512;

/// Says which rule the name or the id of a lease breaks. Never shows the id, which is a secret.
pub(crate) fn check(lease: &v1::Lease) -> Result<(), &'static str> {
    let name = &lease.lock_name;
    if name.is_empty() {
        return Err("its lock name is empty");
    }
    if name.len() > LOCK_NAME_BYTES_MAX {
        return Err("its lock name has more than 512 bytes");
    }
    if name.chars().any(char::is_control) {
        return Err("its lock name has control characters");
    }
    if Uuid::try_parse(&lease.lease_id).is_err() {
        return Err("its lease id is not a UUID");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well_formed(lock_name: &str, lease_id: &str) -> bool {
        let lease = v1::Lease { lock_name: lock_name.to_owned(), lease_id: lease_id.to_owned(), ..Default::default() };
        check(&lease).is_ok()
    }

    #[test]
    fn names_are_1_to_512_bytes_without_control_characters_and_ids_are_uuids() {
        let id = Uuid::new_v4().to_string();
        assert!(well_formed("orders/42 ✓", &id) && well_formed("x", &id.replace('-', "")));
        for name in ["", "\0", "a\nb", "\u{7f}", "\u{85}"] {
            assert!(!well_formed(name, &id), "{name:?}");
        }
        assert!(well_formed(&"ü".repeat(256), &id));
        assert!(!well_formed(&"ü".repeat(257), &id), "the bound is in bytes");
        for id in ["", "secret", &format!("{id}0")] {
            assert!(!well_formed("x", id), "{id:?}");
        }
    }
}

//! Validates a lease before it is kept. A server refuses a malformed message of a session as a whole, and ends the
//! session: one malformed lease would make all others fail, again and again.

use crate::facts::NAME_BYTES_MAX;
use crate::values::Lease;
use uuid::Uuid;

/// Returns the rule that the name or the id of a lease breaks. The id is a secret and never part of it.
pub(crate) fn check(lease: &Lease) -> Result<(), &'static str> {
    let name = &lease.lock_name;
    if name.is_empty() {
        return Err("its lock name is empty");
    }
    if name.len() > NAME_BYTES_MAX {
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

    fn validate(lock_name: &str, lease_id: &str) -> bool {
        let lease = Lease { lock_name: lock_name.to_owned(), lease_id: lease_id.to_owned(), ..Default::default() };
        check(&lease).is_ok()
    }

    #[test]
    fn names_are_1_to_512_bytes_without_control_characters_and_ids_are_uuids() {
        let id = Uuid::new_v4().to_string();
        assert!(validate("orders/42 ✓", &id) && validate("x", &id.replace('-', "")));
        for name in ["", "\0", "a\nb", "\u{7f}", "\u{85}"] {
            assert!(!validate(name, &id), "{name:?}");
        }
        assert!(validate(&"ü".repeat(256), &id));
        assert!(!validate(&"ü".repeat(257), &id), "the bound is in bytes");
        for id in ["", "secret", &format!("{id}0")] {
            assert!(!validate("x", id), "{id:?}");
        }
    }
}

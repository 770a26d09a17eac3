//! What the quick paths answer (`lua/quick`): fixed in size, and read without a step between.

use super::effects::RedisEffect;
use crate::domain::{
    ids::{AttachmentId, GrantId, LeaseId, ReplicaId},
    lease::LeaseEnd,
    outcome::{Grant, Renewed},
    token::FencingToken,
};
use std::time::Duration;
use uuid::Uuid;

/// What a quick path did.
#[derive(Clone, Copy, Debug)]
pub(super) enum Quick {
    Granted(Grant),
    Queued { place: u64, first: u64 },
    Released,
    HandedOver(Grant),
    Renewed(Renewed),
}

/// That, and what it set off; nothing, if that is not what stands there.
pub(super) fn read(mut bytes: &[u8]) -> Option<(Quick, Vec<RedisEffect>)> {
    let it = &mut bytes;
    let [what] = take(it)?;
    let read = match what {
        b'G' => {
            let [previous] = take(it)?;
            let previous_end = if previous == b' ' { None } else { Some(end(previous)?) };
            let grant = granted(it, previous_end)?;
            (Quick::Granted(grant), vec![RedisEffect::Granted(grant.lease_id)])
        }
        b'Q' => (Quick::Queued { place: number(it)?, first: number(it)? }, Vec::new()),
        b'R' => (Quick::Released, vec![released(it)?]),
        b'H' => {
            let grant = granted(it, Some(LeaseEnd::Released))?;
            (Quick::HandedOver(grant), vec![released(it)?, RedisEffect::Granted(grant.lease_id)])
        }
        b'N' => {
            let token = FencingToken::new(number(it)?)?;
            (Quick::Renewed(Renewed { token, ttl: span(it)?, left: span(it)? }), Vec::new())
        }
        _ => return None,
    };
    it.is_empty().then_some(read)
}

fn granted(it: &mut &[u8], previous_end: Option<LeaseEnd>) -> Option<Grant> {
    let (token, left) = (FencingToken::new(number(it)?)?, span(it)?);
    Some(Grant { lease_id: LeaseId(id(it)?), grant_id: GrantId(id(it)?), token, left, previous_end })
}

/// The end of a lease, and of the stream that kept it, if one did.
fn released(it: &mut &[u8]) -> Option<RedisEffect> {
    let lease_id = LeaseId(id(it)?);
    let attachment = if it.is_empty() { None } else { Some((AttachmentId(id(it)?), ReplicaId(id(it)?))) };
    Some(RedisEffect::Ended { end: LeaseEnd::Released, lease_id, attachment })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (these, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*these)
}

/// Lua's numbers are all of this kind; times and tokens are whole and stay below 2^53, up to where each is exact.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let number = f64::from_le_bytes(take(bytes)?);
    let whole = (0.0..9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and in the range of both")]
    whole.then_some(number as u64)
}

fn span(bytes: &mut &[u8]) -> Option<Duration> {
    number(bytes).map(Duration::from_micros)
}

fn id(bytes: &mut &[u8]) -> Option<Uuid> {
    take(bytes).map(Uuid::from_bytes)
}

fn end(letter: u8) -> Option<LeaseEnd> {
    match letter {
        b'R' => Some(LeaseEnd::Released),
        b'E' => Some(LeaseEnd::Expired),
        b'V' => Some(LeaseEnd::Revoked),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_not_read() {
        let lease = [b'a'; 16];
        assert!(read(&[b"R".as_slice(), &lease].concat()).is_some());
        let token = 7.0_f64.to_le_bytes();
        let renewed = |token: [u8; 8]| [b"N".as_slice(), &token, &token, &token].concat();
        assert!(read(&renewed(token)).is_some());
        for odd in [-1.0, 0.5, f64::NAN, f64::INFINITY, 9_007_199_254_740_992.0] {
            assert!(read(&renewed(odd.to_le_bytes())).is_none(), "{odd}");
        }
        let handed_over = [b"H".as_slice(), &token, &token, &lease, &lease, &lease].concat();
        let (did, effects) = read(&handed_over).unwrap();
        assert!(matches!(did, Quick::HandedOver(grant) if grant.token.get() == 7) && effects.len() == 2, "{did:?}");
        assert!(matches!(read(&[b"Q".as_slice(), &token, &token].concat()), Some((Quick::Queued { place: 7, .. }, _))));
        for bytes in [
            &handed_over[..handed_over.len() - 1],
            &[b"Q".as_slice(), &token].concat(),
            b"".as_slice(),
            b"Q",
            b"R",
            b"Rzz",
            &[b"R".as_slice(), &lease, b"a"].concat(),
            &[b"N".as_slice(), &token].concat(),
            &[b"GX".as_slice(), &token, &token, &lease, &lease].concat(),
        ] {
            assert!(read(bytes).is_none(), "{bytes:?}");
        }
    }
}

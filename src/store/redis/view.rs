//! The fields of a lock, as anybody may see them. The same as `domain::rules::view`, from what Redis holds.

use super::answer::{Decoded, corrupt, end, holder, metadata, number, token, uuid};
use crate::domain::{
    ids::GrantId,
    limits::{DROP_GRACE, ENDED_MEMORY},
    outcome::{HolderView, LockView},
    time::StoreTime,
};
use std::{collections::HashMap, time::Duration};

type Fields = HashMap<String, String>;

fn field<'a>(lock: &'a Fields, name: &str) -> Decoded<&'a str> {
    lock.get(name).map(String::as_str).ok_or_else(|| corrupt(&format!("no field {name}")))
}

fn span(lock: &Fields, name: &str) -> Decoded<Duration> {
    Ok(Duration::from_micros(number(field(lock, name)?)?))
}

fn time(lock: &Fields, name: &str) -> Decoded<StoreTime> {
    Ok(StoreTime::from_micros(number(field(lock, name)?)?))
}

pub(super) fn view(lock: &Fields, waiters: usize, now: StoreTime) -> Decoded<LockView> {
    if lock.contains_key("gi") {
        let ttl = span(lock, "tt")?;
        // Further ahead than its own period means that the clock stepped back.
        let period = if lock.contains_key("uh") { ttl.min(DROP_GRACE) } else { ttl };
        let expires_at = time(lock, "ex")?.min(now.after(period));
        let token = token(field(lock, "tk")?)?;
        if now < expires_at {
            let current = HolderView {
                holder: holder(field(lock, "ho")?.to_owned())?,
                metadata: metadata(field(lock, "md")?)?,
                grant_id: GrantId(uuid(field(lock, "gi")?)?),
                token,
                ttl,
                left: expires_at.since(now),
                held: now.since(time(lock, "gr")?),
            };
            let previous_end = lock.get("pe").map(|text| end(text)).transpose()?;
            return Ok(LockView {
                current: Some(current),
                classic: None,
                waiters,
                previous_end,
                newest_token: Some(token),
            });
        }
        // Its time ran out, and nobody has come by since.
        let remembered = now < expires_at.after(ENDED_MEMORY);
        let previous_end = remembered.then_some(crate::domain::lease::LeaseEnd::Expired);
        return Ok(LockView {
            waiters,
            previous_end,
            newest_token: remembered.then_some(token),
            ..LockView::default()
        });
    }
    let last = lock.contains_key("lt") && now < time(lock, "la")?.min(now).after(ENDED_MEMORY);
    if !last {
        return Ok(LockView { waiters, ..LockView::default() });
    }
    Ok(LockView {
        waiters,
        previous_end: Some(end(field(lock, "le")?)?),
        newest_token: Some(token(field(lock, "lt")?)?),
        ..LockView::default()
    })
}

//! A page of a listing: steps of a scan over the keys of locks, and a look at each lock whose key was found.

use super::{RedisStore, keys};
use crate::{
    domain::{command::Command, limits::PAGE_BYTES_MAX, name::LockName, outcome::LockView},
    node::Arg,
    store::{Page, Store as _, StoreError},
};

/// Keys that one page looks at.
const KEYS_PER_PAGE: u64 = 4_096;
/// Locks that are looked at together: what they say of themselves may be more than fits on the page.
const VIEWS_AT_ONCE: usize = 128;
/// No cursor of a scan comes near it: a script takes it for a number, which is exact up to there.
const CURSOR_END: u64 = 1 << 53;

impl RedisStore {
    pub(super) async fn page(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        // Where a step of the scan begins, and which of its keys the page begins with.
        let (mut cursor, mut first) = match from {
            None => (0, 0),
            Some(from) => place(from).ok_or(StoreError::BadPageToken)?,
        };
        let (pattern, step) = (keys::pattern(prefix), u64::try_from(limit.clamp(10, 1_000)).unwrap_or(1_000));
        let (mut page, mut bytes) = (Page::default(), 0);
        for _ in 0..KEYS_PER_PAGE.div_ceil(step) {
            let connection = self.connection(0).await?;
            let tail = [Arg::from(cursor), Arg::from(pattern.as_str()), Arg::from(step)];
            let mut found = self.send(&connection, 0, &self.commands.list, &tail).await?.texts("keys")?.into_iter();
            let next = found.next().and_then(|text| text.parse().ok()).unwrap_or(0);
            // The pattern also matches keys of locks that only contain what looks like the prefix.
            let lock = |key: String| keys::lock_in(&key).filter(|name| name.as_str().starts_with(prefix));
            let locks: Vec<(usize, LockName)> =
                found.enumerate().skip(first).filter_map(|(at, key)| Some((at, lock(key)?))).collect();
            for locks in locks.chunks(VIEWS_AT_ONCE) {
                let views = self.run_each(locks.iter().map(|(_, name)| (name, Command::View)).collect()).await;
                for ((at, name), view) in locks.iter().zip(views) {
                    if page.locks.len() == limit || bytes >= PAGE_BYTES_MAX {
                        page.next = Some(format!("{cursor:x}.{at:x}"));
                        return Ok(page);
                    }
                    let view: LockView = *view?.of::<Box<LockView>>()?.outcome;
                    if view.current.is_some() || view.classic.is_some() || view.waiters > 0 {
                        bytes += Page::bytes(name, &view);
                        page.locks.push((name.clone(), view));
                    }
                }
            }
            (cursor, first) = (next, 0);
            if cursor == 0 {
                return Ok(page);
            }
        }
        page.next = Some(format!("{cursor:x}.0"));
        Ok(page)
    }
}

fn place(text: &str) -> Option<(u64, usize)> {
    let (cursor, first) = text.split_once('.')?;
    let cursor = u64::from_str_radix(cursor, 16).ok().filter(|cursor| *cursor < CURSOR_END)?;
    Some((cursor, usize::from_str_radix(first, 16).ok()?))
}

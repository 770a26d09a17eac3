//! Keeps the links up: makes them at start, replaces those that failed, and asks idle ones who is there.

use super::{
    CHECK_PERIOD, Links,
    backoff::{Backoff, LONGEST, jittered},
    connection::Link,
    dial::discard,
    handshake,
};
use std::sync::Arc;
use tokio::time::Instant;

/// A link in its place. It leaves the place when this is dropped, so a keeper that is dropped leaves no link that
/// nobody keeps.
struct Seat<'a> {
    links: &'a Links,
    slot: usize,
    link: Arc<Link>,
}

impl<'a> Seat<'a> {
    fn take(links: &'a Links, slot: usize, link: Arc<Link>) -> Self {
        *links.slots[slot].write() = Some(Arc::clone(&link));
        links.say_up(&link);
        Self { links, slot, link }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        *self.links.slots[self.slot].write() = None;
        match self.link.closed() {
            Some(why) => self.links.say_down(why),
            // Nothing is wrong with it: it goes because the server does, which is no news for the log.
            None => {
                self.links.down("the server is stopping");
            }
        }
    }
}

/// Why a link was given up.
enum End {
    /// It does not answer. The pool asks once more before it makes another.
    Silent,
    /// It answers and leads to the wrong place.
    Wrong,
}

/// Keeps one place filled, for ever. Dropped, the place is empty.
pub(super) async fn keep(links: &Links, slot: usize) {
    let mut backoff = Backoff::new();
    loop {
        match links.dialer.link(&links.header).await {
            Ok((pooled, link)) => {
                let made = Instant::now();
                let seat = Seat::take(links, slot, Arc::new(link));
                let end = attend(links, &seat.link).await;
                // One that is wrong again and again is not to be made again and again without pause.
                if made.elapsed() >= LONGEST {
                    backoff.reset();
                }
                drop(seat);
                // What one link met, the others will: they look now, not when their time comes.
                links.dialer.broken.send_modify(|count| *count += 1);
                match end {
                    End::Silent => drop(pooled),
                    End::Wrong => discard(pooled),
                }
            }
            Err(why) => links.say_down(&why),
        }
        backoff.wait().await;
    }
}

/// Stays with a link until it has to be replaced; closes it then.
async fn attend(links: &Links, link: &Link) -> End {
    let mut broken = links.dialer.broken.subscribe();
    loop {
        tokio::select! {
            () = link.attention() => {}
            _ = broken.changed() => {}
            () = tokio::time::sleep(jittered(CHECK_PERIOD)) => {}
        }
        if link.closed().is_some() {
            return End::Wrong;
        }
        match handshake::greet(&mut link.connection()).await {
            Ok(greeting) if greeting.info.incarnation() == link.incarnation() => {
                link.sample(greeting.sent, greeting.time);
            }
            Ok(_) => {
                link.retire(
                    "Redis was restarted, promoted, replaced by another one or got its first replica; connecting again",
                );
                return End::Wrong;
            }
            Err(why) => {
                link.retire(&why);
                return End::Silent;
            }
        }
    }
}

//! The way to one Redis: a few connections that live long and carry everybody's requests, one after the other without
//! waiting.
//!
//! - A lease is safe only if the server knows **which life of Redis** it talks to, so nothing reconnects behind its
//!   back: a connection that breaks, times out in its check, or leads to a replica is closed, and a new one says who is
//!   there (a [`Link`] with an [incarnation](Link::incarnation)) before anything is sent on it.
//! - A request is never kept until Redis is back: without a link it is refused at once. With one it may stand in line
//!   for a while (`lane.rs`), because what is under way is bounded.
//! - A request whose answer did not come is not refused but *unknown*, and it is never sent twice from here.
//!
//! A checkout from a pool costs two commands each time; shared connections cost none. So the pool makes, counts and
//! replaces connections, and requests go over clones of them. Everything that runs is polled by [`Links::run`].

mod admission;
mod backoff;
mod batch;
mod connection;
mod dial;
pub mod doctor;
mod error;
mod handshake;
mod lane;
mod pushes;
mod reconnect;
mod reply;
mod script;
mod time;
mod url;

pub use admission::{Admission, Checks};
pub use batch::{Asker, COMMANDS_PER_SCRIPT, Header, Reply, replies};
pub use connection::Link;
/// What a script answered. The connection speaks RESP3; to a script that does not ask for it that is as RESP2: numbers,
/// texts, nil (also for `false`) and arrays.
pub use deadpool_redis::redis::Value;
pub use error::NodeError;
pub use handshake::ServerInfo;
pub use lane::{IN_LINE_MAX, Lane, UNDER_WAY_MAX};
pub use pushes::{PUSHES_BACKLOG_MAX, Push, Pushes};
pub use script::{Arg, Call, Command, Script};
pub use url::RedisUrl;

pub(crate) use reply::stumbled;

use handshake::redis_time;
use reply::why_not_connected;

use batch::MakeHeader;
use deadpool_redis::redis::aio::MultiplexedConnection;
use dial::Dialer;
use futures_util::future::{join, join_all};
use parking_lot::{Mutex, RwLock};
use pushes::Order;
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Connections that carry requests. One is driven by one task and so by one core; Redis itself runs scripts on one.
pub const LINKS_PER_SERVER: usize = 4;
/// How long a request waits for its answer, from the moment it is sent.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a link is asked who is there when nothing else gives a reason to; drawn anew each time, from half of it
/// up.
const CHECK_PERIOD: Duration = Duration::from_secs(5);
/// Different reasons of one outage that go to the log: that Redis is lost, and a few more that it takes to see why it
/// stays so.
const REASONS_TOLD_MAX: usize = 4;

/// One connection, of which nothing is asked: whoever is there, and whatever its role. An error says why not and what
/// to do.
async fn connect(url: &RedisUrl) -> Result<MultiplexedConnection, String> {
    Dialer::new(url).listener(|_| {}).await
}

/// The links to one Redis.
pub struct Links {
    dialer: Dialer,
    header: MakeHeader,
    slots: [RwLock<Option<Arc<Link>>>; LINKS_PER_SERVER],
    up: watch::Sender<bool>,
    trouble: Mutex<Trouble>,
    order: watch::Sender<Option<Order>>,
}

/// Why no link is up, and what the log has been told of it.
#[derive(Debug)]
struct Trouble {
    why: String,
    /// The reasons of this outage that are in the log.
    told: Vec<String>,
}

impl Links {
    /// Links that are not up yet: [`Self::run`] makes them. Needs neither a Redis nor a runtime.
    ///
    /// `header` makes the header of each batch: of the link that carries it, and of the number that its first command
    /// was asked for with.
    pub fn new(url: &RedisUrl, header: impl Fn(&Link, u16) -> Header + Send + Sync + 'static) -> Self {
        Self {
            dialer: Dialer::new(url),
            header: Arc::new(header),
            slots: [const { RwLock::new(None) }; LINKS_PER_SERVER],
            up: watch::Sender::new(false),
            trouble: Mutex::new(Trouble { why: "the first connection is not made yet".to_owned(), told: Vec::new() }),
            order: watch::Sender::new(None),
        }
    }

    /// Keeps the links up. Never ends; to be polled by one task for as long as the links are used. Dropped, no link is
    /// up any more; requests on their way may still run.
    pub async fn run(&self) {
        let keepers = (0..LINKS_PER_SERVER).map(|slot| reconnect::keep(self, slot));
        join(join_all(keepers), self.listen()).await;
    }

    /// The link of this number (modulo [`LINKS_PER_SERVER`]): the same one for as long as it lives, so that commands
    /// can go together. None up is `Unavailable`, at once, with the reason.
    pub fn get(&self, number: usize) -> Result<Arc<Link>, NodeError> {
        let first = number % LINKS_PER_SERVER;
        let slots = self.slots[first..].iter().chain(&self.slots[..first]);
        // One that is closed is replaced in a moment.
        let usable = |link: &Arc<Link>| link.closed().is_none();
        let mut links = slots.filter_map(|slot| slot.read().as_ref().filter(|link| usable(link)).map(Arc::clone));
        links.next().ok_or_else(|| NodeError::Unavailable(self.trouble.lock().why.clone()))
    }

    /// Whether any link is up, for health.
    pub fn up(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// Listens to a channel, over a connection of its own that [`Self::run`] keeps. Its first item is [`Push::Resync`],
    /// when listening has begun. There is one listener: a second call ends the first one's.
    pub fn pushes(&self, channel: &str) -> Pushes {
        let (order, pushes) = pushes::order(channel);
        self.order.send_replace(Some(order));
        pushes
    }

    async fn listen(&self) {
        let mut orders = self.order.subscribe();
        loop {
            let order = orders.borrow_and_update().clone();
            let listening = async {
                if let Some(order) = &order {
                    pushes::keep(&self.dialer, order).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                _ = orders.changed() => {}
                () = listening => {}
            }
        }
    }

    fn say_up(&self, link: &Link) {
        self.trouble.lock().told.clear();
        if !self.up.send_replace(true) {
            let ServerInfo { name, version, .. } = link.info();
            let incarnation = link.incarnation().0;
            tracing::info!(url = %self.dialer.url(), name, version, %incarnation, "redis is there");
        }
    }

    /// Notes it if no link is left, and why.
    fn down(&self, why: &str) -> bool {
        if self.slots.iter().any(|slot| slot.read().is_some()) {
            return false;
        }
        self.up.send_replace(false);
        why.clone_into(&mut self.trouble.lock().why);
        true
    }

    /// Of something that went wrong: if no link is left, Redis is lost, and that is told once. (All keepers are polled
    /// by one task: nothing comes between the looking and the telling.)
    fn say_down(&self, why: &str) {
        if !self.down(why) {
            return;
        }
        let mut trouble = self.trouble.lock();
        let url = self.dialer.url();
        if trouble.told.is_empty() {
            tracing::warn!(%url, why, "redis is not there: locks are refused until it is back");
        } else if trouble.told.len() < REASONS_TOLD_MAX && !trouble.told.iter().any(|told| told == why) {
            tracing::info!(%url, why, "redis is still not there");
        } else {
            return;
        }
        trouble.told.push(why.to_owned());
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let incarnations = self.slots.each_ref().map(|slot| slot.read().as_ref().map(|link| link.incarnation()));
        out.debug_struct("Links").field("url", self.dialer.url()).field("links", &incarnations).finish_non_exhaustive()
    }
}

//! Acquiring a lock.

use crate::acquire_error::AcquireError;
use crate::attempts::{Attempts, Route};
use crate::client::Client;
use crate::clock::Moment;
use crate::core::Backoff;
use crate::facts::LATE_DIVISOR;
use crate::lock::Lock;
use crate::mode::Mode;
use crate::proto::wire;
use crate::set_item::SetItem;
use crate::unary_renewal;
use crate::v1;
use crate::values::LeaseEnd;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;
use v1::acquire_response::Outcome;

/// A request for a lock. Await it to get the [`Lock`], or [`run`](Self::run) a body under the lock.
///
/// Dropped while it waits, it leaves the queue, and a background cleanup releases a lease that was granted at that
/// moment.
#[derive(Clone)]
#[must_use = "nothing is sent until it is awaited"]
pub struct Acquire {
    client: Client,
    request: v1::AcquireRequest,
    wait: Duration,
    ttl: Option<Duration>,
    position: Option<watch::Sender<Option<u32>>>,
}

impl Acquire {
    pub(crate) fn new(client: Client, lock_name: String) -> Self {
        let holder = client.shared.core.holder.clone();
        let request = v1::AcquireRequest { lock_name, holder, ..Default::default() };
        Self { client, request, wait: Duration::ZERO, ttl: None, position: None }
    }

    /// How long the lease lasts without a renewal: the lock of a holder that dies is free after this time. Choose at
    /// least three times the longest pause that the holder must survive. Unless set, none is sent, and the server's
    /// default applies ([`TTL_DEFAULT`](crate::bounds::TTL_DEFAULT)). [`Held::ttl`](crate::Held::ttl) has what the
    /// server answered.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self.request.ttl = wire(ttl);
        self
    }

    /// The longest time to hold the lock, with all renewals: a bound on work that is stuck while its process goes on
    /// renewing. At least the TTL, at most 7 days; by default there is no bound. When it is over, the lock is lost with
    /// [`LossCause::MaxHold`](crate::LossCause::MaxHold), and shortly before it
    /// [`Held::reaches_max_hold`](crate::Held::reaches_max_hold) is true. All servers have to know it, else the acquire
    /// is [refused](AcquireError::Refused) (`NOT_ALL_SERVERS`).
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        // On the wire 0 stands for no bound, which nobody means who computes a time that is left.
        self.request.max_hold = wire(max_hold.max(Duration::from_nanos(1)));
        self
    }

    /// Shares the lock with all others that ask for it so (readers), and excludes only those that do not (writers). A
    /// reader never overtakes a writer that waits, so a task that holds the lock and asks for it once more while a
    /// writer waits, waits for itself. All servers have to know it, as with [`max_hold`](Self::max_hold).
    ///
    /// Tokens rise with each grant, of readers too: readers that write next to each other must not be compared by them.
    pub fn shared(mut self) -> Self {
        self.request.mode = v1::LockMode::Shared.into();
        self
    }

    /// Asks for a permit of a semaphore, of which all holders together use no more than `limit` (1 to 1,000,000);
    /// [`permits`](Self::permits) asks for more than one. The holder of one permit has a [`slot`](crate::Held::slot)
    /// that nobody else has. Nobody else holds the lock beside them, and requests are served in the order in which they
    /// came. All servers have to know it, as with [`max_hold`](Self::max_hold).
    ///
    /// Each request names the limit. To change it, give the new one a higher
    /// [`permit_limit_version`](Self::permit_limit_version): requests that disagree within one version are
    /// [refused](AcquireError::Refused) (`PERMIT_LIMIT_MISMATCH`).
    ///
    /// Holders work side by side, so no store can order them by their tokens; those of one slot it can.
    pub fn semaphore(mut self, limit: u32) -> Self {
        (self.request.mode, self.request.permit_limit) = (v1::LockMode::Semaphore.into(), limit);
        self
    }

    /// How many permits of a [`semaphore`](Self::semaphore) the lease takes, at most its limit. They are given back
    /// together. Ask for few: permits stay unused until there are enough for the request that is next. Default: 1.
    pub fn permits(mut self, permits: u32) -> Self {
        self.request.permits = permits;
        self
    }

    /// The version of the limit of a [`semaphore`](Self::semaphore). The highest one that a request has named is in
    /// force for as long as the semaphore is held or waited for. Raise it with each change of the limit. Default: 0.
    pub fn permit_limit_version(mut self, version: u64) -> Self {
        self.request.permit_limit_version = version;
        self
    }

    /// How long the lock stays unavailable after the grant, however the lease ends, a release included: at most 24 h.
    /// For jobs that many machines start at one time by clocks that differ: the first one runs it, and the others find
    /// the lock unavailable although it took 10 ms. Choose more than the clocks may differ, and less than the time
    /// between two starts. With [`shared`](Self::shared) it is the place of the reader that stays unavailable, which
    /// keeps out writers; with [`semaphore`](Self::semaphore) the permits and the slot. Default: 0. All servers have to
    /// know it, as with [`max_hold`](Self::max_hold).
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.request.min_hold = wire(min_hold).filter(|_| !min_hold.is_zero());
        self
    }

    /// How long the lock stays unavailable after the lease if its holder does not release it, because it died or was
    /// cut off: at most 60 s. For a store that cannot compare tokens, in which such a holder may still be writing. A
    /// release ends it, however late: a lock that is lost is released as well when it is dropped. With
    /// [`shared`](Self::shared) and [`semaphore`](Self::semaphore), see [`min_hold`](Self::min_hold). Default: 0. All
    /// servers have to know it, as with [`max_hold`](Self::max_hold).
    pub fn lock_delay(mut self, lock_delay: Duration) -> Self {
        self.request.lock_delay = wire(lock_delay).filter(|_| !lock_delay.is_zero());
        self
    }

    /// Does not wait if so many requests wait already: the lock is [`Contended`](AcquireError::Contended) then. For
    /// work that need not be done twice, such as a build that the next one replaces. Default: 0, no bound. All servers
    /// have to know it, as with [`max_hold`](Self::max_hold).
    pub fn max_waiters(mut self, max_waiters: u32) -> Self {
        self.request.max_waiters = max_waiters;
        self
    }

    /// Asks to be told when somebody waits whom the lock excludes ([`Held::wanted`](crate::Held::wanted)). For those
    /// who keep a lock while nobody else wants it, and for jobs that may be interrupted. All servers have to know it,
    /// as with [`max_hold`](Self::max_hold).
    pub fn tell_when_wanted(mut self) -> Self {
        self.request.tell_when_wanted = true;
        self
    }

    /// How long to wait in the queue if the lock is held. Default: do not wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The label that others see when they ask who holds the lock. Default: the client's.
    pub fn holder(mut self, label: impl Into<String>) -> Self {
        self.request.holder = label.into();
        self
    }

    /// A label of what acquires locks one after another, and waits for one while it holds others: a worker, a job, a
    /// transaction. At most 128 bytes. Owners that wait for each other are a deadlock, which `fencepost deadlocks`
    /// finds. All servers have to know it, as with [`max_hold`](Self::max_hold).
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.request.owner = owner.into();
        self
    }

    /// Metadata shown with the holder. Call it once for each key. [`describe`](crate::Held::describe) replaces it
    /// later.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.metadata.insert(key.into(), value.into());
        self
    }

    /// The lowest acceptable token. If the protected store has seen a higher one, pass its highest token + 1.
    ///
    /// Locks share counters on the server, so this raises the tokens of other locks too. If the server's store loses
    /// its data before its clock has passed the raised value, the tokens of all these locks fall. So ask for no more
    /// than necessary, and after a loss of data set it for each lock whose store refuses a new holder's token.
    pub fn min_token(mut self, token: u64) -> Self {
        self.request.min_token = token;
        self
    }

    /// Sets the request id; a random one by default. The nil UUID is refused. An id belongs to one lock name and one
    /// acquire: do not use it for a second lock, nor again after dropping the acquire, because the cleanup releases it.
    /// An acquire with its own id fails with [`AcquireError::Ended`] if the servers gave up its queue position while
    /// they could not hear from it; one without rejoins at the end of the queue.
    pub fn request_id(mut self, id: Uuid) -> Self {
        self.request.request_id = id.to_string();
        self
    }

    /// Reports the number of requests ahead in the queue: an upper bound, since requests that left may still be
    /// counted. Reported on joining the queue and on moving up, at most once a second.
    ///
    /// ```no_run
    /// # async fn example(client: fencepost_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let (sender, mut position) = tokio::sync::watch::channel(None);
    /// let acquire = client.acquire("orders/42").wait(Duration::from_secs(60)).queue_position(sender);
    /// let waiting = tokio::spawn(acquire.into_future());
    /// while position.changed().await.is_ok() {
    ///     println!("at most {:?} requests ahead", *position.borrow());
    /// }
    /// let lock = waiting.await??;
    /// # drop(lock); Ok(()) }
    /// ```
    pub fn queue_position(mut self, position: watch::Sender<Option<u32>>) -> Self {
        self.position = Some(position);
        self
    }

    /// The same request for one lock of a set.
    pub(crate) fn for_item(mut self, item: &SetItem) -> Self {
        item.name.clone_into(&mut self.request.lock_name);
        if item.is_shared { self.shared() } else { self }
    }

    /// The same request with a new id.
    pub(crate) fn anew(&self) -> Self {
        let mut request = self.clone();
        request.request.request_id.clear();
        request
    }

    pub(crate) fn lock_name(&self) -> &str {
        &self.request.lock_name
    }

    /// Sleeps on the client's runtime. Dropped, it has no effect.
    pub(crate) async fn sleep(&self, pause: Duration) {
        self.client.shared.core.sleep(pause).await;
    }

    /// Dropped at any await, it leaves cleanups and releases running in the background.
    async fn acquire(self) -> Result<Lock, AcquireError> {
        let wait_until = Moment::now().plus(self.wait);
        let chose_id = self.request.request_id.is_empty();
        let (mut wait, mut pauses, ttl) = (self.wait, Backoff::default(), self.ttl);
        loop {
            let lock = self.clone().grant(wait).await?;
            let token = lock.token();
            if let Some(lock) = renewed_if_late(lock, ttl).await {
                return Ok(lock);
            }
            // The lease was over when the grant arrived. A new request may use the rest of the wait, after a pause: the
            // next grant may be over, too.
            let pause = pauses.next();
            if !chose_id || pause >= wait_until.from_now() {
                return Err(AcquireError::LostOnArrival { token });
            }
            self.client.shared.core.sleep(pause).await;
            wait = wait_until.from_now();
        }
    }

    /// The granted lock, which may have arrived too late.
    async fn grant(mut self, wait: Duration) -> Result<Lock, AcquireError> {
        self.request.wait_timeout = wire(wait);
        let (shared, name) = (self.client.shared, self.request.lock_name.clone());
        let (leaves_delay, chose_id) = (self.request.lock_delay.is_some(), self.request.request_id.is_empty());
        let mode = Mode::of(self.request.mode()).unwrap_or_default();
        let permits = if mode == Mode::Semaphore { self.request.permits.max(1) } else { 0 };
        let route = Route::Session { keeper: shared.keeper.clone(), position: self.position };
        let mut acquired = Attempts::new(shared.core.clone(), route, self.request, true).run().await?;
        // No await from here on: the lease is either owned by a lock or being released.
        let lease = acquired.lease(&shared.core);
        let answer = acquired.timed.message;
        match answer.outcome() {
            Outcome::Acquired => {}
            Outcome::TimedOut => return Err(AcquireError::timed_out(name, answer)),
            // The answer to a retry that was sent when the wait was over.
            Outcome::Contended if !wait.is_zero() && !acquired.waits => {
                return Err(AcquireError::timed_out(name, answer));
            }
            Outcome::Contended => return Err(AcquireError::contended(name, answer)),
            Outcome::Unspecified => return Err(AcquireError::Answer),
        }
        let lease = lease.ok_or(AcquireError::Answer)?;
        let mut lock = Lock::start(shared, lease, LeaseEnd::of(answer.previous_end()));
        lock.set_leaves_delay(leaves_delay);
        lock.set_permits(permits);
        lock.asked_for(mode);
        if chose_id {
            lock.state.is_new();
        }
        Ok(lock)
    }
}

/// Renews a lock of whose lease less than half is left, so that its work does not begin with a lease that is about to
/// end. Returns `None` if the lease is over: the lock is released in the background.
///
/// The answer to a repeated request has what is left of the TTL, so the TTL that was asked for counts, if it is longer.
///
/// Dropped, it releases the lock.
async fn renewed_if_late(lock: Lock, asked: Option<Duration>) -> Option<Lock> {
    let ttl = asked.map_or(lock.ttl(), |asked| asked.max(lock.ttl()));
    if lock.is_valid() && lock.valid_for() < ttl / LATE_DIVISOR {
        unary_renewal::once(&lock.core, &lock.state).await;
    }
    lock.is_valid().then_some(lock)
}

impl std::fmt::Debug for Acquire {
    /// Omits the request id, which is enough to pick up the lease.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Acquire");
        debug.field("lock_name", &self.request.lock_name).field("holder", &self.request.holder);
        debug.field("ttl", &self.ttl).field("wait", &self.wait).finish_non_exhaustive()
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Lock, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

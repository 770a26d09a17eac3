//! The faults: what they are called, what they touch, and what they leave of the promises. How they are done is in a
//! file for each family. Each makes sure that it took effect, or fails.

mod data;
mod link;
mod operator;
mod process;
mod promotion;

use crate::{clients::Clients, clock, plan::Event, topology::World};
use anyhow::Result;
use clap::ValueEnum;
use fencepost_torture::history::{Fault, Leaves, Record};

/// A step of the clock by so many seconds may be as long as the memory of ended requests.
const FORGETS_AFTER: i64 = 8;

/// A kind of fault: histories count by its name. Checks know those that were done to a client by `client` in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Kind {
    #[value(name = "sigkill-redis")]
    RedisKilled,
    #[value(name = "restart-empty")]
    RedisEmpty,
    #[value(name = "restart-older")]
    RedisOlder,
    #[value(name = "sigstop-redis")]
    RedisStopped,
    #[value(name = "sigkill-replica")]
    ReplicaKilled,
    #[value(name = "sigkill-server")]
    ServerKilled,
    #[value(name = "sigstop-server")]
    ServerStopped,
    #[value(name = "drain-server")]
    ServerDrained,
    #[value(name = "sigkill-client")]
    ClientKilled,
    #[value(name = "sigstop-client")]
    ClientStopped,
    #[value(name = "front-blackhole")]
    ClientLinkHeld,
    #[value(name = "front-blackhole-back")]
    ClientLinkHeldBack,
    #[value(name = "front-delay")]
    ClientLinkDelayed,
    #[value(name = "front-reset")]
    ClientLinkReset,
    #[value(name = "front-half-open")]
    ClientLinkHalfOpen,
    #[value(name = "store-blackhole")]
    StoreLinkHeld,
    #[value(name = "store-blackhole-back")]
    StoreLinkHeldBack,
    #[value(name = "store-delay")]
    StoreLinkDelayed,
    #[value(name = "store-reset")]
    StoreLinkReset,
    #[value(name = "store-half-open")]
    StoreLinkHalfOpen,
    #[value(name = "replication-blackhole")]
    ReplicaLinkHeld,
    #[value(name = "replication-delay")]
    ReplicaLinkDelayed,
    #[value(name = "replication-reset")]
    ReplicaLinkReset,
    #[value(name = "front-reply-dropped")]
    ReplyDropped,
    #[value(name = "store-reply-dropped")]
    StoreReplyDropped,
    #[value(name = "flushall")]
    FlushAll,
    ScriptFlush,
    KillPubsub,
    KillNormal,
    #[value(name = "redis-oom")]
    OutOfMemory,
    Promotion,
    PromotionLagging,
    ClockForward,
    ClockBack,
    ForceRelease,
}

/// What a fault touches. Two that touch the same never run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    Redis,
    Servers,
    Clients,
    ClientLinks,
    StoreLinks,
    /// The clock, an operator's call: nothing else minds.
    Apart,
    /// Everything about Redis at once.
    All,
}

impl Kind {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(crate) fn domain(self) -> Domain {
        use Kind::*;
        match self {
            RedisKilled | RedisEmpty | RedisOlder | RedisStopped | ReplicaKilled | FlushAll | ScriptFlush
            | KillPubsub | KillNormal | OutOfMemory => Domain::Redis,
            ServerKilled | ServerStopped | ServerDrained => Domain::Servers,
            ClientKilled | ClientStopped => Domain::Clients,
            ClientLinkHeld | ClientLinkHeldBack | ClientLinkDelayed | ClientLinkReset | ClientLinkHalfOpen
            | ReplyDropped => Domain::ClientLinks,
            StoreLinkHeld | StoreLinkHeldBack | StoreLinkDelayed | StoreLinkReset | StoreLinkHalfOpen
            | StoreReplyDropped | ReplicaLinkHeld | ReplicaLinkDelayed | ReplicaLinkReset => Domain::StoreLinks,
            ClockForward | ClockBack | ForceRelease => Domain::Apart,
            Promotion | PromotionLagging => Domain::All,
        }
    }

    /// Whether Redis may have forgotten something after it.
    pub(crate) fn loses_data(self) -> bool {
        use Kind::*;
        matches!(self, RedisEmpty | RedisOlder | FlushAll | Promotion | PromotionLagging)
    }

    /// Whether another life of Redis begins with it.
    pub(crate) fn begins_a_life(self) -> bool {
        use Kind::*;
        matches!(self, RedisKilled | RedisEmpty | RedisOlder | Promotion | PromotionLagging)
    }

    /// Whether it breaks or delays a server's connections to Redis.
    pub(crate) fn breaks_store_link(self) -> bool {
        use Kind::*;
        matches!(
            self,
            StoreLinkHeld
                | StoreLinkHeldBack
                | StoreLinkDelayed
                | StoreLinkReset
                | StoreLinkHalfOpen
                | StoreReplyDropped
        )
    }

    fn leaves(self, world: &World, event: &Event) -> Leaves {
        use Kind::*;
        match self {
            _ if self.loses_data() => Leaves::NotMemory,
            ServerKilled | ServerDrained if world.forgets_with_server() => Leaves::NotMemory,
            // What is remembered for 10 s of Redis' time is forgotten as well: that requests have ended, for one.
            ClockForward if data::seconds(event) >= FORGETS_AFTER => Leaves::NotMemory,
            ClockForward => Leaves::NotExclusion,
            _ => Leaves::All,
        }
    }
}

/// What a fault is given.
pub(crate) struct Scene<'a> {
    pub(crate) world: &'a World,
    pub(crate) clients: &'a Clients,
    pub(crate) event: &'a Event,
}

/// What came of it.
pub(crate) struct Inflicted {
    pub(crate) records: Vec<Record>,
    /// Why it does not count, if it had no effect.
    pub(crate) missed: Option<String>,
}

/// What was done to what; or that there was nothing to do it to.
pub(crate) enum Effect {
    On(String),
    Missed(String),
}

/// Does it and heals it. An error means that the harness, or what it tortures, does not do as it must.
pub(crate) async fn inflict(scene: Scene<'_>) -> Result<Inflicted> {
    use Kind::*;
    let kind = scene.event.kind;
    let begin = clock::now();
    let mut records = Vec::new();
    let effect = match kind {
        RedisKilled | RedisEmpty | RedisOlder | RedisStopped | ReplicaKilled => process::redis(&scene).await?,
        ServerKilled | ServerStopped | ServerDrained => process::server(&scene).await?,
        ClientKilled | ClientStopped => process::client(&scene).await?,
        ClientLinkHeld | ClientLinkHeldBack | ClientLinkDelayed | ClientLinkReset | ClientLinkHalfOpen
        | ReplyDropped => link::client(&scene).await?,
        StoreLinkHeld | StoreLinkHeldBack | StoreLinkDelayed | StoreLinkReset | StoreLinkHalfOpen
        | StoreReplyDropped => link::store(&scene).await?,
        ReplicaLinkHeld | ReplicaLinkDelayed | ReplicaLinkReset => link::replica(&scene).await?,
        FlushAll | ScriptFlush | KillPubsub | KillNormal | OutOfMemory | ClockForward | ClockBack => {
            data::inflict(&scene).await?
        }
        Promotion | PromotionLagging => promotion::inflict(&scene).await?,
        ForceRelease => operator::force_release(&scene, &mut records).await?,
    };
    // Healed is when it works again, which another fault of the time may hold up.
    scene.world.works().await?;
    let end = clock::now();
    let mut missed = None;
    match effect {
        Effect::On(target) => {
            let leaves = kind.leaves(scene.world, scene.event);
            records.push(Record::Fault(Fault { kind: kind.name(), target, begin, end, leaves }));
        }
        Effect::Missed(why) => missed = Some(format!("{}: {why}", kind.name())),
    }
    Ok(Inflicted { records, missed })
}

//! The faults: their names, their domains, and the guarantees that hold despite them. Each family has its own file.
//! Every fault verifies that it took effect, or fails.

mod cluster;
mod data;
mod link;
mod node;
mod operator;
mod process;
mod promotion;
mod slot;

use crate::{
    clients::Clients,
    clock,
    plan::PlannedFault,
    topology::{
        Deployment,
        cluster::{ELECTION, until_whole},
    },
};
use anyhow::Result;
use clap::ValueEnum;
use fencepost_torture::history::{Fault, Guarantees, Record};
use std::time::Duration;

/// Longer than a leader of a partition may be silent.
const STALL: Duration = Duration::from_secs(5);

/// A kind of fault. Histories contain its name; checks recognise faults of clients by `client` in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum FaultKind {
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
    #[value(name = "stall-server")]
    ServerStalled,
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
    #[value(name = "sigkill-node")]
    NodeKilled,
    NodeEmpty,
    NodeOlder,
    #[value(name = "sigstop-node")]
    NodeStopped,
    #[value(name = "node-flushall")]
    NodeFlushed,
    NodeScriptFlush,
    NodeKillNormal,
    #[value(name = "node-oom")]
    NodeOutOfMemory,
    #[value(name = "node-new-id")]
    NodeRenamed,
    #[value(name = "node-blackhole")]
    NodeLinkHeld,
    #[value(name = "node-blackhole-forth")]
    NodeLinkHeldForth,
    #[value(name = "node-blackhole-back")]
    NodeLinkHeldBack,
    #[value(name = "node-delay")]
    NodeLinkDelayed,
    #[value(name = "node-reset")]
    NodeLinkReset,
    #[value(name = "node-half-open")]
    NodeLinkHalfOpen,
    NodeReplyDropped,
    #[value(name = "server-cut-off")]
    ServerCutOff,
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
    #[value(name = "sigkill-primary")]
    PrimaryKilled,
    #[value(name = "sigstop-primary")]
    PrimaryStopped,
    #[value(name = "primary-cut-off")]
    PrimaryCutOff,
    FailoverByHand,
    SlotMoved,
    ClockForward,
    ClockBack,
    ForceRelease,
}

/// What a fault affects. Two faults of the same domain never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultDomain {
    Redis,
    Servers,
    Clients,
    ClientLinks,
    StoreLinks,
    /// The nodes of a quorum, and the links to them: one node at a time.
    Nodes,
    /// The clock and force releases: they overlap with anything.
    Apart,
    /// Everything about Redis.
    All,
}

impl FaultKind {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(crate) fn domain(self) -> FaultDomain {
        use FaultKind::*;
        match self {
            RedisKilled | RedisEmpty | RedisOlder | RedisStopped | ReplicaKilled | FlushAll | ScriptFlush
            | KillPubsub | KillNormal | OutOfMemory | PrimaryKilled | PrimaryStopped | PrimaryCutOff
            | FailoverByHand | SlotMoved => FaultDomain::Redis,
            ServerKilled | ServerStopped | ServerStalled | ServerDrained => FaultDomain::Servers,
            ClientKilled | ClientStopped => FaultDomain::Clients,
            ClientLinkHeld | ClientLinkHeldBack | ClientLinkDelayed | ClientLinkReset | ClientLinkHalfOpen
            | ReplyDropped => FaultDomain::ClientLinks,
            StoreLinkHeld | StoreLinkHeldBack | StoreLinkDelayed | StoreLinkReset | StoreLinkHalfOpen
            | StoreReplyDropped | ReplicaLinkHeld | ReplicaLinkDelayed | ReplicaLinkReset => FaultDomain::StoreLinks,
            NodeKilled | NodeEmpty | NodeOlder | NodeStopped | NodeFlushed | NodeScriptFlush | NodeKillNormal
            | NodeOutOfMemory | NodeRenamed | NodeLinkHeld | NodeLinkHeldForth | NodeLinkHeldBack | NodeLinkDelayed
            | NodeLinkReset | NodeLinkHalfOpen | NodeReplyDropped | ServerCutOff => FaultDomain::Nodes,
            ClockForward | ClockBack | ForceRelease => FaultDomain::Apart,
            Promotion | PromotionLagging => FaultDomain::All,
        }
    }

    /// Whether Redis may have lost data.
    pub(crate) fn loses_data(self) -> bool {
        use FaultKind::*;
        matches!(self, RedisEmpty | RedisOlder | FlushAll | Promotion | PromotionLagging) || self.elects()
    }

    /// Whether Redis restarts or fails over.
    pub(crate) fn restarts_redis(self) -> bool {
        use FaultKind::*;
        matches!(self, RedisKilled | RedisEmpty | RedisOlder | Promotion | PromotionLagging) || self.elects()
    }

    /// Whether the members of a cluster elect another primary, which may lack what was not replicated. A failover by
    /// hand waits for the replica, and so does not lose anything.
    fn elects(self) -> bool {
        matches!(self, Self::PrimaryKilled | Self::PrimaryStopped | Self::PrimaryCutOff)
    }

    /// Whether it breaks or delays a server's connections to Redis.
    pub(crate) fn breaks_store_link(self) -> bool {
        use FaultKind::*;
        matches!(
            self,
            StoreLinkHeld
                | StoreLinkHeldBack
                | StoreLinkDelayed
                | StoreLinkReset
                | StoreLinkHalfOpen
                | StoreReplyDropped
        ) || self.breaks_node_link()
    }

    /// Whether it breaks or delays a server's connections to a node of a quorum.
    pub(crate) fn breaks_node_link(self) -> bool {
        use FaultKind::*;
        matches!(
            self,
            NodeLinkHeld
                | NodeLinkHeldForth
                | NodeLinkHeldBack
                | NodeLinkDelayed
                | NodeLinkReset
                | NodeLinkHalfOpen
                | NodeReplyDropped
        )
    }

    /// How long it lasts, of what was drawn.
    pub(crate) fn hold(self, drawn: Duration) -> Duration {
        match self {
            Self::ServerStalled => STALL,
            // A majority goes on without it.
            Self::NodeStopped => 2 * drawn,
            _ if self.elects() => ELECTION + drawn,
            _ => drawn,
        }
    }

    fn guarantees(self, deployment: &Deployment) -> Guarantees {
        use FaultKind::*;
        match self {
            _ if self.loses_data() => Guarantees::NotMemory,
            ServerKilled | ServerDrained if deployment.forgets_with_server() => Guarantees::NotMemory,
            // No clock of a node decides anything.
            _ => Guarantees::All,
        }
    }
}

/// The context of a fault.
pub(crate) struct FaultContext<'a> {
    pub(crate) deployment: &'a Deployment,
    pub(crate) clients: &'a Clients,
    pub(crate) fault: &'a PlannedFault,
}

/// The result of an injected fault.
pub(crate) struct InjectedFault {
    pub(crate) records: Vec<Record>,
    /// Why it does not count, if it had no effect.
    pub(crate) missed: Option<String>,
}

/// Whether a fault took effect.
pub(crate) enum FaultOutcome {
    /// It affected this target.
    Hit(String),
    /// There was nothing to affect, for this reason.
    Missed(String),
}

/// Injects a fault and heals it. An error is a failure of the harness or of the product.
pub(crate) async fn inject(context: FaultContext<'_>) -> Result<InjectedFault> {
    use FaultKind::*;
    let kind = context.fault.kind;
    let mut records = Vec::new();
    let is_of_cluster = context.deployment.cluster.is_some() && kind.domain() == FaultDomain::Redis;
    if is_of_cluster {
        records.extend(context.deployment.unasked_failover().await?);
    }
    let begin = clock::now();
    let outcome = match kind {
        RedisKilled | RedisEmpty | RedisOlder | RedisStopped | ReplicaKilled => process::redis(&context).await?,
        ServerKilled | ServerStopped | ServerStalled | ServerDrained => process::server(&context).await?,
        ClientKilled | ClientStopped => process::client(&context).await?,
        ClientLinkHeld | ClientLinkHeldBack | ClientLinkDelayed | ClientLinkReset | ClientLinkHalfOpen
        | ReplyDropped => link::client(&context).await?,
        StoreLinkHeld | StoreLinkHeldBack | StoreLinkDelayed | StoreLinkReset | StoreLinkHalfOpen
        | StoreReplyDropped => link::store(&context).await?,
        _ if kind.breaks_node_link() => link::store(&context).await?,
        ServerCutOff => link::cut_off(&context).await?,
        _ if kind.domain() == FaultDomain::Nodes => node::inject(&context).await?,
        ReplicaLinkHeld | ReplicaLinkDelayed | ReplicaLinkReset => link::replica(&context).await?,
        FlushAll | ScriptFlush | KillPubsub | KillNormal | OutOfMemory | ClockForward | ClockBack => {
            data::inject(&context).await?
        }
        Promotion | PromotionLagging => promotion::inject(&context).await?,
        PrimaryKilled | PrimaryStopped | PrimaryCutOff | FailoverByHand => cluster::fail_over(&context).await?,
        SlotMoved => slot::move_slot(&context).await?,
        _ => operator::force_release(&context, &mut records).await?,
    };
    // Healed means that the servers work again, which a concurrent fault may delay.
    context.deployment.wait_until_serving().await?;
    let end = clock::now();
    if kind.domain() == FaultDomain::Nodes
        && let Some(quorum) = &context.deployment.quorum
    {
        // The next fault may come to another node, and the promises hold while one at a time has lost its memory.
        records.push(Record::Voting(quorum.until_all_vote(&kind.name()).await?));
    }
    if is_of_cluster {
        until_whole(context.deployment).await?;
    }
    let mut missed = None;
    match outcome {
        FaultOutcome::Hit(target) => {
            let guarantees = kind.guarantees(context.deployment);
            records.push(Record::Fault(Fault { kind: kind.name(), target, begin, end, guarantees }));
        }
        FaultOutcome::Missed(why) => missed = Some(format!("{}: {why}", kind.name())),
    }
    Ok(InjectedFault { records, missed })
}

//! Who is measured in which workload, beside whom, and by which figures they are compared.

use super::{
    baselines,
    figures::Figures,
    load::Measured,
    place::Place,
    plan::{Plan, Via, Workload},
    redis::Redis,
    workloads::{Run, handoff, held, hold, idle, pairs, wake},
};
use anyhow::{Context, Result, bail};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    Fencepost,
    /// A plain tonic server, a call each.
    EchoUnary,
    /// The same, messages on a stream.
    EchoStream,
    /// The recipe on Redis, with a checkout from a deadpool for each command.
    ClassicPool,
    /// The same, on one multiplexed connection.
    ClassicMultiplexed,
    /// Who waits tries again and again.
    RetryLoop,
    /// A timer for each lease.
    Watchdogs,
}

/// Fencepost comes last: the baselines that it is compared to are measured around it, round by round.
pub(super) fn contenders(plan: &Plan, workload: Workload) -> Vec<Contender> {
    use Contender::{ClassicMultiplexed, ClassicPool, EchoStream, EchoUnary, Fencepost, RetryLoop, Watchdogs};
    let all: &[Contender] = match workload {
        Workload::Pairs => &[EchoUnary, EchoStream, ClassicPool, ClassicMultiplexed],
        Workload::Handoff | Workload::Wake => &[EchoUnary, EchoStream, RetryLoop],
        Workload::Idle => &[EchoUnary, RetryLoop],
        Workload::Hold => &[Watchdogs],
    };
    let measured = all.iter().filter(|one| plan.baselines && (plan.has_redis() || one.is_echo()));
    measured.copied().chain([Fencepost]).collect()
}

/// By what they are compared: what a baseline has of these becomes a ratio.
pub(super) fn compared(workload: Workload, baseline: Contender) -> &'static [&'static str] {
    match workload {
        // Its latency is that of one round trip, not of a wait in line.
        Workload::Handoff if baseline.is_echo() => &["rate_per_s"],
        Workload::Pairs => &[
            "rate_per_s",
            "p50_us",
            "p99_us",
            "acquire_p50_us",
            "server_cpu_s_per_100k",
            "redis_cpu_s_per_100k",
            "evalsha_per_operation",
        ],
        Workload::Handoff => &[
            "rate_per_s",
            "passed_on_per_s",
            "p50_us",
            "p99_us",
            "jain_fairness",
            "redis_cpu_s_per_100k",
            "evalsha_per_operation",
        ],
        Workload::Idle => &["commands_per_s", "redis_cpu_percent", "server_bytes_per_waiter"],
        Workload::Hold => &["renewals_per_s", "redis_cpu_percent", "evalsha_per_s", "redis_bytes_per_lease"],
        Workload::Wake => &["p50_us", "p99_us"],
    }
}

/// Measures one of them once.
pub(super) async fn measure(run: Run<'_>, workload: Workload, contender: Contender) -> Result<(Figures, Measured)> {
    let place = match contender {
        Contender::Fencepost => Place::fencepost(run.plan).await.context("cannot start a server")?,
        Contender::EchoUnary | Contender::EchoStream => Place::echo().await.context("cannot start the echo")?,
        _ => Place::redis_alone(run.plan).await.context("cannot use Redis")?,
    };
    let (via, own) = match contender {
        Contender::EchoUnary => (Via::Unary, false),
        Contender::EchoStream => (Via::Session, false),
        _ => (run.plan.via, contender == Contender::Fencepost),
    };
    if own || contender.is_echo() {
        if own && workload == Workload::Pairs {
            held::take(run, &place).await.context("cannot take the locks that are held meanwhile")?;
        }
        return match workload {
            Workload::Pairs => pairs::run(run, &place, via).await,
            Workload::Idle => idle::run(run, &place, via).await,
            // A hand-off cannot take less than a message to the server and one back.
            Workload::Handoff | Workload::Wake if !own => pairs::round_trips(run, &place, via).await,
            Workload::Handoff => handoff::run(run, &place, via).await,
            Workload::Wake => wake::run(run, &place, via).await,
            Workload::Hold => hold::run(run, &place, via).await,
        };
    }
    let redis = place.redis.as_ref().context("there is no Redis")?;
    classic(run, workload, contender, &place, redis).await
}

async fn classic(
    run: Run<'_>,
    workload: Workload,
    contender: Contender,
    place: &Place,
    redis: &Redis,
) -> Result<(Figures, Measured)> {
    use baselines::{pairs, retry, watchdogs};
    match (workload, contender) {
        (Workload::Pairs, Contender::ClassicPool) => pairs::pooled(run, place, redis).await,
        (Workload::Pairs, Contender::ClassicMultiplexed) => pairs::shared(run, place, redis).await,
        (Workload::Handoff, Contender::RetryLoop) => retry::handoff(run, place, redis).await,
        (Workload::Idle, Contender::RetryLoop) => retry::idle(run, place, redis).await,
        (Workload::Wake, Contender::RetryLoop) => retry::wake(run, place, redis).await,
        (Workload::Hold, Contender::Watchdogs) => watchdogs::hold(run, place, redis).await,
        _ => bail!("{} is no baseline of {}", contender.name(), workload.name()),
    }
}

impl Contender {
    fn is_echo(self) -> bool {
        matches!(self, Self::EchoUnary | Self::EchoStream)
    }

    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fencepost => "fencepost",
            Self::EchoUnary => "tonic echo, unary",
            Self::EchoStream => "tonic echo, stream",
            Self::ClassicPool => "classic, deadpool",
            Self::ClassicMultiplexed => "classic, multiplexed",
            Self::RetryLoop => "classic, retry loop",
            Self::Watchdogs => "direct watchdogs",
        }
    }

    /// For programs.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Fencepost => "fencepost",
            Self::EchoUnary => "echo_unary",
            Self::EchoStream => "echo_stream",
            Self::ClassicPool => "classic_deadpool",
            Self::ClassicMultiplexed => "classic_multiplexed",
            Self::RetryLoop => "retry_loop",
            Self::Watchdogs => "watchdogs",
        }
    }
}

//! What each workload measures besides Fencepost, and which figures are compared.

use super::{
    baselines,
    figures::Figures,
    load::Measurement,
    plan::{Mode, Plan, Via, Workload},
    redis::Redis,
    testbed::Testbed,
    workloads::{Run, handoff, held, hold, idle, pairs, wake},
};
use anyhow::{Context, Result, bail};

/// A measured system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    Fencepost,
    /// A plain tonic server, unary calls.
    EchoUnary,
    /// The same, messages on a stream.
    EchoStream,
    /// The classic lock on Redis, with a deadpool checkout for each command.
    ClassicPool,
    /// The same, on one multiplexed connection.
    ClassicMultiplexed,
    /// A tonic server that forwards to the classic lock: the least that a server in front of Redis does.
    ClassicForwarded,
    /// Waiters that retry the classic lock.
    RetryLoop,
    /// The classic lock with a renewal timer for each lease.
    Watchdogs,
}

/// Fencepost comes last in each round, so that its baselines are measured right before it.
pub(super) fn of(plan: &Plan, workload: Workload) -> Vec<Contender> {
    use Contender::{
        ClassicForwarded, ClassicMultiplexed, ClassicPool, EchoStream, EchoUnary, Fencepost, RetryLoop, Watchdogs,
    };
    let all: &[Contender] = match workload {
        Workload::Pairs => &[EchoUnary, EchoStream, ClassicPool, ClassicMultiplexed, ClassicForwarded],
        Workload::Handoff | Workload::Wake => &[EchoUnary, EchoStream, RetryLoop],
        Workload::Idle => &[EchoUnary, RetryLoop],
        Workload::Hold => &[Watchdogs],
    };
    // The classic recipe knows no other modes.
    let suits = |one: &&Contender| plan.mode == Mode::Exclusive || **one != RetryLoop;
    let measured = all.iter().filter(|one| plan.baselines && (plan.has_redis() || one.is_echo())).filter(suits);
    measured.copied().chain([Fencepost]).collect()
}

/// The figures that are compared: their ratios to a baseline that has them are reported.
pub(super) fn compared(workload: Workload, baseline: Contender) -> &'static [&'static str] {
    match workload {
        // The echo's latency is that of one round trip, not of a wait.
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

/// Measures one system once.
pub(super) async fn measure(run: Run<'_>, workload: Workload, contender: Contender) -> Result<(Figures, Measurement)> {
    let testbed = match contender {
        Contender::Fencepost => Testbed::fencepost(run.plan).await.context("cannot start a server")?,
        Contender::EchoUnary | Contender::EchoStream => Testbed::echo().await.context("cannot start the echo")?,
        Contender::ClassicForwarded => Testbed::forwarder(run.plan).await.context("cannot start the forwarder")?,
        _ => Testbed::redis_alone(run.plan).await.context("cannot use Redis")?,
    };
    let (via, own) = match contender {
        Contender::EchoUnary => (Via::Unary, false),
        Contender::EchoStream => (Via::Session, false),
        _ => (run.plan.via, contender == Contender::Fencepost),
    };
    if own || contender.is_echo() || contender == Contender::ClassicForwarded {
        if own && workload == Workload::Pairs {
            held::acquire(run, &testbed).await.context("cannot acquire the locks that are held meanwhile")?;
        }
        return match workload {
            Workload::Pairs => pairs::run(run, &testbed, via).await,
            Workload::Idle => idle::run(run, &testbed, via).await,
            // A hand-off takes at least one message to the server and one back.
            Workload::Handoff | Workload::Wake if !own => pairs::round_trips(run, &testbed, via).await,
            Workload::Handoff => handoff::run(run, &testbed, via).await,
            Workload::Wake => wake::run(run, &testbed, via).await,
            Workload::Hold => hold::run(run, &testbed, via).await,
        };
    }
    let redis = testbed.redis.as_ref().context("there is no Redis")?;
    classic(run, workload, contender, &testbed, redis).await
}

async fn classic(
    run: Run<'_>,
    workload: Workload,
    contender: Contender,
    testbed: &Testbed,
    redis: &Redis,
) -> Result<(Figures, Measurement)> {
    use baselines::{pairs, retry, watchdogs};
    match (workload, contender) {
        (Workload::Pairs, Contender::ClassicPool) => pairs::pooled(run, testbed, redis).await,
        (Workload::Pairs, Contender::ClassicMultiplexed) => pairs::shared(run, testbed, redis).await,
        (Workload::Handoff, Contender::RetryLoop) => retry::handoff(run, testbed, redis).await,
        (Workload::Idle, Contender::RetryLoop) => retry::idle(run, testbed, redis).await,
        (Workload::Wake, Contender::RetryLoop) => retry::wake(run, testbed, redis).await,
        (Workload::Hold, Contender::Watchdogs) => watchdogs::hold(run, testbed, redis).await,
        _ => bail!("{} is no baseline of {}", contender.name(), workload.name()),
    }
}

impl Contender {
    fn is_echo(self) -> bool {
        matches!(self, Self::EchoUnary | Self::EchoStream)
    }

    /// The display name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fencepost => "fencepost",
            Self::EchoUnary => "tonic echo, unary",
            Self::EchoStream => "tonic echo, stream",
            Self::ClassicPool => "classic, deadpool",
            Self::ClassicMultiplexed => "classic, multiplexed",
            Self::ClassicForwarded => "classic, forwarded",
            Self::RetryLoop => "classic, retry loop",
            Self::Watchdogs => "direct watchdogs",
        }
    }

    /// The key in the JSON report.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Fencepost => "fencepost",
            Self::EchoUnary => "echo_unary",
            Self::EchoStream => "echo_stream",
            Self::ClassicPool => "classic_deadpool",
            Self::ClassicMultiplexed => "classic_multiplexed",
            Self::ClassicForwarded => "classic_forwarded",
            Self::RetryLoop => "retry_loop",
            Self::Watchdogs => "watchdogs",
        }
    }
}

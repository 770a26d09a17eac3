//! `bench`: measures the server on this machine, beside baselines.

use super::{
    args::duration,
    exit::{Failure, NO, SIGNAL},
};
use clap::{
    ArgGroup, Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use fencepost_bench::plan::{Plan, Target, Via, Workload};
use fencepost_client::ServerAddress;
use std::{ffi::OsString, io::Write, path::PathBuf, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

pub(super) const LONG_ABOUT: &str = "\
Measure a server, beside baselines measured in the same run

Drives servers that already run (--server), or starts its own (--store). In the same run it measures the baselines and
prints the ratios to them: a plain tonic server that answers the same messages and does nothing (tonic echo) and, with
--store redis or --redis, clients that use Redis directly: the classic recipe (through a deadpool pool, or over one
multiplexed connection), its retry loop, and watchdogs that renew each lease by a timer of its own.

Each contender is measured --rounds times for --duration, with new processes each time. The median round is reported; of
max_us it is the largest, of operations, errors and inversions the sum. Use an optimised build on an idle machine.

Workloads:
  pairs    acquire and release, each client with a lock of its own; latencies of the pair, and of the acquire in it
  handoff  all clients want one lock, queue for it and release it at once; latencies are those of the wait
  idle     waiters on a lock that is never released: what they cost
  hold     leases kept alive on streams (some are never renewed if --duration is shorter than --ttl / 3)
  wake     one holder, one waiter: from sending the release to the grant

handoff counts inversions: grants that another client overtook although its call was sent only after this one's had
arrived (the arrival of the answer minus held_for: the latest possible moment). inversion_max_us is the largest gap.
passed_on_per_s counts hand-offs to a client other than the last holder.

In handoff and wake the tonic echo makes one round trip after another, since nothing can be faster; in idle it holds the
calls open.

Figures: rates per second, latencies in microseconds, CPU seconds for 100,000 operations or percent of one core, bytes
on top of the process without the workload; evalsha and commands for each replica (commands include those inside scripts).
A dash is what cannot be seen, such as the CPU of a server on another machine.";

/// Selects every workload.
const ALL: &str = "all";

/// What to measure, and how.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("target").required(true).args(["server", "store"])))]
pub(crate) struct BenchArgs {
    /// Drive the server at this address, host:port; several (repeated, or separated by commas) are replicas
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    server: Vec<ServerAddress>,

    /// Start servers with this store: memory, redis (a new one, deleted afterwards), or redis://host:port (as it is)
    #[arg(long, value_name = "STORE", value_parser = store)]
    store: Option<Target>,

    /// With --server, the Redis behind it: to read its counters, and to measure the baselines on
    #[arg(long = "redis", value_name = "URL", conflicts_with = "store")]
    behind: Option<String>,

    /// The workloads, separated by commas
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',', default_value = ALL, value_parser = workload_names())]
    workload: Vec<String>,

    /// How clients call: unary calls (and KeepAlive streams for leases), or Session streams for everything
    #[arg(long, default_value = "unary", value_parser = vias())]
    via: Via,

    /// Clients in pairs and handoff
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    clients: usize,

    /// Waiters in idle
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = at_least_one)]
    waiters: usize,

    /// Leases in hold
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one)]
    leases: usize,

    /// Streams that carry the leases in hold, each on a connection of its own
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    streams: usize,

    /// The TTL of the leases in hold
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = positive)]
    ttl: Duration,

    /// Connections that the clients, or their sessions, share; also to the tonic echo
    ///
    /// Default: one for every 64 clients, at least one for each replica
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    connections: Option<usize>,

    /// With --store redis, the number of servers on the same Redis; clients are spread over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    replicas: usize,

    /// How long each round is measured
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = positive)]
    duration: Duration,

    /// How long each round warms up before it is measured
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration)]
    warmup: Duration,

    /// Rounds of each measurement
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one)]
    rounds: usize,

    /// Operations a second in total, in pairs and handoff: latencies count from the scheduled start
    ///
    /// Default: each client begins the next operation when it has finished the last
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,

    /// Lock names in pairs: each client has its own, or each operation a fresh one
    #[arg(long, default_value = "own", value_parser = ["own", "fresh"])]
    names: String,

    /// Locks that others hold meanwhile, in pairs; only on servers started here, because the locks are left behind
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "server")]
    held: usize,

    /// Measure no baselines
    #[arg(long)]
    no_baselines: bool,

    /// The redis-server program that --store redis starts
    #[arg(long, value_name = "PROGRAM", env = "FENCEPOST_REDIS_SERVER", default_value = "redis-server")]
    redis_server: PathBuf,

    /// A setting of the Redis that --store redis starts, such as "appendfsync always"; may be repeated
    #[arg(long, value_name = "NAME VALUE")]
    redis_option: Vec<String>,

    /// Threads that generate the load, on the same machine as the servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub threads: usize,

    /// Print one JSON object with all figures
    #[arg(long)]
    json: bool,
}

/// `bench-child`: what the benchmark starts its processes by.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChildArgs {
    /// The process to end with
    parent: u32,
    /// What to run
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

pub(super) fn child(args: &ChildArgs) -> Failure {
    let why = fencepost_bench::become_program(args.parent, &args.program);
    Failure::new(NO, format!("cannot start {:?}: {why}", args.program))
}

/// Measures until it is done, or until a signal.
pub(super) async fn bench(args: BenchArgs) -> Result<u8, Failure> {
    let json = args.json;
    let plan = args.plan()?;
    let no_signals = |error: std::io::Error| Failure::new(NO, format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    // Dropped, it ends what it started.
    let report = tokio::select! {
        report = Box::pin(fencepost_bench::run(plan)) => report,
        _ = interrupt.recv() => return Err(Failure::new(SIGNAL + 2, "interrupted")),
        _ = terminate.recv() => return Err(Failure::new(SIGNAL + 15, "terminated")),
    };
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{}", report.json())?,
        false => writeln!(out, "{}", report.text())?,
    }
    match report.totals() {
        (0.0, _) => Err(Failure::new(NO, "nothing succeeded")),
        (_, 0.0) => Ok(super::exit::OK),
        (_, errors) => {
            super::say(&format!("{errors} errors: the figures say little before their cause is known"));
            Ok(super::exit::OK)
        }
    }
}

impl BenchArgs {
    fn plan(self) -> Result<Plan, Failure> {
        let target = match self.store {
            Some(target) => target,
            None => Target::Servers(self.server.iter().map(ServerAddress::url).collect(), self.behind),
        };
        let usage = |why: &str| Err(Failure::new(super::exit::COMMAND_LINE, why));
        if self.replicas > 1 && !matches!(target, Target::Redis(_) | Target::OwnRedis) {
            return usage("--replicas: only servers that share a Redis are replicas; add --store redis");
        }
        if !self.redis_option.is_empty() && target != Target::OwnRedis {
            return usage("--redis-option: only a Redis of its own can be started with it; add --store redis");
        }
        let wanted = |workload: &Workload| self.workload.iter().any(|name| name == ALL || name == workload.name());
        let workloads = Workload::ALL.into_iter().filter(wanted).collect();
        Ok(Plan {
            target,
            workloads,
            via: self.via,
            clients: self.clients,
            waiters: self.waiters,
            leases: self.leases,
            streams: self.streams,
            ttl: self.ttl,
            connections: self.connections,
            replicas: self.replicas,
            duration: self.duration,
            warmup: self.warmup,
            rounds: self.rounds,
            rate: self.rate,
            fresh_names: self.names == "fresh",
            held: self.held,
            baselines: !self.no_baselines,
            redis_server: self.redis_server,
            redis_options: self.redis_option,
        })
    }
}

fn workload_names() -> PossibleValuesParser {
    PossibleValuesParser::new(Workload::ALL.map(Workload::name).into_iter().chain([ALL]))
}

fn vias() -> impl TypedValueParser<Value = Via> {
    PossibleValuesParser::new(Via::NAMES).try_map(|text| text.parse::<Via>())
}

fn store(text: &str) -> Result<Target, String> {
    match text {
        "memory" | "memory:" => Ok(Target::Memory),
        "redis" => Ok(Target::OwnRedis),
        url if url.starts_with("redis://") || url.starts_with("rediss://") => Ok(Target::Redis(url.to_owned())),
        _ => Err("must be memory, redis, or the URL of a Redis".to_owned()),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "must be a whole number above 0".to_owned())
}

fn positive(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    if span.is_zero() { Err("must be more than nothing".to_owned()) } else { Ok(span) }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "must be a number above 0".to_owned())
}

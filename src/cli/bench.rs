//! `bench`: measures a server and baselines on this machine.

use super::{
    args::{TlsArgs, duration},
    connect::unusable,
    exit::{Failure, NO, SIGNAL},
    look,
};
use clap::{
    ArgGroup, Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use fencepost_bench::plan::{Plan, Target, Via, Workload};
use fencepost_client::{Client, ServerAddress};
use std::{ffi::OsString, io::Write, path::PathBuf, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

/// The help of the command: its lines fit into this many columns.
pub(super) fn long_about(width: usize) -> String {
    let workloads = WORKLOADS.map(|(name, text)| look::hanging(&format!("  {name:<7}  "), text, width));
    format!("{PURPOSE}\n\nWorkloads:\n{}\n\n{FIGURES}", workloads.join("\n"))
}

const PURPOSE: &str = "\
Measure a server, and baselines in the same run

Drives running servers (--server), or starts servers (--store). In the same run it measures baselines and prints \
the ratios to them: a plain tonic server that answers the same messages and does nothing (tonic echo) and, with \
--store redis or --redis, clients that use Redis directly: the classic recipe (through a deadpool pool, or over one \
multiplexed connection), its retry loop, and watchdogs that renew each lease by its own timer.

Server and baselines are measured --rounds times for --duration, with new processes each time. The median round is \
reported; for max_us the largest round; for operations, errors and inversions the sum. Use an optimised build on an \
idle machine.";

const WORKLOADS: [(&str, &str); 5] = [
    ("pairs", "acquire and release, each client with its own lock; latencies of the pair, and of its acquire"),
    ("handoff", "all clients queue for one lock and release it at once; latencies of the wait"),
    ("idle", "the cost of waiters on a lock that is never released"),
    ("hold", "leases kept alive on streams (some are never renewed if --duration is shorter than --ttl / 3)"),
    ("wake", "one holder, one waiter: latency from sending the release to the grant"),
];

const FIGURES: &str = "\
handoff counts inversions: grants that came after the grant of another client, although that client sent its call \
only when this call had arrived (arrival of the answer minus held_for: the latest possible time). inversion_max_us \
is the largest gap. passed_on_per_s counts hand-offs to a client other than the last holder.

In handoff and wake the tonic echo makes one round trip after another, which is the fastest possible hand-off; in \
idle it keeps the calls open.

Figures: rates per second; latencies in microseconds; CPU in seconds per 100,000 operations, or in percent of one \
core; memory in bytes above that of the process without the workload; evalsha and commands per replica (commands \
include those inside scripts). A dash means that a figure is not available, such as the CPU of a server on another \
machine.";

/// Selects every workload.
const ALL: &str = "all";

/// Target, workloads and parameters of a benchmark.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("target").required(true).args(["server", "store"])))]
pub(crate) struct BenchArgs {
    /// Drive the server at this address, host:port, https://host:port or unix:/path; several (repeated, or separated
    /// by commas) are replicas
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    server: Vec<ServerAddress>,

    /// The files for TLS with --server.
    #[command(flatten)]
    tls: TlsArgs,

    /// Start servers with this store: memory, redis (a new Redis, deleted afterwards), or redis://host:port (running)
    #[arg(long, value_name = "STORE", value_parser = store)]
    store: Option<Target>,

    /// With --server, the Redis of the server: read its counters, and measure the baselines on it
    #[arg(long = "redis", value_name = "URL", conflicts_with = "store")]
    behind: Option<String>,

    /// Workloads, separated by commas
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',', default_value = ALL, value_parser = workload_names())]
    workload: Vec<String>,

    /// Calls of the clients: unary calls (and KeepAlive streams for leases), or Session streams for everything
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

    /// TTL of the leases in hold
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = positive)]
    ttl: Duration,

    /// Connections that the clients, or their sessions, share; the same number to the tonic echo
    ///
    /// Default: one for every 64 clients, at least one for each replica
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    connections: Option<usize>,

    /// With --store redis, the number of servers on the same Redis; clients are spread over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    replicas: usize,

    /// Time for which each round is measured
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = positive)]
    duration: Duration,

    /// Warm-up of each round before measuring
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration)]
    warmup: Duration,

    /// Rounds of each measurement
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one)]
    rounds: usize,

    /// Operations per second of all clients, in pairs and handoff; latencies count from the scheduled start
    ///
    /// Default: each client starts the next operation when it has finished the previous one
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,

    /// Lock names in pairs: one per client (own), or a new one per operation (fresh)
    #[arg(long, default_value = "own", value_parser = ["own", "fresh"])]
    names: String,

    /// Locks that others hold meanwhile, in pairs; only on servers started here, because they are not released
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "server")]
    held: usize,

    /// Measure no baselines
    #[arg(long)]
    no_baselines: bool,

    /// redis-server program that --store redis starts
    #[arg(long, value_name = "PROGRAM", env = "FENCEPOST_REDIS_SERVER", default_value = "redis-server")]
    redis_server: PathBuf,

    /// Setting of the Redis that --store redis starts, such as "appendfsync always"; may be repeated
    #[arg(long, value_name = "NAME VALUE")]
    redis_option: Vec<String>,

    /// Threads that generate the load, on the same machine as the servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub threads: usize,

    /// Print one JSON object with all figures
    #[arg(long)]
    json: bool,
}

/// The arguments of `bench-child`, by which the benchmark starts its processes.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChildArgs {
    /// Process id of the benchmark
    parent: u32,
    /// Program and arguments
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

pub(super) fn child(args: &ChildArgs) -> Failure {
    let error = fencepost_bench::become_program(args.parent, &args.program);
    Failure::new(NO, format!("cannot start {:?}: {error}", args.program))
}

/// Runs the benchmark to its end, or until a signal.
pub(super) async fn bench(args: BenchArgs) -> Result<u8, Failure> {
    let json = args.json;
    let plan = args.plan()?;
    let no_signals = |error: std::io::Error| Failure::new(NO, format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    // Dropping the benchmark ends the processes that it started.
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
        (0.0, _) => Err(Failure::new(NO, "no operation succeeded")),
        (_, 0.0) => Ok(super::exit::OK),
        (_, errors) => {
            super::write_note(&format!("{errors} errors: find their cause before you trust the figures"));
            Ok(super::exit::OK)
        }
    }
}

impl BenchArgs {
    fn plan(self) -> Result<Plan, Failure> {
        let tls = self.tls.settings()?;
        let target = match self.store {
            Some(target) => target,
            None => {
                // Checks addresses and files, as for other commands.
                let builder = self.server.iter().fold(Client::builder(), |it, server| it.server(server.to_string()));
                builder.tls(tls.clone()).build().map_err(|error| unusable(&error))?;
                Target::Servers(self.server, self.behind)
            }
        };
        let usage = |why: &str| Err(Failure::new(super::exit::COMMAND_LINE, why));
        if self.replicas > 1 && !matches!(target, Target::Redis(_) | Target::OwnRedis) {
            return usage("--replicas needs servers that share a Redis: add --store redis");
        }
        if !self.redis_option.is_empty() && target != Target::OwnRedis {
            return usage("--redis-option needs a Redis that the benchmark starts: add --store redis");
        }
        let selected = |workload: &Workload| self.workload.iter().any(|name| name == ALL || name == workload.name());
        let workloads = Workload::ALL.into_iter().filter(selected).collect();
        Ok(Plan {
            target,
            tls,
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
    if span.is_zero() { Err("must be more than 0s".to_owned()) } else { Ok(span) }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "must be a number above 0".to_owned())
}

//! `bench`: what the server can do on this machine, beside what there is to compare it to.

use super::{
    args::duration,
    exit::{Failure, NO, SIGNAL},
};
use clap::{
    ArgGroup, Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use fencepost_bench::plan::{Plan, Shape, Target, Via};
use std::{ffi::OsString, io::Write, path::PathBuf, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

pub(super) const LONG_ABOUT: &str = "\
Measure a server, and the yardsticks beside it

Drives servers that run already (--server), or starts its own (--store). In the same run, in turn, it measures the yardsticks, and prints \
ratios to them: a plain tonic server that answers the same messages and does nothing (tonic echo), and, with --store redis or --redis, clients that use \
Redis directly by the classic recipe (a checkout from a deadpool for each command, or one multiplexed connection), its retry loop, and watchdogs that \
renew each lease by a timer of its own.

Each is measured --rounds times for --duration, with new processes each time; the middle one of the rounds counts (of max_us the largest, of \
operations, errors and inversions the sum). Give --shape to measure less. Use an optimised build, and leave the machine alone meanwhile.

Shapes:
  pairs    acquire and release, each client a lock of its own; latencies of the pair, and of the acquire in it
  handoff  all clients want one lock, wait in line and release at once; latencies are those of the wait. An inversion is a grant that was \
overtaken: another was granted before it, although that one's call was sent only after this one's had arrived (the answer's arrival less \
held_for, the latest that it can have been); inversion_max_us says by how much at most; passed_on_per_s counts the hand-offs to another client than the last
  idle     waiters on a lock that does not come free: what they cost
  hold     leases kept alive on streams (with a shorter --duration than --ttl / 3, not each of them is renewed)
  wake     one holder, one waiter: from the sending of the release to the grant

The tonic echo does one round trip after the other in handoff and wake, since neither can take less than that; in idle it holds the calls open.

Figures: rates per second, latencies in microseconds, CPU seconds for 100,000 operations or percent of one core, bytes on top of the \
process without them; of evalsha and commands for each replica (commands: those within scripts too). What cannot be seen, such as the CPU of a \
server elsewhere, is a dash.";

/// For every shape.
const ALL: &str = "all";

/// What to measure, and how.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("target").required(true).args(["server", "store"])))]
pub(crate) struct BenchArgs {
    /// Drive the server that runs there; several (repeated, or with commas between them) are replicas of one service
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    server: Vec<String>,

    /// Start servers with this store: memory, redis (one of its own, thrown away after), or redis://host:port (used as it is)
    #[arg(long, value_name = "STORE", value_parser = store)]
    store: Option<Target>,

    /// With --server, the Redis behind it: to look at, and to measure the yardsticks on
    #[arg(long = "redis", value_name = "URL", conflicts_with = "store")]
    behind: Option<String>,

    /// Which shapes, with commas between them
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', default_value = ALL, value_parser = shape_names())]
    shape: Vec<String>,

    /// How calls are made: a call each (leases are kept on KeepAlive streams), or all of them on Session streams
    #[arg(long, default_value = "unary", value_parser = vias())]
    via: Via,

    /// Clients of pairs and handoff
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    clients: usize,

    /// Waiters of idle
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = at_least_one)]
    waiters: usize,

    /// Leases of hold
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one)]
    leases: usize,

    /// Streams that carry the leases of hold, each on a connection of its own
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    streams: usize,

    /// The TTL of the leases of hold
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = positive)]
    ttl: Duration,

    /// Connections that the clients share, or their sessions, the tonic echo's as well (default: one for every 64 clients, at least one a replica)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    connections: Option<usize>,

    /// With --store redis, so many servers on the same Redis, and clients in turn on each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    replicas: usize,

    /// For how long each is measured each time
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = positive)]
    duration: Duration,

    /// For how long it runs before it counts
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration)]
    warmup: Duration,

    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least_one)]
    rounds: usize,

    /// Operations a second in all, in pairs and handoff: latencies count from when each was to begin, also if no client was free (default: each client
    /// begins when it has ended)
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,

    /// Lock names of pairs: each client its own, or a fresh one each time
    #[arg(long, default_value = "own", value_parser = ["own", "fresh"])]
    names: String,

    /// Locks that others hold meanwhile, in pairs: on a server of its own, since they are left behind
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "server")]
    held: usize,

    /// Measure no yardsticks
    #[arg(long)]
    no_yardsticks: bool,

    /// The program that --store redis starts
    #[arg(long, value_name = "PROGRAM", env = "FENCEPOST_REDIS_SERVER", default_value = "redis-server")]
    redis_server: PathBuf,

    /// A setting of the Redis that --store redis starts, such as "appendfsync always"; may be repeated
    #[arg(long, value_name = "NAME VALUE")]
    redis_option: Vec<String>,

    /// Threads that make the load: it shares the machine with what it measures
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub threads: usize,

    /// Print one JSON object with every figure
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
            None => Target::Servers(self.server, self.behind),
        };
        let usage = |why: &str| Err(Failure::new(super::exit::COMMAND_LINE, why));
        if self.replicas > 1 && !matches!(target, Target::Redis(_) | Target::OwnRedis) {
            return usage("--replicas: only servers that share a Redis are replicas; add --store redis");
        }
        if !self.redis_option.is_empty() && target != Target::OwnRedis {
            return usage("--redis-option: only a Redis of its own can be started with it; add --store redis");
        }
        let wanted = |shape: &Shape| self.shape.iter().any(|name| name == ALL || name == shape.name());
        let shapes = Shape::ALL.into_iter().filter(wanted).collect();
        Ok(Plan {
            target,
            shapes,
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
            yardsticks: !self.no_yardsticks,
            redis_server: self.redis_server,
            redis_options: self.redis_option,
        })
    }
}

fn shape_names() -> PossibleValuesParser {
    PossibleValuesParser::new(Shape::ALL.map(Shape::name).into_iter().chain([ALL]))
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

//! The command line.

use crate::plan::{Mode, Plan, Target, Via, Workload};
use anyhow::{Result, bail};
use clap::{
    ArgGroup, Args, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use fencepost_client::{Client, ServerAddress, Tls};
use std::{env, ffi::OsString, path::PathBuf, time::Duration};

/// The text of --help before the options. Its lines fit into 80 columns.
const ABOUT: &str = "\
Measure Fencepost, and baselines in the same run

Drives running servers (--server), or starts servers (--store). In the same run
it measures baselines and prints the ratios to them: a plain tonic server that
answers the same messages and does nothing (tonic echo) and, with --store redis
or --redis, clients that use Redis directly: the classic recipe (through a
deadpool pool, or over one multiplexed connection), its retry loop, and
watchdogs that renew each lease by its own timer; and a tonic server that only
takes the classic lock for its clients (forwarded).

Server and baselines are measured --rounds times for --duration, with new
processes each time. The median round is reported; for max_us the largest round;
for operations, errors and inversions the sum. Use an optimised build on an idle
machine.

Workloads:
  pairs    acquire and release, each client with its own lock; latencies of the
           pair, and of its acquire
  handoff  all clients queue for one lock and release it at once; latencies of
           the wait (--mode: as readers, readers and writers, or for permits)
  idle     the cost of waiters on a lock that is never released
  hold     leases kept alive on streams (some are never renewed if --duration is
           shorter than --ttl / 3)
  wake     one holder, one waiter: latency from sending the release to the grant

handoff counts inversions: grants that came after the grant of another client,
although that client sent its call only when this call had arrived (arrival of
the answer minus held_for: the latest possible time). inversion_max_us is the
largest gap. passed_on_per_s counts hand-offs to a client other than the last
holder.

In handoff and wake the tonic echo makes one round trip after another, which is
the fastest possible hand-off; in idle it keeps the calls open.

Figures: rates per second; latencies in microseconds; CPU in seconds per 100,000
operations, or in percent of one core; memory in bytes above that of the process
without the workload; evalsha and commands per replica (commands include those
inside scripts). A dash means that a figure is not available, such as the CPU of
a server on another machine.

Exit codes: 0, all workloads were measured; 1, no operation succeeded; 2, invalid
command line; 128+n, terminated by signal n.";

/// Selects every workload.
const ALL: &str = "all";

/// The command line: a benchmark, or one of the processes that a benchmark starts.
#[derive(Parser, Debug)]
#[command(name = "fencepost-bench", version, about = "Measure Fencepost, and baselines in the same run")]
#[command(long_about = ABOUT, max_term_width = 120)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) bench: Option<BenchArgs>,
    #[command(subcommand)]
    pub(crate) process: Option<Process>,
}

/// What a benchmark starts this program as.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Process {
    /// Serve the tonic echo, a baseline
    #[command(hide = true)]
    Echo {
        /// Redis with the classic locks to which it forwards
        redis: Option<String>,
    },
    /// Run a program that ends when the benchmark ends
    #[command(hide = true)]
    Child {
        /// Process id of the benchmark
        parent: u32,
        /// Program and arguments
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
}

/// Target, workloads and parameters of a benchmark.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("target").required(true).args(["server", "store"])))]
pub(crate) struct BenchArgs {
    /// Drive the server at this address, host:port, https://host:port or unix:/path; several (repeated, or separated
    /// by commas) are replicas
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    server: Vec<ServerAddress>,

    /// PEM file with the authorities that may issue the server's certificate, in place of the machine's roots
    #[arg(long, value_name = "FILE", env = "FENCEPOST_CA", value_parser = clap::value_parser!(OsString))]
    ca: Option<OsString>,

    /// PEM file with the client's certificate, for servers that ask for one
    #[arg(long, value_name = "FILE", env = "FENCEPOST_CERT", value_parser = clap::value_parser!(OsString))]
    cert: Option<OsString>,

    /// PEM file with the private key of the client's certificate
    #[arg(long, value_name = "FILE", env = "FENCEPOST_KEY", value_parser = clap::value_parser!(OsString))]
    key: Option<OsString>,

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

    /// How handoff asks for its lock: each client alone (exclusive), all as readers (shared), nine of ten requests as
    /// readers (mixed), or each for one of --permits permits (semaphore)
    #[arg(long, default_value = "exclusive", value_parser = PossibleValuesParser::new(Mode::NAMES))]
    mode: String,

    /// Permits of the semaphore in --mode semaphore
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    permits: u32,

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

    /// fencepost program that --store starts
    ///
    /// Default: the one beside this program, or else that of the PATH
    #[arg(long, value_name = "PROGRAM")]
    fencepost: Option<PathBuf>,

    /// redis-server program that --store redis starts
    #[arg(long, value_name = "PROGRAM", env = "FENCEPOST_REDIS_SERVER", default_value = "redis-server")]
    redis_server: PathBuf,

    /// Setting of the Redis that --store redis starts, such as "appendfsync always"; may be repeated
    #[arg(long, value_name = "NAME VALUE")]
    redis_option: Vec<String>,

    /// Threads that generate the load, on the same machine as the servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub(crate) threads: usize,

    /// Print one JSON object with all figures
    #[arg(long)]
    pub(crate) json: bool,
}

impl BenchArgs {
    /// An empty file counts as none, as in the commands of `fencepost`.
    fn tls(&self) -> Result<Tls> {
        let file = |option: &Option<OsString>| option.clone().filter(|file| !file.is_empty());
        let tls = file(&self.ca).map_or_else(Tls::new, |ca| Tls::new().ca_file(ca));
        match (file(&self.cert), file(&self.key)) {
            (Some(cert), Some(key)) => Ok(tls.identity_files(cert, key)),
            (None, None) => Ok(tls),
            (Some(_), None) => bail!("--cert needs the key of the certificate: --key FILE"),
            (None, Some(_)) => bail!("--key needs the certificate of the key: --cert FILE"),
        }
    }

    /// What is to be measured.
    pub(crate) fn plan(self) -> Result<Plan> {
        let tls = self.tls()?;
        let target = match self.store {
            Some(target) => target,
            None => {
                // Checks addresses and files, as for other commands.
                let builder = self.server.iter().fold(Client::builder(), |it, server| it.server(server.to_string()));
                builder.tls(tls.clone()).build()?;
                Target::Servers(self.server, self.behind)
            }
        };
        if self.replicas > 1 && !matches!(target, Target::Redis(_) | Target::OwnRedis) {
            bail!("--replicas needs servers that share a Redis: add --store redis");
        }
        if !self.redis_option.is_empty() && target != Target::OwnRedis {
            bail!("--redis-option needs a Redis that the benchmark starts: add --store redis");
        }
        let selected = |workload: &Workload| self.workload.iter().any(|name| name == ALL || name == workload.name());
        let workloads = Workload::ALL.into_iter().filter(selected).collect();
        Ok(Plan {
            target,
            tls,
            workloads,
            via: self.via,
            mode: Mode::named(&self.mode, self.permits),
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
            fencepost: self.fencepost.unwrap_or_else(fencepost),
            redis_server: self.redis_server,
            redis_options: self.redis_option,
        })
    }
}

/// The server's program.
fn fencepost() -> PathBuf {
    let beside = env::current_exe().map(|own| own.with_file_name("fencepost"));
    beside.ok().filter(|program| program.exists()).unwrap_or_else(|| "fencepost".into())
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

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "must be a duration with a unit, such as 500ms, 30s or 1h 30m".to_owned())
}

fn positive(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    if span.is_zero() { Err("must be more than 0s".to_owned()) } else { Ok(span) }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "must be a number above 0".to_owned())
}

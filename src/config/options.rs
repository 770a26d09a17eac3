//! The one table of options: the flags, the variables, the keys of the file, the help and the comments all come from
//! it.

/// One option of the server.
#[derive(Debug)]
pub struct ServerOption {
    /// Its key in the file; the flag has `-` for `_`.
    pub key: &'static str,
    /// What stands for its value in the help.
    pub value_name: &'static str,
    /// What it decides, in a line.
    pub help: &'static str,
}

impl ServerOption {
    /// The flag without its dashes in front: `ttl-min`.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// The variable: `FENCEPOST_TTL_MIN`.
    pub fn variable(&self) -> String {
        format!("FENCEPOST_{}", self.key.to_uppercase())
    }
}

/// The value name of options that are true or false; as a flag, one of them without a value is true.
pub const SWITCH: &str = "BOOL";
/// The variable that names the file; its flag is `--config`.
pub const FILE_VARIABLE: &str = "FENCEPOST_CONFIG";
/// The key under which the flag that names the file is handed over: no option has it, so a file cannot name another
/// one.
pub const FILE_KEY: &str = "config";

const fn option(key: &'static str, value_name: &'static str, help: &'static str) -> ServerOption {
    ServerOption { key, value_name, help }
}

/// Every option, in the order in which people read them.
pub const OPTIONS: [ServerOption; 14] = [
    option(
        "listen",
        "ADDRESS",
        "Where to listen: host:port, or :port for all addresses of this machine; port 0 lets the system choose",
    ),
    option(
        "store",
        "URL",
        "Where locks are kept: memory: (in this process), redis://[user:password@]host:port[/db], rediss://… (TLS)",
    ),
    option("allow_eviction", SWITCH, "Serve also on a Redis whose maxmemory-policy may evict leases: true or false"),
    option(
        "classic_prefix",
        "PREFIX",
        "Share locks with clients that SET PREFIXname NX PX themselves, in the same Redis; empty: there are none",
    ),
    option("ttl_min", "DURATION", "The shortest TTL a lease may have (50ms to ttl_max)"),
    option("ttl_max", "DURATION", "The longest TTL a lease may have (ttl_min to 24h)"),
    option("wait_max", "DURATION", "The longest time a request may wait for a lock (0s to 1h)"),
    option("waiters_per_lock", "COUNT", "Requests that may wait for one lock (1 to 1000000)"),
    option("waiters_per_server", "COUNT", "Requests that may wait on this server (1 to 10000000)"),
    option("leases_per_stream", "COUNT", "Leases that one KeepAlive or Session stream may carry (1 to 1000000)"),
    option("drain_timeout", "DURATION", "How long a drain waits for calls and streams to end (0s to 5m)"),
    option("log_format", "FORMAT", "How a line of the log looks: text or json"),
    option(
        "log_level",
        "FILTER",
        "What is logged: a level (error, warn, info, debug, trace, off) or target=level, comma separated",
    ),
    option("config", "FILE", "TOML file with these options; flags and variables override it"),
];

/// The options that a file may hold: all but the one that names the file.
pub fn in_file() -> impl Iterator<Item = &'static ServerOption> {
    OPTIONS.iter().filter(|option| option.key != FILE_KEY)
}

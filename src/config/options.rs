//! The table of options. Flags, variables, keys of the file, help and comments all come from it.

/// One option of the server.
#[derive(Debug)]
pub struct ServerOption {
    /// The key in the file. The flag has `-` in place of `_`.
    pub key: &'static str,
    /// The placeholder of the value in the help.
    pub value_name: &'static str,
    /// The description, on one line.
    pub help: &'static str,
}

impl ServerOption {
    /// The flag without the leading dashes: `ttl-min`.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// The variable: `FENCEPOST_TTL_MIN`.
    pub fn variable(&self) -> String {
        format!("FENCEPOST_{}", self.key.to_uppercase())
    }
}

/// The placeholder of options that are true or false. A flag without a value means true.
pub const SWITCH: &str = "BOOL";
/// The variable that names the file. The flag is `--config`.
pub const FILE_VARIABLE: &str = "FENCEPOST_CONFIG";
/// The key of the flag that names the file. It is not a key of the file, so a file cannot name another file.
pub const FILE_KEY: &str = "config";

const fn option(key: &'static str, value_name: &'static str, help: &'static str) -> ServerOption {
    ServerOption { key, value_name, help }
}

/// All options, in the order of the help.
pub const OPTIONS: [ServerOption; 35] = [
    option(
        "listen",
        "ADDRESS",
        "Where to listen: host:port, :port for all addresses of this machine (port 0: the system chooses), unix:/path",
    ),
    option(
        "port_file",
        "FILE",
        "File to write when the server listens, removed when it ends: its addresses, one a line, that of --test-faults last; empty: none",
    ),
    option(
        "plaintext",
        SWITCH,
        "Serve without TLS where other machines can reach it: the admin port without --admin-tls, and the API without a certificate",
    ),
    option("tls_cert", "FILE", "PEM file with the server's certificate and its intermediates; turns TLS on"),
    option("tls_key", "FILE", "PEM file with the private key of the certificate"),
    option("tls_client_ca", "FILE", "PEM file with authorities: each client must show a certificate of one of them"),
    option(
        "access",
        "FILE",
        "TOML file with tokens, issuers and rules: who may do what (docs/access.md); empty: everybody everything",
    ),
    option(
        "audit_log",
        "FILE",
        "File for a line of JSON for each denial, force release, drain and reload (docs/access.md); -: stdout; empty: none",
    ),
    option(
        "audit_grants",
        SWITCH,
        "Have a line in the audit log for each grant of a lease and each end of one too (docs/access.md)",
    ),
    option("connections_max", "COUNT", "Maximum number of open connections (1 to 1000000)"),
    option("connections_per_peer", "COUNT", "Maximum number of open connections from one IP address (1 to 1000000)"),
    option(
        "store",
        "URL",
        "Where locks are kept: memory: (in this process), redis://[user:password@]host:port[/db], rediss://… (TLS), \
         redis+sentinel://host,host,host/name (in the Redis that Sentinels name), redis+cluster://host,host,host (in \
         one slot of a Redis Cluster), or three or five redis:// URLs with commas between (in a majority)",
    ),
    option("store_ca", "FILE", "PEM file with the authorities of a rediss:// store, in place of the machine's roots"),
    option("store_cert", "FILE", "PEM file with the client certificate for a rediss:// store that asks for one"),
    option("store_key", "FILE", "PEM file with the private key of the client certificate"),
    option(
        "store_user",
        "NAME",
        "User of the store if its URL has none, with --store-password-file; empty: the default user of Redis",
    ),
    option(
        "store_password_file",
        "FILE",
        "File with the password of the store alone, read for each connection; open ones authenticate again when it changes",
    ),
    option(
        "store_prefix",
        "NAME",
        "Name of the store in Redis: its keys begin with {NAME}: (1 to 24 letters, digits, - _ .); several stores share one Redis",
    ),
    option("allow_eviction", SWITCH, "Use a Redis even if its maxmemory-policy may evict leases: true or false"),
    option(
        "classic_prefix",
        "PREFIX",
        "Share locks with classic clients (SET PREFIXname NX PX) in the same Redis; empty: there are none",
    ),
    option("ttl_min", "DURATION", "Minimum TTL of a lease (50ms to ttl_max)"),
    option("ttl_max", "DURATION", "Maximum TTL of a lease (ttl_min to 24h)"),
    option("wait_max", "DURATION", "Maximum time that a request may wait for a lock (0s to 1h)"),
    option("waiters_per_lock", "COUNT", "Maximum number of requests that wait for one lock (1 to 1000000)"),
    option("waiters_per_server", "COUNT", "Maximum number of requests that wait on this server (1 to 10000000)"),
    option("leases_per_stream", "COUNT", "Maximum number of leases on a KeepAlive or Session stream (1 to 1000000)"),
    option("drain_timeout", "DURATION", "Time that a drain waits for calls and streams to end (0s to 5m)"),
    option(
        "admin_listen",
        "ADDRESS",
        "Admin port: host:port for /metrics, /livez, /readyz, drain and force-release; none: there is none",
    ),
    option(
        "admin_tls",
        SWITCH,
        "Speak TLS on the admin port too, with the same certificate; scrapers and probes need none of their own",
    ),
    option(
        "admin_service",
        "WHERE",
        "Ports that offer AdminService, which can drain servers and revoke leases: admin (the admin port), or everywhere",
    ),
    option(
        "test_faults",
        "ADDRESS",
        "For tests of programs that take locks: port that takes orders to lose leases and replies (with memory: only)",
    ),
    option("otlp_endpoint", "URL", "Collector for traces by OTLP over gRPC: http://host:4317; empty: no traces"),
    option("log_format", "FORMAT", "Format of the log: text or json"),
    option(
        "log_level",
        "FILTER",
        "Filter of the log: a level (error, warn, info, debug, trace, off), or target=level, separated by commas",
    ),
    option("config", "FILE", "TOML file with these options; flags and variables override it"),
];

/// The options that a file may contain: all but the one that names the file.
pub fn in_file() -> impl Iterator<Item = &'static ServerOption> {
    OPTIONS.iter().filter(|option| option.key != FILE_KEY)
}

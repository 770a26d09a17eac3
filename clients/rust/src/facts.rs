// Written by clients/facts/generate.py: change clients/facts.json, clients/guards or lock.proto, and run it.

//! Facts that the clients of all languages share: defaults, bounds, reasons of errors, guards.

/// The port of an address without one.
pub const DEFAULT_PORT: u16 = 7420;
/// The server if neither the caller nor the environment names one.
pub const DEFAULT_SERVER: &str = "127.0.0.1:7420";
/// The environment variable that names the servers, separated by commas.
pub const ENVIRONMENT_SERVER: &str = "FENCEPOST_SERVER";
/// The environment variable that names the PEM file of the authorities that sign the servers'
/// certificates.
pub const ENVIRONMENT_CA: &str = "FENCEPOST_CA";
/// The environment variable that names the PEM file of the client's certificate.
pub const ENVIRONMENT_CERT: &str = "FENCEPOST_CERT";
/// The environment variable that names the PEM file of the key of the client's certificate.
pub const ENVIRONMENT_KEY: &str = "FENCEPOST_KEY";
/// The environment variable that names the file with the bearer token alone, for servers that ask for
/// credentials.
pub const ENVIRONMENT_CREDENTIALS: &str = "FENCEPOST_CREDENTIALS";
/// The TTL that a server gives a lease if the caller names none, unless it is configured otherwise.
/// Clients then send no TTL.
pub const DEFAULT_TTL_MS: u64 = 30_000;
/// The shortest TTL that a server accepts, unless it is configured otherwise.
pub const TTL_MIN_MS: u64 = 1000;
/// The longest TTL that a server accepts, unless it is configured otherwise.
pub const TTL_MAX_MS: u64 = 86_400_000;
/// The longest max_hold that a server accepts. The shortest is the TTL.
pub const MAX_HOLD_MAX_MS: u64 = 604_800_000;
/// The longest min_hold that a server accepts.
pub const MIN_HOLD_MAX_MS: u64 = 86_400_000;
/// The longest lock_delay that a server accepts.
pub const LOCK_DELAY_MAX_MS: u64 = 60_000;
/// The longest wait that a server accepts, unless it is configured otherwise.
pub const WAIT_MAX_MS: u64 = 3_600_000;
/// The maximum length of a lock name in bytes of UTF-8. The minimum is 1.
pub const NAME_BYTES_MAX: usize = 512;
/// The maximum length of a holder label in bytes of UTF-8.
pub const HOLDER_BYTES_MAX: usize = 256;
/// The maximum size of the metadata of a request, keys and values together.
pub const METADATA_BYTES_MAX: usize = 4096;
/// The maximum size of a request message, also of one message of a stream.
pub const REQUEST_BYTES_MAX: usize = 65_536;
/// The highest fencing token: 2^53 - 1, so that a double holds each token exactly.
pub const TOKEN_MAX: u64 = 9_007_199_254_740_991;
/// The highest limit of a semaphore. The lowest is 1.
pub const PERMITS_MAX: u32 = 1_000_000;
/// The maximum number of locks on one page of a listing.
pub const PAGE_SIZE_MAX: u32 = 1000;
/// The part of the TTL that a holder keeps back because clocks run at different rates: 1 %.
pub const DRIFT_DIVISOR: u32 = 100;
/// The part of the TTL that a holder keeps back for the time between a check and the action that
/// follows, at least MARGIN_MIN_MS.
pub const MARGIN_DIVISOR: u32 = 20;
/// The minimum of that margin.
pub const MARGIN_MIN_MS: u64 = 20;
/// A grant of which less than this part of the TTL is left on arrival is renewed before it is used.
pub const LATE_DIVISOR: u32 = 2;
/// A stream without a message for this part of the shortest TTL is dead.
pub const SILENCE_DIVISOR: u32 = 2;
/// How long one attempt to connect to a server may take.
pub const CONNECT_TIMEOUT_MS: u64 = 2000;
/// The first pause before a retry. It doubles each time, and a random part of it is taken.
pub const RETRY_FIRST_MS: u64 = 50;
/// The longest pause before a retry, unless the server asks for more (RetryInfo).
pub const RETRY_MAX_MS: u64 = 1000;
/// The first pause before the next session is opened while no server answers. It doubles each time.
pub const RECONNECT_FIRST_MS: u64 = 50;
/// The longest pause before the next session is opened.
pub const RECONNECT_MAX_MS: u64 = 2000;
/// How long a session without leases and operations is kept open for the next ones.
pub const LINGER_MS: u64 = 5000;
/// The domain of the google.rpc.ErrorInfo of all errors.
pub const ERROR_DOMAIN: &str = "fencepost";
/// The holder label of a client that uses Redis directly, on a server with --classic-prefix.
pub const CLASSIC_HOLDER: &str = "classic client";
/// The reason of a revocation because the stream of a lease with release_on_disconnect ended.
pub const STREAM_ENDED: &str = "stream ended";
/// How long a call is repeated while no server answers it, in addition to its wait, if the caller names
/// no time.
pub const RETRY_FOR_MS: u64 = 10_000;
/// The metadata with which a server that answers Session, KeepAlive or a health check tells the id of
/// its store. Servers with the same id share their locks.
pub const STORE_ID_METADATA: &str = "fencepost-store-id";
/// A warning when a client with several servers opens a session. Follows the server's address; {} is
/// the address of another server of the client.
pub const OTHER_STORE: &str = "does not have the store that {} had: unless that store was made anew, start both \
    servers with the same --store, because a lock of one excludes nobody on the other";
/// The server accepted a connection and sent nothing. Follows the server's address.
pub const NOT_GRPC_SILENT: &str = "does not speak gRPC, or hangs (it accepted the connection and sent nothing)";
/// The server closed a connection before it sent anything. Follows the server's address.
pub const NOT_GRPC_CLOSED: &str = "does not speak gRPC (it closed the connection and sent nothing)";
/// The same of a TCP connection without TLS. Follows the server's address.
pub const NOT_GRPC_CLOSED_PLAIN: &str = "does not speak gRPC without TLS (it closed the connection and sent nothing); \
    if it is a port with TLS, write https:// in front of the address";
/// The server answered plain text with a TLS alert. Permanent. Follows the server's address.
pub const NOT_GRPC_TLS_ALERT: &str = "does not speak gRPC without TLS (it sent a TLS alert); write https:// in front \
    of the address";
/// The first bytes of the connection are not HTTP/2: the first line, quoted, or NOT_GRPC_BYTES.
/// Permanent. Follows the server's address.
pub const NOT_GRPC_OTHER: &str = "does not speak gRPC (it sent {})";
/// What NOT_GRPC_OTHER shows if the first line is not text.
pub const NOT_GRPC_BYTES: &str = "bytes that are not HTTP/2";
/// The server speaks gRPC or HTTP/2 and answers UNIMPLEMENTED. Permanent. Follows the server's address.
pub const NOT_FENCEPOST: &str = "does not implement this call: it is not a Fencepost server, or older than this \
    client, or this is its admin port";
/// The server answered a TLS handshake with other bytes. Permanent. Follows the server's address and a
/// colon.
pub const TLS_NOT_TLS: &str = "the server does not speak TLS on this port; if it is a port without TLS, write the \
    address without https://";
/// Permanent. Follows the server's address and a colon.
pub const TLS_UNTRUSTED: &str = "the server's certificate is not trusted: it is self-signed, or its authority is not \
    among the trusted ones";
/// Permanent. Follows the server's address and a colon.
pub const TLS_EXPIRED: &str = "the server's certificate has expired, by the clock of this machine";
/// Permanent. Follows the server's address and a colon. The names of the certificate may follow.
pub const TLS_WRONG_NAME: &str = "the server's certificate is not valid for this name";
/// Permanent. Follows the server's address and a colon.
pub const TLS_CLIENT_CERTIFICATE_MISSING: &str = "the server asks for a client certificate, and none was given";
/// Permanent. Follows the server's address and a colon. The TLS alert may follow.
pub const TLS_CLIENT_CERTIFICATE_REFUSED: &str = "the server refused the client certificate";
/// Follows the error of a call whose last try got no answer, and a semicolon; {} is what a server
/// answered to an earlier try: code, reason in brackets, colon, message.
pub const LAST_ANSWER: &str = "the last answer was {}";
/// The maximum number of locks that one call acquires together.
pub const SET_NAMES_MAX: usize = 64;
/// Why a lock is lost: no renewal got through in time, or the process was paused.
pub const LOST_SILENCE: &str = "its validity ended before a renewal arrived";
/// Why a lock is lost: it was held for as long as max_hold allows, and no renewal extends it.
pub const LOST_MAX_HOLD: &str = "it was held for its max_hold";
/// Why a lock is lost: the server reports that the TTL passed without a renewal.
pub const LOST_EXPIRED: &str = "the lease expired";
/// Why a lock is lost: an operator or the server took it back.
pub const LOST_REVOKED: &str = "the lease was revoked";
/// Why a lock is lost: the lease ended longer ago than the server remembers, and another lease was
/// granted.
pub const LOST_SUPERSEDED: &str = "another lease was granted since";
/// Why a lock is lost: the lease ended longer ago than the server remembers.
pub const LOST_UNKNOWN: &str = "the server does not know the lease";
/// Why a lock is lost: somebody else who knows the lease id released it.
pub const LOST_RELEASED: &str = "the lease was released elsewhere";
/// The reasons of errors, and their gRPC codes.
pub const REASONS: [(&str, &str); 29] = [
    ("INVALID_FIELD", "INVALID_ARGUMENT"),
    ("OVERTAKEN", "ABORTED"),
    ("REQUEST_ENDED", "ABORTED"),
    ("QUEUE_FULL", "RESOURCE_EXHAUSTED"),
    ("SERVER_FULL", "RESOURCE_EXHAUSTED"),
    ("SESSION_FULL", "RESOURCE_EXHAUSTED"),
    ("WATCHERS_FULL", "RESOURCE_EXHAUSTED"),
    ("QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED"),
    ("OUTCOME_UNKNOWN", "UNAVAILABLE"),
    ("STORE_UNAVAILABLE", "UNAVAILABLE"),
    ("STORE_OVERLOADED", "UNAVAILABLE"),
    ("TOO_LATE", "UNAVAILABLE"),
    ("PLACE_LOST", "UNAVAILABLE"),
    ("ATTEMPT_SHARED", "UNAVAILABLE"),
    ("REQUEST_TOO_SLOW", "UNAVAILABLE"),
    ("DRAINING", "UNAVAILABLE"),
    ("DEADLINE_OVER", "DEADLINE_EXCEEDED"),
    ("NOT_ALL_SERVERS", "FAILED_PRECONDITION"),
    ("BESIDE_CLASSIC", "FAILED_PRECONDITION"),
    ("TOKEN_OUTDATED", "ABORTED"),
    ("NOT_CONVERTIBLE", "FAILED_PRECONDITION"),
    ("MODE_MISMATCH", "FAILED_PRECONDITION"),
    ("PERMIT_LIMIT_MISMATCH", "FAILED_PRECONDITION"),
    ("TOKENS_EXHAUSTED", "FAILED_PRECONDITION"),
    ("CREDENTIALS_MISSING", "UNAUTHENTICATED"),
    ("CREDENTIALS_INVALID", "UNAUTHENTICATED"),
    ("CREDENTIALS_EXPIRED", "UNAUTHENTICATED"),
    ("NOT_PERMITTED", "PERMISSION_DENIED"),
    ("STORE_CORRUPT", "DATA_LOSS"),
];
/// Creates the table of fences. For PostgreSQL.
pub const GUARD_POSTGRES_CREATE: &str = r#"CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARCHAR(512) COLLATE "C" PRIMARY KEY,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) NOT NULL,
    shared_token BIGINT NOT NULL DEFAULT 0
)"#;
/// Counts the columns for shared locks in the table of fences: 1 or 0. For PostgreSQL.
pub const GUARD_POSTGRES_HAS_SHARED: &str = r#"SELECT count(*) AS found FROM pg_attribute
WHERE attrelid = to_regclass('fencepost_fences') AND attname = 'shared_token' AND NOT attisdropped"#;
/// Adds the column for shared locks to the table of fences. For PostgreSQL.
pub const GUARD_POSTGRES_ADD_SHARED: &str = r#"ALTER TABLE fencepost_fences
ADD COLUMN IF NOT EXISTS shared_token BIGINT NOT NULL DEFAULT 0"#;
/// Raises a fence. Parameters: lock name, token, grant id. For PostgreSQL.
pub const GUARD_POSTGRES_RAISE: &str = r#"INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id)
VALUES ($1, $2, $3)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id
WHERE excluded.token > fence.shared_token AND (excluded.token > fence.token
    OR (excluded.token = fence.token AND excluded.grant_id = fence.grant_id))
RETURNING token"#;
/// Reads a fence. Parameter: lock name. For PostgreSQL.
pub const GUARD_POSTGRES_NEWEST: &str = r#"SELECT GREATEST(token, shared_token) AS token FROM fencepost_fences
WHERE lock_name = $1"#;
/// Raises the shared token of a fence. Parameters: lock name, token, grant id. For PostgreSQL.
pub const GUARD_POSTGRES_RAISE_SHARED: &str = r#"INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id, shared_token)
VALUES ($1, 0, '', $2)
ON CONFLICT (lock_name) DO UPDATE SET shared_token = GREATEST(excluded.shared_token, fence.shared_token)
WHERE excluded.shared_token > fence.token OR (excluded.shared_token = fence.token AND fence.grant_id = $3)
RETURNING shared_token"#;
/// Locks a fence for readers. Parameters: lock name, token (three times if it is a ?), grant id. For
/// PostgreSQL.
pub const GUARD_POSTGRES_CHECK_SHARED: &str = r#"SELECT token FROM fencepost_fences
WHERE lock_name = $1 AND shared_token >= $2
    AND (token < $2 OR (token = $2 AND grant_id = $3))
FOR SHARE"#;
/// Creates the table of fences. For MySQL and MariaDB.
pub const GUARD_MYSQL_CREATE: &str = r#"CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARBINARY(512) PRIMARY KEY,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    shared_token BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB"#;
/// Counts the columns for shared locks in the table of fences: 1 or 0. For MySQL and MariaDB.
pub const GUARD_MYSQL_HAS_SHARED: &str = r#"SELECT COUNT(*) AS found FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'fencepost_fences' AND column_name = 'shared_token'"#;
/// Adds the column for shared locks to the table of fences. For MySQL and MariaDB.
pub const GUARD_MYSQL_ADD_SHARED: &str = r#"ALTER TABLE fencepost_fences
ADD COLUMN shared_token BIGINT NOT NULL DEFAULT 0"#;
/// Raises a fence. Parameters: lock name, token, grant id. For MySQL and MariaDB.
pub const GUARD_MYSQL_RAISE: &str = r#"INSERT INTO fencepost_fences (lock_name, token, grant_id)
VALUES (CONVERT(? USING utf8mb4), ?, ?)
ON DUPLICATE KEY UPDATE
    grant_id = IF(VALUES(token) > GREATEST(token, shared_token), VALUES(grant_id), grant_id),
    token = IF(VALUES(token) > GREATEST(token, shared_token), VALUES(token), token)"#;
/// Reads a fence. Parameter: lock name. For MySQL and MariaDB.
pub const GUARD_MYSQL_NEWEST: &str = r#"SELECT GREATEST(token, shared_token) AS token, IF(shared_token < token, grant_id, NULL) AS grant_id
FROM fencepost_fences WHERE lock_name = CONVERT(? USING utf8mb4) FOR UPDATE"#;
/// Raises the shared token of a fence. Parameters: lock name, token, grant id. For MySQL and MariaDB.
pub const GUARD_MYSQL_RAISE_SHARED: &str = r#"INSERT INTO fencepost_fences (lock_name, token, grant_id, shared_token)
VALUES (CONVERT(? USING utf8mb4), 0, '', ?)
ON DUPLICATE KEY UPDATE shared_token = IF(
    VALUES(shared_token) > token OR (VALUES(shared_token) = token AND grant_id = ?),
    GREATEST(VALUES(shared_token), shared_token), shared_token)"#;
/// Locks a fence for readers. Parameters: lock name, token (three times if it is a ?), grant id. For
/// MySQL and MariaDB.
pub const GUARD_MYSQL_CHECK_SHARED: &str = r#"SELECT token FROM fencepost_fences
WHERE lock_name = CONVERT(? USING utf8mb4) AND shared_token >= ?
    AND (token < ? OR (token = ? AND grant_id = ?))
LOCK IN SHARE MODE"#;
/// Reads a fence for a reader. Parameter: lock name. For MySQL and MariaDB.
pub const GUARD_MYSQL_NEWEST_SHARED: &str = r#"SELECT GREATEST(token, shared_token) AS token FROM fencepost_fences
WHERE lock_name = CONVERT(? USING utf8mb4) LOCK IN SHARE MODE"#;
/// Creates the table of fences. For SQLite.
pub const GUARD_SQLITE_CREATE: &str = r#"CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARCHAR(512) PRIMARY KEY NOT NULL,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) NOT NULL,
    shared_token BIGINT NOT NULL DEFAULT 0
)"#;
/// Counts the columns for shared locks in the table of fences: 1 or 0. For SQLite.
pub const GUARD_SQLITE_HAS_SHARED: &str = r#"SELECT count(*) AS found FROM pragma_table_info('fencepost_fences')
WHERE name = 'shared_token'"#;
/// Adds the column for shared locks to the table of fences. For SQLite.
pub const GUARD_SQLITE_ADD_SHARED: &str = r#"ALTER TABLE fencepost_fences
ADD COLUMN shared_token BIGINT NOT NULL DEFAULT 0"#;
/// Raises a fence. Parameters: lock name, token, grant id. For SQLite.
pub const GUARD_SQLITE_RAISE: &str = r#"INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id)
VALUES (?, ?, ?)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id
WHERE excluded.token > fence.shared_token AND (excluded.token > fence.token
    OR (excluded.token = fence.token AND excluded.grant_id = fence.grant_id))
RETURNING token"#;
/// Reads a fence. Parameter: lock name. For SQLite.
pub const GUARD_SQLITE_NEWEST: &str = r#"SELECT MAX(token, shared_token) AS token FROM fencepost_fences
WHERE lock_name = ?"#;
/// Raises the shared token of a fence. Parameters: lock name, token, grant id. For SQLite.
pub const GUARD_SQLITE_RAISE_SHARED: &str = r#"INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id, shared_token)
VALUES (?, 0, '', ?)
ON CONFLICT (lock_name) DO UPDATE SET shared_token = MAX(excluded.shared_token, fence.shared_token)
WHERE excluded.shared_token > fence.token OR (excluded.shared_token = fence.token AND fence.grant_id = ?)
RETURNING shared_token"#;
/// Locks a fence for readers. Parameters: lock name, token (three times if it is a ?), grant id. For
/// SQLite.
pub const GUARD_SQLITE_CHECK_SHARED: &str = r#"SELECT token FROM fencepost_fences
WHERE lock_name = ? AND shared_token >= ?
    AND (token < ? OR (token = ? AND grant_id = ?))"#;
/// Raises a fence in Redis. Append the script that writes. Keys: the fence. Arguments: token, grant id.
pub const GUARD_REDIS_RAISE: &str = r#"do
    local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id', 'shared')
    local writer, shared, token = tonumber(fence[1] or 0), tonumber(fence[3] or 0), tonumber(ARGV[1])
    if not (token > shared and (token > writer or token == writer and fence[2] == ARGV[2])) then
        return redis.error_reply('STALE ' .. string.format('%.0f', math.max(writer, shared)))
    end
    redis.call('HSET', KEYS[1], 'token', ARGV[1], 'grant_id', ARGV[2])
end"#;
/// Raises the shared token of a fence in Redis. Keys: the fence. Arguments: token, grant id.
pub const GUARD_REDIS_RAISE_SHARED: &str = r#"local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id', 'shared')
local writer, shared, token = tonumber(fence[1] or 0), tonumber(fence[3] or 0), tonumber(ARGV[1])
if not (token > writer or token == writer and fence[2] == ARGV[2]) then
    return redis.error_reply('STALE ' .. string.format('%.0f', math.max(writer, shared)))
end
if token > shared then
    redis.call('HSET', KEYS[1], 'shared', ARGV[1])
end"#;
/// Checks the token of a reader in Redis. Append the script that does its work. Keys: the fence.
/// Arguments: token, grant id.
pub const GUARD_REDIS_CHECK_SHARED: &str = r#"do
    local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id', 'shared')
    local writer, shared, token = tonumber(fence[1] or 0), tonumber(fence[3] or 0), tonumber(ARGV[1])
    if not (token <= shared and (token > writer or token == writer and fence[2] == ARGV[2])) then
        return redis.error_reply('STALE ' .. string.format('%.0f', math.max(writer, shared)))
    end
end"#;

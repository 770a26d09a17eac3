// Written by clients/facts/generate.py: change clients/facts.json, clients/guards or lock.proto, and run it.

// The port of an address without one.
export const DEFAULT_PORT = 7420;
// The server if neither the caller nor the environment names one.
export const DEFAULT_SERVER = "127.0.0.1:7420";
// The environment variable that names the servers, separated by commas.
export const ENVIRONMENT_SERVER = "FENCEPOST_SERVER";
// The environment variable that names the PEM file of the authorities that sign the servers'
// certificates.
export const ENVIRONMENT_CA = "FENCEPOST_CA";
// The environment variable that names the PEM file of the client's certificate.
export const ENVIRONMENT_CERT = "FENCEPOST_CERT";
// The environment variable that names the PEM file of the key of the client's certificate.
export const ENVIRONMENT_KEY = "FENCEPOST_KEY";
// The environment variable that names the file with the bearer token alone, for servers that ask for
// credentials.
export const ENVIRONMENT_CREDENTIALS = "FENCEPOST_CREDENTIALS";
// The TTL that a server gives a lease if the caller names none, unless it is configured otherwise.
// Clients then send no TTL.
export const DEFAULT_TTL_MS = 30000;
// The shortest TTL that a server accepts, unless it is configured otherwise.
export const TTL_MIN_MS = 1000;
// The longest TTL that a server accepts, unless it is configured otherwise.
export const TTL_MAX_MS = 86400000;
// The longest max_hold that a server accepts. The shortest is the TTL.
export const MAX_HOLD_MAX_MS = 604800000;
// The longest min_hold that a server accepts.
export const MIN_HOLD_MAX_MS = 86400000;
// The longest lock_delay that a server accepts.
export const LOCK_DELAY_MAX_MS = 60000;
// The longest wait that a server accepts, unless it is configured otherwise.
export const WAIT_MAX_MS = 3600000;
// The maximum length of a lock name in bytes of UTF-8. The minimum is 1.
export const NAME_BYTES_MAX = 512;
// The maximum length of a holder label in bytes of UTF-8.
export const HOLDER_BYTES_MAX = 256;
// The maximum size of the metadata of a request, keys and values together.
export const METADATA_BYTES_MAX = 4096;
// The maximum size of a request message, also of one message of a stream.
export const REQUEST_BYTES_MAX = 65536;
// The highest fencing token: 2^53 - 1, so that a double holds each token exactly.
export const TOKEN_MAX = 9007199254740991;
// The highest limit of a semaphore. The lowest is 1.
export const PERMITS_MAX = 1000000;
// The maximum number of locks on one page of a listing.
export const PAGE_SIZE_MAX = 1000;
// The part of the TTL that a holder keeps back because clocks run at different rates: 1 %.
export const DRIFT_DIVISOR = 100;
// The part of the TTL that a holder keeps back for the time between a check and the action that
// follows, at least MARGIN_MIN_MS.
export const MARGIN_DIVISOR = 20;
// The minimum of that margin.
export const MARGIN_MIN_MS = 20;
// A grant of which less than this part of the TTL is left on arrival is renewed before it is used.
export const LATE_DIVISOR = 2;
// A stream without a message for this part of the shortest TTL is dead.
export const SILENCE_DIVISOR = 2;
// How long one attempt to connect to a server may take.
export const CONNECT_TIMEOUT_MS = 2000;
// The first pause before a retry. It doubles each time, and a random part of it is taken.
export const RETRY_FIRST_MS = 50;
// The longest pause before a retry, unless the server asks for more (RetryInfo).
export const RETRY_MAX_MS = 1000;
// The first pause before the next session is opened while no server answers. It doubles each time.
export const RECONNECT_FIRST_MS = 50;
// The longest pause before the next session is opened.
export const RECONNECT_MAX_MS = 2000;
// How long a session without leases and operations is kept open for the next ones.
export const LINGER_MS = 5000;
// The domain of the google.rpc.ErrorInfo of all errors.
export const ERROR_DOMAIN = "fencepost";
// The holder label of a client that uses Redis directly, on a server with --classic-prefix.
export const CLASSIC_HOLDER = "classic client";
// The reason of a revocation because the stream of a lease with release_on_disconnect ended.
export const STREAM_ENDED = "stream ended";
// How long a call is repeated while no server answers it, in addition to its wait, if the caller names
// no time.
export const RETRY_FOR_MS = 10000;
// The metadata with which a server that answers Session, KeepAlive or a health check tells the id of
// its store. Servers with the same id share their locks.
export const STORE_ID_METADATA = "fencepost-store-id";
// A warning when a client with several servers opens a session. Follows the server's address; {} is
// the address of another server of the client.
export const OTHER_STORE = "does not have the store that {} had: unless that store was made anew, start both servers with the same --store, because a lock of one excludes nobody on the other";
// The server accepted a connection and sent nothing. Follows the server's address.
export const NOT_GRPC_SILENT = "does not speak gRPC, or hangs (it accepted the connection and sent nothing)";
// The server closed a connection before it sent anything. Follows the server's address.
export const NOT_GRPC_CLOSED = "does not speak gRPC (it closed the connection and sent nothing)";
// The same of a TCP connection without TLS. Follows the server's address.
export const NOT_GRPC_CLOSED_PLAIN = "does not speak gRPC without TLS (it closed the connection and sent nothing); if it is a port with TLS, write https:// in front of the address";
// The server answered plain text with a TLS alert. Permanent. Follows the server's address.
export const NOT_GRPC_TLS_ALERT = "does not speak gRPC without TLS (it sent a TLS alert); write https:// in front of the address";
// The first bytes of the connection are not HTTP/2: the first line, quoted, or NOT_GRPC_BYTES.
// Permanent. Follows the server's address.
export const NOT_GRPC_OTHER = "does not speak gRPC (it sent {})";
// What NOT_GRPC_OTHER shows if the first line is not text.
export const NOT_GRPC_BYTES = "bytes that are not HTTP/2";
// The server speaks gRPC or HTTP/2 and answers UNIMPLEMENTED. Permanent. Follows the server's address.
export const NOT_FENCEPOST = "does not implement this call: it is not a Fencepost server, or older than this client, or this is its admin port";
// The server answered a TLS handshake with other bytes. Permanent. Follows the server's address and a
// colon.
export const TLS_NOT_TLS = "the server does not speak TLS on this port; if it is a port without TLS, write the address without https://";
// Permanent. Follows the server's address and a colon.
export const TLS_UNTRUSTED = "the server's certificate is not trusted: it is self-signed, or its authority is not among the trusted ones";
// Permanent. Follows the server's address and a colon.
export const TLS_EXPIRED = "the server's certificate has expired, by the clock of this machine";
// Permanent. Follows the server's address and a colon. The names of the certificate may follow.
export const TLS_WRONG_NAME = "the server's certificate is not valid for this name";
// Permanent. Follows the server's address and a colon.
export const TLS_CLIENT_CERTIFICATE_MISSING = "the server asks for a client certificate, and none was given";
// Permanent. Follows the server's address and a colon. The TLS alert may follow.
export const TLS_CLIENT_CERTIFICATE_REFUSED = "the server refused the client certificate";
// Follows the error of a call whose last try got no answer, and a semicolon; {} is what a server
// answered to an earlier try: code, reason in brackets, colon, message.
export const LAST_ANSWER = "the last answer was {}";
// The maximum number of locks that one call acquires together.
export const SET_NAMES_MAX = 64;
// Why a lock is lost: no renewal got through in time, or the process was paused.
export const LOST_SILENCE = "its validity ended before a renewal arrived";
// Why a lock is lost: it was held for as long as max_hold allows, and no renewal extends it.
export const LOST_MAX_HOLD = "it was held for its max_hold";
// Why a lock is lost: the server reports that the TTL passed without a renewal.
export const LOST_EXPIRED = "the lease expired";
// Why a lock is lost: an operator or the server took it back.
export const LOST_REVOKED = "the lease was revoked";
// Why a lock is lost: the lease ended longer ago than the server remembers, and another lease was
// granted.
export const LOST_SUPERSEDED = "another lease was granted since";
// Why a lock is lost: the lease ended longer ago than the server remembers.
export const LOST_UNKNOWN = "the server does not know the lease";
// Why a lock is lost: somebody else who knows the lease id released it.
export const LOST_RELEASED = "the lease was released elsewhere";
// The reasons of errors, and their gRPC codes.
export const REASONS: Readonly<Record<string, string>> = {
  INVALID_FIELD: "INVALID_ARGUMENT",
  OVERTAKEN: "ABORTED",
  REQUEST_ENDED: "ABORTED",
  QUEUE_FULL: "RESOURCE_EXHAUSTED",
  SERVER_FULL: "RESOURCE_EXHAUSTED",
  SESSION_FULL: "RESOURCE_EXHAUSTED",
  WATCHERS_FULL: "RESOURCE_EXHAUSTED",
  QUOTA_EXCEEDED: "RESOURCE_EXHAUSTED",
  OUTCOME_UNKNOWN: "UNAVAILABLE",
  STORE_UNAVAILABLE: "UNAVAILABLE",
  STORE_OVERLOADED: "UNAVAILABLE",
  TOO_LATE: "UNAVAILABLE",
  PLACE_LOST: "UNAVAILABLE",
  ATTEMPT_SHARED: "UNAVAILABLE",
  REQUEST_TOO_SLOW: "UNAVAILABLE",
  DRAINING: "UNAVAILABLE",
  DEADLINE_OVER: "DEADLINE_EXCEEDED",
  NOT_ALL_SERVERS: "FAILED_PRECONDITION",
  BESIDE_CLASSIC: "FAILED_PRECONDITION",
  TOKEN_OUTDATED: "ABORTED",
  NOT_CONVERTIBLE: "FAILED_PRECONDITION",
  MODE_MISMATCH: "FAILED_PRECONDITION",
  PERMIT_LIMIT_MISMATCH: "FAILED_PRECONDITION",
  TOKENS_EXHAUSTED: "FAILED_PRECONDITION",
  CREDENTIALS_MISSING: "UNAUTHENTICATED",
  CREDENTIALS_INVALID: "UNAUTHENTICATED",
  CREDENTIALS_EXPIRED: "UNAUTHENTICATED",
  NOT_PERMITTED: "PERMISSION_DENIED",
  STORE_CORRUPT: "DATA_LOSS",
};
// Creates the table of fences. For PostgreSQL.
export const GUARD_POSTGRES_CREATE = `CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARCHAR(512) COLLATE "C" PRIMARY KEY,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) NOT NULL,
    shared_token BIGINT NOT NULL DEFAULT 0
)`;
// Counts the columns for shared locks in the table of fences: 1 or 0. For PostgreSQL.
export const GUARD_POSTGRES_HAS_SHARED = `SELECT count(*) AS found FROM pg_attribute
WHERE attrelid = to_regclass('fencepost_fences') AND attname = 'shared_token' AND NOT attisdropped`;
// Adds the column for shared locks to the table of fences. For PostgreSQL.
export const GUARD_POSTGRES_ADD_SHARED = `ALTER TABLE fencepost_fences
ADD COLUMN IF NOT EXISTS shared_token BIGINT NOT NULL DEFAULT 0`;
// Raises a fence. Parameters: lock name, token, grant id. For PostgreSQL.
export const GUARD_POSTGRES_RAISE = `INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id)
VALUES ($1, $2, $3)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id
WHERE excluded.token > fence.shared_token AND (excluded.token > fence.token
    OR (excluded.token = fence.token AND excluded.grant_id = fence.grant_id))
RETURNING token`;
// Reads a fence. Parameter: lock name. For PostgreSQL.
export const GUARD_POSTGRES_NEWEST = `SELECT GREATEST(token, shared_token) AS token FROM fencepost_fences
WHERE lock_name = $1`;
// Raises the shared token of a fence. Parameters: lock name, token, grant id. For PostgreSQL.
export const GUARD_POSTGRES_RAISE_SHARED = `INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id, shared_token)
VALUES ($1, 0, '', $2)
ON CONFLICT (lock_name) DO UPDATE SET shared_token = GREATEST(excluded.shared_token, fence.shared_token)
WHERE excluded.shared_token > fence.token OR (excluded.shared_token = fence.token AND fence.grant_id = $3)
RETURNING shared_token`;
// Locks a fence for readers. Parameters: lock name, token (three times if it is a ?), grant id. For
// PostgreSQL.
export const GUARD_POSTGRES_CHECK_SHARED = `SELECT token FROM fencepost_fences
WHERE lock_name = $1 AND shared_token >= $2
    AND (token < $2 OR (token = $2 AND grant_id = $3))
FOR SHARE`;
// Creates the table of fences. For MySQL and MariaDB.
export const GUARD_MYSQL_CREATE = `CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARBINARY(512) PRIMARY KEY,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    shared_token BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB`;
// Counts the columns for shared locks in the table of fences: 1 or 0. For MySQL and MariaDB.
export const GUARD_MYSQL_HAS_SHARED = `SELECT COUNT(*) AS found FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'fencepost_fences' AND column_name = 'shared_token'`;
// Adds the column for shared locks to the table of fences. For MySQL and MariaDB.
export const GUARD_MYSQL_ADD_SHARED = `ALTER TABLE fencepost_fences
ADD COLUMN shared_token BIGINT NOT NULL DEFAULT 0`;
// Raises a fence. Parameters: lock name, token, grant id. For MySQL and MariaDB.
export const GUARD_MYSQL_RAISE = `INSERT INTO fencepost_fences (lock_name, token, grant_id)
VALUES (CONVERT(? USING utf8mb4), ?, ?)
ON DUPLICATE KEY UPDATE
    grant_id = IF(VALUES(token) > GREATEST(token, shared_token), VALUES(grant_id), grant_id),
    token = IF(VALUES(token) > GREATEST(token, shared_token), VALUES(token), token)`;
// Reads a fence. Parameter: lock name. For MySQL and MariaDB.
export const GUARD_MYSQL_NEWEST = `SELECT GREATEST(token, shared_token) AS token, IF(shared_token < token, grant_id, NULL) AS grant_id
FROM fencepost_fences WHERE lock_name = CONVERT(? USING utf8mb4) FOR UPDATE`;
// Raises the shared token of a fence. Parameters: lock name, token, grant id. For MySQL and MariaDB.
export const GUARD_MYSQL_RAISE_SHARED = `INSERT INTO fencepost_fences (lock_name, token, grant_id, shared_token)
VALUES (CONVERT(? USING utf8mb4), 0, '', ?)
ON DUPLICATE KEY UPDATE shared_token = IF(
    VALUES(shared_token) > token OR (VALUES(shared_token) = token AND grant_id = ?),
    GREATEST(VALUES(shared_token), shared_token), shared_token)`;
// Locks a fence for readers. Parameters: lock name, token (three times if it is a ?), grant id. For
// MySQL and MariaDB.
export const GUARD_MYSQL_CHECK_SHARED = `SELECT token FROM fencepost_fences
WHERE lock_name = CONVERT(? USING utf8mb4) AND shared_token >= ?
    AND (token < ? OR (token = ? AND grant_id = ?))
LOCK IN SHARE MODE`;
// Reads a fence for a reader. Parameter: lock name. For MySQL and MariaDB.
export const GUARD_MYSQL_NEWEST_SHARED = `SELECT GREATEST(token, shared_token) AS token FROM fencepost_fences
WHERE lock_name = CONVERT(? USING utf8mb4) LOCK IN SHARE MODE`;
// Creates the table of fences. For SQLite.
export const GUARD_SQLITE_CREATE = `CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARCHAR(512) PRIMARY KEY NOT NULL,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) NOT NULL,
    shared_token BIGINT NOT NULL DEFAULT 0
)`;
// Counts the columns for shared locks in the table of fences: 1 or 0. For SQLite.
export const GUARD_SQLITE_HAS_SHARED = `SELECT count(*) AS found FROM pragma_table_info('fencepost_fences')
WHERE name = 'shared_token'`;
// Adds the column for shared locks to the table of fences. For SQLite.
export const GUARD_SQLITE_ADD_SHARED = `ALTER TABLE fencepost_fences
ADD COLUMN shared_token BIGINT NOT NULL DEFAULT 0`;
// Raises a fence. Parameters: lock name, token, grant id. For SQLite.
export const GUARD_SQLITE_RAISE = `INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id)
VALUES (?, ?, ?)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id
WHERE excluded.token > fence.shared_token AND (excluded.token > fence.token
    OR (excluded.token = fence.token AND excluded.grant_id = fence.grant_id))
RETURNING token`;
// Reads a fence. Parameter: lock name. For SQLite.
export const GUARD_SQLITE_NEWEST = `SELECT MAX(token, shared_token) AS token FROM fencepost_fences
WHERE lock_name = ?`;
// Raises the shared token of a fence. Parameters: lock name, token, grant id. For SQLite.
export const GUARD_SQLITE_RAISE_SHARED = `INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id, shared_token)
VALUES (?, 0, '', ?)
ON CONFLICT (lock_name) DO UPDATE SET shared_token = MAX(excluded.shared_token, fence.shared_token)
WHERE excluded.shared_token > fence.token OR (excluded.shared_token = fence.token AND fence.grant_id = ?)
RETURNING shared_token`;
// Locks a fence for readers. Parameters: lock name, token (three times if it is a ?), grant id. For
// SQLite.
export const GUARD_SQLITE_CHECK_SHARED = `SELECT token FROM fencepost_fences
WHERE lock_name = ? AND shared_token >= ?
    AND (token < ? OR (token = ? AND grant_id = ?))`;
// Raises a fence in Redis. Append the script that writes. Keys: the fence. Arguments: token, grant id.
export const GUARD_REDIS_RAISE = `do
    local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id', 'shared')
    local writer, shared, token = tonumber(fence[1] or 0), tonumber(fence[3] or 0), tonumber(ARGV[1])
    if not (token > shared and (token > writer or token == writer and fence[2] == ARGV[2])) then
        return redis.error_reply('STALE ' .. string.format('%.0f', math.max(writer, shared)))
    end
    redis.call('HSET', KEYS[1], 'token', ARGV[1], 'grant_id', ARGV[2])
end`;
// Raises the shared token of a fence in Redis. Keys: the fence. Arguments: token, grant id.
export const GUARD_REDIS_RAISE_SHARED = `local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id', 'shared')
local writer, shared, token = tonumber(fence[1] or 0), tonumber(fence[3] or 0), tonumber(ARGV[1])
if not (token > writer or token == writer and fence[2] == ARGV[2]) then
    return redis.error_reply('STALE ' .. string.format('%.0f', math.max(writer, shared)))
end
if token > shared then
    redis.call('HSET', KEYS[1], 'shared', ARGV[1])
end`;
// Checks the token of a reader in Redis. Append the script that does its work. Keys: the fence.
// Arguments: token, grant id.
export const GUARD_REDIS_CHECK_SHARED = `do
    local fence = redis.call('HMGET', KEYS[1], 'token', 'grant_id', 'shared')
    local writer, shared, token = tonumber(fence[1] or 0), tonumber(fence[3] or 0), tonumber(ARGV[1])
    if not (token <= shared and (token > writer or token == writer and fence[2] == ARGV[2])) then
        return redis.error_reply('STALE ' .. string.format('%.0f', math.max(writer, shared)))
    end
end`;

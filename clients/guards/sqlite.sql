-- The guard for SQLite 3.35 and later: the highest token of a writer that each lock has shown, with the grant that it
-- belongs to, and the highest token of a reader, which holds the lock shared.
--
-- In the transaction of the write (BEGIN IMMEDIATE): raise first, then read, then write. If raise returns no row, the
-- token is stale: roll back.
--
-- A reader runs raise_shared once after its grant, in a transaction of its own. Then check_shared is the first
-- statement of each transaction of its work. If one of them returns no row, the token is stale, or was never raised.

-- name: create
CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARCHAR(512) PRIMARY KEY NOT NULL,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) NOT NULL,
    shared_token BIGINT NOT NULL DEFAULT 0
);

-- Whether the table is there with the column for shared locks.
-- name: has_shared
SELECT count(*) AS found FROM pragma_table_info('fencepost_fences')
WHERE name = 'shared_token';

-- Adds that column to a table of an earlier version. Fails if it is there: another process may have been faster.
-- name: add_shared
ALTER TABLE fencepost_fences
ADD COLUMN shared_token BIGINT NOT NULL DEFAULT 0;

-- name: raise
INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id)
VALUES (:lock_name, :token, :grant_id)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id
WHERE excluded.token > fence.shared_token AND (excluded.token > fence.token
    OR (excluded.token = fence.token AND excluded.grant_id = fence.grant_id))
RETURNING token;

-- The highest token, for the error.
-- name: newest
SELECT MAX(token, shared_token) AS token FROM fencepost_fences
WHERE lock_name = :lock_name;

-- The grant is compared only for a lock that was downgraded: it goes on with the token of its writer.
-- name: raise_shared
INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id, shared_token)
VALUES (:lock_name, 0, '', :token)
ON CONFLICT (lock_name) DO UPDATE SET shared_token = MAX(excluded.shared_token, fence.shared_token)
WHERE excluded.shared_token > fence.token OR (excluded.shared_token = fence.token AND fence.grant_id = :grant_id)
RETURNING shared_token;

-- A transaction that has read keeps its view of the database, and cannot write if another one has written since.
-- name: check_shared
SELECT token FROM fencepost_fences
WHERE lock_name = :lock_name AND shared_token >= :token
    AND (token < :token OR (token = :token AND grant_id = :grant_id));

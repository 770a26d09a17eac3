-- The guard for PostgreSQL: the highest token of a writer that each lock has shown, with the grant that it belongs to,
-- and the highest token of a reader, which holds the lock shared.
--
-- In the transaction of the write: raise first, then read, then write. If raise returns no row, the token is stale:
-- roll back. The row stays locked until the end of the transaction, so no other holder writes in between. Under
-- REPEATABLE READ and SERIALIZABLE, raise may fail with 40001, and a deadlock ends with 40P01: run the whole
-- transaction again.
--
-- A reader runs raise_shared once after its grant, in a transaction of its own. Then check_shared is the first
-- statement of each transaction of its work. If one of them returns no row, the token is stale, or was never raised.
--
-- Processes that create the table at the same time may get 23505: it is there then.

-- name: create
CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARCHAR(512) COLLATE "C" PRIMARY KEY,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) NOT NULL,
    shared_token BIGINT NOT NULL DEFAULT 0
);

-- Whether the table is there with the column for shared locks. Before add_shared, because that one waits for all
-- transactions that use the table, also where it has nothing to add.
-- name: has_shared
SELECT count(*) AS found FROM pg_attribute
WHERE attrelid = to_regclass('fencepost_fences') AND attname = 'shared_token' AND NOT attisdropped;

-- Adds that column to a table of an earlier version.
-- name: add_shared
ALTER TABLE fencepost_fences
ADD COLUMN IF NOT EXISTS shared_token BIGINT NOT NULL DEFAULT 0;

-- name: raise
INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id)
VALUES (:lock_name, :token, :grant_id)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id
WHERE excluded.token > fence.shared_token AND (excluded.token > fence.token
    OR (excluded.token = fence.token AND excluded.grant_id = fence.grant_id))
RETURNING token;

-- The highest token, for the error.
-- name: newest
SELECT GREATEST(token, shared_token) AS token FROM fencepost_fences
WHERE lock_name = :lock_name;

-- The grant is compared only for a lock that was downgraded: it goes on with the token of its writer.
-- name: raise_shared
INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id, shared_token)
VALUES (:lock_name, 0, '', :token)
ON CONFLICT (lock_name) DO UPDATE SET shared_token = GREATEST(excluded.shared_token, fence.shared_token)
WHERE excluded.shared_token > fence.token OR (excluded.shared_token = fence.token AND fence.grant_id = :grant_id)
RETURNING shared_token;

-- FOR SHARE: a writer waits for the end of the transaction, and other readers do not.
-- name: check_shared
SELECT token FROM fencepost_fences
WHERE lock_name = :lock_name AND shared_token >= :token
    AND (token < :token OR (token = :token AND grant_id = :grant_id))
FOR SHARE;

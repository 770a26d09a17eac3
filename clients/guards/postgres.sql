-- The guard for PostgreSQL: the highest token that each lock has shown, and the grant that it belongs to.
--
-- In the transaction of the write: raise first, then read, then write. If raise returns no row, the token is stale: roll
-- back. The row stays locked until the end of the transaction, so no other holder writes in between. Under REPEATABLE
-- READ and SERIALIZABLE, raise may fail with 40001, and a deadlock ends with 40P01: run the whole transaction again.
-- Processes that create the table at the same time may get 23505: it is there then.

-- name: create
CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARCHAR(512) COLLATE "C" PRIMARY KEY,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) NOT NULL
);

-- name: raise
INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id)
VALUES (:lock_name, :token, :grant_id)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id
WHERE excluded.token > fence.token OR (excluded.token = fence.token AND excluded.grant_id = fence.grant_id)
RETURNING token;

-- The highest token, for the error.
-- name: newest
SELECT token FROM fencepost_fences WHERE lock_name = :lock_name;

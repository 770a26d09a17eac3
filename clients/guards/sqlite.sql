-- The guard for SQLite 3.35 and later: the highest token that each lock has shown, and the grant that it belongs to.
--
-- In the transaction of the write (BEGIN IMMEDIATE): raise first, then read, then write. If raise returns no row, the
-- token is stale: roll back.

-- name: create
CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARCHAR(512) PRIMARY KEY NOT NULL,
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

-- The guard for MySQL and MariaDB: the highest token that each lock has shown, and the grant that it belongs to.
--
-- In the transaction of the write: raise and newest first, then read, then write. If newest returns another token or
-- another grant_id than those of the holder, the token is stale: roll back. The number of affected rows does not tell: it
-- is the same for a stale token and for one that was there already. The row stays locked until the end of the
-- transaction. A deadlock of several locks ends with error 1213: run the whole transaction again.
--
-- Under REPEATABLE READ a transaction goes on reading what its first plain read found. So one that reads before it
-- raises, or begins WITH CONSISTENT SNAPSHOT, misses the last writes of the earlier holder.

-- A VARBINARY compares names byte by byte, without regard to case or trailing spaces.
-- name: create
CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARBINARY(512) PRIMARY KEY,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
) ENGINE = InnoDB;

-- CONVERT: a name has the same bytes whatever the character set of the connection.
-- The assignments are evaluated from left to right: grant_id compares with the token from before.
-- name: raise
INSERT INTO fencepost_fences (lock_name, token, grant_id)
VALUES (CONVERT(:lock_name USING utf8mb4), :token, :grant_id)
ON DUPLICATE KEY UPDATE
    grant_id = IF(VALUES(token) > token, VALUES(grant_id), grant_id),
    token = GREATEST(VALUES(token), token);

-- FOR UPDATE: a plain read may see an older version of the row under REPEATABLE READ.
-- name: newest
SELECT token, grant_id FROM fencepost_fences
WHERE lock_name = CONVERT(:lock_name USING utf8mb4) FOR UPDATE;

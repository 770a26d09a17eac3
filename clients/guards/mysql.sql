-- The guard for MySQL and MariaDB: the highest token of a writer that each lock has shown, with the grant that it
-- belongs to, and the highest token of a reader, which holds the lock shared.
--
-- In the transaction of the write: raise and newest first, then read, then write. If newest returns another token or
-- another grant_id than those of the holder, the token is stale: roll back. The number of affected rows does not tell:
-- it is the same for a stale token and for one that was there already. The row stays locked until the end of the
-- transaction. A deadlock of several locks ends with error 1213: run the whole transaction again.
--
-- Under REPEATABLE READ a transaction goes on reading what its first plain read found. So one that reads before it
-- raises, or begins WITH CONSISTENT SNAPSHOT, misses the last writes of the earlier holder.
--
-- A reader runs raise_shared once after its grant, in a transaction of its own, and check_shared after it. Then
-- check_shared is the first statement of each transaction of its work. If it returns no row, the token is stale, or was
-- never raised.

-- A VARBINARY compares names byte by byte, without regard to case or trailing spaces.
-- name: create
CREATE TABLE IF NOT EXISTS fencepost_fences (
    lock_name VARBINARY(512) PRIMARY KEY,
    token BIGINT NOT NULL,
    grant_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    shared_token BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;

-- Whether the table is there with the column for shared locks. MySQL has no ADD COLUMN IF NOT EXISTS.
-- name: has_shared
SELECT COUNT(*) AS found FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'fencepost_fences' AND column_name = 'shared_token';

-- Adds that column to a table of an earlier version. Fails if it is there: another process may have been faster.
-- name: add_shared
ALTER TABLE fencepost_fences
ADD COLUMN shared_token BIGINT NOT NULL DEFAULT 0;

-- CONVERT: a name has the same bytes whatever the character set of the connection.
-- The assignments are evaluated from left to right: grant_id compares with the token from before.
-- name: raise
INSERT INTO fencepost_fences (lock_name, token, grant_id)
VALUES (CONVERT(:lock_name USING utf8mb4), :token, :grant_id)
ON DUPLICATE KEY UPDATE
    grant_id = IF(VALUES(token) > GREATEST(token, shared_token), VALUES(grant_id), grant_id),
    token = IF(VALUES(token) > GREATEST(token, shared_token), VALUES(token), token);

-- The highest token, and the grant that it belongs to if it is that of a writer.
-- FOR UPDATE: a plain read may see an older version of the row under REPEATABLE READ.
-- name: newest
SELECT GREATEST(token, shared_token) AS token, IF(shared_token < token, grant_id, NULL) AS grant_id
FROM fencepost_fences WHERE lock_name = CONVERT(:lock_name USING utf8mb4) FOR UPDATE;

-- The grant is compared only for a lock that was downgraded: it goes on with the token of its writer.
-- name: raise_shared
INSERT INTO fencepost_fences (lock_name, token, grant_id, shared_token)
VALUES (CONVERT(:lock_name USING utf8mb4), 0, '', :token)
ON DUPLICATE KEY UPDATE shared_token = IF(
    VALUES(shared_token) > token OR (VALUES(shared_token) = token AND grant_id = :grant_id),
    GREATEST(VALUES(shared_token), shared_token), shared_token);

-- LOCK IN SHARE MODE, which MariaDB knows and FOR SHARE it does not: a writer waits for the end of the transaction, and
-- other readers do not.
-- name: check_shared
SELECT token FROM fencepost_fences
WHERE lock_name = CONVERT(:lock_name USING utf8mb4) AND shared_token >= :token
    AND (token < :token OR (token = :token AND grant_id = :grant_id))
LOCK IN SHARE MODE;

-- The highest token, for the error of a reader, who does not wait for other readers.
-- name: newest_shared
SELECT GREATEST(token, shared_token) AS token FROM fencepost_fences
WHERE lock_name = CONVERT(:lock_name USING utf8mb4) LOCK IN SHARE MODE;

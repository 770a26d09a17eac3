-- A fence for MySQL and MariaDB. Raise it in the transaction of the write, before the write:
--
--   START TRANSACTION;
--   (the INSERT and the SELECT below; if the SELECT returns another grant_id than yours, ROLLBACK: the token is stale)
--   (your writes)
--   COMMIT;

CREATE TABLE IF NOT EXISTS fence (
    lock_name VARBINARY(512) PRIMARY KEY,
    token     BIGINT NOT NULL,   -- the highest token seen
    grant_id  CHAR(36) NOT NULL  -- the grant with that token
);

-- Evaluated from left to right: grant_id compares with the token from before.
INSERT INTO fence (lock_name, token, grant_id) VALUES (:lock_name, :token, :grant_id)
ON DUPLICATE KEY UPDATE
    grant_id = IF(VALUES(token) > token, VALUES(grant_id), grant_id),
    token = GREATEST(VALUES(token), token);
-- FOR UPDATE: a plain read may see an older version of the row under REPEATABLE READ.
SELECT grant_id, token FROM fence WHERE lock_name = :lock_name FOR UPDATE;

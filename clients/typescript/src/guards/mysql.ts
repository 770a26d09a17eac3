/** The guard for MySQL and MariaDB, with `mysql2/promise`. */
import { StaleToken } from "../errors.js";
import { GUARD_MYSQL_CREATE, GUARD_MYSQL_NEWEST, GUARD_MYSQL_RAISE } from "../facts.js";
import type { Fenced } from "./fenced.js";

/** A `Connection`, `PoolConnection` or `Pool` of `mysql2/promise`. */
export interface Connection {
  query(sql: string, values: unknown[]): Promise<[unknown, unknown]>;
}

/** A connection of `mysql2/promise`. A pool is none: it runs each statement in a transaction of its own. */
export interface Transaction extends Connection {
  readonly getConnection?: never;
}

/** Creates the table of fences, unless it is there. It belongs in the migration that creates the protected tables. */
export async function create(connection: Connection): Promise<void> {
  await connection.query(GUARD_MYSQL_CREATE, []);
}

/**
 * Raises the fence of the lock, in the transaction of the write: after `beginTransaction()`, before what is written is
 * read. The row of the lock stays locked until the end of the transaction. A deadlock (1213) rolls the transaction
 * back: run it again as a whole.
 *
 * @throws StaleToken if the store has seen a newer token: roll back and stop
 */
export async function raise(transaction: Transaction, { name, token, grantId }: Fenced): Promise<void> {
  await transaction.query(GUARD_MYSQL_RAISE, [name, token, grantId]);
  const [rows] = await transaction.query(GUARD_MYSQL_NEWEST, [name]);
  const [row] = rows as { token: unknown; grant_id: unknown }[];
  const newest = Number(row?.token);
  if (newest !== token || row?.grant_id !== grantId) throw new StaleToken(name, token, newest);
}

/** The guard for MySQL and MariaDB, with `mysql2/promise`. */
import { StaleToken } from "../errors.js";
import {
  GUARD_MYSQL_ADD_SHARED,
  GUARD_MYSQL_CHECK_SHARED,
  GUARD_MYSQL_CREATE,
  GUARD_MYSQL_HAS_SHARED,
  GUARD_MYSQL_NEWEST,
  GUARD_MYSQL_NEWEST_SHARED,
  GUARD_MYSQL_RAISE,
  GUARD_MYSQL_RAISE_SHARED,
} from "../facts.js";
import { type Fenced, fenceName, reader, refused } from "./fenced.js";

/** A `Connection`, `PoolConnection` or `Pool` of `mysql2/promise`. */
export interface Connection {
  query(sql: string, values: unknown[]): Promise<[unknown, unknown]>;
}

/** A connection of `mysql2/promise`. A pool is none: it runs each statement in a transaction of its own. */
export interface Transaction extends Connection {
  readonly getConnection?: never;
}

/**
 * Creates the table of fences, unless it is there, and adds what one of an earlier version lacks. It belongs in the
 * migration that creates the protected tables.
 */
export async function create(connection: Connection): Promise<void> {
  if (await isCurrent(connection)) return;
  try {
    await connection.query(GUARD_MYSQL_CREATE, []);
    if (!(await isCurrent(connection))) await connection.query(GUARD_MYSQL_ADD_SHARED, []);
  } catch (error) {
    // Another process may have been faster.
    if (!(await isCurrent(connection))) throw error;
  }
}

async function isCurrent(connection: Connection): Promise<boolean> {
  const [rows] = await connection.query(GUARD_MYSQL_HAS_SHARED, []);
  const [row] = rows as { found: unknown }[];
  return Number(row?.found) > 0;
}

/**
 * Raises the fence of the lock, in the transaction of the write: after `beginTransaction()`, before what is written is
 * read. The row of the lock stays locked until the end of the transaction. A deadlock (1213) rolls the transaction
 * back: run it again as a whole.
 *
 * @throws StaleToken if the store has seen a newer token: roll back and stop
 */
export async function raise(transaction: Transaction, lock: Fenced): Promise<void> {
  const [fence, { name, token, grantId }] = [fenceName(lock), lock];
  await transaction.query(GUARD_MYSQL_RAISE, [fence, token, grantId]);
  const [rows] = await transaction.query(GUARD_MYSQL_NEWEST, [fence]);
  const [row] = rows as { token: unknown; grant_id: unknown }[];
  const newest = Number(row?.token);
  if (newest !== token || row?.grant_id !== grantId) throw new StaleToken(name, token, newest);
}

/**
 * Raises the token of a shared lock, once after the grant. It is a transaction of its own, so give it a pool, or a
 * connection without an open transaction: within the transaction of the work, readers would wait for one another. It
 * waits for the transactions that work under this lock at that time.
 *
 * @throws StaleToken if a later writer has raised the fence
 */
export async function raiseShared(connection: Connection, lock: Fenced): Promise<void> {
  const { name, token, grantId } = reader(lock);
  await connection.query(GUARD_MYSQL_RAISE_SHARED, [name, token, grantId]);
  await check(connection, lock);
}

/**
 * Checks the token of a shared lock, as the first statement of each transaction that works under it. Until the end of
 * the transaction writers wait, and other readers do not. A deadlock (1213)
 * rolls the transaction back: run it again as a whole.
 *
 * @throws StaleToken if a later writer has raised the fence: roll back and stop
 * @throws TypeError if `raiseShared` was not called
 */
export async function checkShared(transaction: Transaction, lock: Fenced): Promise<void> {
  await check(transaction, reader(lock));
}

async function check(connection: Connection, lock: Fenced): Promise<void> {
  const { name, token, grantId } = lock;
  const [passed] = await connection.query(GUARD_MYSQL_CHECK_SHARED, [name, token, token, token, grantId]);
  if ((passed as unknown[]).length > 0) return;
  const [rows] = await connection.query(GUARD_MYSQL_NEWEST_SHARED, [name]);
  const [row] = rows as { token: unknown }[];
  throw refused(lock, Number(row?.token ?? 0));
}

/** The guard for PostgreSQL, with `pg`. */
import { StaleToken } from "../errors.js";
import {
  GUARD_POSTGRES_ADD_SHARED,
  GUARD_POSTGRES_CHECK_SHARED,
  GUARD_POSTGRES_CREATE,
  GUARD_POSTGRES_HAS_SHARED,
  GUARD_POSTGRES_NEWEST,
  GUARD_POSTGRES_RAISE,
  GUARD_POSTGRES_RAISE_SHARED,
} from "../facts.js";
import { type Fenced, fenceName, reader, refused } from "./fenced.js";

/** A `Client`, `PoolClient` or `Pool` of `pg`. */
export interface Connection {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}

/** A `Client` or `PoolClient` of `pg`. A pool is none: it runs each statement in a transaction of its own. */
export interface Transaction extends Connection {
  readonly totalCount?: never;
}

/**
 * Creates the table of fences, unless it is there, and adds what one of an earlier version lacks. It belongs in the
 * migration that creates the protected tables.
 */
export async function create(connection: Connection): Promise<void> {
  if (await isCurrent(connection)) return;
  try {
    await connection.query(GUARD_POSTGRES_CREATE, []);
    await connection.query(GUARD_POSTGRES_ADD_SHARED, []);
  } catch (error) {
    // Of several processes that do so at once, PostgreSQL may refuse all but one.
    if (!(await isCurrent(connection).catch(() => false))) throw error;
  }
}

async function isCurrent(connection: Connection): Promise<boolean> {
  const { rows } = await connection.query(GUARD_POSTGRES_HAS_SHARED, []);
  const [row] = rows as { found: unknown }[];
  return Number(row?.found) > 0;
}

/**
 * Raises the fence of the lock, in the transaction of the write: after `BEGIN`, before what is written is read. The
 * row of the lock stays locked until the end of the transaction.
 *
 * Under `REPEATABLE READ` and `SERIALIZABLE` it may fail with 40001, as any statement: run the whole transaction again.
 *
 * @throws StaleToken if the store has seen a newer token: roll back and stop
 */
export async function raise(transaction: Transaction, lock: Fenced): Promise<void> {
  const [fence, { name, token, grantId }] = [fenceName(lock), lock];
  const raised = await transaction.query(GUARD_POSTGRES_RAISE, [fence, token, grantId]);
  if (raised.rows.length > 0) return;
  const { rows } = await transaction.query(GUARD_POSTGRES_NEWEST, [fence]);
  const [row] = rows as { token: unknown }[];
  throw new StaleToken(name, token, Number(row?.token));
}

/**
 * Raises the token of a shared lock, once after the grant. It is a transaction of its own, so give it a pool, or a
 * connection without an open transaction: within the transaction of the work, readers would wait for one another. It
 * waits for the transactions that work under this lock at that time.
 *
 * @throws StaleToken if a later writer has raised the fence
 */
export async function raiseShared(connection: Connection, lock: Fenced): Promise<void> {
  await pass(connection, GUARD_POSTGRES_RAISE_SHARED, reader(lock));
}

/**
 * Checks the token of a shared lock, as the first statement of each transaction that works under it. Until the end of
 * the transaction writers wait, and other readers do not. Under `REPEATABLE READ`
 * and `SERIALIZABLE` it may fail with 40001: run the whole transaction again.
 *
 * @throws StaleToken if a later writer has raised the fence: roll back and stop
 * @throws TypeError if `raiseShared` was not called
 */
export async function checkShared(transaction: Transaction, lock: Fenced): Promise<void> {
  await pass(transaction, GUARD_POSTGRES_CHECK_SHARED, reader(lock));
}

/** Runs a statement that returns a row, unless the store refuses the reader. */
async function pass(connection: Connection, text: string, lock: Fenced): Promise<void> {
  const passed = await connection.query(text, [lock.name, lock.token, lock.grantId]);
  if (passed.rows.length > 0) return;
  const { rows } = await connection.query(GUARD_POSTGRES_NEWEST, [lock.name]);
  const [row] = rows as { token: unknown }[];
  throw refused(lock, Number(row?.token ?? 0));
}

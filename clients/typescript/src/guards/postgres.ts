/** The guard for PostgreSQL, with `pg`. */
import { StaleToken } from "../errors.js";
import { GUARD_POSTGRES_CREATE, GUARD_POSTGRES_NEWEST, GUARD_POSTGRES_RAISE } from "../facts.js";
import type { Fenced } from "./fenced.js";

/** A `Client`, `PoolClient` or `Pool` of `pg`. */
export interface Connection {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}

/** A `Client` or `PoolClient` of `pg`. A pool is none: it runs each statement in a transaction of its own. */
export interface Transaction extends Connection {
  readonly totalCount?: never;
}

/** Creates the table of fences, unless it is there. It belongs in the migration that creates the protected tables. */
export async function create(connection: Connection): Promise<void> {
  await connection.query(GUARD_POSTGRES_CREATE, []);
}

/**
 * Raises the fence of the lock, in the transaction of the write: after `BEGIN`, before what is written is read. The
 * row of the lock stays locked until the end of the transaction.
 *
 * Under `REPEATABLE READ` and `SERIALIZABLE` it may fail with 40001, as any statement: run the whole transaction again.
 *
 * @throws StaleToken if the store has seen a newer token: roll back and stop
 */
export async function raise(transaction: Transaction, { name, token, grantId }: Fenced): Promise<void> {
  const raised = await transaction.query(GUARD_POSTGRES_RAISE, [name, token, grantId]);
  if (raised.rows.length > 0) return;
  const { rows } = await transaction.query(GUARD_POSTGRES_NEWEST, [name]);
  const [row] = rows as { token: unknown }[];
  throw new StaleToken(name, token, Number(row?.token));
}

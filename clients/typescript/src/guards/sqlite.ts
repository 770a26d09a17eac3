/** The guard for SQLite, with `node:sqlite`, `better-sqlite3`, or any driver with their `prepare`, `get` and `exec`. */
import { StaleToken } from "../errors.js";
import { GUARD_SQLITE_CREATE, GUARD_SQLITE_NEWEST, GUARD_SQLITE_RAISE } from "../facts.js";
import type { Fenced } from "./fenced.js";

/** A `Database` of `better-sqlite3`, or a `DatabaseSync` of `node:sqlite`. */
export interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): { get(...values: (string | number)[]): unknown };
  /** Whether a transaction is open, as `better-sqlite3` and `node:sqlite` name it. */
  readonly inTransaction?: boolean;
  readonly isTransaction?: boolean;
}

/** Creates the table of fences, unless it is there. It belongs in the migration that creates the protected tables. */
export function create(database: Database): void {
  database.exec(GUARD_SQLITE_CREATE);
}

/**
 * Raises the fence of the lock, in the transaction of the write: after `BEGIN IMMEDIATE`, before what is written is
 * read.
 *
 * @throws StaleToken if the store has seen a newer token: roll back and stop
 * @throws TypeError if no transaction is open, as far as the driver says
 */
export function raise(database: Database, { name, token, grantId }: Fenced): void {
  if (database.inTransaction === false || database.isTransaction === false) {
    throw new TypeError("the guard and the write need one transaction: begin with BEGIN IMMEDIATE");
  }
  // Most drivers return undefined for no row, some null.
  if (database.prepare(GUARD_SQLITE_RAISE).get(name, token, grantId)) return;
  const row = database.prepare(GUARD_SQLITE_NEWEST).get(name) as { token: unknown } | undefined;
  throw new StaleToken(name, token, Number(row?.token));
}

/** The guard for SQLite, with `node:sqlite`, `better-sqlite3`, or any driver with their `prepare`, `get` and `exec`. */
import { StaleToken } from "../errors.js";
import {
  GUARD_SQLITE_ADD_SHARED,
  GUARD_SQLITE_CHECK_SHARED,
  GUARD_SQLITE_CREATE,
  GUARD_SQLITE_HAS_SHARED,
  GUARD_SQLITE_NEWEST,
  GUARD_SQLITE_RAISE,
  GUARD_SQLITE_RAISE_SHARED,
} from "../facts.js";
import { type Fenced, fenceName, reader, refused } from "./fenced.js";

/** A `Database` of `better-sqlite3`, or a `DatabaseSync` of `node:sqlite`. */
export interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): { get(...values: (string | number)[]): unknown };
  /** Whether a transaction is open, as `better-sqlite3` and `node:sqlite` name it. */
  readonly inTransaction?: boolean;
  readonly isTransaction?: boolean;
}

/**
 * Creates the table of fences, unless it is there, and adds what one of an earlier version lacks. It belongs in the
 * migration that creates the protected tables.
 */
export function create(database: Database): void {
  if (isCurrent(database)) return;
  try {
    database.exec(GUARD_SQLITE_CREATE);
    if (!isCurrent(database)) database.exec(GUARD_SQLITE_ADD_SHARED);
  } catch (error) {
    // Another process may have been faster.
    if (!isCurrent(database)) throw error;
  }
}

function isCurrent(database: Database): boolean {
  const row = database.prepare(GUARD_SQLITE_HAS_SHARED).get() as { found: unknown } | undefined;
  return Number(row?.found) > 0;
}

/**
 * Raises the fence of the lock, in the transaction of the write: after `BEGIN IMMEDIATE`, before what is written is
 * read.
 *
 * @throws StaleToken if the store has seen a newer token: roll back and stop
 * @throws TypeError if no transaction is open, as far as the driver says
 */
export function raise(database: Database, lock: Fenced): void {
  needTransaction(database);
  const [fence, { name, token, grantId }] = [fenceName(lock), lock];
  // Most drivers return undefined for no row, some null.
  if (database.prepare(GUARD_SQLITE_RAISE).get(fence, token, grantId)) return;
  throw new StaleToken(name, token, newest(database, fence));
}

/**
 * Raises the token of a shared lock, once after the grant, outside of a transaction.
 *
 * @throws StaleToken if a later writer has raised the fence
 * @throws TypeError if a transaction is open, as far as the driver says
 */
export function raiseShared(database: Database, lock: Fenced): void {
  if (database.inTransaction === true || database.isTransaction === true) {
    throw new TypeError("raiseShared is a transaction of its own: end the open one");
  }
  const { name, token, grantId } = reader(lock);
  const raised = database.prepare(GUARD_SQLITE_RAISE_SHARED).get(name, token, grantId);
  if (!raised) throw refused(lock, newest(database, name));
}

/**
 * Checks the token of a shared lock, first in each transaction that works under it: after `BEGIN`, or after `BEGIN
 * IMMEDIATE` if the transaction writes.
 *
 * @throws StaleToken if a later writer has raised the fence: roll back and stop
 * @throws TypeError if no transaction is open, as far as the driver says, or if `raiseShared` was not called
 */
export function checkShared(database: Database, lock: Fenced): void {
  needTransaction(database);
  const { name, token, grantId } = reader(lock);
  const passed = database.prepare(GUARD_SQLITE_CHECK_SHARED).get(name, token, token, token, grantId);
  if (!passed) throw refused(lock, newest(database, name));
}

function needTransaction(database: Database): void {
  if (database.inTransaction === false || database.isTransaction === false) {
    throw new TypeError("the guard and the write need one transaction: begin with BEGIN IMMEDIATE");
  }
}

function newest(database: Database, name: string): number {
  const row = database.prepare(GUARD_SQLITE_NEWEST).get(name) as { token: unknown } | null | undefined;
  return Number(row?.token ?? 0);
}

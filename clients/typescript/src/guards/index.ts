/**
 * Guards: a store refuses the late write of a holder that was paused past its lease.
 *
 * In the transaction of the write, raise the fence first, then read, then write:
 *
 * ```ts
 * import { postgres } from "@fencepost/client/guards";
 *
 * await tx.query("BEGIN");
 * await postgres.raise(tx, lock); // StaleToken: roll back and stop
 * await tx.query("UPDATE orders SET state = 'shipped' WHERE id = $1", [42]);
 * await tx.query("COMMIT");
 * ```
 *
 * The holder of a shared lock is a reader, and there may be several. A reader calls `raiseShared` once after the grant,
 * outside of a transaction. Then it begins each transaction of its work with `checkShared`:
 *
 * ```ts
 * await postgres.raiseShared(pool, lock); // once
 * await tx.query("BEGIN");
 * await postgres.checkShared(tx, lock); // StaleToken: roll back and stop
 * ```
 *
 * One permit of a semaphore has a fence of its own for each slot ({@link fenceName}); a lock with several is refused.
 *
 * No driver is a dependency: each guard takes the driver's own objects.
 */
export { StaleToken } from "../errors.js";
export { type Fenced, fenceName } from "./fenced.js";
export * as mysql from "./mysql.js";
export * as postgres from "./postgres.js";
export * as redis from "./redis.js";
export * as sqlite from "./sqlite.js";

import { StaleToken } from "../errors.js";
import { NAME_BYTES_MAX } from "../facts.js";

/** What a guard needs of a lock. Any `Lock` has it; send it along with work that another process does. */
export interface Fenced {
  /** The name of the lock. */
  readonly name: string;
  /** The fencing token. */
  readonly token: number;
  /** The public id of the grant. */
  readonly grantId: string;
  /** How many permits of a semaphore it has; 0 or none if the lock is held as none. */
  readonly permits?: number | undefined;
  /** Its slot, if it has one permit of a semaphore. */
  readonly slot?: number | undefined;
}

/**
 * The name of the fence that the guards raise for a lock: the lock's own name, or `NAME#SLOT` for one permit of a
 * semaphore. The holders of a semaphore work side by side, so only the tokens of one slot are in an order.
 *
 * @throws TypeError if it has several permits, and so no slot, or if the name of the fence is too long for the table
 */
export function fenceName(lock: Fenced): string {
  const fence = fenceKey(lock, lock.name);
  if (fence !== lock.name && Buffer.byteLength(fence) > NAME_BYTES_MAX) {
    const most = `${String(NAME_BYTES_MAX)} bytes`;
    throw new TypeError(`the fence ${fence} is longer than ${most}: give the lock a shorter name`);
  }
  return fence;
}

/** The key of the fence in Redis: `key`, or `KEY#SLOT` for one permit of a semaphore. */
export function fenceKey({ name, permits, slot }: Fenced, key: string): string {
  if (slot) return `${key}#${String(slot)}`;
  if (!permits) return key;
  throw new TypeError(
    `${name} is held with several permits of a semaphore, so it has no slot, and a store cannot order its token: ` +
      "take one permit each, or check the token with checkToken right before the write",
  );
}

/** The lock, which readers share. Refuses that of a semaphore, in which there are no readers. */
export function reader(lock: Fenced): Fenced {
  if (fenceKey(lock, lock.name) === lock.name) return lock;
  throw new TypeError(
    `${lock.name} is held as a semaphore, not as a shared lock: raise its fence in the transaction of the write`,
  );
}

/** Why a store whose highest token is `newest` refuses the holder of a shared lock. */
export function refused({ name, token }: Fenced, newest: number): Error {
  if (newest >= token) return new StaleToken(name, token, newest);
  return new TypeError(`token ${String(token)} of ${name} was not raised: call raiseShared once after the grant`);
}

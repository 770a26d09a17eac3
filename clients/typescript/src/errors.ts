/** The errors that this package throws. Mistakes in options are a `TypeError` or a `RangeError`. */
import * as facts from "./facts.js";
import type { LockDelay, LockHolder, Semaphore } from "./info.js";
import type { Mode } from "./wire.js";

/** The base of all errors of this package. */
export abstract class FencepostError extends Error {}

/** The lock is not free, and the acquire did not wait: it asked for no wait, or `maxWaiters` wait already. */
export class Contended extends FencepostError {
  override readonly name = "Contended";
  /** The name of the lock. */
  readonly lockName: string;
  /**
   * Who holds the lock: one, or the oldest of those that hold it together, at most 8. Empty while it is offered to the
   * next waiter, and if a delay alone keeps it.
   */
  readonly holders: readonly LockHolder[];
  /** How many holders the lock has in all. */
  readonly holderCount: number;
  /** How many requests wait for the lock. */
  readonly waiters: number;
  /** Why nobody gets the lock, if nobody holds it, or why a place of it is not free beside the holders. */
  readonly delay: LockDelay | undefined;
  /** The permits, if the lock is held as a semaphore. */
  readonly semaphore: Semaphore | undefined;

  constructor(
    lockName: string,
    holders: readonly LockHolder[],
    holderCount: number,
    waiters: number,
    delay?: LockDelay,
    semaphore?: Semaphore,
  ) {
    super(`${lockName} is ${describe(holders, holderCount, waiters, delay)}`);
    this.lockName = lockName;
    this.holders = holders;
    this.holderCount = holderCount;
    this.waiters = waiters;
    this.delay = delay;
    this.semaphore = semaphore;
  }
}

/** The wait ended without a grant. */
export class TimedOut extends FencepostError {
  override readonly name = "TimedOut";
  /** The name of the lock. */
  readonly lockName: string;
  /**
   * Who holds the lock: one, or the oldest of those that hold it together, at most 8. Empty while it is offered to the
   * next waiter, and if a delay alone keeps it.
   */
  readonly holders: readonly LockHolder[];
  /** How many holders the lock has in all. */
  readonly holderCount: number;
  /** How many other requests wait for the lock. */
  readonly waiters: number;
  /** Why nobody gets the lock, if nobody holds it, or why a place of it is not free beside the holders. */
  readonly delay: LockDelay | undefined;
  /** The permits, if the lock is held as a semaphore. */
  readonly semaphore: Semaphore | undefined;

  constructor(
    lockName: string,
    holders: readonly LockHolder[],
    holderCount: number,
    waiters: number,
    delay?: LockDelay,
    semaphore?: Semaphore,
  ) {
    super(`timed out waiting for ${lockName}: it is ${describe(holders, holderCount, waiters, delay)}`);
    this.lockName = lockName;
    this.holders = holders;
    this.holderCount = holderCount;
    this.waiters = waiters;
    this.delay = delay;
    this.semaphore = semaphore;
  }
}

/**
 * Why a lock is no longer held:
 *
 * - `silence`: its validity ended by this machine's clock before a renewal got through
 * - `maxHold`: it was held for as long as `maxHold` allows
 * - `expired`: the server reports that its lease ran out
 * - `revoked`: an operator or the server took it back
 * - `superseded`: it ended some time ago, and another lease was granted since
 * - `unknown`: the server does not know the lease; it ended longer ago than the server remembers
 * - `released`: it was released
 * - `closed`: its client was closed, which released it
 */
export type LossReason =
  "silence" | "maxHold" | "expired" | "revoked" | "superseded" | "unknown" | "released" | "closed";

/** The lock is no longer held: stop the work. `lock.signal` aborts with this as its reason. */
export class LockLost extends FencepostError {
  override readonly name = "LockLost";
  /** The name of the lock. */
  readonly lockName: string;
  /** The fencing token of the lost lease. */
  readonly token: number;
  /** Why it is no longer held. */
  readonly reason: LossReason;
  /** The token of the lease that holds the lock now, if the server reported one. */
  readonly successorToken: number | undefined;
  /** Whether this client ended the lease itself, by a release or by its end. */
  readonly isOwn: boolean;

  constructor(lockName: string, token: number, reason: LossReason, successorToken?: number, options?: LossOptions) {
    const successor = successorToken === undefined ? "" : `; token ${String(successorToken)} holds it now`;
    super(`${lockName} (token ${String(token)}) is ${why(reason, options?.isOwn)}${successor}`, options);
    this.lockName = lockName;
    this.token = token;
    this.reason = reason;
    this.successorToken = successorToken;
    this.isOwn = options?.isOwn ?? false;
  }
}

interface LossOptions extends ErrorOptions {
  /** Whether this client ended the lease itself. */
  readonly isOwn?: boolean;
}

/**
 * Somebody waits whom a lock excludes that was acquired with `tellWhenWanted`. The lock is still held: `lock.wanted`
 * aborts with this as its reason.
 */
export class LockWanted extends FencepostError {
  override readonly name = "LockWanted";
  /** The name of the lock. */
  readonly lockName: string;
  /** The mode that is waited for. */
  readonly mode: Mode;

  constructor(lockName: string, mode: Mode) {
    super(`${lockName} is wanted: a request for it waits (${mode})`);
    this.lockName = lockName;
    this.mode = mode;
  }
}

/** The same loss with the stack of its caller: it was made when the lease ended. */
export function here({ lockName, token, reason, successorToken, isOwn }: LockLost): LockLost {
  return new LockLost(lockName, token, reason, successorToken, { isOwn });
}

function why(reason: LossReason, isOwn = false): string {
  if (reason === "closed") return "not held: its client was closed";
  if (reason === "released" && isOwn) return "not held: it was released";
  return `lost: ${EXPLANATION[reason]}`;
}

const EXPLANATION: Readonly<Record<Exclude<LossReason, "closed">, string>> = {
  silence: facts.LOST_SILENCE,
  maxHold: facts.LOST_MAX_HOLD,
  expired: facts.LOST_EXPIRED,
  revoked: facts.LOST_REVOKED,
  superseded: facts.LOST_SUPERSEDED,
  unknown: facts.LOST_UNKNOWN,
  released: facts.LOST_RELEASED,
};

/**
 * Several locks were asked for together, and one of them was not acquired, or was lost before the last one was. All
 * others were given back. `cause` says why: it is `Contended`, `TimedOut`, `LockLost` or another error of an acquire.
 */
export class NotAllAcquired extends FencepostError {
  override readonly name = "NotAllAcquired";
  /** How many locks were asked for. */
  readonly count: number;
  /** The name of the lock that was not acquired, or that was lost. */
  readonly lockName: string;
  /**
   * The locks that were acquired and given back, in this order. If no server has confirmed that, the client goes on to
   * release them in the background.
   */
  readonly givenBack: readonly string[];

  constructor(count: number, lockName: string, givenBack: readonly string[], options: { readonly cause: Error }) {
    const back = givenBack.length > 0 ? `given back: ${givenBack.join(", ")}` : "none was held";
    const why = `because of ${lockName}: ${options.cause.message}`;
    super(`the ${String(count)} locks were not acquired, ${why}; ${back}`, options);
    this.count = count;
    this.lockName = lockName;
    this.givenBack = givenBack;
  }
}

/**
 * Several locks were released together, and the release of some is not confirmed; `cause` says why for the first one.
 * They are free after their TTL at the latest, and the others are released.
 */
export class NotAllReleased extends FencepostError {
  override readonly name = "NotAllReleased";
  /** The locks whose release is not confirmed. */
  readonly lockNames: readonly string[];

  constructor(lockNames: readonly string[], options: { readonly cause: unknown }) {
    const why = options.cause instanceof Error ? options.cause.message : String(options.cause);
    super(`the release of ${lockNames.join(", ")} is not confirmed: ${why}`, options);
    this.lockNames = lockNames;
  }
}

/**
 * The servers may or may not have done what was asked: no answer arrived in time. After an acquire, a lease that was
 * granted is released in the background; after a release, the release is repeated until the lease would have ended.
 * `cause` is the error of the last try. If that got no answer and an earlier one did, the message tells that answer, and
 * `cause` is its error.
 */
export class OutcomeUnknown extends FencepostError {
  override readonly name = "OutcomeUnknown";
}

/**
 * Nothing was done; try later. No server could be reached, or each one that answered said that it did nothing. The
 * message has each server that was tried, and what is wrong with it.
 */
export class Unavailable extends FencepostError {
  override readonly name = "Unavailable";
  /** The server's reason, such as `STORE_UNAVAILABLE` or `DRAINING`; `undefined` if no server could be reached. */
  readonly reason: string | undefined;
  /** Whether that stays until somebody changes an address or certificates, on either side. */
  readonly isLasting: boolean;

  constructor(message: string, reason?: string, options?: UnavailableOptions) {
    super(message, options);
    this.reason = reason;
    this.isLasting = options?.isLasting ?? false;
  }
}

interface UnavailableOptions extends ErrorOptions {
  /** Default: no. */
  readonly isLasting?: boolean;
}

/** A field of a request that breaks a rule. */
export interface FieldViolation {
  /** The path of the field. */
  readonly field: string;
  /** The rule. */
  readonly description: string;
}

/** The servers refused the request, and did nothing. Correct it, or the configuration. */
export class Refused extends FencepostError {
  override readonly name = "Refused";
  /** The gRPC status code, such as `INVALID_ARGUMENT`. */
  readonly code: string;
  /** The server's reason, such as `QUEUE_FULL`; the comments of `lock.proto` list them. */
  readonly reason: string | undefined;
  /** The fields that break a rule. */
  readonly violations: readonly FieldViolation[];

  constructor(
    message: string,
    code: string,
    reason?: string,
    violations: readonly FieldViolation[] = [],
    options?: ErrorOptions,
  ) {
    super(reason === undefined ? message : `${message} (${reason})`, options);
    this.code = code;
    this.reason = reason;
    this.violations = violations;
  }
}

/** A guard refused a write: the store has seen a newer token of the lock. Roll back and stop: another holder works. */
export class StaleToken extends FencepostError {
  override readonly name = "StaleToken";
  /** The name of the lock. */
  readonly lockName: string;
  /** The refused token. */
  readonly token: number;
  /** The highest token that the store has seen. */
  readonly newest: number;

  constructor(lockName: string, token: number, newest: number) {
    super(`token ${String(token)} of ${lockName} is stale: the store has seen ${String(newest)}`);
    this.lockName = lockName;
    this.token = token;
    this.newest = newest;
  }
}

/** The client was closed. */
export class ClientClosed extends FencepostError {
  override readonly name = "ClientClosed";

  constructor() {
    super("the client is closed");
  }
}

/** A time as messages have it. */
export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Why the lock is not free, and how many wait. It follows "is". */
function describe(holders: readonly LockHolder[], count: number, waiters: number, delay?: LockDelay): string {
  const states = holders.length > 0 ? [held(holders, count)] : [];
  if (delay !== undefined) {
    const last = delay.holder === "" ? "its last lease" : delay.holder;
    states.push(`unavailable for another ${seconds(delay.remaining)} (delay after ${last})`);
  }
  const state = states.length > 0 ? states.join(", and a place of it is ") : "being offered to the next waiter";
  return `${state}, ${String(waiters)} waiting`;
}

/** Names the holders that have a label, and counts all others: those without one, and those that are not shown. */
function held(holders: readonly LockHolder[], count: number): string {
  const labels = holders.map(({ holder }) => holder).filter((label) => label !== "");
  const more = count - labels.length;
  if (labels.length === 0) return more > 1 ? `held by ${String(more)} holders` : "held";
  return `held by ${[...labels, ...(more > 0 ? [`${String(more)} more`] : [])].join(" and ")}`;
}

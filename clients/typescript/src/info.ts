/** What the servers tell about locks. Durations are in milliseconds. */
import {
  type LockDelay as WireDelay,
  type LockHolder as WireHolder,
  type LockInfo as WireInfo,
  LockMode,
  type LockWaiter as WireWaiter,
  type Semaphore as WireSemaphore,
  type WatchResponse,
  CheckTokenResponse_Status as Status,
  WatchResponse_Kind as Kind,
} from "./gen/fencepost/v1/lock_pb.js";
import { type End, end, milliseconds, type Mode, mode, token } from "./wire.js";

/** One grant of a lock, as others see it. */
export interface LockHolder {
  /** The label of the holder; `classic client` for a client that uses Redis directly. */
  readonly holder: string;
  /** The public id of the grant; empty for a classic client. */
  readonly grantId: string;
  /** The fencing token; 0 for a classic client, which has none. */
  readonly token: number;
  /** The TTL, which each renewal restores. */
  readonly ttl: number;
  /** The time until the lease ends unless it is renewed; 0 if it is not known. */
  readonly expiresIn: number;
  /** The time since the grant. */
  readonly heldFor: number;
  /** The metadata of the request, or of its last description. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Whether it shares the lock with others, which asked for it with `shared` as well. */
  readonly shared: boolean;
  /** Its permits of a semaphore; 0 if the lock is held as none. */
  readonly permits: number;
  /** Its slot, if it has one permit of a semaphore. */
  readonly slot: number | undefined;
  /** The owner that the request named; empty if it named none. */
  readonly owner: string;
  /**
   * Who it is, as the server verified it when the lock was granted or queued for; empty if it was not verified. Unlike
   * the label, it proves something.
   */
  readonly identity: string;
  /** The number of its last description; 0 if it was never described. */
  readonly description: number;
}

/** A semaphore that is held. */
export interface Semaphore {
  /** The permits that its holders use. More than the limit only after that was lowered. */
  readonly permitsUsed: number;
  /** The limit in force. */
  readonly permitLimit: number;
  /** Its version. */
  readonly permitLimitVersion: bigint;
}

/** Why nobody gets a lock that nobody holds, or a place of it: the last lease asked for `minHold` or `lockDelay`. */
export interface LockDelay {
  /** How long the lock stays unavailable. */
  readonly remaining: number;
  /** The label of the holder of the last lease. */
  readonly holder: string;
  /** The fencing token of the last lease. An operator who releases the lock by force with it ends the delay. */
  readonly token: number;
}

/** The public state of a lock: a snapshot for people and dashboards. */
export interface LockInfo {
  /** The name of the lock. */
  readonly name: string;
  /** The holders; empty if the lock is not held. One, or the oldest of those that hold it together: at most 8. */
  readonly holders: readonly LockHolder[];
  /** How many holders the lock has in all. */
  readonly holderCount: number;
  /** How many requests wait for it. */
  readonly waiters: number;
  /** How the lease before the current one ended; before the newest one, if the lock is shared. */
  readonly previousEnd: End;
  /** The highest token granted, which is remembered for 10 s after the lease or its delay; 0 if none is. */
  readonly newestToken: number;
  /** Why nobody gets the lock, if nobody holds it. */
  readonly delay: LockDelay | undefined;
  /** The permits, if the lock is held as a semaphore. */
  readonly semaphore: Semaphore | undefined;
}

/** A request that waits for a lock, as others see it. */
export interface LockWaiter {
  /** The label of the request. */
  readonly holder: string;
  /** The owner that the request named; empty if it named none. */
  readonly owner: string;
  /** Its verified identity; empty if it was not verified. */
  readonly identity: string;
  /** Distinguishes it from other requests, and stays the same while it waits. */
  readonly waiterId: string;
  /** The mode that it waits for. */
  readonly mode: Mode;
  /** The permits of a semaphore that it waits for; 0 for other modes. */
  readonly permits: number;
  /** How long it has been in this queue. It counts anew when another server takes the lock over. */
  readonly waitingFor: number;
  /** Whether the queue passes over it now, and keeps its place for a few seconds: its client does not read, say. */
  readonly skipped: boolean;
}

/** An event of a watch. */
export interface WatchEvent {
  /**
   * - `started`: the first event; all later ones are reported
   * - `granted`, `released`, `expired`, `revoked`: what happened to a lease
   * - `missed`: events were lost; list the locks again
   * - `changed`: its holder converted or described it; `token`, `holder` and `mode` are those that it has now
   */
  readonly kind: "started" | "granted" | "released" | "expired" | "revoked" | "missed" | "changed";
  /** The name of the lock. */
  readonly name: string;
  /** The label of the holder. */
  readonly holder: string;
  /** The verified identity of the holder; empty if it was not verified. */
  readonly identity: string;
  /** With `changed`: which other holders it excludes from now on. */
  readonly mode: Mode | undefined;
  /** The public id of the grant. */
  readonly grantId: string;
  /** The fencing token; 0 for `started` and `missed`. */
  readonly token: number;
  /** With `revoked`: why. */
  readonly reason: string;
  /** With `missed`: the lowest possible number of lost events; 0 if it is not known. */
  readonly missed: number;
}

/** What a server knows of a token. Only `current` is that of a lease that holds the lock. */
export interface TokenStatus {
  /**
   * - `current`: the token of a current lease: accept the write
   * - `ended`: the newest token, but its lease has ended: refuse the write
   * - `stale`: a newer token was granted: refuse the write
   * - `unknown`: the server does not remember it: refuse the write
   */
  readonly status: "current" | "ended" | "stale" | "unknown";
  /** The highest token granted; 0 if none is remembered. */
  readonly newestToken: number;
}

/** How a released lease ended. */
export interface Released {
  /**
   * `released`: by this release. Anything else: it had ended before, and only the token protected the work since.
   * `unspecified` if the lock was lost by `silence` or `maxHold`: no server has reported an end.
   */
  readonly end: End;
  /** If it had ended before: the token of the lease that holds the lock now, if there is one. */
  readonly successorToken: number | undefined;
}

export function holderFrom(wire: WireHolder): LockHolder {
  return {
    holder: wire.holder,
    grantId: wire.grantId,
    token: Number(wire.fencingToken),
    ttl: milliseconds(wire.ttl),
    expiresIn: milliseconds(wire.expiresIn),
    heldFor: milliseconds(wire.heldSince),
    metadata: wire.metadata,
    shared: wire.mode === LockMode.SHARED,
    permits: wire.permits,
    slot: wire.slot === 0 ? undefined : wire.slot,
    owner: wire.owner,
    identity: wire.identity,
    description: Number(wire.description),
  };
}

export function semaphoreFrom(wire: WireSemaphore | undefined): Semaphore | undefined {
  if (wire === undefined) return undefined;
  const { permitsUsed, permitLimit, permitLimitVersion } = wire;
  return { permitsUsed: Number(permitsUsed), permitLimit, permitLimitVersion };
}

export function delayFrom(wire: WireDelay | undefined): LockDelay | undefined {
  if (wire === undefined) return undefined;
  return { remaining: milliseconds(wire.remaining), holder: wire.holder, token: Number(wire.fencingToken) };
}

export function infoFrom(wire: WireInfo): LockInfo {
  return {
    name: wire.lockName,
    holders: wire.holders.map(holderFrom),
    holderCount: wire.holderCount,
    waiters: wire.waiters,
    previousEnd: end(wire.previousEnd),
    newestToken: token(wire.newestToken) ?? 0,
    delay: delayFrom(wire.delay),
    semaphore: semaphoreFrom(wire.semaphore),
  };
}

export function waiterFrom(wire: WireWaiter): LockWaiter {
  const { holder, owner, identity, waiterId, permits, skipped } = wire;
  const [waitingFor, asked] = [milliseconds(wire.waitingSince), mode(wire.mode) ?? "exclusive"];
  return { holder, owner, identity, waiterId, mode: asked, permits, waitingFor, skipped };
}

const KINDS: Readonly<Record<Kind, WatchEvent["kind"] | undefined>> = {
  [Kind.UNSPECIFIED]: undefined,
  [Kind.STARTED]: "started",
  [Kind.GRANTED]: "granted",
  [Kind.RELEASED]: "released",
  [Kind.EXPIRED]: "expired",
  [Kind.REVOKED]: "revoked",
  [Kind.MISSED]: "missed",
  [Kind.CHANGED]: "changed",
};

/** `undefined` for a kind that this version does not know. */
export function eventFrom(wire: WatchResponse): WatchEvent | undefined {
  const kind = KINDS[wire.kind];
  if (kind === undefined) return undefined;
  const { lockName: name, holder, identity, grantId, reason } = wire;
  const [token, missed] = [Number(wire.fencingToken), Number(wire.missed)];
  return { kind, name, holder, identity, mode: mode(wire.mode), grantId, token, reason, missed };
}

const STATUSES: Readonly<Record<Status, TokenStatus["status"]>> = {
  [Status.UNSPECIFIED]: "unknown",
  [Status.CURRENT]: "current",
  [Status.ENDED]: "ended",
  [Status.STALE]: "stale",
  [Status.UNKNOWN]: "unknown",
};

export function tokenStatusFrom(status: Status): TokenStatus["status"] {
  return (STATUSES as Readonly<Record<number, TokenStatus["status"] | undefined>>)[status] ?? "unknown";
}

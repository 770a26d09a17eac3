/** The locks of the fake server: grants, queues and ends, in memory. Times are in milliseconds. */
import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { now } from "../clock.js";
import { DEFAULT_TTL_MS } from "../facts.js";
import { type AcquireRequest, LeaseEnd, type LockHolderSchema, type LockInfoSchema } from "../gen/fencepost/v1/lock_pb.js";
import { after } from "../timers.js";
import { duration, milliseconds } from "../wire.js";

/** How long the ends of leases are remembered, and the places of broken sessions in queues: as the real server does. */
const ENDS_KEPT_MS = 10_000;
const PLACES_KEPT_MS = 3000;

/** A lease that was granted. */
export interface Grant {
  readonly request: AcquireRequest;
  readonly leaseId: string;
  readonly grantId: string;
  readonly token: bigint;
  readonly ttl: number;
  readonly previousEnd: LeaseEnd;
  readonly grantedAt: number;
  until: number;
  end: LeaseEnd | undefined;
  /** The number of its latest attachment, and who is told of its end or of a later attachment. */
  attempt: number;
  keeper: Keeper | undefined;
}

/** Who keeps a grant. */
export interface Keeper {
  ended(grant: Grant, successor: bigint): void;
  replaced(grant: Grant): void;
}

/** An acquire, until it is answered. */
export interface Asker {
  readonly request: AcquireRequest;
  waiting(ahead: number): void;
  granted(grant: Grant): void;
  timedOut(): void;
  refused(reason: "REQUEST_ENDED" | "OVERTAKEN"): void;
}

interface Waiter {
  asker: Asker;
  timer: NodeJS.Timeout;
  /** Its session broke: the place is kept for a while. */
  absent: boolean;
}

interface LockState {
  current: Grant | undefined;
  newest: bigint;
  lastEnd: LeaseEnd;
  queue: Waiter[];
}

export class Locks {
  /** Whether the next answer to an operation is lost. */
  dropsReply = false;
  readonly #locks = new Map<string, LockState>();
  /** Current and recently ended grants. */
  readonly #byLease = new Map<string, Grant>();
  readonly #byRequest = new Map<string, Grant>();
  #token = 0n;

  /** The names of the locks that are held or waited for. */
  get names(): string[] {
    return [...this.#locks].filter(([, { current, queue }]) => current ?? queue.length > 0).map(([name]) => name);
  }

  current(name: string): Grant | undefined {
    return this.#locks.get(name)?.current;
  }

  newest(name: string): bigint {
    return this.#locks.get(name)?.newest ?? 0n;
  }

  /** The grant of a lease, current or ended; `undefined` if it is not known. */
  find(leaseId: string): Grant | undefined {
    return this.#byLease.get(leaseId);
  }

  info(name: string): MessageInitShape<typeof LockInfoSchema> {
    const { current, newest, lastEnd, queue } = this.#state(name);
    const holders = current === undefined ? [] : [holderOf(current)];
    return { lockName: name, holders, waiters: queue.length, previousEnd: lastEnd, newestToken: newest };
  }

  /** Grants the lock or queues the request. Returns whether it is neither, because it does not wait. */
  acquire(asker: Asker): boolean {
    const { request } = asker;
    const known = this.#byRequest.get(request.requestId);
    if (known !== undefined) {
      if (known.end === undefined) asker.granted(known);
      else asker.refused("REQUEST_ENDED");
      return false;
    }
    const lock = this.#state(request.lockName);
    const wait = milliseconds(request.waitTimeout);
    const place = lock.queue.findIndex((waiter) => waiter.asker.request.requestId === request.requestId);
    const before = lock.queue[place];
    if (before !== undefined) {
      clearTimeout(before.timer);
      if (!before.absent) before.asker.refused("OVERTAKEN");
      if (wait === 0) lock.queue.splice(place, 1);
    }
    if (lock.current === undefined && !lock.queue.some((waiter) => !waiter.absent)) {
      if (before !== undefined && wait > 0) lock.queue.splice(place, 1);
      this.#grant(lock, asker);
      return false;
    }
    if (wait === 0) return true;
    const waiter = before ?? { asker, timer: after(0, () => undefined), absent: false };
    clearTimeout(waiter.timer);
    Object.assign(waiter, { asker, absent: false, timer: after(wait, () => { this.withdraw(asker); }) });
    if (before === undefined) lock.queue.push(waiter);
    asker.waiting(lock.queue.indexOf(waiter));
    return false;
  }

  /** Ends a wait, if the request waits. */
  withdraw(asker: Asker): void {
    const { queue } = this.#state(asker.request.lockName);
    const place = queue.findIndex((waiter) => waiter.asker === asker);
    const [waiter] = place < 0 ? [] : queue.splice(place, 1);
    if (waiter === undefined) return;
    clearTimeout(waiter.timer);
    if (!waiter.absent) asker.timedOut();
  }

  /** The session of a waiting request broke. */
  leave(asker: Asker): void {
    const waiter = this.#state(asker.request.lockName).queue.find((waiter) => waiter.asker === asker);
    if (waiter === undefined) return;
    clearTimeout(waiter.timer);
    waiter.absent = true;
    waiter.timer = after(PLACES_KEPT_MS, () => {
      this.withdraw(asker);
    });
  }

  renew(grant: Grant): void {
    grant.until = now() + grant.ttl;
  }

  /** Ends a grant: the next waiter gets the lock, and its keeper is told. */
  end(grant: Grant, how: LeaseEnd): void {
    if (grant.end !== undefined) return;
    const { lockName, requestId } = grant.request;
    const lock = this.#state(lockName);
    grant.end = lock.lastEnd = how;
    lock.current = undefined;
    after(ENDS_KEPT_MS, () => {
      this.#byLease.delete(grant.leaseId);
      this.#byRequest.delete(requestId);
    });
    const next = lock.queue.findIndex((waiter) => !waiter.absent);
    const [waiter] = next < 0 ? [] : lock.queue.splice(next, 1);
    if (waiter !== undefined) {
      clearTimeout(waiter.timer);
      this.#grant(lock, waiter.asker);
    }
    grant.keeper?.ended(grant, this.successor(grant));
  }

  /** The token of the grant that holds the lock of an ended one; 0 if there is none. */
  successor(grant: Grant): bigint {
    return this.current(grant.request.lockName)?.token ?? 0n;
  }

  #state(name: string): LockState {
    let lock = this.#locks.get(name);
    if (lock === undefined) {
      lock = { current: undefined, newest: 0n, lastEnd: LeaseEnd.UNSPECIFIED, queue: [] };
      this.#locks.set(name, lock);
    }
    return lock;
  }

  #grant(lock: LockState, asker: Asker): void {
    const { request } = asker;
    const ttl = request.ttl === undefined ? DEFAULT_TTL_MS : milliseconds(request.ttl);
    this.#token = this.#token + 1n > request.minToken ? this.#token + 1n : request.minToken;
    const grantedAt = now();
    const grant: Grant = {
      ...{ request, ttl, grantedAt, token: this.#token, leaseId: randomUUID(), grantId: randomUUID() },
      ...{ previousEnd: lock.lastEnd, until: grantedAt + ttl, end: undefined, attempt: 1, keeper: undefined },
    };
    lock.current = grant;
    lock.newest = grant.token;
    this.#byLease.set(grant.leaseId, grant);
    this.#byRequest.set(request.requestId, grant);
    this.#expireLater(grant);
    asker.granted(grant);
  }

  #expireLater(grant: Grant): void {
    after(grant.until - now(), () => {
      if (grant.end !== undefined) return;
      if (now() >= grant.until) this.end(grant, LeaseEnd.EXPIRED);
      else this.#expireLater(grant);
    });
  }
}

export function holderOf(grant: Grant): MessageInitShape<typeof LockHolderSchema> {
  const { holder, metadata } = grant.request;
  const { grantId, token: fencingToken } = grant;
  const expiresIn = duration(Math.max(grant.until - now(), 0));
  const heldSince = duration(now() - grant.grantedAt);
  return { holder, grantId, fencingToken, metadata, ttl: duration(grant.ttl), expiresIn, heldSince };
}

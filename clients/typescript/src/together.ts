/**
 * Acquires several locks, one after another, in the order of the bytes of their names: all clients of all languages use
 * that order, so no two calls wait for each other in a circle.
 */
import { checkBoolean, checkText, mistake } from "./arguments.js";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { Contended, FencepostError, LockLost, NotAllAcquired, TimedOut, ClientClosed } from "./errors.js";
import { SET_NAMES_MAX } from "./facts.js";
import type { Lock } from "./lock.js";
import { LockSet, releaseAll } from "./lock-set.js";
import { type AcquireAllOptions, type AcquireOptions, type LockInSet, request } from "./request.js";
import { backoff } from "./retries.js";
import { sleep } from "./timers.js";

/** Acquires one lock, and calls back when its lease ends. */
export type AcquireOne = (name: string, options: AcquireOptions, onEnd: (loss: LockLost) => void) => Promise<Lock>;

export class Together {
  readonly #core: Core;
  readonly #items: readonly Item[];
  readonly #options: AcquireAllOptions;
  readonly #acquire: AcquireOne;
  readonly #until: number;

  constructor(core: Core, names: Iterable<string | LockInSet>, options: AcquireAllOptions, acquire: AcquireOne) {
    this.#core = core;
    this.#items = ordered(names);
    this.#options = options;
    this.#acquire = acquire;
    // Checked before the first lock is acquired.
    for (const { name, shared } of this.#items) request(name, { ...options, shared }, core.holder);
    this.#until = now() + (options.wait ?? 0);
  }

  /** Waits for each lock as long as the one wait allows. */
  all(): Promise<LockSet> {
    return this.#collect(true);
  }

  /** Tries again and again to get all without a wait, until the one wait is over. `null` if they were not free. */
  async tries(): Promise<LockSet | null> {
    const { signal } = this.#options;
    for (let tries = 0; ; tries += 1) {
      try {
        return await this.#collect(false);
      } catch (error) {
        if (!(error instanceof NotAllAcquired && error.cause instanceof Contended)) throw error;
      }
      const pause = backoff(tries);
      if (now() + pause >= this.#until) return null;
      await this.#core.awake.during(() => sleep(pause, signal));
      signal?.throwIfAborted();
    }
  }

  async #collect(waits: boolean): Promise<LockSet> {
    const { signal } = this.#options;
    // It aborts with the first end of a lease. The leases refer to it, and it refers to no lock: `forgotten.ts`.
    const ended = new AbortController();
    const onEnd = (loss: LockLost) => {
      ended.abort(loss);
    };
    const waiting = signal === undefined ? ended.signal : AbortSignal.any([ended.signal, signal]);
    const locks: Lock[] = [];
    for (const { name, shared } of this.#items) {
      const wait = waits ? Math.max(this.#until - now(), 0) : 0;
      try {
        locks.push(await this.#acquire(name, { ...this.#options, shared, wait, signal: waiting }, onEnd));
      } catch (error) {
        throw await this.#failed(name, waits && wait === 0 ? this.#waited(error) : error, locks);
      }
    }
    for (const lock of locks) {
      try {
        lock.throwIfLost();
      } catch (error) {
        throw await this.#failed(lock.name, error, locks);
      }
    }
    return new LockSet(locks, ended.signal);
  }

  /** The error of a lock whose turn came when the wait was over is that of a wait. */
  #waited(error: unknown): unknown {
    if ((this.#options.wait ?? 0) === 0 || !(error instanceof Contended)) return error;
    const { lockName, holders, holderCount, waiters, delay, semaphore } = error;
    return new TimedOut(lockName, holders, holderCount, waiters, delay, semaphore);
  }

  /** Gives back what was acquired. Resolves with the error of the call. */
  async #failed(name: string, error: unknown, locks: readonly Lock[]): Promise<unknown> {
    const givenBack = locks.filter((lock) => lock.valid()).map((lock) => lock.name);
    const released = releaseAll(locks);
    // Nobody waits any more.
    if (this.#options.signal?.aborted === true || error instanceof ClientClosed) return error;
    if (!(error instanceof FencepostError)) return error;
    await released;
    const failed = error instanceof LockLost ? error.lockName : name;
    return new NotAllAcquired(this.#items.length, failed, givenBack.reverse(), { cause: error });
  }
}

/** One of the locks that are asked for. */
interface Item {
  readonly name: string;
  readonly shared: boolean;
}

/**
 * Each name once, sorted by the bytes of UTF-8: JavaScript itself compares UTF-16, which is another order.
 *
 * @throws TypeError if one is asked for both shared and not, since one lease cannot be both
 */
export function ordered(names: Iterable<string | LockInSet>): Item[] {
  const isList = typeof names === "object" && (names as unknown) !== null && Symbol.iterator in names;
  if (!isList) throw mistake("names", "a list of strings", names, "");
  const items = new Map<string, Item>();
  for (const item of [...names].map(itemOf)) {
    const { shared } = items.get(item.name) ?? item;
    if (shared !== item.shared) throw new TypeError(`${item.name} is asked for twice: shared, and not`);
    items.set(item.name, item);
  }
  if (items.size < 1 || items.size > SET_NAMES_MAX) {
    throw new RangeError(`names must be 1 to ${String(SET_NAMES_MAX)} different names, not ${String(items.size)}`);
  }
  return [...items.values()].sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
}

function itemOf(given: string | LockInSet): Item {
  const isObject = typeof given === "object" && (given as unknown) !== null;
  const { name, shared = false } = isObject ? given : { name: given };
  checkText("a name", name);
  checkBoolean(`shared of ${name}`, shared);
  return { name, shared };
}

/** A lock for unit tests: no server and no clock decide about it, but the test. */
import { randomUUID } from "node:crypto";
import { inspect } from "node:util";
import { checkMetadata } from "../arguments.js";
import { here, LockLost, LockWanted, type LossReason } from "../errors.js";
import type { Released } from "../info.js";
import type { Lock } from "../lock.js";
import type { End, Mode } from "../wire.js";

/** What code under test reads of the lock. */
export interface FakeLockOptions {
  /** Default: 1. */
  readonly token?: number;
  /** Default: `exclusive`. */
  readonly mode?: "exclusive" | "shared";
  /** Default: a random UUID. */
  readonly grantId?: string;
  /** Default: `fake`. */
  readonly holder?: string;
  /** Default: `unspecified`. */
  readonly previousEnd?: End;
  /** In milliseconds. While the lock is held, all of it remains. Default: 30,000. */
  readonly ttl?: number;
}

/**
 * A {@link Lock} for unit tests of code that takes one. It is held until the test loses it, or until it is released.
 * There is no queue behind it and no clock in it, so `maxHold`, `minHold`, `lockDelay` and `semaphore` have no part
 * here: a `Server` honours them.
 *
 * ```ts
 * const lock = new FakeLock("orders/42", { token: 7 });
 * const working = work(lock);
 * lock.lose();
 * await assert.rejects(working, LockLost);
 * assert.ok(lock.isReleased);
 * ```
 */
export class FakeLock implements Lock {
  readonly name: string;
  readonly grantId: string;
  readonly permits = 0;
  readonly slot = undefined;
  readonly previousEnd: End;
  readonly ttl: number;
  readonly signal: AbortSignal;
  /** Whether renewals fail, as {@link status} says while the lock is held. A test may set it. */
  isAtRisk = false;
  /** Whether others share it, so that {@link tryUpgrade} resolves with `false`. A test may set it. */
  hasOtherReaders = false;
  /** What the code under test has described it with. */
  metadata: Readonly<Record<string, string>> = {};
  #holder: string;
  #descriptions = 0;
  #token: number;
  #mode: "exclusive" | "shared";
  readonly wanted: AbortSignal;
  readonly #wanting = new AbortController();
  readonly #controller = new AbortController();
  #loss: LockLost | undefined;
  #isReleased = false;
  #thrown = false;

  constructor(name: string, options: FakeLockOptions = {}) {
    this.name = name;
    this.#token = options.token ?? 1;
    this.#mode = options.mode ?? "exclusive";
    this.grantId = options.grantId ?? randomUUID();
    this.#holder = options.holder ?? "fake";
    this.previousEnd = options.previousEnd ?? "unspecified";
    this.ttl = options.ttl ?? 30_000;
    this.signal = this.#controller.signal;
    this.wanted = this.#wanting.signal;
  }

  get token(): number {
    return this.#token;
  }

  get holder(): string {
    return this.#holder;
  }

  get mode(): "exclusive" | "shared" {
    return this.#mode;
  }

  /** Whether the code under test has released it, held or lost. */
  get isReleased(): boolean {
    return this.#isReleased;
  }

  /** Loses it, as a server or the clock does. A lock that is not held stays as it is. */
  lose(reason: Exclude<LossReason, "released" | "closed"> = "revoked", successorToken?: number): void {
    this.#end(new LockLost(this.name, this.token, reason, successorToken));
  }

  /** Somebody waits for it, who is told of as with `tellWhenWanted`. A lock that is not held stays as it is. */
  want(mode: Mode = "exclusive"): void {
    if (this.valid()) this.#wanting.abort(new LockWanted(this.name, mode));
  }

  get isWanted(): boolean {
    return this.wanted.aborted;
  }

  get status(): Lock["status"] {
    if (this.#loss !== undefined) return this.#loss.reason === "released" ? "released" : "lost";
    return this.isAtRisk ? "at-risk" : "held";
  }

  valid(): boolean {
    return this.#loss === undefined;
  }

  remaining(): number {
    return this.valid() ? this.ttl : 0;
  }

  throwIfLost(): void {
    if (this.#loss === undefined) return;
    this.#thrown = true;
    throw here(this.#loss);
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- it rejects if it throws
  async downgrade(): Promise<void> {
    this.throwIfLost();
    this.#mode = "shared";
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- it rejects if it throws
  async tryUpgrade(): Promise<boolean> {
    this.throwIfLost();
    if (this.#mode === "exclusive") return true;
    if (this.hasOtherReaders) return false;
    this.#mode = "exclusive";
    this.#token += 1;
    return true;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- it rejects if it throws
  async describe(metadata: Readonly<Record<string, string>>, holder?: string): Promise<number> {
    checkMetadata(metadata);
    this.throwIfLost();
    this.metadata = { ...metadata };
    this.#holder = holder ?? this.#holder;
    this.#descriptions += 1;
    return this.#descriptions;
  }

  release(): Promise<Released> {
    this.#isReleased = true;
    const own = new LockLost(this.name, this.token, "released", undefined, { isOwn: true });
    const { reason, successorToken } = this.#end(own);
    const isByClock = reason === "silence" || reason === "maxHold";
    return Promise.resolve({ end: isByClock ? "unspecified" : (reason as End), successorToken });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { end } = await this.release();
    if (this.#loss !== undefined && end !== "released" && !this.#thrown) throw here(this.#loss);
  }

  toString(): string {
    return `${this.name} (token ${String(this.token)}, ${this.status})`;
  }

  /** For `console.log`. */
  [inspect.custom](): string {
    return `FakeLock ${this.toString()}`;
  }

  /** It ends once, for the first reason. */
  #end(loss: LockLost): LockLost {
    if (this.#loss === undefined) {
      this.#loss = loss;
      this.#controller.abort(loss);
    }
    return this.#loss;
  }
}

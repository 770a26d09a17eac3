/** A held lock, as its holder sees it. */
import { inspect } from "node:util";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { LockLost } from "./errors.js";
import { releaseWhenForgotten } from "./forgotten.js";
import type { Released } from "./info.js";
import type { Lease, LeaseListener } from "./lease.js";
import { release } from "./releasing.js";
import { callSite, traced } from "./traced.js";
import type { End } from "./wire.js";

/**
 * A held lock. The client renews it until it is released, while this process runs. Keep the lock, or read its
 * {@link signal}: a lock that nobody refers to any more is released, with a warning in the log.
 *
 * Send {@link token} with every write to the store that the lock protects, and have the store refuse lower tokens (the
 * guards of this package do that). The token, not the lease, stops a holder that was paused.
 */
export class Lock implements AsyncDisposable {
  readonly #core: Core;
  readonly #lease: Lease;
  #controller: AbortController | undefined;
  #thrown = false;

  /** @internal */
  constructor(core: Core, lease: Lease, onAtRisk?: (lock: Lock) => void) {
    this.#core = core;
    this.#lease = lease;
    lease.listener = Lock.#listener(core, lease, new WeakRef(this), onAtRisk);
    releaseWhenForgotten(this, core, lease);
  }

  /** The lock's name. */
  get name(): string {
    return this.#lease.name;
  }

  /** The fencing token: above those of all earlier grants of the lock, and below 2^53. */
  get token(): number {
    return this.#lease.token;
  }

  /** The public id of the grant. Store it together with the token. */
  get grantId(): string {
    return this.#lease.grantId;
  }

  /** The label that others see as the holder. */
  get holder(): string {
    return this.#lease.holder;
  }

  /** How the lock's previous lease ended. For any value but `released`, check for unfinished work of its holder. */
  get previousEnd(): End {
    return this.#lease.previousEnd;
  }

  /** How long the lease lasts without a renewal, in milliseconds. */
  get ttl(): number {
    return this.#lease.ttl;
  }

  /**
   * Aborts when the lock is no longer held, with a {@link LockLost} as its reason: as soon as a server reports it, at
   * the latest when the validity ends by the local clock. It also aborts when the lock is released.
   *
   * A signal is a notification: while the event loop is blocked, nobody is notified. {@link valid} reads the clock.
   *
   * A lock whose signal was read is renewed until it is released, even if nobody refers to it any more.
   */
  get signal(): AbortSignal {
    const loss = this.#lease.loss(now());
    if (loss === undefined) this.#lease.pinned = this;
    this.#controller ??= new AbortController();
    if (loss !== undefined) this.#controller.abort(loss);
    return this.#controller.signal;
  }

  /** `at-risk`: still held, but renewals fail. */
  get status(): "held" | "at-risk" | "lost" | "released" {
    const loss = this.#lease.loss(now());
    if (loss !== undefined) return loss.reason === "released" ? "released" : "lost";
    return this.#lease.isAtRisk ? "at-risk" : "held";
  }

  /** Whether the lock is held, by the local clock, which is read each time. Once false, it stays false. */
  valid(): boolean {
    return this.#lease.loss(now()) === undefined;
  }

  /** How long the lock is held without another renewal, in milliseconds; 0 if it is not held. */
  remaining(): number {
    return this.#lease.remaining(now());
  }

  /**
   * Call it before a step that needs the lock.
   *
   * @throws LockLost if the lock is not held, by the local clock, which is read each time.
   */
  throwIfLost(): void {
    const loss = this.#lease.loss(now());
    if (loss === undefined) return;
    this.#thrown = true;
    throw here(loss);
  }

  /**
   * Releases the lock. Stop the work that it protects before: another holder may get it at any moment. Calling it again
   * has no effect and the same answer.
   *
   * If the lock is lost by the local clock, this returns at once with the end `unspecified`, and the release goes on in
   * the background.
   *
   * A caller that does not wait for the promise need not handle its rejection.
   *
   * @throws OutcomeUnknown if no server answered in time. It is repeated in the background, and the lease ends by
   * its TTL at the latest.
   */
  release(): Promise<Released> {
    const released = traced(() => release(this.#core, this.#lease), callSite());
    // A caller that does not wait for it is not told, and no unhandled rejection ends the process.
    released.catch(() => undefined);
    return released;
  }

  /**
   * Releases the lock at the end of an `await using` block.
   *
   * @throws LockLost if the lock was lost before, unless {@link throwIfLost} has said so. Work of the block may then
   * have been done without the lock.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    const loss = this.#lease.loss(now());
    const released = this.release();
    if (loss !== undefined && loss.reason !== "released") {
      if (this.#thrown) return;
      throw here(loss);
    }
    try {
      const { end, successorToken } = await released;
      if (end === "released") return;
      throw new LockLost(this.name, this.token, end === "unspecified" ? "unknown" : end, successorToken);
    } catch (error) {
      if (error instanceof LockLost) throw error;
      // Not confirmed: the lease ends by its TTL, and the work of the block was done with the lock.
    }
  }

  /** Such as `orders/42 (token 7, held)`. */
  toString(): string {
    return `${this.name} (token ${String(this.token)}, ${this.status})`;
  }

  /** For `console.log`. */
  [inspect.custom](): string {
    return `Lock ${this.toString()}`;
  }

  /** Tells the holder about the lease. It refers to the lock weakly: `forgotten.ts` says why. */
  static #listener(
    core: Core,
    { name, token }: Lease,
    lock: WeakRef<Lock>,
    onAtRisk: ((lock: Lock) => void) | undefined,
  ): LeaseListener {
    return {
      lost: (loss) => {
        const held = lock.deref();
        if (held) held.#controller?.abort(loss);
        if (!loss.isOwn) core.log.warn(loss.message, { lock: name, token });
      },
      atRisk: (cause, remaining) => {
        const left = `${(remaining / 1000).toFixed(1)} s`;
        const text = `renewals of ${name} fail, it is valid for another ${left}: ${cause}`;
        core.log.warn(text, { lock: name, token, cause });
        const held = lock.deref();
        // In a task of its own: an error in user code must not end the loop that answers the server.
        if (onAtRisk && held) setImmediate(onAtRisk, held);
      },
      recovered: () => {
        core.log.info(`${name} is renewed again`, { lock: name, token });
      },
    };
  }
}

/** The same loss with the stack of its caller: it was made when the lease ended. */
function here({ lockName, token, reason, successorToken, isOwn }: LockLost): LockLost {
  return new LockLost(lockName, token, reason, successorToken, { isOwn });
}

/** A lock that a server has granted. */
import { inspect } from "node:util";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { convert } from "./converting.js";
import { describe } from "./describing.js";
import { here, LockLost, seconds } from "./errors.js";
import { releaseWhenForgotten } from "./forgotten.js";
import type { Released } from "./info.js";
import type { Lease, LeaseListener } from "./lease.js";
import type { Lock } from "./lock.js";
import { release } from "./releasing.js";
import { callSite, traced } from "./traced.js";
import type { End, Mode } from "./wire.js";

export class HeldLock implements Lock {
  readonly #core: Core;
  readonly #lease: Lease;
  #controller: AbortController | undefined;
  #wanted: AbortController | undefined;
  #thrown = false;

  /** `onEnd` is for the set that the lock belongs to. It must not refer to the lock. */
  constructor(core: Core, lease: Lease, onAtRisk?: (lock: Lock) => void, onEnd?: (loss: LockLost) => void) {
    this.#core = core;
    this.#lease = lease;
    lease.listener = HeldLock.#listener(core, lease, new WeakRef(this), onAtRisk, onEnd);
    releaseWhenForgotten(this, core, lease);
  }

  get name(): string {
    return this.#lease.name;
  }

  get token(): number {
    return this.#lease.token;
  }

  get mode(): Mode {
    return this.#lease.mode;
  }

  get grantId(): string {
    return this.#lease.grantId;
  }

  get permits(): number {
    return this.#lease.permits;
  }

  get slot(): number | undefined {
    return this.#lease.slot;
  }

  get holder(): string {
    return this.#lease.holder;
  }

  get previousEnd(): End {
    return this.#lease.previousEnd;
  }

  get ttl(): number {
    return this.#lease.ttl;
  }

  get signal(): AbortSignal {
    const loss = this.#lease.loss(now());
    if (loss === undefined) this.#lease.pinned = this;
    this.#controller ??= new AbortController();
    if (loss !== undefined) this.#controller.abort(loss);
    return this.#controller.signal;
  }

  get isWanted(): boolean {
    return this.#lease.wanted !== undefined;
  }

  get wanted(): AbortSignal {
    if (this.valid()) this.#lease.pinned = this;
    this.#wanted ??= new AbortController();
    if (this.#lease.wanted !== undefined) this.#wanted.abort(this.#lease.wanted);
    return this.#wanted.signal;
  }

  get status(): "held" | "at-risk" | "lost" | "released" {
    const loss = this.#lease.loss(now());
    if (loss !== undefined) return loss.reason === "released" ? "released" : "lost";
    return this.#lease.isAtRisk ? "at-risk" : "held";
  }

  valid(): boolean {
    return this.#lease.loss(now()) === undefined;
  }

  remaining(): number {
    return this.#lease.remaining(now());
  }

  throwIfLost(): void {
    const loss = this.#lease.loss(now());
    if (loss === undefined) return;
    this.#thrown = true;
    throw here(loss);
  }

  downgrade(): Promise<void> {
    return traced(async () => {
      await convert(this.#core, this.#lease, "shared");
    });
  }

  tryUpgrade(): Promise<boolean> {
    return traced(() => convert(this.#core, this.#lease, "exclusive"));
  }

  describe(metadata: Readonly<Record<string, string>>, holder?: string): Promise<number> {
    return traced(() => describe(this.#core, this.#lease, metadata, holder));
  }

  release(): Promise<Released> {
    const released = traced(() => release(this.#core, this.#lease), callSite());
    // A caller that does not wait for it is not told, and no unhandled rejection ends the process.
    released.catch(() => undefined);
    return released;
  }

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
    lease: Lease,
    lock: WeakRef<HeldLock>,
    onAtRisk: ((lock: Lock) => void) | undefined,
    onEnd: ((loss: LockLost) => void) | undefined,
  ): LeaseListener {
    const { name } = lease;
    return {
      lost: (loss) => {
        const held = lock.deref();
        if (held) held.#controller?.abort(loss);
        onEnd?.(loss);
        if (!loss.isOwn) core.log.warn(loss.message, { lock: name, token: lease.token });
      },
      atRisk: (cause, remaining) => {
        const text = `renewals of ${name} fail, it is valid for another ${seconds(remaining)}: ${cause}`;
        core.log.warn(text, { lock: name, token: lease.token, cause });
        const held = lock.deref();
        // In a task of its own: an error in user code must not end the loop that answers the server.
        if (onAtRisk && held) setImmediate(onAtRisk, held);
      },
      bounded: (remaining) => {
        const left = seconds(remaining);
        const text = `${name} reaches its max_hold: no renewal extends it, and it is valid for another ${left}`;
        core.log.warn(text, { lock: name, token: lease.token });
      },
      wanted: (wanted) => {
        const held = lock.deref();
        if (held) held.#wanted?.abort(wanted);
      },
      recovered: () => {
        core.log.info(`${name} is renewed again`, { lock: name, token: lease.token });
      },
    };
  }
}

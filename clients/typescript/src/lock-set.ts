/** Several locks, as the code that works under them sees them. */
import { inspect } from "node:util";
import { here, LockLost, NotAllReleased } from "./errors.js";
import type { Released } from "./info.js";
import type { Lock } from "./lock.js";

/**
 * Several locks that this process holds together, in the order of the bytes of their names.
 *
 * Each has a token of its own: send `locks.get(name).token` with every write to the store that this lock protects. The
 * set is valid until the first of its locks ends, and lost when one is. Stop the work then, and release the set: the
 * others are held until that. `usingAll` and `await using` do that.
 */
export class LockSet implements AsyncDisposable, Iterable<Lock> {
  readonly #locks: ReadonlyMap<string, Lock>;
  readonly #signal: AbortSignal;
  #thrown = false;

  /** Made by a client. The signal aborts with the first end of a lock. */
  constructor(locks: readonly Lock[], signal: AbortSignal) {
    this.#locks = new Map(locks.map((lock) => [lock.name, lock]));
    this.#signal = signal;
  }

  /** The names of the locks, each once, sorted by the bytes of UTF-8. */
  get names(): readonly string[] {
    return [...this.#locks.keys()];
  }

  /** The fencing token of each lock. */
  get tokens(): ReadonlyMap<string, number> {
    return new Map([...this].map(({ name, token }) => [name, token]));
  }

  /** One of the locks. Do not release it by itself. @throws RangeError if the set has none of this name */
  get(name: string): Lock {
    const lock = this.#locks.get(name);
    if (lock === undefined) throw new RangeError(`name must be one of ${this.names.join(", ")}, not ${inspect(name)}`);
    return lock;
  }

  [Symbol.iterator](): Iterator<Lock> {
    return this.#locks.values();
  }

  /**
   * Aborts when one of the locks is no longer held, with its `LockLost` as the reason; also when they are released. As
   * with a single lock, locks whose signal was read are renewed until they are released.
   */
  get signal(): AbortSignal {
    [...this].forEach((lock) => lock.signal);
    return this.#signal;
  }

  /** Whether all locks are held, by the local clock, which is read each time. Once false, it stays false. */
  valid(): boolean {
    return [...this].every((lock) => lock.valid());
  }

  /** How long all locks are held without another renewal, in milliseconds; 0 if one is not held. */
  remaining(): number {
    return Math.min(...[...this].map((lock) => lock.remaining()));
  }

  /**
   * Call it before a step that needs the locks.
   *
   * @throws LockLost if one is not held, by the local clock, which is read each time.
   */
  throwIfLost(): void {
    const loss = this.#loss();
    if (loss === undefined) return;
    this.#thrown = true;
    throw here(loss);
  }

  /**
   * Releases all locks, the last one first, and resolves when all are answered. Stop the work that they protect before.
   * Calling it again has no effect and the same answer, which is that of the first lock that was not held until then,
   * else `released`.
   *
   * @throws NotAllReleased if no server confirmed the release of some in time. The error names them; the others are
   * released.
   */
  release(): Promise<Released> {
    const released = this.#release();
    // A caller that does not wait for it is not told, and no unhandled rejection ends the process.
    released.catch(() => undefined);
    return released;
  }

  async #release(): Promise<Released> {
    const { done, failed, cause } = await releaseAll([...this]);
    if (failed.length > 0) throw new NotAllReleased(failed, { cause });
    return done.find(({ end }) => end !== "released") ?? { end: "released", successorToken: undefined };
  }

  /**
   * Releases the locks at the end of an `await using` block.
   *
   * @throws LockLost if one of the locks was lost before, unless {@link throwIfLost} has said so.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    let loss = this.#loss();
    // Released before: that was no loss. The end of a client is one, since the body did not ask for it.
    if (loss?.isOwn === true && loss.reason === "released") loss = undefined;
    for (const { name, token, releasing } of [...this].reverse().map(releaseOf)) {
      const released = await releasing;
      if (released === undefined || released.end === "released") continue;
      const reason = released.end === "unspecified" ? "unknown" : released.end;
      loss ??= new LockLost(name, token, reason, released.successorToken);
    }
    if (loss !== undefined && !this.#thrown) throw here(loss);
  }

  /** Such as `a (token 7, held), b (token 9, held)`. */
  toString(): string {
    return [...this].join(", ");
  }

  /** For `console.log`. */
  [inspect.custom](): string {
    return `LockSet ${this.toString()}`;
  }

  /** That of a lock that was lost, else of one whose client was closed, rather than of one that was released. */
  #loss(): LockLost | undefined {
    const losses = [...this].map(lossOf).filter((loss) => loss !== undefined);
    return losses.find(({ isOwn }) => !isOwn) ?? losses.find(({ reason }) => reason === "closed") ?? losses[0];
  }
}

function lossOf(lock: Lock): LockLost | undefined {
  try {
    lock.throwIfLost();
    return undefined;
  } catch (error) {
    if (error instanceof LockLost) return error;
    throw error;
  }
}

/** Begins the release of a lock. What is not confirmed has no result. */
function releaseOf(lock: Lock): { name: string; token: number; releasing: Promise<Released | undefined> } {
  return { name: lock.name, token: lock.token, releasing: lock.release().catch(() => undefined) };
}

/** Releases locks, the last one first. Resolves when all are answered; the names are in the order of the locks. */
export async function releaseAll(
  locks: readonly Lock[],
): Promise<{ done: Released[]; failed: string[]; cause: unknown }> {
  const releasing = [...locks].reverse().map((lock) => ({ name: lock.name, released: lock.release() }));
  const [done, failed, causes]: [Released[], string[], unknown[]] = [[], [], []];
  for (const { name, released } of releasing.reverse()) {
    try {
      done.push(await released);
    } catch (error) {
      failed.push(name);
      causes.push(error);
    }
  }
  return { done, failed, cause: causes[0] };
}

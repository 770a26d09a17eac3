/** Runs the work under locks that are held. */
import { LockLost } from "./errors.js";
import type { Lock } from "./lock.js";
import type { LockSet } from "./lock-set.js";

/** The work under a lock. */
export type Body<T> = (lock: Lock, signal: AbortSignal) => T | Promise<T>;

/** The work under several locks. */
export type SetBody<T> = (locks: LockSet, signal: AbortSignal) => T | Promise<T>;

/** How a body ended. */
export type Outcome<T> = { readonly value: T } | { readonly error: unknown };

/** A lock, or several. */
type Held = AsyncDisposable & { readonly signal: AbortSignal };

/** Runs a body, with a signal that aborts when a lock is lost, and when that of the caller aborts. Never rejects. */
export async function run<H extends Held, T>(
  held: H,
  outer: AbortSignal | undefined,
  body: (held: H, signal: AbortSignal) => T | Promise<T>,
): Promise<Outcome<T>> {
  // Read for the body in any case: the lock is then not forgotten, whatever the body refers to.
  const signal = outer ? AbortSignal.any([held.signal, outer]) : held.signal;
  try {
    return { value: await body(held, signal) };
  } catch (error) {
    return { error };
  }
}

/** Runs a body under locks that are held, and releases them. */
export async function under<H extends Held, T>(
  held: H,
  outer: AbortSignal | undefined,
  body: (held: H, signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const outcome = await run(held, outer, body);
  const cause = "error" in outcome ? { cause: outcome.error } : undefined;
  try {
    await held[Symbol.asyncDispose]();
  } catch (loss) {
    if (!(loss instanceof LockLost)) throw loss;
    const { lockName, token, reason, successorToken, isOwn } = loss;
    throw new LockLost(lockName, token, reason, successorToken, { ...cause, isOwn });
  }
  if ("error" in outcome) throw outcome.error;
  return outcome.value;
}

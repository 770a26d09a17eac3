/** A lock, as the code that works under it sees it. */
import type { Released } from "./info.js";
import type { End } from "./wire.js";

/**
 * A held lock. The client renews it until it is released, while this process runs. Keep the lock, or read its
 * {@link signal}: a lock that nobody refers to any more is released, with a warning in the log.
 *
 * Send {@link token} with every write to the store that the lock protects, and have the store refuse lower tokens (the
 * guards of this package do that). The token, not the lease, stops a holder that was paused.
 *
 * Unit tests of code that takes a lock pass a `FakeLock` of `@fencepost/client/testing`. New versions of this package
 * may add members.
 */
export interface Lock extends AsyncDisposable {
  /** The lock's name. */
  readonly name: string;

  /** The fencing token: above those of all earlier grants of the lock, and below 2^53. */
  readonly token: number;

  /** The public id of the grant. Store it together with the token. */
  readonly grantId: string;

  /** How many permits of a semaphore it has; 0 if the lock is held as none. */
  readonly permits: number;

  /**
   * Its slot, if it has one permit of a semaphore: a number that no other holder has, the lowest that was free, from 1
   * to the limit. For what exists so many times: ids of workers, ports, seats of a licence.
   */
  readonly slot: number | undefined;

  /** The label that others see as the holder. */
  readonly holder: string;

  /** How the lock's previous lease ended. For any value but `released`, check for unfinished work of its holder. */
  readonly previousEnd: End;

  /** How long the lease lasts without a renewal, in milliseconds. */
  readonly ttl: number;

  /**
   * Aborts when the lock is no longer held, with a `LockLost` as its reason: as soon as a server reports it, at
   * the latest when the validity ends by the local clock. It also aborts when the lock is released.
   *
   * A signal is a notification: while the event loop is blocked, nobody is notified. {@link valid} reads the clock.
   *
   * A lock whose signal was read is renewed until it is released, even if nobody refers to it any more.
   */
  readonly signal: AbortSignal;

  /** `at-risk`: still held, but renewals fail. */
  readonly status: "held" | "at-risk" | "lost" | "released";

  /** Whether the lock is held, by the local clock, which is read each time. Once false, it stays false. */
  valid(): boolean;

  /** How long the lock is held without another renewal, in milliseconds; 0 if it is not held. */
  remaining(): number;

  /**
   * Call it before a step that needs the lock.
   *
   * @throws LockLost if the lock is not held, by the local clock, which is read each time.
   */
  throwIfLost(): void;

  /**
   * Releases the lock. Stop the work that it protects before: another holder may get it at any moment. Calling it again
   * has no effect and the same answer.
   *
   * If the lock is lost by the local clock, this returns at once with the end `unspecified`, and the release goes on in
   * the background. A release also ends the `lockDelay` of a lock that is lost.
   *
   * A caller that does not wait for the promise need not handle its rejection.
   *
   * @throws OutcomeUnknown if no server answered in time. It is repeated in the background, and the lease ends by
   * its TTL at the latest.
   */
  release(): Promise<Released>;

  /**
   * Releases the lock at the end of an `await using` block.
   *
   * @throws LockLost if the lock was lost before, unless {@link throwIfLost} has said so. Work of the block may then
   * have been done without the lock.
   */
  [Symbol.asyncDispose](): Promise<void>;

  /** Such as `orders/42 (token 7, held)`. */
  toString(): string;
}

/** A lock, as the code that works under it sees it. */
import type { Released } from "./info.js";
import type { End, Mode } from "./wire.js";

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

  /**
   * The fencing token: above those of all earlier grants of the lock, and below 2^53. {@link tryUpgrade} changes it:
   * read it for each write.
   */
  readonly token: number;

  /** Which other holders it excludes. Conversions change it. */
  readonly mode: Mode;

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

  /**
   * Whether somebody waits whom this lock excludes, as far as it is known: only for a lock that was acquired with
   * `tellWhenWanted`. It is a hint, which may get lost when another server takes over. Once true, it stays true.
   */
  readonly isWanted: boolean;

  /**
   * Aborts when {@link isWanted} becomes true, with a `LockWanted` as its reason. The lock is held on. As with
   * {@link signal}, a lock whose `wanted` was read is renewed until it is released.
   */
  readonly wanted: AbortSignal;

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
   * Lets others share the lock from now on: it stays held without a moment in between, and keeps its token. Readers
   * that are next in the queue get the lock at once, and a writer that waits comes after them. Stop writing before you
   * call this, because readers may come in although no answer arrives. A lock that is shared already stays so.
   *
   * Conversions of a lock are done one after another.
   *
   * @throws Refused (NOT_CONVERTIBLE) for a semaphore
   * @throws LockLost if the lock is not held
   * @throws OutcomeUnknown if no answer arrived in time: call it again, a repeat answers what the first call did
   * @throws Unavailable if no server can be reached, or each one that answers did nothing
   */
  downgrade(): Promise<void>;

  /**
   * Makes a shared lock exclusive if nobody else shares it or is offered it. If somebody does, this resolves with
   * `false`, and the lock stays shared. It never waits, because two readers would wait for each other: one of them has
   * to release. A lock that is exclusive already stays so, with a new token.
   *
   * Afterwards the lock has a new {@link token}: read it for each write, and raise the fence of a guard with it.
   *
   * @throws OutcomeUnknown if no answer arrived in time. The lock may then be exclusive, with a newer token than the
   * one that it shows: call this again, a repeat answers what the first call did
   * @throws the other errors of {@link downgrade}; NOT_CONVERTIBLE for a semaphore only
   */
  tryUpgrade(): Promise<boolean>;

  /**
   * Replaces what others see of the holder: all of its metadata, and its label if one is given. The leader of an
   * election tells its address so, and a job its progress. Those who observe the lock see it at once. Resolves with the
   * number of the description, which they see as `description`.
   *
   * @throws LockLost if the lock is not held
   * @throws Refused with the reason `OUTDATED` if another process that knows the lease described it meanwhile
   * @throws OutcomeUnknown if no answer arrived in time, Unavailable if nothing was done: describe it again
   */
  describe(metadata: Readonly<Record<string, string>>, holder?: string): Promise<number>;

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

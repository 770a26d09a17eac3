package io.fencepost.client;

import java.time.Duration;
import java.util.Map;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * A lock that this process holds. The client renews its lease in the background until it is released or lost.
 *
 * <p>Send {@link #token()} with every write to the store that the lock protects, and let the store refuse lower tokens
 * (package {@code io.fencepost.client.guards} does that). The token, not the lease, stops a holder that was paused.
 *
 * <p>Release it. A lock that the program forgets, so that the garbage collector finds it, is released then, with a
 * warning. The stage of {@link #lost()} and all stages that are made from it keep the lock as this object does; a
 * listener does not.
 *
 * <p>All methods may be called by any thread.
 *
 * <p>Do not implement this interface: it may get more methods. For tests, there is {@link
 * io.fencepost.client.testing.FakeLock}.
 */
public interface FencedLock extends AutoCloseable {
  /**
   * The lock's name.
   *
   * @return the name
   */
  String name();

  /**
   * The fencing token: higher than that of every earlier grant of the lock. {@link #tryUpgrade} changes it, so read it
   * for each write.
   *
   * @return the token, above 0 and below 2^53
   */
  long token();

  /**
   * How the lock is held. {@link #downgrade} and {@link #tryUpgrade} change it.
   *
   * @return the mode
   */
  LockMode mode();

  /**
   * Lets readers share the lock from now on: it stays held without a moment in between, and keeps its token. Readers
   * that are next in the queue get it at once; a writer that waits comes after them. Stop writing before you call this:
   * readers may come in although no answer arrives. A lock that is shared already stays so. A call waits for a
   * conversion of the lock by another thread.
   *
   * @throws LockLostException if the lock is lost or released
   * @throws RefusedException if the server refuses it: {@code NOT_CONVERTIBLE} for a semaphore
   * @throws UnavailableException if no server could be reached in 10 s, or each one that answered did nothing
   * @throws OutcomeUnknownException if no server answered; call it again to learn what became of it
   * @throws WaitInterruptedException if the thread is interrupted; the outcome is unknown then, too
   */
  void downgrade();

  /**
   * Makes a shared lock exclusive, if nobody else shares it or is offered it; if somebody does, it stays shared. It
   * never waits, because two readers would wait for each other. A lock that is exclusive already stays so, with a
   * new token. A call waits for a conversion of the lock by another thread.
   *
   * <p>Afterwards the lock has a <b>new token</b>, higher than all before. If the outcome is unknown, {@link #token()}
   * may be outdated, and a store may refuse it: call this again to learn what became of it, also from a thread that was
   * interrupted.
   *
   * @return whether the lock is exclusive now
   * @throws LockLostException if the lock is lost or released
   * @throws RefusedException if the server refuses it: {@code NOT_CONVERTIBLE} for a semaphore
   * @throws UnavailableException if no server could be reached in 10 s, or each one that answered did nothing
   * @throws OutcomeUnknownException if no server answered
   * @throws WaitInterruptedException if the thread is interrupted; the outcome is unknown then, too
   */
  boolean tryUpgrade();

  /**
   * Replaces the metadata that others see with the holder, all of it: the address of a leader, the progress of a job.
   * {@link FencepostClient#observe} and {@link FencepostClient#get} show it at once. A call waits for another
   * description or conversion of the lock.
   *
   * @param metadata the metadata; all keys and values together have at most 4 KiB
   * @return the number of the description, which others see as {@link HolderInfo#description()}
   * @throws LockLostException if the lock is lost or released
   * @throws RefusedException if the server refuses it; with the reason {@code OUTDATED} if another process, which knows
   *     the lease, has described it since
   * @throws UnavailableException if no server could be reached in 10 s, or each one that answered did nothing
   * @throws OutcomeUnknownException if no server answered
   * @throws WaitInterruptedException if the thread is interrupted; the outcome is unknown then, too
   */
  long describe(Map<String, String> metadata);

  /**
   * Replaces the metadata and the label that others see; see {@link #describe(Map)}.
   *
   * @param metadata the metadata
   * @param holder the label: at most 256 bytes of UTF-8 without control characters
   * @return the number of the description
   */
  long describe(Map<String, String> metadata, String holder);

  /**
   * The public id of the grant. Store it with the token.
   *
   * @return the id
   */
  String grantId();

  /**
   * How many permits of a semaphore it has; see {@link LockRequest#semaphore}.
   *
   * @return the number; 0 if the lock is held as none
   */
  int permits();

  /**
   * Its slot, if it has one permit of a semaphore: a number that no other holder has, the lowest that was free, from 1
   * to the limit. For what exists so many times: ids of workers, ports, seats of a licence.
   *
   * @return the slot; empty if it has several permits, or none
   */
  OptionalInt slot();

  /**
   * The label that others see as the holder. {@link #describe(Map, String)} changes it.
   *
   * @return the label
   */
  String holder();

  /**
   * How the lock's previous lease ended. Unless it was released, check what its holder left behind.
   *
   * @return the end; {@link LeaseEnd#UNSPECIFIED} if none is known
   */
  LeaseEnd previousEnd();

  /**
   * Whether the lease is valid by the local clock, which is read on each call: false as soon as the lease may be over
   * on the server, also after a pause of this process and before any timer ran. Once false, it stays false.
   *
   * @return whether the lock is held
   */
  boolean isValid();

  /**
   * How long the lease is still valid without another renewal.
   *
   * @return the time; zero if the lock is lost or released
   */
  Duration remaining();

  /**
   * Throws unless the lock is held. Call it before a step that cannot carry the token.
   *
   * @throws LockLostException if the lock is lost or released
   */
  void check();

  /**
   * Completes when the lock is lost: as soon as the server reports it, at the latest when its validity ends by the
   * local clock. Never completes if the lock is released, also by closing the client. Callbacks run on a thread of the
   * client's pool, unless they name an executor.
   *
   * @return a stage that completes with the loss
   */
  CompletionStage<Loss> lost();

  /**
   * Calls a listener once when the lock is lost; at once if it is lost already.
   *
   * @param executor runs the listener
   * @param listener receives the loss
   */
  void onLost(Executor executor, Consumer<Loss> listener);

  /**
   * Calls a listener each time renewals begin to fail. The lock is still held: {@link #remaining()} says for how long.
   *
   * @param executor runs the listener
   * @param listener is called without knowing whether a renewal arrives after all
   */
  void onAtRisk(Executor executor, Runnable listener);

  /**
   * Whether the server has told that somebody waits whom this lock excludes, if {@link LockRequest#tellWhenWanted} was
   * set. A hint: it may come late or be lost, and it stays true if nobody waits any more.
   *
   * @return whether somebody wanted it
   */
  boolean isWanted();

  /**
   * Calls a listener once when {@link #isWanted} becomes true; at once if it is true already.
   *
   * @param executor runs the listener
   * @param listener receives the mode that is waited for
   */
  void onWanted(Executor executor, Consumer<LockMode> listener);

  /**
   * Releases the lock and waits for the answer, at most 10 s. Stop the protected work first: another holder may get the
   * lock at any moment from now on. Idempotent. If the lock is lost already, this returns at once, and the client
   * releases in the background what may be left of the lease.
   *
   * @return how the lease ended: {@link LeaseEnd#RELEASED}, or how it was lost before; {@link LeaseEnd#UNSPECIFIED} if
   *     its validity ended before a renewal arrived
   * @throws OutcomeUnknownException if no server answered; the client repeats the release in the background
   * @throws WaitInterruptedException if the thread is interrupted; the client repeats the release in the background
   */
  LeaseEnd release();

  /**
   * Releases the lock without waiting for the answer.
   *
   * @return a future that completes with how the lease ended, on a thread of the client's pool
   */
  CompletableFuture<LeaseEnd> releaseAsync();

  /**
   * Releases the lock. If the lock is lost, no server answers, or the thread is interrupted, the release goes on in the
   * background.
   *
   * @throws LockLostException if the lock was lost before: work that was done since then is protected by its fencing
   *     token only
   */
  @Override
  void close();
}

package io.fencepost.client;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
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
 */
public final class FencedLock implements AutoCloseable {
  private final Keeper keeper;
  final Lease lease;
  private final LossStage<Loss> lost = new LossStage<>(this);
  private final List<Runnable> atRiskListeners = new CopyOnWriteArrayList<>();

  FencedLock(Keeper keeper, Lease lease) {
    this.keeper = keeper;
    this.lease = lease;
  }

  /**
   * The lock's name.
   *
   * @return the name
   */
  public String name() {
    return lease.name;
  }

  /**
   * The fencing token: higher than that of every earlier grant of the lock.
   *
   * @return the token, above 0 and below 2^53
   */
  public long token() {
    return lease.token;
  }

  /**
   * The public id of the grant. Store it with the token.
   *
   * @return the id
   */
  public String grantId() {
    return lease.grantId;
  }

  /**
   * The label that others see as the holder.
   *
   * @return the label
   */
  public String holder() {
    return lease.holder;
  }

  /**
   * How the lock's previous lease ended. Unless it was released, check what its holder left behind.
   *
   * @return the end; {@link LeaseEnd#UNSPECIFIED} if none is known
   */
  public LeaseEnd previousEnd() {
    return lease.previousEnd;
  }

  /**
   * Whether the lease is valid by the local clock, which is read on each call: false as soon as the lease may be over
   * on the server, also after a pause of this process and before any timer ran. Once false, it stays false.
   *
   * @return whether the lock is held
   */
  public boolean isValid() {
    return keeper.isValid(lease);
  }

  /**
   * How long the lease is still valid without another renewal.
   *
   * @return the time; zero if the lock is lost or released
   */
  public Duration remaining() {
    return isValid() ? Duration.ofNanos(Math.max(0, lease.validUntil - keeper.now())) : Duration.ZERO;
  }

  /**
   * Throws unless the lock is held. Call it before a step that cannot carry the token.
   *
   * @throws LockLostException if the lock is lost or released
   */
  public void check() {
    if (!isValid()) {
      Loss loss = lease.loss;
      throw loss != null ? new LockLostException(loss) : LockLostException.released(name(), token());
    }
  }

  /**
   * Completes when the lock is lost: as soon as the server reports it, at the latest when its validity ends by the
   * local clock. Never completes if the lock is released, also by closing the client. Callbacks run on a thread of the
   * client's pool, unless they name an executor.
   *
   * @return a stage that completes with the loss
   */
  public CompletionStage<Loss> lost() {
    return lost;
  }

  /**
   * Calls a listener once when the lock is lost; at once if it is lost already.
   *
   * @param executor runs the listener
   * @param listener receives the loss
   */
  public void onLost(Executor executor, Consumer<Loss> listener) {
    Objects.requireNonNull(listener, "listener must not be null");
    lost.thenAcceptAsync(listener, Objects.requireNonNull(executor, "executor must not be null"));
  }

  /**
   * Calls a listener each time renewals begin to fail. The lock is still held: {@link #remaining()} says for how long.
   *
   * @param executor runs the listener
   * @param listener is called without knowing whether a renewal arrives after all
   */
  public void onAtRisk(Executor executor, Runnable listener) {
    Objects.requireNonNull(executor, "executor must not be null");
    Objects.requireNonNull(listener, "listener must not be null");
    atRiskListeners.add(() -> executor.execute(listener));
  }

  /** Completes what waits for the loss. Called by a thread of the pool. */
  void lose(Loss loss) {
    lost.complete(loss);
  }

  /** Tells that renewals fail. Called by a thread of the pool. */
  void atRisk() {
    atRiskListeners.forEach(Runnable::run);
  }

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
  public LeaseEnd release() {
    CompletableFuture<LeaseEnd> released = keeper.release(lease);
    try {
      return released.get(Timing.RETRY_FOR, TimeUnit.NANOSECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      String message = "interrupted before the release of " + name() + " was confirmed";
      throw new WaitInterruptedException(message, interrupted);
    } catch (TimeoutException timeout) {
      throw new OutcomeUnknownException("no server has confirmed the release of " + name() + " in time", timeout);
    } catch (ExecutionException failed) {
      throw Exceptions.rethrown(failed);
    }
  }

  /**
   * Releases the lock without waiting for the answer.
   *
   * @return a future that completes with how the lease ended, on a thread of the client's pool
   */
  public CompletableFuture<LeaseEnd> releaseAsync() {
    CompletableFuture<LeaseEnd> answer = new CompletableFuture<>();
    keeper.release(lease).whenComplete((end, failure) -> keeper.inBackground(() -> {
      if (failure == null) {
        answer.complete(end);
      } else {
        answer.completeExceptionally(failure);
      }
    }));
    return answer;
  }

  /**
   * Releases the lock. If the lock is lost, no server answers, or the thread is interrupted, the release goes on in the
   * background.
   *
   * @throws LockLostException if the lock was lost before: work that was done since then is protected by its fencing
   *     token only
   */
  @Override
  public void close() {
    boolean held = isValid();
    Loss loss = lease.loss;
    try {
      LeaseEnd end = release();
      loss = lease.loss;
      if (held && loss == null && end != LeaseEnd.RELEASED) {
        loss = new Loss(name(), token(), reason(end), 0);
      }
    } catch (OutcomeUnknownException | WaitInterruptedException unconfirmed) {
      System.Logger.Level level = System.Logger.Level.DEBUG;
      System.getLogger("io.fencepost.client").log(level, unconfirmed.getMessage());
    }
    if (loss != null) {
      throw new LockLostException(loss);
    }
  }

  private static LossReason reason(LeaseEnd end) {
    return end == LeaseEnd.UNSPECIFIED ? LossReason.UNKNOWN : LossReason.valueOf(end.name());
  }

  /** Shows the name, the token and whether the lock is held. */
  @Override
  public String toString() {
    return "FencedLock[" + name() + ", token " + token() + (isValid() ? ", held]" : ", not held]");
  }
}

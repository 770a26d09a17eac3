package io.fencepost.client.testing;

import io.fencepost.client.Facts;
import io.fencepost.client.FencedLock;
import io.fencepost.client.LeaseEnd;
import io.fencepost.client.LockLostException;
import io.fencepost.client.Loss;
import io.fencepost.client.LossReason;
import java.time.Duration;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * A lock without a server, for unit tests of code that is given a lock. It is held until the test loses it or the code
 * releases it. Its callbacks run on the thread that calls {@link #lose()}, unless they name an executor.
 *
 * <p>It is one lock, without a request: options such as {@code minHold}, {@code lockDelay}, {@code shared} and {@code
 * semaphore} do nothing here. A {@link FencepostServer} obeys them.
 */
public final class FakeLock implements FencedLock {
  private final String name;
  private final long token;
  private final CompletableFuture<Loss> lost = new CompletableFuture<>();
  private final CompletableFuture<LeaseEnd> end = new CompletableFuture<>();
  private volatile boolean released;

  /**
   * A lock that is held.
   *
   * @param name the lock's name
   * @param token the fencing token
   */
  public FakeLock(String name, long token) {
    this.name = Objects.requireNonNull(name, "name must not be null");
    this.token = token;
  }

  /** Loses the lock as if an operator had revoked it. Does nothing if it is lost or released already. */
  public void lose() {
    if (end.complete(LeaseEnd.REVOKED)) {
      lost.complete(loss());
    }
  }

  private Loss loss() {
    return new Loss(name, token, LossReason.REVOKED, 0);
  }

  /**
   * Whether the code has released or closed the lock, be it lost or not.
   *
   * @return whether it has
   */
  public boolean isReleased() {
    return released;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public long token() {
    return token;
  }

  @Override
  public String grantId() {
    return "fake-grant";
  }

  @Override
  public int permits() {
    return 0;
  }

  @Override
  public OptionalInt slot() {
    return OptionalInt.empty();
  }

  @Override
  public String holder() {
    return "fake-holder";
  }

  @Override
  public LeaseEnd previousEnd() {
    return LeaseEnd.UNSPECIFIED;
  }

  @Override
  public boolean isValid() {
    return !end.isDone();
  }

  @Override
  public Duration remaining() {
    return isValid() ? Duration.ofMillis(Facts.DEFAULT_TTL_MS) : Duration.ZERO;
  }

  @Override
  public void check() {
    if (!isValid()) {
      throw end.join() == LeaseEnd.REVOKED
          ? new LockLostException(loss())
          : LockLostException.released(name, token);
    }
  }

  @Override
  public CompletionStage<Loss> lost() {
    return lost.minimalCompletionStage();
  }

  @Override
  public void onLost(Executor executor, Consumer<Loss> listener) {
    lost.thenAcceptAsync(listener, executor);
  }

  /** Never calls the listener: renewals of this lock do not fail. */
  @Override
  public void onAtRisk(Executor executor, Runnable listener) {}

  @Override
  public LeaseEnd release() {
    released = true;
    end.complete(LeaseEnd.RELEASED);
    return end.join();
  }

  @Override
  public CompletableFuture<LeaseEnd> releaseAsync() {
    return CompletableFuture.completedFuture(release());
  }

  @Override
  public void close() {
    if (release() == LeaseEnd.REVOKED) {
      throw new LockLostException(loss());
    }
  }

  /** Shows the name, the token and whether the lock is held. */
  @Override
  public String toString() {
    return "FakeLock[" + name + ", token " + token + (isValid() ? ", held]" : ", not held]");
  }
}

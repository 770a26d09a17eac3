package io.fencepost.client.testing;

import io.fencepost.client.Facts;
import io.fencepost.client.FencedLock;
import io.fencepost.client.LeaseEnd;
import io.fencepost.client.LockLostException;
import io.fencepost.client.LockMode;
import io.fencepost.client.Loss;
import io.fencepost.client.LossReason;
import java.time.Duration;
import java.util.Map;
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
  private volatile long token;
  private volatile LockMode mode = LockMode.EXCLUSIVE;
  private final CompletableFuture<Loss> lost = new CompletableFuture<>();
  private final CompletableFuture<LeaseEnd> end = new CompletableFuture<>();
  private final CompletableFuture<LockMode> wanted = new CompletableFuture<>();
  private volatile String holder = "fake-holder";
  private volatile Map<String, String> metadata = Map.of();
  private long descriptions;
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

  /** Lets the lock tell that somebody waits for it exclusively. Does nothing if it is lost or released. */
  public void want() {
    if (isValid()) {
      wanted.complete(LockMode.EXCLUSIVE);
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
  public LockMode mode() {
    return mode;
  }

  @Override
  public void downgrade() {
    check();
    mode = LockMode.SHARED;
  }

  /** Makes the lock exclusive, with the next token: nobody else shares it. */
  @Override
  public synchronized boolean tryUpgrade() {
    check();
    if (mode == LockMode.SHARED) {
      token = token + 1;
      mode = LockMode.EXCLUSIVE;
    }
    return true;
  }

  @Override
  public long describe(Map<String, String> metadata) {
    return describe(metadata, holder);
  }

  @Override
  public synchronized long describe(Map<String, String> metadata, String holder) {
    check();
    this.metadata = Map.copyOf(metadata);
    this.holder = Objects.requireNonNull(holder, "holder must not be null");
    return ++descriptions;
  }

  /**
   * What the code has described the lock with.
   *
   * @return the metadata of the last {@code describe}; empty before
   */
  public Map<String, String> metadata() {
    return metadata;
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
    return holder;
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

  @Override
  public boolean isWanted() {
    return wanted.isDone();
  }

  @Override
  public void onWanted(Executor executor, Consumer<LockMode> listener) {
    wanted.thenAcceptAsync(listener, executor);
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

package io.fencepost.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/**
 * Several locks that this process holds together, in the order of the bytes of their names.
 *
 * <p>Each has a token of its own: send {@code locks.get(name).token()} with every write to the store that this lock
 * protects. The set is valid until the first of its locks ends, and lost when one is. Stop the work then, and close the
 * set: the others are held until that.
 *
 * <p>All methods may be called by any thread.
 */
public final class LockSet implements AutoCloseable, Iterable<FencedLock> {
  private final List<HeldLock> locks;
  private final LossStage<Loss> lost = new LossStage<>(this);

  LockSet(List<HeldLock> locks) {
    this.locks = List.copyOf(locks);
    for (HeldLock lock : this.locks) {
      lock.onLost(Runnable::run, lost::complete);
    }
  }

  List<HeldLock> locks() {
    return locks;
  }

  /**
   * The names of the locks, each once, sorted by the bytes of UTF-8.
   *
   * @return the names
   */
  public List<String> names() {
    return locks.stream().map(HeldLock::name).toList();
  }

  /**
   * One of the locks. Do not release it by itself.
   *
   * @param name its name
   * @return the lock
   * @throws IllegalArgumentException if the set has none of this name
   */
  public FencedLock get(String name) {
    for (HeldLock lock : locks) {
      if (lock.name().equals(name)) {
        return lock;
      }
    }
    throw new IllegalArgumentException("name must be one of " + String.join(", ", names()) + ", not " + name);
  }

  /**
   * The fencing token of each lock.
   *
   * @return the tokens by name, in the order of the names
   */
  public Map<String, Long> tokens() {
    Map<String, Long> tokens = new LinkedHashMap<>();
    locks.forEach(lock -> tokens.put(lock.name(), lock.token()));
    return Collections.unmodifiableMap(tokens);
  }

  @Override
  public Iterator<FencedLock> iterator() {
    return List.<FencedLock>copyOf(locks).iterator();
  }

  /**
   * Whether all locks are held, by the local clock, which is read on each call. Once false, it stays false.
   *
   * @return whether all locks are held
   */
  public boolean isValid() {
    return locks.stream().allMatch(HeldLock::isValid);
  }

  /**
   * How long all locks are still valid without another renewal.
   *
   * @return the time; zero if one is lost or released
   */
  public Duration remaining() {
    return locks.stream().map(HeldLock::remaining).min(Comparator.naturalOrder()).orElse(Duration.ZERO);
  }

  /**
   * Throws unless all locks are held. Call it before a step that cannot carry the tokens.
   *
   * @throws LockLostException if one of the locks is lost or released
   */
  public void check() {
    locks.forEach(HeldLock::check);
  }

  /**
   * Completes when one of the locks is lost, like {@link FencedLock#lost()}. The stage keeps the locks.
   *
   * @return a stage that completes with the first loss
   */
  public CompletionStage<Loss> lost() {
    return lost;
  }

  /**
   * Releases all locks, the last one first, and waits for all answers, at most 10 s. Stop the protected work first.
   * Idempotent. A release without an answer is repeated in the background.
   *
   * @return how the leases ended: that of the first lock that was not held until then, else {@link LeaseEnd#RELEASED}
   * @throws NotAllReleasedException if the release of some is not confirmed; the others have ended
   * @throws WaitInterruptedException if the thread is interrupted; the client repeats the releases in the background
   */
  public LeaseEnd release() {
    return ends(releaseAsync(locks)).stream()
        .filter(end -> end != LeaseEnd.RELEASED)
        .findFirst()
        .orElse(LeaseEnd.RELEASED);
  }

  /** Waits for the releases. Returns the ends of all leases, in the order of the locks. */
  private List<LeaseEnd> ends(List<CompletableFuture<LeaseEnd>> releases) {
    List<LeaseEnd> ends = new ArrayList<>();
    List<String> unconfirmed = new ArrayList<>();
    FencepostException cause = null;
    long until = System.nanoTime() + Timing.RETRY_FOR;
    for (int at = 0; at < locks.size(); at++) {
      String name = locks.get(at).name();
      FencepostException failure;
      try {
        ends.add(releases.get(at).get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS));
        continue;
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new WaitInterruptedException("interrupted before the release of " + name + " was confirmed", interrupted);
      } catch (TimeoutException late) {
        failure = new OutcomeUnknownException("no server has confirmed the release of " + name + " in time", late);
      } catch (ExecutionException failed) {
        failure = Exceptions.rethrown(failed);
      }
      unconfirmed.add(name);
      cause = cause == null ? failure : cause;
    }
    if (cause != null) {
      throw new NotAllReleasedException(unconfirmed, cause);
    }
    return ends;
  }

  /** Starts the releases, the last one first. The futures are in the order of the locks. */
  static List<CompletableFuture<LeaseEnd>> releaseAsync(List<HeldLock> locks) {
    List<CompletableFuture<LeaseEnd>> releases = new ArrayList<>();
    for (int at = locks.size() - 1; at >= 0; at--) {
      releases.add(locks.get(at).releaseAsync());
    }
    Collections.reverse(releases);
    return releases;
  }

  /**
   * Releases all locks. If no server answers, or the thread is interrupted, the release goes on in the background.
   *
   * @throws LockLostException if one of the locks was lost before: work that was done since then is protected by its
   *     fencing token only
   */
  @Override
  public void close() {
    List<Boolean> held = locks.stream().map(HeldLock::isValid).toList();
    Loss loss = firstLoss();
    List<CompletableFuture<LeaseEnd>> releases = releaseAsync(locks);
    try {
      ends(releases);
    } catch (NotAllReleasedException | WaitInterruptedException unconfirmed) {
      System.Logger.Level level = System.Logger.Level.DEBUG;
      System.getLogger("io.fencepost.client").log(level, unconfirmed.getMessage());
    }
    // Also if some are not confirmed: the others may tell of a loss.
    loss = loss == null ? firstLoss() : loss;
    for (int at = 0; at < locks.size() && loss == null; at++) {
      HeldLock lock = locks.get(at);
      CompletableFuture<LeaseEnd> release = releases.get(at);
      boolean confirmed = release.isDone() && !release.isCompletedExceptionally();
      if (held.get(at) && confirmed && release.join() != LeaseEnd.RELEASED) {
        loss = new Loss(lock.name(), lock.token(), HeldLock.reason(release.join()), 0);
      }
    }
    if (loss != null) {
      throw new LockLostException(loss);
    }
  }

  private Loss firstLoss() {
    return locks.stream().map(lock -> lock.lease.loss).filter(loss -> loss != null).findFirst().orElse(null);
  }

  /** Shows the locks. */
  @Override
  public String toString() {
    return locks.stream().map(HeldLock::toString).collect(Collectors.joining(", ", "LockSet[", "]"));
  }
}

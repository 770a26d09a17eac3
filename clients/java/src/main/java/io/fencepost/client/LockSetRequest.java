package io.fencepost.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * A request for several locks: set options, then {@link #get()}, {@link #tryGet()}, {@link #getAsync()} or {@link
 * #run}. Nothing is sent before. Not to be shared by threads; each call of these methods is a request of its own.
 *
 * <p>It fails, and gives back what it has, when one of the locks is not acquired, and when one is lost while later ones
 * are waited for.
 */
public final class LockSetRequest {
  private final Keeper keeper;
  private final List<String> names;
  private final List<LockRequest> requests;
  private final boolean byTries;
  private Duration wait = Duration.ZERO;

  LockSetRequest(Keeper keeper, List<LockItem> items, String holder, boolean byTries) {
    List<LockItem> ordered = ordered(items);
    this.keeper = keeper;
    this.byTries = byTries;
    this.names = ordered.stream().map(LockItem::name).toList();
    this.requests = ordered.stream().map(item -> request(keeper, item, holder)).toList();
  }

  private static LockRequest request(Keeper keeper, LockItem item, String holder) {
    LockRequest request = new LockRequest(keeper, item.name(), holder);
    return item.mode() == LockMode.SHARED ? request.shared() : request;
  }

  static List<LockItem> exclusive(Collection<String> names) {
    return FencepostClient.notNull(names, "names").stream().map(LockItem::exclusive).toList();
  }

  /** Each item once, sorted by the bytes of UTF-8: Java itself compares UTF-16, which is another order. */
  static List<LockItem> ordered(List<LockItem> items) {
    Map<String, LockItem> unique = new LinkedHashMap<>();
    for (LockItem item : items) {
      LockItem before = unique.putIfAbsent(FencepostClient.notNull(item, "item").name(), item);
      if (before != null && before.mode() != item.mode()) {
        throw new IllegalArgumentException(item.name() + " must have one mode in a set, not both SHARED and EXCLUSIVE");
      }
    }
    if (unique.isEmpty() || unique.size() > Facts.SET_NAMES_MAX) {
      String rule = "names must be 1 to " + Facts.SET_NAMES_MAX + " different names, not " + unique.size();
      throw new IllegalArgumentException(rule);
    }
    return unique.values().stream()
        .sorted((a, b) -> Arrays.compareUnsigned(bytes(a.name()), bytes(b.name())))
        .toList();
  }

  private static byte[] bytes(String name) {
    return name.getBytes(StandardCharsets.UTF_8);
  }

  /**
   * How long each lease lasts without a renewal; see {@link LockRequest#ttl}.
   *
   * @param ttl the time
   * @return this request
   * @throws IllegalArgumentException if the time is not above 0
   */
  public LockSetRequest ttl(Duration ttl) {
    requests.forEach(request -> request.ttl(ttl));
    return this;
  }

  /**
   * The longest time to hold each of the locks from its grant; see {@link LockRequest#maxHold}. The
   * set is lost with the first lock for which it is over.
   *
   * @param maxHold the time: at least the TTL, at most 7 days; by default there is no bound
   * @return this request
   * @throws IllegalArgumentException if the time is not above 0
   */
  public LockSetRequest maxHold(Duration maxHold) {
    requests.forEach(request -> request.maxHold(maxHold));
    return this;
  }

  /**
   * The time from its grant for which each of the locks stays unavailable, however its lease ends; see {@link
   * LockRequest#minHold}. That goes for the locks that are given back, too, if a later one is not acquired.
   *
   * @param minHold the time: at most 24 h; zero, the default, for none
   * @return this request
   * @throws IllegalArgumentException if the time is below 0
   */
  public LockSetRequest minHold(Duration minHold) {
    requests.forEach(request -> request.minHold(minHold));
    return this;
  }

  /**
   * The time for which each of the locks stays unavailable after its lease if it is not released; see {@link
   * LockRequest#lockDelay}.
   *
   * @param lockDelay the time: at most 60 s; zero, the default, for none
   * @return this request
   * @throws IllegalArgumentException if the time is below 0
   */
  public LockSetRequest lockDelay(Duration lockDelay) {
    requests.forEach(request -> request.lockDelay(lockDelay));
    return this;
  }

  /**
   * How long to wait for all of the locks in sum.
   *
   * @param wait the time: at most 1 h, unless the server is configured otherwise; zero, the default, does not wait
   * @return this request
   * @throws IllegalArgumentException if the time is below 0
   */
  public LockSetRequest waitFor(Duration wait) {
    if (FencepostClient.notNull(wait, "wait").isNegative()) {
      throw new IllegalArgumentException("wait must be 0 or more, not " + wait);
    }
    this.wait = wait;
    return this;
  }

  /**
   * The label that others see as the holder, in place of the client's.
   *
   * @param label at most 256 bytes of UTF-8 without control characters
   * @return this request
   */
  public LockSetRequest holder(String label) {
    requests.forEach(request -> request.holder(label));
    return this;
  }

  /**
   * A label of what acquires the locks; see {@link LockRequest#owner}.
   *
   * @param owner at most 128 bytes of UTF-8 without control characters
   * @return this request
   */
  public LockSetRequest owner(String owner) {
    requests.forEach(request -> request.owner(owner));
    return this;
  }

  /**
   * Metadata shown with the holder of each lock. Call it once for each key.
   *
   * @param key the key
   * @param value the value; all keys and values together have at most 4 KiB
   * @return this request
   */
  public LockSetRequest metadata(String key, String value) {
    requests.forEach(request -> request.metadata(key, value));
    return this;
  }

  /**
   * Acquires all locks, and waits for them as long as {@link #waitFor} says.
   *
   * @return the locks; close them
   * @throws NotAllAcquiredException if one was not acquired, or was lost meanwhile; the others are given back. Its
   *     cause is an exception of {@link LockRequest#get()}
   * @throws WaitInterruptedException if the thread is interrupted; the client gives everything back in the background
   * @throws ClientClosedException if the client is closed
   */
  public LockSet get() {
    CompletableFuture<LockSet> future = getAsync();
    try {
      return future.get();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      if (!future.cancel(false) && !future.isCompletedExceptionally()) {
        LockSet.releaseAsync(future.join().locks());
      }
      String message = "interrupted while waiting for " + String.join(", ", names);
      throw new WaitInterruptedException(message, interrupted);
    } catch (ExecutionException failed) {
      throw Exceptions.rethrown(failed);
    }
  }

  /**
   * Acquires all locks like {@link #get()}.
   *
   * @return the locks, or empty if they were not free (after the wait, if one was requested)
   */
  public Optional<LockSet> tryGet() {
    try {
      return Optional.of(get());
    } catch (NotAllAcquiredException failed) {
      if (failed.getCause() instanceof ContendedException || failed.getCause() instanceof TimedOutException) {
        return Optional.empty();
      }
      throw failed;
    }
  }

  /**
   * Acquires all locks without blocking the thread. If the future is cancelled or completed otherwise (such as by
   * {@link CompletableFuture#orTimeout}), the client gives everything back in the background.
   *
   * @return a future of the locks, which fails with the exceptions of {@link #get()}
   */
  public CompletableFuture<LockSet> getAsync() {
    // The later requests are sent while the caller may already set options for another call.
    List<LockRequest> copies = requests.stream().map(LockRequest::copy).toList();
    return new Collecting(keeper, names, copies, Wire.nanos(wait), byTries).start();
  }

  /**
   * Runs a body under the locks.
   *
   * @param body the work
   * @param <X> the exception that it throws
   * @throws X if the body fails
   * @throws LockLostException if one of the locks was lost before the body returned
   */
  public <X extends Exception> void run(LockSetBody<X> body) throws X {
    try (LockSet locks = get()) {
      body.run(locks);
    }
  }
}

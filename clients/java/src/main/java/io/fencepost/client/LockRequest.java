package io.fencepost.client;

import io.fencepost.v1.AcquireRequest;
import io.fencepost.v1.LockMode;
import io.grpc.Status;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * A request for a lock: set options, then {@link #get()}, {@link #tryGet()}, {@link #getAsync()}, {@link #run} or
 * {@link #call}. Nothing is sent before. Not to be shared by threads; each call of these methods is a request of its
 * own.
 */
public final class LockRequest {
  /** The maximum size of the request of an operation: the envelope takes up to 25 bytes more. */
  private static final int REQUEST_BYTES_MAX = Facts.REQUEST_BYTES_MAX - 32;

  private final Keeper keeper;
  private final AcquireRequest.Builder request;
  private Duration wait = Duration.ZERO;

  LockRequest(Keeper keeper, String name, String holder) {
    this(keeper, AcquireRequest.newBuilder().setLockName(encodable(name, "lock name")).setHolder(holder));
  }

  private LockRequest(Keeper keeper, AcquireRequest.Builder request) {
    this.keeper = keeper;
    this.request = request;
  }

  String name() {
    return request.getLockName();
  }

  /** A request with the same options, except for the wait, that later changes of this one do not reach. */
  LockRequest copy() {
    return new LockRequest(keeper, request.clone());
  }

  /**
   * How long the lease lasts without a renewal: the lock of a holder that dies is free after this time. Choose at least
   * three times the longest pause that the holder must survive.
   *
   * @param ttl the time: 1 s to 24 h, unless the server is configured otherwise; by default the server's default,
   *     which is 30 s within its bounds
   * @return this request
   * @throws IllegalArgumentException if the time is not above 0
   */
  public LockRequest ttl(Duration ttl) {
    if (FencepostClient.notNull(ttl, "ttl").isNegative() || ttl.isZero()) {
      throw new IllegalArgumentException("ttl must be above 0, not " + ttl);
    }
    request.setTtl(Wire.duration(Wire.nanos(ttl)));
    return this;
  }

  /**
   * How long to wait in the queue if the lock is held.
   *
   * @param wait the time: at most 1 h, unless the server is configured otherwise; zero, the default, does not wait
   * @return this request
   * @throws IllegalArgumentException if the time is below 0
   */
  public LockRequest waitFor(Duration wait) {
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
  public LockRequest holder(String label) {
    request.setHolder(encodable(label, "holder"));
    return this;
  }

  /**
   * Metadata shown with the holder. Call it once for each key.
   *
   * @param key the key
   * @param value the value; all keys and values together have at most 4 KiB
   * @return this request
   */
  public LockRequest metadata(String key, String value) {
    request.putMetadata(encodable(key, "metadata key"), encodable(value, "metadata value"));
    return this;
  }

  /**
   * The id that identifies this request across retries; a random one by default. It belongs to one lock name and one
   * request. Keep it secret: whoever knows it can get the lease.
   *
   * @param id the id; not the nil UUID
   * @return this request
   */
  public LockRequest requestId(UUID id) {
    request.setRequestId(FencepostClient.notNull(id, "request id").toString());
    return this;
  }

  /**
   * The lowest token to grant, for a store that has seen a higher one than the server grants: pass the store's highest
   * token + 1. It raises the tokens of other locks too, so ask for no more than needed.
   *
   * @param token the lowest token; at most 24 h, in microseconds, above the server's time
   * @return this request
   */
  public LockRequest minToken(long token) {
    request.setMinToken(FencepostClient.notNegative(token, "minToken"));
    return this;
  }

  /**
   * The longest time to hold the lock, with all renewals: a bound on work that is stuck while its process goes on
   * renewing. When it is over, the lock is lost with {@link LossReason#MAX_HOLD}.
   *
   * @param maxHold the time: at least the TTL, at most 7 days; by default there is no bound
   * @return this request
   * @throws IllegalArgumentException if the time is not above 0
   */
  public LockRequest maxHold(Duration maxHold) {
    if (FencepostClient.notNull(maxHold, "maxHold").isNegative() || maxHold.isZero()) {
      throw new IllegalArgumentException("maxHold must be above 0, not " + maxHold);
    }
    request.setMaxHold(Wire.duration(Wire.nanos(maxHold)));
    return this;
  }

  /**
   * The time from the grant for which the lock stays unavailable, however the lease ends, release included. For jobs
   * that many machines start at one time by clocks that differ: the first one runs the job, and the others find the
   * lock unavailable although the job took 10 ms. Choose more than the clocks may differ, and less than the time
   * between two starts. With {@link #shared} it is the place of the reader that stays unavailable, which keeps out
   * writers; with {@link #semaphore} the permits and the slot.
   *
   * @param minHold the time: at most 24 h; zero, the default, for none
   * @return this request
   * @throws IllegalArgumentException if the time is below 0
   */
  public LockRequest minHold(Duration minHold) {
    request.setMinHold(orNone(minHold, "minHold"));
    return this;
  }

  /**
   * The time for which the lock stays unavailable after the end of the lease if its holder does not release it. For
   * stores that cannot compare tokens, in which a holder that has lost its lease may still be writing. A release by the
   * holder, however late, ends it.
   *
   * @param lockDelay the time: at most 60 s; zero, the default, for none
   * @return this request
   * @throws IllegalArgumentException if the time is below 0
   */
  public LockRequest lockDelay(Duration lockDelay) {
    request.setLockDelay(orNone(lockDelay, "lockDelay"));
    return this;
  }

  /**
   * Shares the lock with all others that ask for it so (readers), and excludes only those that do not (writers). A
   * reader never overtakes a writer that waits: a task that holds the lock and asks for it once more while a writer
   * waits, waits for itself until its wait is over. All servers have to know it, as with {@link #maxHold}.
   *
   * <p>Tokens rise with each grant, of readers too: readers that write next to each other must not be compared by the
   * plain guards.
   *
   * @return this request
   */
  public LockRequest shared() {
    return mode(LockMode.LOCK_MODE_SHARED);
  }

  /**
   * Takes a permit of a semaphore, of which all holders together use no more than a limit. Nobody else holds the lock
   * beside them, and requests are served in the order in which they came. A lock with one permit has a {@link
   * FencedLock#slot}, which no other holder has. Holders work side by side, so no store can order them by their tokens;
   * those of one slot it can. All servers have to know it, as with {@link #maxHold}. Not with {@link #shared}.
   *
   * <p>Each request names the limit. To change it, give the new one a higher {@link #permitLimitVersion}: a request
   * with another limit of the same version fails with a {@link RefusedException} (PERMIT_LIMIT_MISMATCH).
   *
   * @param limit the limit: 1 to 1,000,000
   * @return this request
   * @throws IllegalArgumentException if the limit is not in that range
   */
  public LockRequest semaphore(int limit) {
    if (limit < 1 || limit > Facts.PERMITS_MAX) {
      throw new IllegalArgumentException("limit must be from 1 to " + Facts.PERMITS_MAX + ", not " + limit);
    }
    request.setPermitLimit(limit);
    return mode(LockMode.LOCK_MODE_SEMAPHORE);
  }

  /**
   * How many permits of the {@link #semaphore} the lock takes. They are given back together. Ask for few: permits stay
   * unused until there are enough for the request that is next.
   *
   * @param permits the number: 1, the default, to the limit
   * @return this request
   * @throws IllegalArgumentException if the number is below 1
   */
  public LockRequest permits(int permits) {
    if (permits < 1) {
      throw new IllegalArgumentException("permits must be 1 or more, not " + permits);
    }
    request.setPermits(permits);
    return this;
  }

  /**
   * The version of the limit of the {@link #semaphore}. The highest one that a request has named is in force for as
   * long as the semaphore is held or waited for. Raise it with each change of the limit.
   *
   * @param version the version; by default 0
   * @return this request
   * @throws IllegalArgumentException if the version is below 0
   */
  public LockRequest permitLimitVersion(long version) {
    request.setPermitLimitVersion(FencepostClient.notNegative(version, "permitLimitVersion"));
    return this;
  }

  /**
   * A label of what acquires locks one after another, and waits for one while it holds others: a worker, a job, a
   * transaction. Others see it beside the holder, and {@code fencepost deadlocks} finds owners that wait for each
   * other. All servers have to know it, as with {@link #maxHold}.
   *
   * @param owner at most 128 bytes of UTF-8 without control characters
   * @return this request
   */
  public LockRequest owner(String owner) {
    request.setOwner(encodable(owner, "owner"));
    return this;
  }

  /**
   * Does not wait if so many requests wait already, but fails with {@link ContendedException}: for work that need not
   * be done twice, such as a build that the next one replaces. All servers have to know it, as with {@link #maxHold}.
   *
   * @param maxWaiters the number; by default there is no bound but that of the server
   * @return this request
   * @throws IllegalArgumentException if the number is below 1
   */
  public LockRequest maxWaiters(int maxWaiters) {
    if (maxWaiters < 1) {
      throw new IllegalArgumentException("maxWaiters must be 1 or more, not " + maxWaiters);
    }
    request.setMaxWaiters(maxWaiters);
    return this;
  }

  /**
   * Lets the lock tell when somebody waits whom it excludes ({@link FencedLock#onWanted}): for holders that keep a lock
   * while nobody else wants it, and for jobs that may be interrupted. All servers have to know it, as with {@link
   * #maxHold}.
   *
   * @return this request
   */
  public LockRequest tellWhenWanted() {
    request.setTellWhenWanted(true);
    return this;
  }

  private LockRequest mode(LockMode mode) {
    if (request.getMode() != LockMode.LOCK_MODE_UNSPECIFIED && request.getMode() != mode) {
      throw new IllegalStateException("a lock is either shared or a semaphore, not both");
    }
    request.setMode(mode);
    return this;
  }

  private static com.google.protobuf.Duration orNone(Duration time, String what) {
    if (FencepostClient.notNull(time, what).isNegative()) {
      throw new IllegalArgumentException(what + " must be 0 or more, not " + time);
    }
    return Wire.duration(Wire.nanos(time));
  }

  /**
   * Acquires the lock, and waits for it as long as {@link #waitFor} says.
   *
   * @return the lock; close it
   * @throws ContendedException if the lock is not free, and no wait was requested or {@link #maxWaiters} wait already
   * @throws TimedOutException if the wait ended without a grant
   * @throws UnavailableException if no server could be reached, or each one that answered did nothing
   * @throws RefusedException if the server refused the request
   * @throws OutcomeUnknownException if no server answered; the client withdraws the request in the background
   * @throws LockLostException if the lease was over before it arrived
   * @throws WaitInterruptedException if the thread is interrupted; the client withdraws the request in the background
   * @throws ClientClosedException if the client is closed
   */
  public FencedLock get() {
    AcquireOperation operation = start();
    try {
      return operation.result.get();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      String message = "interrupted while waiting for " + request.getLockName();
      WaitInterruptedException exception = new WaitInterruptedException(message, interrupted);
      keeper.abandon(operation, exception);
      throw exception;
    } catch (ExecutionException failed) {
      throw Exceptions.rethrown(failed);
    }
  }

  /**
   * Acquires the lock like {@link #get()}.
   *
   * @return the lock, or empty if it is not free (after the wait, if one was requested)
   */
  public Optional<FencedLock> tryGet() {
    try {
      return Optional.of(get());
    } catch (ContendedException | TimedOutException notFree) {
      return Optional.empty();
    }
  }

  /**
   * Acquires the lock without blocking the thread. If the future is cancelled or completed otherwise (such as by {@link
   * CompletableFuture#orTimeout}), the client withdraws the request in the background.
   *
   * <p>Nothing else gives up the wait: neither {@code get} with a timeout, nor the cancellation of a stage that was
   * made from the future. If the lock is granted later and nobody refers to the future, it is forgotten: it is released
   * with a warning once the garbage collector has run.
   *
   * @return a future of the lock, which fails with the exceptions of {@link #get()}; it completes on a thread of the
   *     client's pool
   */
  public CompletableFuture<FencedLock> getAsync() {
    AcquireOperation operation = start();
    CompletableFuture<FencedLock> future = new CompletableFuture<>();
    operation.result.whenComplete((lock, failure) -> keeper.inBackground(() -> {
      if (failure != null) {
        future.completeExceptionally(failure);
      } else if (!future.complete(lock)) {
        lock.releaseAsync();
      }
    }));
    future.whenComplete((lock, failure) -> {
      if (!operation.result.isDone()) {
        keeper.abandon(operation, new FencepostException("the request was cancelled", failure));
      }
    });
    return future;
  }

  /**
   * Runs a body under the lock.
   *
   * @param body the work
   * @param <X> the exception that it throws
   * @throws X if the body fails
   * @throws LockLostException if the lock was lost before the body returned
   */
  public <X extends Exception> void run(LockBody<X> body) throws X {
    try (FencedLock lock = get()) {
      body.run(lock);
    }
  }

  /**
   * Runs a function under the lock.
   *
   * @param function the work
   * @param <T> the type of its value
   * @param <X> the exception that it throws
   * @return its value
   * @throws X if the function fails
   * @throws LockLostException if the lock was lost before the function returned
   */
  public <T, X extends Exception> T call(LockFunction<T, X> function) throws X {
    try (FencedLock lock = get()) {
      return function.call(lock);
    }
  }

  private AcquireOperation start() {
    AcquireRequest message = request.build();
    boolean namesPermits = message.getPermits() != 0 || message.getPermitLimitVersion() != 0;
    if (namesPermits && message.getMode() != LockMode.LOCK_MODE_SEMAPHORE) {
      throw new IllegalStateException("permits and permitLimitVersion are those of a semaphore: call semaphore(limit)");
    }
    if (message.getSerializedSize() > REQUEST_BYTES_MAX) {
      // A larger message would end the session, and with it the operations of others.
      String text = "name, holder and metadata must have at most " + REQUEST_BYTES_MAX + " bytes in all, not "
          + message.getSerializedSize();
      throw new RefusedException(Status.Code.INVALID_ARGUMENT.name(), "INVALID_FIELD", text, List.of(), null);
    }
    AcquireOperation operation = new AcquireOperation(keeper, message, Wire.nanos(wait), keeper.now());
    keeper.start(operation);
    return operation;
  }

  /** Refuses text that UTF-8 cannot express: it would be sent as another name. */
  static String encodable(String text, String what) {
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(FencepostClient.notNull(text, what))) {
      throw new IllegalArgumentException(what + " must be text that UTF-8 can express, without single surrogates");
    }
    return text;
  }
}

package io.fencepost.client;

import java.time.Duration;

/**
 * A candidate of an election: whoever holds the lock leads. Set options, then {@link #run} or {@link #call}. Nothing is
 * sent before. Not to be shared by threads; each call of these methods is a candidate of its own.
 *
 * <p>The call campaigns: it acquires the lock, and waits for it as long as it takes, also while no server can be
 * reached. When it is elected, it runs the body on a daemon thread of its own, and waits for the body's end. If the
 * body returns or throws while it leads, the call releases the lock, and returns or throws the same.
 *
 * <p>If the lock is lost, the thread of the body is interrupted at once. The body must end then. What it returns is
 * dropped, and what it throws, too (the client logs an exception that does not come from the interrupt or the loss).
 * Then the call campaigns again.
 *
 * <p>To end the call, interrupt its thread: the body is interrupted, and the lock is released after the body has ended.
 * The call returns or throws what the body did, and the thread's interrupt status is set unless that is an {@link
 * InterruptedException}. While the call campaigns, and if the lock is lost, it throws {@link WaitInterruptedException}.
 *
 * <p>Closing the client ends a campaign. It does not interrupt a body: end the body first.
 *
 * <p>A leader that is paused notices its loss too late. It does no harm only if each write carries {@link
 * FencedLock#token()}, and the store refuses lower tokens.
 */
public final class LeadRequest {
  private final Keeper keeper;
  private final LockRequest request;

  LeadRequest(Keeper keeper, LockRequest request) {
    this.keeper = keeper;
    this.request = request;
  }

  /**
   * How long the lease lasts without a renewal; see {@link LockRequest#ttl}. The next one leads after this time if a
   * leader dies.
   *
   * @param ttl the time
   * @return this request
   * @throws IllegalArgumentException if the time is not above 0
   */
  public LeadRequest ttl(Duration ttl) {
    request.ttl(ttl);
    return this;
  }

  /**
   * The label that others see as the leader, in place of the client's.
   *
   * @param label at most 256 bytes of UTF-8 without control characters
   * @return this request
   */
  public LeadRequest holder(String label) {
    request.holder(label);
    return this;
  }

  /**
   * Metadata shown with the leader. Call it once for each key.
   *
   * @param key the key
   * @param value the value; all keys and values together have at most 4 KiB
   * @return this request
   */
  public LeadRequest metadata(String key, String value) {
    request.metadata(key, value);
    return this;
  }

  /**
   * The longest term: the lock is lost after this time, and others may be elected; see {@link LockRequest#maxHold}.
   *
   * @param maxHold the time: at least the TTL, at most 7 days; by default there is no bound
   * @return this request
   * @throws IllegalArgumentException if the time is not above 0
   */
  public LeadRequest maxHold(Duration maxHold) {
    request.maxHold(maxHold);
    return this;
  }

  /**
   * The time from the election for which nobody else is elected, however the term ends; see {@link
   * LockRequest#minHold}.
   *
   * @param minHold the time: at most 24 h; zero, the default, for none
   * @return this request
   * @throws IllegalArgumentException if the time is below 0
   */
  public LeadRequest minHold(Duration minHold) {
    request.minHold(minHold);
    return this;
  }

  /**
   * The time for which nobody else is elected after a term if its leader does not resign; see {@link
   * LockRequest#lockDelay}.
   *
   * @param lockDelay the time: at most 60 s; zero, the default, for none
   * @return this request
   * @throws IllegalArgumentException if the time is below 0
   */
  public LeadRequest lockDelay(Duration lockDelay) {
    request.lockDelay(lockDelay);
    return this;
  }

  /**
   * A label of what acquires locks one after another, and waits for one while it leads; see {@link LockRequest#owner}.
   *
   * @param owner at most 128 bytes of UTF-8 without control characters
   * @return this request
   */
  public LeadRequest owner(String owner) {
    request.owner(owner);
    return this;
  }

  /**
   * Lets the lock of the leader tell when another candidate waits ({@link FencedLock#onWanted}); see {@link
   * LockRequest#tellWhenWanted}.
   *
   * @return this request
   */
  public LeadRequest tellWhenWanted() {
    request.tellWhenWanted();
    return this;
  }

  /**
   * Leads with a body, term after term, until it ends while it leads.
   *
   * @param body the work of the leader, which ends when its thread is interrupted
   * @param <X> the exception that it throws
   * @throws X if the body fails while it leads
   * @throws RefusedException if the server refuses the request
   * @throws UnavailableException if what listens at the address is no Fencepost server, or TLS is wrong
   * @throws WaitInterruptedException if the thread is interrupted while it campaigns, or the lock is lost as well
   * @throws LockLostException if the server reports at the release that the lock was lost before the body returned
   * @throws ClientClosedException if the client is closed; after the end of the body, if there is one
   */
  public <X extends Exception> void run(LockBody<X> body) throws X {
    FencepostClient.notNull(body, "body");
    this.<Void, X>call(lock -> {
      body.run(lock);
      return null;
    });
  }

  /**
   * Leads with a function, term after term, until it ends while it leads.
   *
   * @param function the work of the leader, which ends when its thread is interrupted
   * @param <T> the type of its value
   * @param <X> the exception that it throws
   * @return its value
   * @throws X if the function fails while it leads
   * @throws FencepostException as {@link #run}
   */
  public <T, X extends Exception> T call(LockFunction<T, X> function) throws X {
    return new Election(keeper, request.copy()).lead(FencepostClient.notNull(function, "function"));
  }
}

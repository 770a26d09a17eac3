package io.fencepost.client;

import java.util.List;

/** The wait ended without a grant. The request has left the queue. */
public final class TimedOutException extends FencepostException {
  private static final long serialVersionUID = 1L;

  private final transient List<HolderInfo> holders;

  /** How many holders the lock has in all. */
  private final int holderCount;

  private final transient LockDelay delay;

  private final transient SemaphoreInfo semaphore;

  /** The number of other waiting requests. */
  private final int waiters;

  TimedOutException(
      String name, List<HolderInfo> holders, int holderCount, LockDelay delay, SemaphoreInfo semaphore, int waiters) {
    super(message(name, ContendedException.state(holders, holderCount, delay, waiters)), null);
    this.holders = holders;
    this.holderCount = holderCount;
    this.delay = delay;
    this.semaphore = semaphore;
    this.waiters = waiters;
  }

  private static String message(String name, String state) {
    return "timed out waiting for " + name + ": it is " + state;
  }

  /**
   * The holders of the lock.
   *
   * @return the holders: one, or the oldest of those that hold the lock together, at most 8; empty while the lock is
   *     being offered to the next waiter, and if a delay alone keeps it
   */
  public List<HolderInfo> holders() {
    return holders == null ? List.of() : holders;
  }

  /**
   * How many holders the lock has in all.
   *
   * @return the number, also of those that {@link #holders} leaves out
   */
  public int holderCount() {
    return holderCount;
  }

  /**
   * Why nobody gets the lock, if nobody holds it, or why a place of it is not free beside the holders.
   *
   * @return the delay after the last lease; null if there is none
   */
  public LockDelay delay() {
    return delay;
  }

  /**
   * The permits, if the lock is held as a semaphore.
   *
   * @return the permits; null if it is not
   */
  public SemaphoreInfo semaphore() {
    return semaphore;
  }

  /**
   * The number of other waiting requests.
   *
   * @return the number, at least 0
   */
  public int waiters() {
    return waiters;
  }
}

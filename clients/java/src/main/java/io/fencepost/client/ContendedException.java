package io.fencepost.client;

import java.util.List;
import java.util.stream.Collectors;

/**
 * The lock is not free, and the request did not wait, or found as many waiting as {@link LockRequest#maxWaiters}
 * allows. Nothing was changed.
 */
public final class ContendedException extends FencepostException {
  private static final long serialVersionUID = 1L;

  private final transient List<HolderInfo> holders;

  private final transient LockDelay delay;

  private final transient SemaphoreInfo semaphore;

  /** The number of waiting requests. */
  private final int waiters;

  ContendedException(
      String name, List<HolderInfo> holders, LockDelay delay, SemaphoreInfo semaphore, int waiters) {
    super(name + " is " + state(holders, delay, waiters), null);
    this.holders = holders;
    this.delay = delay;
    this.semaphore = semaphore;
    this.waiters = waiters;
  }

  /** Why a lock is not free; follows "is". */
  static String state(List<HolderInfo> holders, LockDelay delay, int waiters) {
    return why(holders, delay) + ", " + waiters + " waiting";
  }

  private static String why(List<HolderInfo> holders, LockDelay delay) {
    if (delay != null) {
      return delay.state();
    }
    if (holders.isEmpty()) {
      return "being offered to the next waiter";
    }
    String labels =
        holders.stream().map(HolderInfo::holder).filter(label -> !label.isEmpty()).collect(Collectors.joining(" and "));
    return labels.isEmpty() ? "held" : "held by " + labels;
  }

  /**
   * The holders of the lock.
   *
   * @return the holders: one, or the oldest of those that hold the lock together, at most 8; empty while the lock is
   *     being offered to the next waiter, and during a delay
   */
  public List<HolderInfo> holders() {
    return holders == null ? List.of() : holders;
  }

  /**
   * Why nobody gets the lock, if nobody holds it.
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
   * The number of waiting requests.
   *
   * @return the number, at least 0
   */
  public int waiters() {
    return waiters;
  }
}

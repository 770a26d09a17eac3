package io.fencepost.client;

import java.util.ArrayList;
import java.util.List;

/**
 * The lock is not free, and the request did not wait, or found as many waiting as {@link LockRequest#maxWaiters}
 * allows. Nothing was changed.
 */
public final class ContendedException extends FencepostException {
  private static final long serialVersionUID = 1L;

  private final transient List<HolderInfo> holders;

  /** How many holders the lock has in all. */
  private final int holderCount;

  private final transient LockDelay delay;

  private final transient SemaphoreInfo semaphore;

  /** The number of waiting requests. */
  private final int waiters;

  ContendedException(
      String name, List<HolderInfo> holders, int holderCount, LockDelay delay, SemaphoreInfo semaphore, int waiters) {
    super(name + " is " + state(holders, holderCount, delay, waiters), null);
    this.holders = holders;
    this.holderCount = holderCount;
    this.delay = delay;
    this.semaphore = semaphore;
    this.waiters = waiters;
  }

  /** Why a lock is not free; follows "is". */
  static String state(List<HolderInfo> holders, int count, LockDelay delay, int waiters) {
    List<String> states = new ArrayList<>();
    if (!holders.isEmpty()) {
      states.add(held(holders, count));
    }
    if (delay != null) {
      states.add(delay.state());
    }
    String state = states.isEmpty() ? "being offered to the next waiter" : String.join(", and a place of it is ", states);
    return state + ", " + waiters + " waiting";
  }

  /** Names the holders that have a label, and counts all others: those without one, and those that are not shown. */
  private static String held(List<HolderInfo> holders, int count) {
    List<String> named = new ArrayList<>();
    holders.stream().map(HolderInfo::holder).filter(label -> !label.isEmpty()).forEach(named::add);
    int more = count - named.size();
    if (named.isEmpty()) {
      return more > 1 ? "held by " + more + " holders" : "held";
    }
    if (more > 0) {
      named.add(more + " more");
    }
    return "held by " + String.join(" and ", named);
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
   * The number of waiting requests.
   *
   * @return the number, at least 0
   */
  public int waiters() {
    return waiters;
  }
}

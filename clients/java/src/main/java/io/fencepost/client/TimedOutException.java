package io.fencepost.client;

import java.util.List;

/** The wait ended without a grant. The request has left the queue. */
public final class TimedOutException extends FencepostException {
  private static final long serialVersionUID = 1L;

  private final transient List<HolderInfo> holders;
  /** The number of other waiting requests. */
  private final int waiters;

  TimedOutException(String name, List<HolderInfo> holders, int waiters) {
    super("timed out waiting for " + name + ": it is " + ContendedException.state(holders, waiters), null);
    this.holders = holders;
    this.waiters = waiters;
  }

  /**
   * The holders of the lock.
   *
   * @return the holders, today at most one; empty while the lock is being offered to the next waiter
   */
  public List<HolderInfo> holders() {
    return holders == null ? List.of() : holders;
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

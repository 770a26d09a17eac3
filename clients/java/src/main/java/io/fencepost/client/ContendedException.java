package io.fencepost.client;

import java.util.List;

/** The lock is held by another holder, and the request did not wait. Nothing was changed. */
public final class ContendedException extends FencepostException {
  private static final long serialVersionUID = 1L;

  private final transient List<HolderInfo> holders;
  /** The number of waiting requests. */
  private final int waiters;

  ContendedException(String name, List<HolderInfo> holders, int waiters) {
    super("lock \"" + name + "\" is not free: " + describe(holders, waiters), null);
    this.holders = holders;
    this.waiters = waiters;
  }

  static String describe(List<HolderInfo> holders, int waiters) {
    String who = "it is being offered to a waiter";
    if (!holders.isEmpty()) {
      HolderInfo first = holders.get(0);
      String rest = first.expiresIn() == null ? "" : ", for at least " + first.expiresIn().toMillis() + " ms more";
      who = "held by \"" + first.holder() + "\"" + rest;
    }
    return who + "; waiters: " + waiters;
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
   * The number of waiting requests.
   *
   * @return the number, at least 0
   */
  public int waiters() {
    return waiters;
  }
}

package io.fencepost.client;

import java.util.List;
import java.util.stream.Collectors;

/** The lock is held by another holder, and the request did not wait. Nothing was changed. */
public final class ContendedException extends FencepostException {
  private static final long serialVersionUID = 1L;

  private final transient List<HolderInfo> holders;
  /** The number of waiting requests. */
  private final int waiters;

  ContendedException(String name, List<HolderInfo> holders, int waiters) {
    super(name + " is " + state(holders, waiters), null);
    this.holders = holders;
    this.waiters = waiters;
  }

  /** Why a lock is not free; follows "is". */
  static String state(List<HolderInfo> holders, int waiters) {
    String labels =
        holders.stream().map(HolderInfo::holder).filter(label -> !label.isEmpty()).collect(Collectors.joining(" and "));
    String held = labels.isEmpty() ? "held" : "held by " + labels;
    return (holders.isEmpty() ? "being offered to the next waiter" : held) + ", " + waiters + " waiting";
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

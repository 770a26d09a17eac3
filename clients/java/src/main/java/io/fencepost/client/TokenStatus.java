package io.fencepost.client;

/**
 * The answer to {@link FencepostClient#checkToken}.
 *
 * @param state whether the token is that of a current lease
 * @param newestToken the highest token granted for the lock; 0 if the server remembers none
 */
public record TokenStatus(State state, long newestToken) {
  /** What the server knows of a token. */
  public enum State {
    /** The token of a current lease. Accept the write. */
    CURRENT,
    /** The newest token, but its lease has ended. Refuse the write. */
    ENDED,
    /** A newer token has been granted. Refuse the write. */
    STALE,
    /** The server does not remember this token. Refuse the write: current leases are always remembered. */
    UNKNOWN
  }

  /**
   * Whether a write with this token may be accepted.
   *
   * @return true if the lease of the token is current
   */
  public boolean isCurrent() {
    return state == State.CURRENT;
  }
}

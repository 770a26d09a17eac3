package io.fencepost.client;

/**
 * An event of a {@link Watch}.
 *
 * @param kind what happened
 * @param name the lock's name; empty for {@link Kind#MISSED}
 * @param holder the label of the holder
 * @param grantId the public id of the grant
 * @param token the fencing token of the grant; 0 for {@link Kind#MISSED}
 * @param reason why a lease was revoked; empty otherwise
 * @param missed the lowest possible number of events that were lost; 0 if it is not known
 * @param identity the verified identity of the holder, as in {@link HolderInfo}
 * @param mode the mode of the lease from now on, with {@link Kind#CHANGED}; null otherwise
 */
public record LockEvent(
    Kind kind,
    String name,
    String holder,
    String grantId,
    long token,
    String reason,
    long missed,
    String identity,
    LockMode mode) {
  /** What happened. */
  public enum Kind {
    /** A lease was granted. */
    GRANTED,
    /** Its holder released it. */
    RELEASED,
    /** It expired. Sent when the server notices, so possibly never if nobody wants the lock. */
    EXPIRED,
    /** It was revoked. */
    REVOKED,
    /** Events were lost: list again to get the current state. */
    MISSED,
    /** Its holder converted or described it: the token and the label are those that it has now. */
    CHANGED
  }
}

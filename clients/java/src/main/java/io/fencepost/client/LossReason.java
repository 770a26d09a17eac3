package io.fencepost.client;

/** Why a lock was lost. */
public enum LossReason {
  /** The server reported that the lease expired: its TTL passed without a renewal. */
  EXPIRED,
  /** The server reported that an operator, or the server itself, revoked the lease. */
  REVOKED,
  /** The server reported that another lease of the lock was granted since. */
  SUPERSEDED,
  /** The server does not know the lease: it ended longer ago than the server remembers, or the store lost its data. */
  UNKNOWN,
  /**
   * The validity ended by the local clock before a renewal arrived: no server was reachable, or this process was paused
   * for too long.
   */
  SILENCE,
  /** The lock was held for as long as {@link LockRequest#maxHold} allows. */
  MAX_HOLD,
  /** It was released: by this process, by the closing of its client, or by another party that knows the lease. */
  RELEASED
}

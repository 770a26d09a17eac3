package io.fencepost.client;

/** How a lease ended. */
public enum LeaseEnd {
  /**
   * No end is known. Of a previous lease: the server remembers ends for 10 s. Of a lease that this client lost because
   * no renewal arrived in time: the client does not wait for the server to learn how it ended there.
   */
  UNSPECIFIED,
  /** Its holder released it. */
  RELEASED,
  /** Its TTL passed without a renewal. The work that it protected may be unfinished. */
  EXPIRED,
  /** An operator or the server revoked it. */
  REVOKED,
  /** It ended longer ago than the server remembers, and another lease of the lock has been granted since. */
  SUPERSEDED,
  /** The server does not know the lease: it ended longer ago than the server remembers. */
  UNKNOWN
}

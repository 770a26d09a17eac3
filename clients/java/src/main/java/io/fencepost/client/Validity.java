package io.fencepost.client;

import java.util.concurrent.TimeUnit;

/**
 * Until when a lease is valid by its holder's clock. All of that arithmetic is in this file; all times are nanoseconds
 * of {@link BootClock}.
 *
 * <p>{@code valid until = sent + held_for + ttl - drift - margin}. The server counts the TTL from {@code held_for}
 * after the arrival of the request, which is after it was sent: whatever the network did, the lease ends later on the
 * server. The drift allows for different clock rates, the margin for the time between a check and the action that
 * follows.
 */
final class Validity {
  private Validity() {}

  /** {@code read} is when the answer arrived, {@code ttl} the time that was left when the server asked its store. */
  static long until(long sent, long read, long heldFor, long ttl) {
    // The server cannot have held the request for longer than the whole exchange took.
    long held = Math.max(0, Math.min(heldFor, read - sent));
    long margin = Math.max(ttl / Facts.MARGIN_DIVISOR, TimeUnit.MILLISECONDS.toNanos(Facts.MARGIN_MIN_MS));
    return sent + held + ttl - ttl / Facts.DRIFT_DIVISOR - margin;
  }

  /** Whether so little is left on arrival that the lease is renewed before it is handed out. */
  static boolean isLate(long validUntil, long now, long ttl) {
    return validUntil - now < ttl / Facts.LATE_DIVISOR;
  }

  /**
   * Whether so little is left that a renewal must have failed. A lease is renewed when a third of its TTL has passed,
   * with the next beat (a ninth); here more than half of it has.
   */
  static boolean isOverdue(long validUntil, long now, long ttl) {
    return validUntil - now < ttl / 20 * 7;
  }
}

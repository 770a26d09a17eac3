package io.fencepost.client;

import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;

/**
 * A request that is sent on a session, and repeated on the same one or another until it is answered or its time is
 * over. All methods are called under the lock of the {@link Keeper}.
 */
abstract class Operation {
  final Keeper keeper;

  /** When repeats end. */
  long until;

  /** Whether a transmission of it may have taken effect although no answer says so. */
  boolean maybeApplied;

  /** The last failure that a server answered, or null. */
  Failure answer;

  /** The number of failed transmissions, for the pause before the next one. */
  int failures;

  /** When a pause before the next transmission ends. */
  long notBefore;

  /** The session that carries it, its number there, and when it was sent; null while it is not in flight. */
  Session session;

  long number;
  long sentAt;

  /** When the server has to answer it at once: when it was sent, or when its wait is over. */
  long dueAt;

  /** When the lack of an answer means that something is wrong. */
  long overdueAt;

  Operation(Keeper keeper, long until) {
    this.keeper = keeper;
    this.until = until;
  }

  /** Whether it goes before the answers to beats: true for what ends or saves leases. */
  abstract boolean isUrgent();

  /** Writes the next transmission, and returns how long the server may take to answer it. */
  abstract long write(SessionRequest.Builder message, long now);

  /** The answer to the transmission in flight arrived; it is not an error. */
  abstract void answered(SessionResponse answer, Session from, long sent, long read);

  /** The server answered with an error. */
  abstract void refused(Failure failure);

  /** The time is over, or no server can be used. */
  abstract void gaveUp(Failure last);
}

package io.fencepost.client;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.concurrent.ThreadLocalRandom;

/** Timeouts and intervals in nanoseconds. Those of leases are derived from the shortest TTL. */
final class Timing {
  /** How long one transmission may take, in addition to the wait that it asks for. */
  static final long CALL_TIMEOUT = SECONDS.toNanos(5);

  /** How long a call is repeated while its outcome is unknown, in addition to the wait that it asks for. */
  static final long RETRY_FOR = MILLISECONDS.toNanos(Facts.RETRY_FOR_MS);

  /**
   * The least time that one of several servers gets to answer: over a slow network, a connection with TLS alone takes
   * several round trips.
   */
  static final long ANSWER_TIME_MIN = MILLISECONDS.toNanos(500);

  /**
   * How long a session may be silent when an answer is due, before it is replaced together with its connection. Servers
   * answer within about 1 s, also if their store does not.
   */
  static final long SILENCE = SECONDS.toNanos(3);

  /** How long an unused session stays open for the next lease. */
  static final long LINGER = MILLISECONDS.toNanos(Facts.LINGER_MS);

  /** The timeout for connecting: until the server's first answer, after the TLS handshake if there is one. */
  static final long CONNECT_TIMEOUT = MILLISECONDS.toNanos(Facts.CONNECT_TIMEOUT_MS);

  /** The timeout for opening a session on a connection, and for the preparations: loading classes, reading files. */
  static final long OPEN_TIMEOUT = SECONDS.toNanos(5);

  /** The minimum time between two moves away from a session that works, because the store of its server does not. */
  static final long MOVE_INTERVAL_MIN = SECONDS.toNanos(5);

  /** The longest pause between two sessions while no server can be used. */
  static final long REOPEN_MAX = MILLISECONDS.toNanos(Facts.RECONNECT_MAX_MS);

  private Timing() {}

  /**
   * How long one of so many servers gets to answer a call that does not wait. Each of several servers gets a part of
   * the time: one that hangs must not use up that of the others.
   */
  static long answerTime(long callTimeout, long retryFor, int servers) {
    return servers > 1 ? Math.min(callTimeout, Math.max(retryFor / servers, ANSWER_TIME_MIN)) : callTimeout;
  }

  /** The interval of checks, which bounds the time to notice that a suspended machine has resumed. */
  static long tick(long shortest) {
    return clamp(shortest / 20, MILLISECONDS.toNanos(10), SECONDS.toNanos(1));
  }

  /** The timeout for the first answer on a new session or to a new attachment, while leases depend on it. */
  static long answerTimeout(long ttl) {
    return clamp(ttl / 6, MILLISECONDS.toNanos(250), SECONDS.toNanos(5));
  }

  /** A random pause before session number {@code tries} in a row is opened; {@code shortest} is 0 without leases. */
  static long reopenPause(long shortest, int tries) {
    if (tries == 0) {
      return 0;
    }
    long full = Math.min(REOPEN_MAX, MILLISECONDS.toNanos(Facts.RECONNECT_FIRST_MS) << Math.min(tries - 1, 10));
    if (shortest > 0) {
      full = Math.max(MILLISECONDS.toNanos(10), Math.min(full, shortest / 8));
    }
    return jitter(full);
  }

  /** The pause before a call is repeated for the nth time: exponential, with jitter. */
  static long retryPause(int failures) {
    long full = MILLISECONDS.toNanos(Facts.RETRY_FIRST_MS) << Math.min(failures, 10);
    return jitter(Math.min(full, MILLISECONDS.toNanos(Facts.RETRY_MAX_MS)));
  }

  /** Between half of the duration and all of it, so that clients do not all act at the same moment. */
  private static long jitter(long full) {
    return full / 2 + ThreadLocalRandom.current().nextLong(full / 2 + 1);
  }

  private static long clamp(long value, long min, long max) {
    return Math.max(min, Math.min(max, value));
  }
}

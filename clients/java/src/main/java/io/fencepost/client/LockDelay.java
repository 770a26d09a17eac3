package io.fencepost.client;

import java.time.Duration;

/**
 * A lock, or a place of it beside other holders, that nobody holds and nobody gets yet: the request of its last lease
 * asked for {@link LockRequest#minHold} or {@link LockRequest#lockDelay}.
 *
 * @param remaining how long it stays unavailable
 * @param holder the label of the holder of that lease; may be empty
 * @param token the fencing token of that lease, with which an operator makes it available
 */
public record LockDelay(Duration remaining, String holder, long token) {
  private static final long SECOND_MILLIS = 1_000;

  /** Describes the delay; follows "is". */
  String state() {
    long millis = remaining.toMillis();
    long seconds = (millis + SECOND_MILLIS - 1) / SECOND_MILLIS;
    String time = millis < SECOND_MILLIS ? millis + " ms" : seconds + " s";
    String after = holder.isEmpty() ? "its last lease" : holder;
    return "unavailable for another " + time + " (delay after " + after + ")";
  }
}

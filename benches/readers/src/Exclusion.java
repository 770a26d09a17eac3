package io.fencepost.readers;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** Counts who holds a lock in this process, and how often one held it whom another holder excludes. */
final class Exclusion {
  private final int most;
  private final AtomicInteger shared = new AtomicInteger();
  private final AtomicInteger alone = new AtomicInteger();
  private final AtomicLong violations = new AtomicLong();

  /** At most so many may hold the lock together. */
  Exclusion(int most) {
    this.most = most;
  }

  void enter(boolean isWriter) {
    boolean allowed = isWriter
        ? alone.incrementAndGet() == 1 && shared.get() == 0
        : shared.incrementAndGet() <= most && alone.get() == 0;
    if (!allowed) {
      violations.incrementAndGet();
    }
  }

  /** Call it before the release is sent. */
  void leave(boolean isWriter) {
    (isWriter ? alone : shared).decrementAndGet();
  }

  long violations() {
    return violations.get();
  }
}

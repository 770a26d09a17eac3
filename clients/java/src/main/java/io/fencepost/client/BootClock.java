package io.fencepost.client;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/**
 * The one clock of this package: nanoseconds, monotonic, and on Linux it counts the time that the machine is suspended.
 *
 * <p>A lease ages on the server while the machine of its holder is suspended, but {@link System#nanoTime} and all
 * timers of the JVM stop meanwhile. {@code /proc/uptime} does not stop. Its resolution is 10 ms, so the two are
 * compared: what the uptime gained on nanoTime is time in suspend. Timers only wake threads up; this clock decides
 * about validity.
 */
final class BootClock {
  /** A smaller difference comes from the resolution of the uptime. The margin of each lease covers it. */
  private static final long RESOLUTION_NANOS = 20_000_000;

  /** The uptime is read at most once in this time, because that is a system call. Far below the margin of a lease. */
  private static final long READ_INTERVAL_NANOS = 1_000_000;

  private static final BootClock SYSTEM = new BootClock(System::nanoTime, uptime());

  private final LongSupplier nanoTime;
  private final LongSupplier uptime;
  private final long difference;
  private final AtomicLong suspended = new AtomicLong();
  private volatile long lastRead;

  /** {@code uptime} returns nanoseconds, or a negative number if it is not known. */
  BootClock(LongSupplier nanoTime, LongSupplier uptime) {
    this.nanoTime = nanoTime;
    this.uptime = uptime;
    this.difference = initialDifference(nanoTime, uptime);
    this.lastRead = nanoTime.getAsLong();
  }

  static BootClock system() {
    return SYSTEM;
  }

  /** The current time. Only differences between two values mean anything. */
  long now() {
    long nanos = nanoTime.getAsLong();
    if (nanos - lastRead >= READ_INTERVAL_NANOS) {
      lastRead = nanos;
      // In this order: a pause of this thread in between makes the gap smaller, and the next reading corrects it.
      long up = uptime.getAsLong();
      nanos = nanoTime.getAsLong();
      long gap = up - nanos - difference;
      if (up >= 0 && gap - suspended.get() > RESOLUTION_NANOS) {
        suspended.accumulateAndGet(gap, Math::max);
      }
    }
    return nanos + suspended.get();
  }

  private static long initialDifference(LongSupplier nanoTime, LongSupplier uptime) {
    long best = Long.MAX_VALUE;
    long difference = 0;
    // The reading that took least time is the best: this thread was not paused within it.
    for (int n = 0; n < 5; n++) {
      long before = nanoTime.getAsLong();
      long up = uptime.getAsLong();
      long took = nanoTime.getAsLong() - before;
      if (took < best) {
        best = took;
        difference = up - before;
      }
    }
    return difference;
  }

  private static LongSupplier uptime() {
    try {
      RandomAccessFile file = new RandomAccessFile("/proc/uptime", "r");
      return () -> readUptime(file);
    } catch (IOException none) {
      return () -> -1;
    }
  }

  private static long readUptime(RandomAccessFile file) {
    byte[] bytes = new byte[32];
    // Not a FileChannel: that is closed if a reading thread is interrupted.
    synchronized (file) {
      try {
        file.seek(0);
        int length = file.read(bytes);
        String text = new String(bytes, 0, Math.max(length, 0), StandardCharsets.US_ASCII);
        String seconds = text.substring(0, text.indexOf(' '));
        int dot = seconds.indexOf('.');
        return Long.parseLong(seconds.substring(0, dot)) * 1_000_000_000L
            + Long.parseLong(seconds.substring(dot + 1)) * 10_000_000L;
      } catch (IOException | RuntimeException unreadable) {
        return -1;
      }
    }
  }
}

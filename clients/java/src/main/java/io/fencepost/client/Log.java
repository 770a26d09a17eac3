package io.fencepost.client;

import java.util.ArrayDeque;
import java.util.Queue;

/**
 * The log of a client: the logger {@code io.fencepost.client}. Lines are written in their order by a thread of the
 * pool, because a logger may wait, and callers may hold the lock of the {@link Keeper}. No line has a lease id, a
 * request id or a credential.
 */
final class Log {
  private static final System.Logger LOGGER = System.getLogger("io.fencepost.client");

  private record Line(System.Logger.Level level, String text, Throwable thrown) {}

  private final Threads threads;
  private final Queue<Line> lines = new ArrayDeque<>();
  private boolean writing;

  Log(Threads threads) {
    this.threads = threads;
  }

  void warn(String text) {
    warn(text, null);
  }

  void warn(String text, Throwable thrown) {
    add(new Line(System.Logger.Level.WARNING, text, thrown));
  }

  void info(String text) {
    add(new Line(System.Logger.Level.INFO, text, null));
  }

  private void add(Line line) {
    synchronized (this) {
      lines.add(line);
      if (writing) {
        return;
      }
      writing = true;
    }
    threads.inBackground(this::write);
  }

  private synchronized Line next() {
    writing = !lines.isEmpty();
    return lines.poll();
  }

  private void write() {
    for (Line line = next(); line != null; line = next()) {
      try {
        LOGGER.log(line.level, line.text, line.thrown);
      } catch (RuntimeException failed) {
        // A logger that fails must not cost a lock, and there is nowhere to say so.
      }
    }
  }
}

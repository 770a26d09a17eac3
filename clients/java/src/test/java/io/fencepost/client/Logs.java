package io.fencepost.client;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** What this JVM logs with the default set-up: the warnings that a user would find on stderr. */
public final class Logs implements AutoCloseable {
  private final List<String> warnings = new CopyOnWriteArrayList<>();

  private final List<String> lines = new CopyOnWriteArrayList<>();

  private final Handler handler = new Handler() {
    @Override
    public void publish(LogRecord message) {
      String line = message.getLoggerName() + ": " + message.getMessage();
      if (message.getLevel().intValue() >= Level.WARNING.intValue()) {
        warnings.add(line);
      }
      if (line.startsWith("io.fencepost.")) {
        lines.add(line);
      }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  };

  public Logs() {
    Logger.getLogger("").addHandler(handler);
  }

  public List<String> warnings() {
    return List.copyOf(warnings);
  }

  /** What the client has logged, on any level. */
  public List<String> lines() {
    return List.copyOf(lines);
  }

  @Override
  public void close() {
    Logger.getLogger("").removeHandler(handler);
  }
}

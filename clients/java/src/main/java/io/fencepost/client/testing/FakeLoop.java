package io.fencepost.client.testing;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** The one thread of a fake server. During a pause it keeps its tasks for later, in their order. */
final class FakeLoop {
  private final ScheduledExecutorService thread = Executors.newSingleThreadScheduledExecutor(task -> {
    Thread made = new Thread(task, "fencepost-fake");
    made.setDaemon(true);
    return made;
  });
  private static final System.Logger LOGGER = System.getLogger("io.fencepost.client");
  private final List<Runnable> kept = new ArrayList<>();
  private boolean paused;

  static long now() {
    return System.nanoTime();
  }

  /** Runs a task on the thread, after the pause if there is one. */
  void run(Runnable task) {
    runIn(task, 0);
  }

  void runIn(Runnable task, long nanos) {
    try {
      thread.schedule(() -> unlessPaused(() -> guarded(task)), nanos, TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException closed) {
      // Nobody is left to be answered.
    }
  }

  private static void guarded(Runnable task) {
    try {
      task.run();
    } catch (RuntimeException bug) {
      LOGGER.log(System.Logger.Level.ERROR, "the fake server failed", bug);
    }
  }

  /** Called on the thread: runs a task now, or after the pause. */
  void unlessPaused(Runnable task) {
    if (paused) {
      kept.add(task);
    } else {
      task.run();
    }
  }

  /** Runs a task on the thread, also during a pause, and waits for its end. */
  void runNow(Runnable task) {
    try {
      thread.submit(task).get();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while the fake server was told what to do", interrupted);
    } catch (ExecutionException failed) {
      if (failed.getCause() instanceof RuntimeException cause) {
        throw cause;
      }
      throw new IllegalStateException(failed.getCause());
    }
  }

  /** Called on the thread. */
  void pause() {
    paused = true;
  }

  /** Called on the thread: runs what was kept. */
  void resume() {
    paused = false;
    List<Runnable> due = List.copyOf(kept);
    kept.clear();
    due.forEach(Runnable::run);
  }

  void close() {
    thread.shutdownNow();
  }
}

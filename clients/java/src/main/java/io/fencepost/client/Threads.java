package io.fencepost.client;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;

/** The threads of one client: a timer, and a pool for callbacks and connecting. All are daemon threads. */
final class Threads {
  /** How long an unused thread of the pool lives. */
  private static final long IDLE_SECONDS = 5;

  /** The pause after a check that failed, in nanoseconds: leases must still be found lost. */
  private static final long CHECK_AFTER_ERROR = TimeUnit.MILLISECONDS.toNanos(100);

  private static final System.Logger LOGGER = System.getLogger("io.fencepost.client");

  private final ScheduledThreadPoolExecutor timer;
  private final ExecutorService pool;
  private LongSupplier check;
  private ScheduledFuture<?> next;
  private long nextAt;

  Threads() {
    timer = new ScheduledThreadPoolExecutor(1, factory("fencepost-timer"));
    timer.setRemoveOnCancelPolicy(true);
    timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    pool = new ThreadPoolExecutor(
        0, Integer.MAX_VALUE, IDLE_SECONDS, TimeUnit.SECONDS, new SynchronousQueue<>(), factory("fencepost"));
  }

  private static ThreadFactory factory(String name) {
    AtomicInteger count = new AtomicInteger();
    return task -> {
      Thread thread = new Thread(task, name + "-" + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  /** Sets the check, which returns the nanoseconds until the next one. */
  synchronized void checkWith(LongSupplier check) {
    this.check = check;
  }

  ExecutorService pool() {
    return pool;
  }

  void inBackground(Runnable task) {
    try {
      pool.execute(task);
    } catch (RejectedExecutionException closed) {
      task.run(); // only the closing of connections is left to do
    }
  }

  /** Runs a task in the background after a pause, unless the client is closed before. */
  void later(Runnable task, long nanos) {
    synchronized (this) {
      if (!timer.isShutdown()) {
        timer.schedule(() -> inBackground(task), nanos, TimeUnit.NANOSECONDS);
      }
    }
  }

  /** Runs the check in this time, unless it runs earlier. */
  synchronized void wakeIn(long nanos) {
    long at = System.nanoTime() + nanos;
    if (timer.isShutdown() || (next != null && nextAt - at <= 0)) {
      return;
    }
    if (next != null) {
      next.cancel(false);
    }
    nextAt = at;
    next = timer.schedule(this::run, nanos, TimeUnit.NANOSECONDS);
  }

  private void run() {
    synchronized (this) {
      next = null;
    }
    long pause = CHECK_AFTER_ERROR;
    try {
      pause = check.getAsLong();
    } catch (RuntimeException bug) {
      LOGGER.log(System.Logger.Level.ERROR, "the check of leases failed", bug);
    }
    wakeIn(pause);
  }

  void close() {
    synchronized (this) {
      timer.shutdownNow();
    }
    pool.shutdown();
  }
}

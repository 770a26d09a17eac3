package io.fencepost.client;

import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** A call of {@code lead} in a test, on a thread that the test can interrupt. */
final class Candidate<T> {
  private final CompletableFuture<T> result = new CompletableFuture<>();
  private final CompletableFuture<Boolean> interruptStatus = new CompletableFuture<>();
  private final Thread thread;

  Candidate(Callable<T> call) {
    thread = new Thread(() -> {
      try {
        result.complete(call.call());
      } catch (Throwable failed) {
        result.completeExceptionally(failed);
      } finally {
        interruptStatus.complete(Thread.currentThread().isInterrupted());
      }
    });
    thread.setDaemon(true);
    thread.start();
  }

  void interrupt() {
    thread.interrupt();
  }

  boolean isDone() {
    return result.isDone();
  }

  T result() throws Exception {
    return result.get(30, TimeUnit.SECONDS);
  }

  /** The exception with which the call ended. */
  Throwable failure() throws Exception {
    try {
      throw new AssertionError("the call returned " + result());
    } catch (ExecutionException failed) {
      return failed.getCause();
    }
  }

  /** Whether the thread's interrupt status was set when the call ended. */
  boolean interruptStatus() throws Exception {
    return interruptStatus.get(30, TimeUnit.SECONDS);
  }
}

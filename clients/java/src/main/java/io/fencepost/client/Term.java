package io.fencepost.client;

import java.nio.channels.ClosedByInterruptException;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;

/**
 * One term of a leader: the body on a thread of its own, while the caller waits for its end. If the body ran on the
 * caller's thread, nobody could tell the interrupt of a loss, after which the caller campaigns again, from one that
 * asks the caller to end.
 */
final class Term<T, X extends Exception> {
  /** How deep the cause of an exception is looked for. */
  private static final int CAUSES_MAX = 16;

  private final HeldLock lock;
  private final LockFunction<T, X> body;
  private final Thread leader;
  private final CountDownLatch ended = new CountDownLatch(1);

  /** How the body ended; read after that. */
  private T value;

  private Throwable failure;

  private Term(HeldLock lock, LockFunction<T, X> body) {
    this.lock = lock;
    this.body = body;
    // Made by the caller: it inherits the caller's class loader and inheritable values.
    this.leader = new Thread(this::lead, "fencepost-leader-" + lock.name());
    leader.setDaemon(true);
  }

  /** Starts the body. It is interrupted when the lock is lost. */
  static <T, X extends Exception> Term<T, X> begin(HeldLock lock, LockFunction<T, X> body) {
    Term<T, X> term = new Term<>(lock, body);
    term.leader.start();
    lock.onLost(Runnable::run, loss -> term.leader.interrupt());
    return term;
  }

  private void lead() {
    try {
      value = body.call(lock);
    } catch (Throwable failed) {
      failure = failed;
    } finally {
      ended.countDown();
    }
  }

  /** Waits until the body ends. Passes each interrupt of the caller on to it; returns whether there was one. */
  boolean await() {
    boolean interrupted = false;
    while (true) {
      try {
        ended.await();
        return interrupted;
      } catch (InterruptedException cancelled) {
        interrupted = true;
        leader.interrupt();
      }
    }
  }

  /** Whether the lock was lost, also by the closing of the client. A body that released its lock has lost nothing. */
  boolean isLost() {
    return !lock.isValid() && lock.lease.loss != null;
  }

  /** What the body returned or threw. */
  @SuppressWarnings("unchecked") // a body throws X, or what is unchecked
  T result() throws X {
    if (failure instanceof Error error) {
      throw error;
    }
    if (failure != null) {
      throw (X) failure;
    }
    return value;
  }

  boolean endedByInterrupt() {
    return failure instanceof InterruptedException;
  }

  /** Drops what the body returned or threw after the loss. An error is not dropped. */
  void drop(LeaseNews news) {
    if (failure instanceof Error error) {
      throw error;
    }
    if (failure != null && !isCancellation(failure)) {
      news.termFailed(lock.lease, failure);
    }
  }

  /** Whether an exception comes from the interrupt or the loss. */
  private static boolean isCancellation(Throwable failure) {
    return Stream.iterate(failure, Objects::nonNull, Throwable::getCause)
        .limit(CAUSES_MAX)
        .anyMatch(cause -> cause instanceof InterruptedException
            || cause instanceof ClosedByInterruptException
            || cause instanceof CancellationException
            || cause instanceof LockLostException);
  }
}

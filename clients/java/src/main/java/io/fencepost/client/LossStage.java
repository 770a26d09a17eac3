package io.fencepost.client;

import java.util.concurrent.CompletableFuture;

/** The loss of a lock or a set, as a stage. Whoever keeps it, or a stage made from it, has not forgotten the lock. */
final class LossStage<T> extends CompletableFuture<T> {
  private final Object lock;

  LossStage(Object lock) {
    this.lock = lock;
  }

  @Override
  public <U> CompletableFuture<U> newIncompleteFuture() {
    return new LossStage<>(lock);
  }

  /** A future of the caller's own: completing it changes nothing for others. */
  @Override
  public CompletableFuture<T> toCompletableFuture() {
    return copy();
  }
}

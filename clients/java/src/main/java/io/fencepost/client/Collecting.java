package io.fencepost.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;

/**
 * Acquires the locks of a set, one after another. It ends with all of them, or with nothing that is held: releases and
 * withdrawals may go on in the background. Nothing that the client keeps refers to it but through the locks.
 */
final class Collecting {
  private final Keeper keeper;
  private final List<String> names;
  private final List<LockRequest> requests;
  private final boolean waits;
  private final boolean byTries;
  private final long until;
  private final CompletableFuture<LockSet> result = new CompletableFuture<>();
  private final List<HeldLock> held = new ArrayList<>();
  private CompletableFuture<FencedLock> waiting;
  private int tries;

  /** Whether the result is completed by this class with the locks: any other end of it leaves nothing held. */
  private volatile boolean handedOut;

  /** Which try it is that may go on; a callback of an earlier one changes nothing. */
  private int current;

  Collecting(Keeper keeper, List<String> names, List<LockRequest> requests, long wait, boolean byTries) {
    this.keeper = keeper;
    this.names = names;
    this.requests = requests;
    this.waits = wait > 0;
    this.byTries = byTries;
    this.until = keeper.now() + wait;
  }

  CompletableFuture<LockSet> start() {
    result.whenComplete((locks, failure) -> {
      if (!handedOut) {
        abandon(); // also if the caller has completed it with a value
      }
    });
    next(current);
    return result;
  }

  /** Asks for the next lock, or hands out all. */
  private synchronized void next(int round) {
    if (round != current || result.isDone()) {
      return;
    }
    for (HeldLock lock : held) {
      if (!lock.isValid()) {
        fail(round, lock.name(), new LockLostException(lossOf(lock)));
        return;
      }
    }
    if (held.size() == names.size()) {
      // From here on a loss is told to the holder.
      current++;
      handedOut = true;
      if (!result.complete(new LockSet(held))) {
        LockSet.releaseAsync(held);
      }
      return;
    }
    String name = names.get(held.size());
    long wait = byTries ? 0 : Math.max(0, until - keeper.now());
    try {
      waiting = requests.get(held.size()).waitFor(Duration.ofNanos(wait)).getAsync();
    } catch (FencepostException refused) {
      fail(round, name, refused);
      return;
    }
    waiting.whenComplete((lock, failure) -> answered(round, name, (HeldLock) lock, failure));
  }

  private synchronized void answered(int round, String name, HeldLock lock, Throwable failure) {
    if (round != current) {
      if (lock != null) {
        LockSet.releaseAsync(List.of(lock));
      }
      return;
    }
    if (failure != null) {
      fail(round, name, failure);
      return;
    }
    held.add(lock);
    lock.onLost(Runnable::run, loss -> fail(round, name, new LockLostException(loss)));
    next(round);
  }

  /** Gives back what was acquired; then the call fails, or the next try begins. */
  private synchronized void fail(int round, String name, Throwable failure) {
    if (round != current) {
      return;
    }
    Throwable why = failure instanceof CompletionException wrapped ? wrapped.getCause() : failure;
    boolean again = byTries && why instanceof ContendedException;
    current++;
    int count = names.size();
    List<String> givenBack = new ArrayList<>();
    for (int at = held.size() - 1; at >= 0; at--) {
      if (held.get(at).isValid()) {
        givenBack.add(held.get(at).name());
      }
    }
    int next = current;
    giveBack().whenComplete((done, late) -> {
      long pause = again ? Timing.retryPause(tries) : 0;
      if (again && pause < until - keeper.now()) {
        tries++;
        CompletableFuture.delayedExecutor(pause, TimeUnit.NANOSECONDS, Runnable::run).execute(() -> next(next));
      } else {
        result.completeExceptionally(error(count, name, why, givenBack));
      }
    });
  }

  private Throwable error(int count, String name, Throwable why, List<String> givenBack) {
    if (!(why instanceof FencepostException cause) || why instanceof ClientClosedException) {
      return why;
    }
    if (cause instanceof ContendedException contended && waits && !byTries) {
      // Its turn came when the wait was over.
      cause = new TimedOutException(
          name,
          contended.holders(),
          contended.holderCount(),
          contended.delay(),
          contended.semaphore(),
          contended.waiters());
    }
    return new NotAllAcquiredException(count, name, cause, givenBack);
  }

  /** The caller is gone. */
  private synchronized void abandon() {
    current++;
    giveBack();
  }

  /** Ends the wait and releases what is held, the last one first. Completes when all is answered, or too late. */
  private CompletableFuture<Void> giveBack() {
    if (waiting != null) {
      waiting.cancel(false);
    }
    List<CompletableFuture<LeaseEnd>> releases = LockSet.releaseAsync(held);
    held.clear();
    return CompletableFuture.allOf(releases.toArray(CompletableFuture[]::new))
        .orTimeout(Timing.RETRY_FOR, TimeUnit.NANOSECONDS);
  }

  private static Loss lossOf(HeldLock lock) {
    Loss loss = lock.lease.loss;
    return loss != null ? loss : new Loss(lock.name(), lock.token(), LossReason.RELEASED, 0);
  }
}

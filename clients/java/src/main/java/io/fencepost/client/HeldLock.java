package io.fencepost.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** A lock whose lease a {@link Keeper} keeps. */
final class HeldLock implements FencedLock {
  private final Keeper keeper;
  final Lease lease;
  private final LeaseCalls calls;
  private final LossStage<Loss> lost = new LossStage<>(this);
  private final LossStage<LockMode> wanted = new LossStage<>(this);
  private final List<Runnable> atRiskListeners = new CopyOnWriteArrayList<>();

  HeldLock(Keeper keeper, Lease lease) {
    this.keeper = keeper;
    this.lease = lease;
    this.calls = new LeaseCalls(keeper, lease, this::check);
  }

  @Override
  public String name() {
    return lease.name;
  }

  @Override
  public long token() {
    return lease.token;
  }

  @Override
  public LockMode mode() {
    return lease.mode;
  }

  @Override
  public void downgrade() {
    calls.convert(LockMode.SHARED);
  }

  @Override
  public boolean tryUpgrade() {
    return calls.convert(LockMode.EXCLUSIVE);
  }

  @Override
  public long describe(Map<String, String> metadata) {
    return calls.describe(FencepostClient.notNull(metadata, "metadata"), null);
  }

  @Override
  public long describe(Map<String, String> metadata, String holder) {
    return calls.describe(FencepostClient.notNull(metadata, "metadata"), FencepostClient.notNull(holder, "holder"));
  }

  @Override
  public String grantId() {
    return lease.grantId;
  }

  @Override
  public int permits() {
    return lease.permits;
  }

  @Override
  public OptionalInt slot() {
    return lease.slot == 0 ? OptionalInt.empty() : OptionalInt.of(lease.slot);
  }

  @Override
  public String holder() {
    return lease.holder;
  }

  @Override
  public LeaseEnd previousEnd() {
    return lease.previousEnd;
  }

  @Override
  public boolean isValid() {
    return keeper.isValid(lease);
  }

  @Override
  public Duration remaining() {
    return isValid() ? Duration.ofNanos(Math.max(0, lease.validUntil - keeper.now())) : Duration.ZERO;
  }

  @Override
  public void check() {
    if (!isValid()) {
      Loss loss = lease.loss;
      throw loss != null ? new LockLostException(loss) : LockLostException.released(name(), token());
    }
  }

  @Override
  public CompletionStage<Loss> lost() {
    return lost;
  }

  @Override
  public void onLost(Executor executor, Consumer<Loss> listener) {
    Objects.requireNonNull(listener, "listener must not be null");
    lost.thenAcceptAsync(listener, Objects.requireNonNull(executor, "executor must not be null"));
  }

  @Override
  public void onAtRisk(Executor executor, Runnable listener) {
    Objects.requireNonNull(executor, "executor must not be null");
    Objects.requireNonNull(listener, "listener must not be null");
    atRiskListeners.add(() -> executor.execute(listener));
  }

  @Override
  public boolean isWanted() {
    return lease.wanted != null;
  }

  @Override
  public void onWanted(Executor executor, Consumer<LockMode> listener) {
    Objects.requireNonNull(listener, "listener must not be null");
    wanted.thenAcceptAsync(listener, Objects.requireNonNull(executor, "executor must not be null"));
  }

  /** Completes what waits for the loss. Called by a thread of the pool. */
  void lose(Loss loss) {
    lost.complete(loss);
  }

  /** Tells that somebody waits. Called by a thread of the pool. */
  void wanted(LockMode mode) {
    wanted.complete(mode);
  }

  /** Tells that renewals fail. Called by a thread of the pool. */
  void atRisk() {
    atRiskListeners.forEach(Runnable::run);
  }

  @Override
  public LeaseEnd release() {
    CompletableFuture<LeaseEnd> released = keeper.release(lease);
    try {
      return released.get(Timing.RETRY_FOR, TimeUnit.NANOSECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      String message = "interrupted before the release of " + name() + " was confirmed";
      throw new WaitInterruptedException(message, interrupted);
    } catch (TimeoutException timeout) {
      String message = "no server has confirmed the release of " + name() + " in time";
      Failure late = Failure.local(Status.Code.DEADLINE_EXCEEDED, message).after(lease.releaseAnswer);
      throw new OutcomeUnknownException(late.message(), late.cause() == null ? timeout : late.cause());
    } catch (ExecutionException failed) {
      throw Exceptions.rethrown(failed);
    }
  }

  @Override
  public CompletableFuture<LeaseEnd> releaseAsync() {
    CompletableFuture<LeaseEnd> answer = new CompletableFuture<>();
    keeper.release(lease).whenComplete((end, failure) -> keeper.inBackground(() -> {
      if (failure == null) {
        answer.complete(end);
      } else {
        answer.completeExceptionally(failure);
      }
    }));
    return answer;
  }

  @Override
  public void close() {
    boolean held = isValid();
    Loss loss = lease.loss;
    try {
      LeaseEnd end = release();
      loss = lease.loss;
      if (held && loss == null && end != LeaseEnd.RELEASED) {
        loss = new Loss(name(), token(), reason(end), 0);
      }
    } catch (OutcomeUnknownException | WaitInterruptedException unconfirmed) {
      System.Logger.Level level = System.Logger.Level.DEBUG;
      System.getLogger("io.fencepost.client").log(level, unconfirmed.getMessage());
    }
    if (loss != null) {
      throw new LockLostException(loss);
    }
  }

  static LossReason reason(LeaseEnd end) {
    return end == LeaseEnd.UNSPECIFIED ? LossReason.UNKNOWN : LossReason.valueOf(end.name());
  }

  /** Shows the name, the token and whether the lock is held. */
  @Override
  public String toString() {
    return "FencedLock[" + name() + ", token " + token() + (isValid() ? ", held]" : ", not held]");
  }
}

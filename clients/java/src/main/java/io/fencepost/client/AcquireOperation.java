package io.fencepost.client;

import io.fencepost.v1.AcquireRequest;
import io.fencepost.v1.AcquireResponse;
import io.fencepost.v1.SessionAcquire;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.grpc.Status;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/**
 * One acquire over all of its transmissions. Each carries the same request id and the next attempt number, so the
 * effect is that of one request, whatever the network lost or delayed.
 *
 * <p>An acquire whose caller is gone goes on as a cleanup: it is cancelled on its session and, if the grant came first,
 * the lease is released. Without an answer, a further attempt that does not wait either withdraws the request from the
 * queue or returns the lease, which is then released.
 *
 * <p>One that is above the quota of the caller is repeated on the same server until the wait is over.
 */
final class AcquireOperation extends Operation {
  final CompletableFuture<HeldLock> result = new CompletableFuture<>();
  private final AcquireRequest.Builder request;
  private final boolean choosesId;
  private final boolean waits;
  private final long waitUntil;
  private boolean cleanup;

  /** How long the last transmission waits. */
  private long lastWait;

  /** The transmission apart from the session, if one is in flight. */
  private UnaryAcquire alone;

  /** The number of the lease on the session that carries it. */
  int handle;

  AcquireOperation(Keeper keeper, AcquireRequest request, long wait, long now) {
    super(keeper, now + wait + Timing.RETRY_FOR);
    this.request = request.toBuilder();
    this.choosesId = request.getRequestId().isEmpty();
    this.waits = wait > 0;
    this.waitUntil = now + wait;
    if (choosesId) {
      this.request.setRequestId(UUID.randomUUID().toString());
    }
  }

  @Override
  boolean isUrgent() {
    return false;
  }

  /** Prepares the next attempt, and returns how long it waits. */
  private long nextAttempt(long now) {
    lastWait = cleanup ? 0 : Math.max(0, waitUntil - now);
    request.setAttempt(request.getAttempt() + 1).setWaitTimeout(Wire.duration(lastWait));
    return lastWait;
  }

  @Override
  long write(SessionRequest.Builder message, long now) {
    long wait = nextAttempt(now);
    handle = session.nextHandle();
    message.setAcquire(SessionAcquire.newBuilder().setRequest(request).setHandle(handle));
    dueAt = now + wait;
    return limit(wait);
  }

  private long limit(long wait) {
    return wait > 0 ? wait + Timing.CALL_TIMEOUT : keeper.answerTime();
  }

  @Override
  void answered(SessionResponse answer, Session from, long sent, long read) {
    answered(answer.getAcquire(), from, sent, read);
  }

  /** The answer to a transmission apart from the session. */
  void answeredAlone(AcquireResponse answer, long sent, long read) {
    alone = null;
    keeper.endedAlone();
    answered(answer, null, sent, read);
  }

  void refusedAlone(Failure failure) {
    alone = null;
    keeper.endedAlone();
    refused(failure);
  }

  private void sendAlone() {
    long now = keeper.now();
    long timeout = limit(nextAttempt(now));
    alone = new UnaryAcquire(keeper, this, request.build(), timeout, now);
    keeper.sendAlone(alone);
  }

  private void answered(AcquireResponse acquire, Session from, long sent, long read) {
    switch (acquire.getOutcome()) {
      case OUTCOME_ACQUIRED -> granted(acquire, from, sent, read);
      case OUTCOME_CONTENDED, OUTCOME_TIMED_OUT -> notGranted(acquire);
      case OUTCOME_UNSPECIFIED, UNRECOGNIZED ->
          fail(LeaseCalls.unknownOutcome("an acquire"));
    }
  }

  private void notGranted(AcquireResponse answer) {
    String name = request.getLockName();
    List<HolderInfo> holders = Wire.holders(answer.getHoldersList());
    LockDelay delay = Wire.delay(answer.hasDelay(), answer.getDelay());
    SemaphoreInfo semaphore = Wire.semaphore(answer.hasSemaphore(), answer.getSemaphore());
    // A retry that is sent when the wait is over does not wait. With maxWaiters, one that waits may be contended.
    boolean overdue = waits && lastWait == 0;
    boolean timedOut = overdue || answer.getOutcome() == AcquireResponse.Outcome.OUTCOME_TIMED_OUT;
    int count = answer.getHolderCount();
    fail(timedOut
        ? new TimedOutException(name, holders, count, delay, semaphore, answer.getWaiters())
        : new ContendedException(name, holders, count, delay, semaphore, answer.getWaiters()));
  }

  private void granted(AcquireResponse answer, Session from, long sent, long read) {
    long held = Wire.nanos(answer.getHeldFor());
    LeaseEnd previous = Wire.end(answer.getPreviousEnd());
    Lease lease = new Lease(answer.getLease(), request, previous, sent, read, held);
    lease.descriptions = choosesId ? 0 : -1;
    if (from == null) {
      lease.renewals = Lease.Renewals.ALONE;
    } else {
      from.granted(handle, lease, sent);
    }
    if (cleanup) {
      keeper.releaseInBackground(lease);
    } else if (read >= lease.validUntil) {
      arrivedTooLate(lease);
    } else {
      keeper.add(lease, from);
      // A repeated request gets what is left of its TTL: how long that is, a renewal tells.
      boolean repeated = request.getAttempt() > 1 && !(Wire.nanos(request.getTtl()) == lease.ttl);
      if (repeated || Validity.isLate(lease.validUntil, read, lease.ttl)) {
        keeper.submit(new RenewOperation(keeper, lease, () -> handOut(lease)));
      } else {
        handOut(lease);
      }
    }
  }

  private void handOut(Lease lease) {
    long now = keeper.now();
    if (cleanup) {
      keeper.releaseInBackground(lease);
    } else if (lease.loss == null && now < lease.validUntil) {
      result.complete(keeper.forgotten.handOut(lease));
    } else {
      arrivedTooLate(lease);
    }
  }

  /** The lease was over on arrival: it must not be forgotten, or others wait for its TTL. */
  private void arrivedTooLate(Lease lease) {
    keeper.lose(lease, LossReason.SILENCE, 0);
    keeper.releaseInBackground(lease);
    Loss loss = lease.loss;
    if (choosesId && keeper.now() < waitUntil) {
      restart(null);
    } else {
      fail(new LockLostException(loss));
    }
  }

  /** Continues the wait as a new request: the old one holds nothing. */
  private void restart(Failure failure) {
    request.setRequestId(UUID.randomUUID().toString()).setAttempt(0);
    maybeApplied = false;
    answer = null;
    if (failure == null) {
      keeper.submit(this);
    } else {
      keeper.repeat(this, failure);
    }
  }

  @Override
  void refused(Failure failure) {
    if (failure.is("SESSION_FULL")) {
      sendAlone();
      return;
    }
    if (failure.is("REQUEST_ENDED")) {
      maybeApplied = false;
      if (!cleanup && choosesId && keeper.now() < (waits ? waitUntil : until)) {
        restart(failure);
      } else if (!cleanup && choosesId && waits) {
        fail(new TimedOutException(request.getLockName(), List.of(), 0, null, null, 0));
      } else {
        fail(failure.exception());
      }
      return;
    }
    if (failure.isOverQuota()) {
      if (cleanup && !maybeApplied) {
        fail(failure.exception()); // there is nothing to withdraw
      } else {
        keeper.repeat(this, failure, cleanup ? until : Math.min(until, waitUntil));
      }
      return;
    }
    maybeApplied |= !failure.hadNoEffect();
    boolean patient = failure.code() != Status.Code.RESOURCE_EXHAUSTED || !waits || keeper.now() < waitUntil;
    if (failure.isTransient() && patient) {
      keeper.repeat(this, failure);
    } else {
      gaveUp(failure);
    }
  }

  @Override
  void gaveUp(Failure last) {
    if (maybeApplied) {
      result.completeExceptionally(new OutcomeUnknownException(last.message(), last.cause()));
      if (cleanup) {
        keeper.news.notReleased(request.getLockName(), last);
      } else {
        cleanUp();
      }
    } else {
      fail(last.exception());
    }
  }

  private void fail(FencepostException exception) {
    result.completeExceptionally(exception);
    cleanup = true;
  }

  /** The caller is gone. Nothing is held afterwards, or a cleanup in the background releases it. */
  void abandon(FencepostException exception) {
    if (result.completeExceptionally(exception)) {
      if (session != null) {
        cleanup = true;
        until = keeper.now() + Timing.RETRY_FOR;
        dueAt = Math.min(dueAt, keeper.now());
        overdueAt = Math.min(overdueAt, keeper.now() + Timing.CALL_TIMEOUT);
        session.cancel(this);
      } else {
        cleanUp();
      }
    } else if (!result.isCompletedExceptionally()) {
      keeper.releaseInBackground(result.join().lease);
    }
  }

  /** Withdraws the request with a further attempt, if an earlier one may have taken effect. */
  private void cleanUp() {
    cleanup = true;
    keeper.withdraw(this);
    if (alone != null) {
      alone.cancel();
      alone = null;
      keeper.endedAlone();
      maybeApplied = true;
    }
    if (maybeApplied) {
      until = keeper.now() + Timing.RETRY_FOR;
      keeper.submit(this);
    }
  }
}

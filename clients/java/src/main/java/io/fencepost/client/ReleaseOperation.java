package io.fencepost.client;

import io.fencepost.v1.ReleaseRequest;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import java.util.concurrent.CompletableFuture;

/**
 * Releases a lease. Repeated while the lease or its lock_delay may last, so that nobody has to wait for the end of
 * either.
 */
final class ReleaseOperation extends Operation {
  final Lease lease;
  final CompletableFuture<LeaseEnd> result = new CompletableFuture<>();

  ReleaseOperation(Keeper keeper, Lease lease, long now) {
    super(keeper, Math.max(lease.validUntil + lease.lockDelay, now + Timing.RETRY_FOR));
    this.lease = lease;
  }

  @Override
  boolean isUrgent() {
    return true;
  }

  @Override
  long write(SessionRequest.Builder message, long now) {
    message.setRelease(ReleaseRequest.newBuilder().setLockName(lease.name).setLeaseId(lease.id));
    return keeper.answerTime();
  }

  @Override
  void answered(SessionResponse answer, Session from, long sent, long read) {
    result.complete(Wire.end(answer.getRelease().getEnd()));
  }

  @Override
  void refused(Failure failure) {
    if (failure.isAnswer()) {
      lease.releaseAnswer = failure;
    }
    if (failure.isTransient()) {
      keeper.repeat(this, failure);
    } else {
      keeper.news.notReleased(lease.name, failure);
      result.completeExceptionally(failure.exception());
    }
  }

  @Override
  void gaveUp(Failure last) {
    keeper.news.notReleased(lease.name, last);
    result.completeExceptionally(new OutcomeUnknownException(last.message(), last.cause()));
  }
}

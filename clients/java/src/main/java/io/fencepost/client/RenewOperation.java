package io.fencepost.client;

import io.fencepost.v1.RenewRequest;
import io.fencepost.v1.RenewResponse;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;

/** Renews a lease apart from the beats: one that arrived late, or one for which the session has no room. */
final class RenewOperation extends Operation {
  private final Lease lease;
  private final Runnable done;

  /** {@code done} is called, under the lock, when the lease is renewed or lost, or when its time is over. */
  RenewOperation(Keeper keeper, Lease lease, Runnable done) {
    super(keeper, lease.validUntil);
    this.lease = lease;
    this.done = done;
  }

  @Override
  boolean isUrgent() {
    return true;
  }

  @Override
  long write(SessionRequest.Builder message, long now) {
    message.setRenew(RenewRequest.newBuilder().setLockName(lease.name).setLeaseId(lease.id));
    return Math.min(keeper.answerTime(), Math.max(0, lease.validUntil - now));
  }

  @Override
  void answered(SessionResponse answer, Session from, long sent, long read) {
    RenewResponse renew = answer.getRenew();
    if (renew.getOutcome() == RenewResponse.Outcome.OUTCOME_RENEWED) {
      keeper.renewed(lease, sent, read, Wire.nanos(renew.getHeldFor()), Wire.nanos(renew.getTtl()));
    } else if (renew.getOutcome() == RenewResponse.Outcome.OUTCOME_LOST) {
      keeper.lose(lease, Wire.reason(renew.getEnd()), renew.getSuccessorToken());
    }
    done.run();
  }

  @Override
  void refused(Failure failure) {
    if (failure.isTransient()) {
      keeper.repeat(this, failure);
    } else {
      done.run();
    }
  }

  @Override
  void gaveUp(Failure last) {
    done.run();
  }
}

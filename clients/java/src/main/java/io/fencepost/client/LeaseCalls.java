package io.fencepost.client;

import io.fencepost.v1.ConvertRequest;
import io.fencepost.v1.ConvertResponse;
import io.fencepost.v1.DescribeRequest;
import io.fencepost.v1.DescribeResponse;
import io.fencepost.v1.LockServiceGrpc;
import io.grpc.Status;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The calls that change a held lease: one at a time for each lock, because each refers to what the one before has left.
 * They are no operations of the session, which has no messages for them.
 */
final class LeaseCalls {
  private final ReentrantLock turn = new ReentrantLock();
  private final Keeper keeper;
  private final Lease lease;

  /** Throws if the lease is over. */
  private final Runnable check;

  LeaseCalls(Keeper keeper, Lease lease, Runnable check) {
    this.keeper = keeper;
    this.lease = lease;
    this.check = check;
  }

  /** Converts the lease. Returns whether it has the mode now: false if others share it. */
  boolean convert(LockMode mode) {
    begin("convert");
    try {
      ConvertRequest request = ConvertRequest.newBuilder()
          .setLockName(lease.name)
          .setLeaseId(lease.id)
          .setFencingToken(lease.token)
          .setMode(Wire.mode(mode))
          .build();
      ConvertResponse answer = keeper.change(LockServiceGrpc.getConvertMethod(), request, check);
      switch (answer.getOutcome()) {
        case OUTCOME_CONVERTED -> keeper.apply(now -> lease.converted(mode, answer.getFencingToken()));
        case OUTCOME_CONTENDED -> {}
        case OUTCOME_LOST -> lost(answer.getEnd(), answer.getSuccessorToken());
        case OUTCOME_UNSPECIFIED, UNRECOGNIZED -> throw unknownOutcome("a conversion");
      }
      check.run(); // it may have ended meanwhile, whatever the answer is
      return answer.getOutcome() == ConvertResponse.Outcome.OUTCOME_CONVERTED;
    } finally {
      turn.unlock();
    }
  }

  /** Replaces the metadata and, unless it is null, the label. Returns the number of the description. */
  long describe(Map<String, String> metadata, String holder) {
    DescribeRequest.Builder request = DescribeRequest.newBuilder().setLockName(lease.name).setLeaseId(lease.id);
    metadata.forEach((key, value) -> request.putMetadata(
        LockRequest.encodable(key, "metadata key"), LockRequest.encodable(value, "metadata value")));
    if (holder != null) {
      request.setHolder(LockRequest.encodable(holder, "holder"));
    }
    begin("describe");
    try {
      if (lease.descriptions >= 0) {
        // The number is used up, whatever becomes of the call: a late copy must not replace the next description.
        request.setNumber(++lease.descriptions);
      }
      DescribeResponse answer = keeper.change(LockServiceGrpc.getDescribeMethod(), request.build(), check);
      switch (answer.getOutcome()) {
        case OUTCOME_DESCRIBED -> lease.descriptions = answer.getNumber();
        case OUTCOME_OUTDATED -> {
          lease.descriptions = answer.getNumber();
          throw outdated(answer.getNumber());
        }
        case OUTCOME_LOST -> lost(answer.getEnd(), answer.getSuccessorToken());
        case OUTCOME_UNSPECIFIED, UNRECOGNIZED -> throw unknownOutcome("a description");
      }
      check.run();
      lease.holder = holder == null ? lease.holder : holder;
      return answer.getNumber();
    } finally {
      turn.unlock();
    }
  }

  private RefusedException outdated(long number) {
    String message = "another process has described " + lease.name + " since, under number " + number;
    return new RefusedException(Status.Code.ABORTED.name(), "OUTDATED", message, List.of(), null);
  }

  private void begin(String what) {
    try {
      turn.lockInterruptibly();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      String message = "interrupted before it was the turn to " + what + " " + lease.name;
      throw new WaitInterruptedException(message, interrupted);
    }
  }

  private void lost(io.fencepost.v1.LeaseEnd end, long successorToken) {
    keeper.apply(now -> keeper.lose(lease, Wire.reason(end), successorToken));
  }

  static RefusedException unknownOutcome(String call) {
    String message = "the server answered " + call + " with an unknown outcome";
    return new RefusedException(Status.Code.INTERNAL.name(), "", message, List.of(), null);
  }
}

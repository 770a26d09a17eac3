package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.v1.AcquireRequest;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class LeaseTest {
  private static final long GRANTED = TimeUnit.HOURS.toNanos(1);
  private static final long TTL = TimeUnit.SECONDS.toNanos(30);

  /** A lease that was renewed once, for a third of its TTL. */
  private static Lease renewedForLess(boolean hasMaxHold) {
    io.fencepost.v1.Lease granted = io.fencepost.v1.Lease.newBuilder().setTtl(Wire.duration(TTL)).build();
    AcquireRequest.Builder request = AcquireRequest.newBuilder();
    if (hasMaxHold) {
      request.setMaxHold(Wire.duration(TTL));
    }
    Lease lease = new Lease(granted, request, LeaseEnd.UNSPECIFIED, GRANTED, GRANTED, 0);
    long renewed = GRANTED + TTL * 2 / 3;
    lease.renewed(renewed, renewed, 0, TTL / 3 + TimeUnit.SECONDS.toNanos(1));
    return lease;
  }

  @Test
  void aRenewalForLessIsTheEndOfMaxHoldIfOneWasAsked() {
    Lease lease = renewedForLess(true);
    assertEquals(LossReason.MAX_HOLD, lease.reasonByClock());
    assertFalse(lease.isOverdue(lease.validUntil - 1));
  }

  @Test
  void aRenewalForLessIsNotTheEndOfMaxHoldIfNoneWasAsked() {
    Lease lease = renewedForLess(false);
    assertEquals(LossReason.SILENCE, lease.reasonByClock());
    assertTrue(lease.isOverdue(lease.validUntil - 1));
  }
}

package io.fencepost.client.testing;

import com.google.protobuf.Duration;
import io.fencepost.client.Facts;
import io.fencepost.v1.AcquireRequest;
import io.fencepost.v1.AcquireResponse;
import io.fencepost.v1.Lease;
import io.fencepost.v1.LeaseEnd;
import io.fencepost.v1.LockHolder;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** A lease of a fake server, and the session that keeps it alive. */
final class FakeLease {
  final AcquireRequest request;
  final long token;
  final String id = UUID.randomUUID().toString();
  final String grantId = UUID.randomUUID().toString();
  final LeaseEnd previousEnd;
  final long grantedAt = FakeLoop.now();
  final long ttl;
  long until;

  /** How it ended; null while it lasts. */
  LeaseEnd end;

  /** The attempt number of its latest attachment; the session is null while none keeps it alive. */
  int attempt = 1;

  FakeSession session;
  int handle;

  FakeLease(AcquireRequest request, long token, LeaseEnd previousEnd) {
    this.request = request;
    this.token = token;
    this.previousEnd = previousEnd;
    this.ttl = request.hasTtl() ? nanos(request.getTtl()) : TimeUnit.MILLISECONDS.toNanos(Facts.DEFAULT_TTL_MS);
    renew();
  }

  String name() {
    return request.getLockName();
  }

  void renew() {
    until = FakeLoop.now() + ttl;
  }

  boolean isOver(long now) {
    return end != null || now >= until;
  }

  LockHolder holder() {
    long now = FakeLoop.now();
    return LockHolder.newBuilder()
        .setHolder(request.getHolder())
        .setGrantId(grantId)
        .setFencingToken(token)
        .setTtl(duration(ttl))
        .setExpiresIn(duration(Math.max(0, until - now)))
        .setHeldSince(duration(now - grantedAt))
        .putAllMetadata(request.getMetadataMap())
        .build();
  }

  /** The answer to a request that arrived at this time. */
  AcquireResponse granted(long arrivedAt) {
    long now = FakeLoop.now();
    Lease.Builder lease = Lease.newBuilder()
        .setLockName(name())
        .setLeaseId(id)
        .setGrantId(grantId)
        .setFencingToken(token)
        .setTtl(duration(until - now));
    return AcquireResponse.newBuilder()
        .setOutcome(AcquireResponse.Outcome.OUTCOME_ACQUIRED)
        .setLease(lease)
        .setHeldFor(duration(now - arrivedAt))
        .setPreviousEnd(previousEnd)
        .build();
  }

  static long nanos(Duration duration) {
    return duration.getSeconds() * 1_000_000_000L + duration.getNanos();
  }

  static Duration duration(long nanos) {
    return Duration.newBuilder()
        .setSeconds(nanos / 1_000_000_000L)
        .setNanos((int) (nanos % 1_000_000_000L))
        .build();
  }
}

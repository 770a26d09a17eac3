package io.fencepost.client;

import io.fencepost.v1.LockHolder;
import io.fencepost.v1.LockWaiter;
import io.fencepost.v1.Semaphore;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;

/** Conversions between the generated messages and the types of this package. */
final class Wire {
  /** The longest duration in nanoseconds; longer ones are cut. About 146 years, so sums of two do not overflow. */
  private static final long NANOS_MAX = Long.MAX_VALUE / 2;

  private Wire() {}

  static com.google.protobuf.Duration duration(long nanos) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(nanos / 1_000_000_000L)
        .setNanos((int) (nanos % 1_000_000_000L))
        .build();
  }

  static long nanos(com.google.protobuf.Duration duration) {
    if (duration.getSeconds() >= NANOS_MAX / 1_000_000_000L) {
      return NANOS_MAX;
    }
    return Math.max(0, duration.getSeconds() * 1_000_000_000L + duration.getNanos());
  }

  static long nanos(Duration duration) {
    return duration.toSeconds() >= NANOS_MAX / 1_000_000_000L ? NANOS_MAX : duration.toNanos();
  }

  private static Duration java(com.google.protobuf.Duration duration) {
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }

  static LeaseEnd end(io.fencepost.v1.LeaseEnd end) {
    return switch (end) {
      case LEASE_END_RELEASED -> LeaseEnd.RELEASED;
      case LEASE_END_EXPIRED -> LeaseEnd.EXPIRED;
      case LEASE_END_REVOKED -> LeaseEnd.REVOKED;
      case LEASE_END_SUPERSEDED -> LeaseEnd.SUPERSEDED;
      case LEASE_END_UNKNOWN -> LeaseEnd.UNKNOWN;
      case LEASE_END_UNSPECIFIED, UNRECOGNIZED -> LeaseEnd.UNSPECIFIED;
    };
  }

  static LossReason reason(io.fencepost.v1.LeaseEnd end) {
    return switch (end) {
      case LEASE_END_RELEASED -> LossReason.RELEASED;
      case LEASE_END_EXPIRED -> LossReason.EXPIRED;
      case LEASE_END_REVOKED -> LossReason.REVOKED;
      case LEASE_END_SUPERSEDED -> LossReason.SUPERSEDED;
      case LEASE_END_UNKNOWN, LEASE_END_UNSPECIFIED, UNRECOGNIZED -> LossReason.UNKNOWN;
    };
  }

  static LockMode mode(io.fencepost.v1.LockMode mode) {
    return switch (mode) {
      case LOCK_MODE_SHARED -> LockMode.SHARED;
      case LOCK_MODE_SEMAPHORE -> LockMode.SEMAPHORE;
      case LOCK_MODE_EXCLUSIVE, LOCK_MODE_UNSPECIFIED, UNRECOGNIZED -> LockMode.EXCLUSIVE;
    };
  }

  static io.fencepost.v1.LockMode mode(LockMode mode) {
    return switch (mode) {
      case EXCLUSIVE -> io.fencepost.v1.LockMode.LOCK_MODE_EXCLUSIVE;
      case SHARED -> io.fencepost.v1.LockMode.LOCK_MODE_SHARED;
      case SEMAPHORE -> io.fencepost.v1.LockMode.LOCK_MODE_SEMAPHORE;
    };
  }

  static List<HolderInfo> holders(List<LockHolder> holders) {
    return holders.stream().map(Wire::holder).toList();
  }

  private static HolderInfo holder(LockHolder holder) {
    return new HolderInfo(
        holder.getHolder(),
        holder.getGrantId(),
        holder.getFencingToken(),
        java(holder.getTtl()),
        holder.hasExpiresIn() ? java(holder.getExpiresIn()) : null,
        java(holder.getHeldSince()),
        Map.copyOf(holder.getMetadataMap()),
        mode(holder.getMode()) == LockMode.SHARED,
        holder.getPermits(),
        holder.getSlot() == 0 ? OptionalInt.empty() : OptionalInt.of(holder.getSlot()),
        holder.getOwner(),
        holder.getIdentity(),
        holder.getDescription());
  }

  static WaiterInfo waiter(LockWaiter waiter) {
    return new WaiterInfo(
        waiter.getHolder(),
        waiter.getOwner(),
        waiter.getIdentity(),
        waiter.getWaiterId(),
        mode(waiter.getMode()),
        waiter.getPermits(),
        java(waiter.getWaitingSince()),
        waiter.getSkipped());
  }

  /** Null if the message is absent. */
  static LockDelay delay(boolean present, io.fencepost.v1.LockDelay delay) {
    return present ? new LockDelay(java(delay.getRemaining()), delay.getHolder(), delay.getFencingToken()) : null;
  }

  /** Null if the message is absent. */
  static SemaphoreInfo semaphore(boolean present, Semaphore semaphore) {
    return present
        ? new SemaphoreInfo(
            semaphore.getPermitsUsed(), semaphore.getPermitLimit(), semaphore.getPermitLimitVersion())
        : null;
  }

  static LockInfo lock(io.fencepost.v1.LockInfo lock) {
    return new LockInfo(
        lock.getLockName(),
        holders(lock.getHoldersList()),
        lock.getHolderCount(),
        delay(lock.hasDelay(), lock.getDelay()),
        semaphore(lock.hasSemaphore(), lock.getSemaphore()),
        lock.getWaiters(),
        end(lock.getPreviousEnd()),
        lock.getNewestToken());
  }
}

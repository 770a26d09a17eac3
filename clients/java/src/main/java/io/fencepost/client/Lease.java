package io.fencepost.client;

import io.fencepost.v1.AcquireRequestOrBuilder;
import java.lang.ref.WeakReference;
import java.util.concurrent.CompletableFuture;

/**
 * One lease of this process: until when it is valid, and whether it is lost. Changed only under the lock of its {@link
 * Keeper}; the volatile fields are read without it.
 *
 * <p>Lost is final, whether the server reported it or the validity ended: a late renewal never revives a lease.
 */
final class Lease {
  /** How a lease is renewed. */
  enum Renewals {
    /** By the answers to the beats of a session. */
    SESSION,
    /** By requests of the keeper, because the session is full. */
    ALONE,
    /** Not any more: another process has attached the lease. It stays valid until the end that is known. */
    NONE
  }

  final String name;

  /** A secret: never logged. */
  final String id;

  final String grantId;

  /** How it is held, and its fencing token: a conversion changes both. Volatile: read without the lock. */
  volatile LockMode mode;

  volatile long token;

  /** Its permits of a semaphore, and the slot of one permit; 0 if there is none. */
  final int permits;

  final int slot;

  /** The label; a description may change it. */
  volatile String holder;

  final LeaseEnd previousEnd;

  /** Whether its request bounded the time for which it is held. */
  private final boolean hasMaxHold;

  /** How long the lock stays unavailable if the lease is not released, in nanoseconds. A late release ends that. */
  final long lockDelay;

  /** The full TTL in nanoseconds, as far as known. Volatile: read without the lock. */
  volatile long ttl;

  volatile long validUntil;

  /** The mode that somebody waits for whom it excludes, once the server has told it; null before. */
  volatile LockMode wanted;

  /** The number of its last description; -1 if others may have described it, because they know its request. */
  long descriptions;

  /** Why it is over, if its holder did not release it: it was lost, or the client was closed. */
  volatile Loss loss;

  /** Whether this process released it. From then on it is not valid, but not lost either. */
  volatile boolean released;

  /** The last failure that a server answered to its release, or null. */
  volatile Failure releaseAnswer;

  /** The attempt number of the latest attachment; the grant on a session is the first. */
  int attachments = 1;

  /** When it was last attached. */
  long attachedAt;

  /** The session on which it was attached again after the server had detached it; null if there is none. */
  Session reattachedOn;

  Renewals renewals = Renewals.SESSION;

  /** When a renewal was last requested by the keeper. */
  long renewalAt;

  /** Whether renewals fail, and whether the server named its store as the cause. */
  boolean atRisk;

  boolean storeUnreachable;

  /** Whether it ends by its max_hold, as the last renewal answered less than the TTL: it misses no renewal. */
  boolean bounded;

  /** The answer to its release, once it was released. */
  CompletableFuture<LeaseEnd> release;

  /** The object through which a user holds the lease; null before it is handed out. */
  WeakReference<HeldLock> handle;

  Lease(
      io.fencepost.v1.Lease lease,
      AcquireRequestOrBuilder request,
      LeaseEnd previousEnd,
      long sent,
      long read,
      long held) {
    this.name = lease.getLockName();
    this.id = lease.getLeaseId();
    this.grantId = lease.getGrantId();
    this.token = lease.getFencingToken();
    // An older server does not tell the mode: it is the one that was asked for.
    boolean told = lease.getMode() != io.fencepost.v1.LockMode.LOCK_MODE_UNSPECIFIED;
    this.mode = Wire.mode(told ? lease.getMode() : request.getMode());
    this.permits = mode == LockMode.SEMAPHORE ? Math.max(1, request.getPermits()) : 0;
    this.slot = lease.getSlot();
    this.holder = request.getHolder();
    this.hasMaxHold = request.hasMaxHold();
    this.lockDelay = Wire.nanos(request.getLockDelay());
    this.previousEnd = previousEnd;
    long left = Wire.nanos(lease.getTtl());
    this.ttl = left;
    this.validUntil = Validity.until(sent, read, held, left);
    this.attachedAt = read;
    this.renewalAt = read;
  }

  boolean isOnSession() {
    return renewals == Renewals.SESSION;
  }

  boolean isOver() {
    return released || loss != null;
  }

  /**
   * Moves the end of the validity forward, unless the lease is over. {@code left} counts from {@code sent + held}.
   * Returns whether renewals had failed before.
   */
  boolean renewed(long sent, long read, long held, long left) {
    long until = Validity.until(sent, read, held, left);
    if (isOver() || read >= validUntil) {
      return false;
    }
    // Another party that renews the lease with a lower TTL causes a lower answer, too.
    bounded = hasMaxHold && left < ttl;
    ttl = Math.max(ttl, left);
    boolean again = atRisk;
    if (until > validUntil) {
      validUntil = until;
      atRisk = false;
      storeUnreachable = false;
    }
    return again && !atRisk;
  }

  /** Whether a renewal must have failed. */
  boolean isOverdue(long now) {
    return !bounded && Validity.isOverdue(validUntil, now, ttl);
  }

  /** Why it is lost when its validity ends by the clock. */
  LossReason reasonByClock() {
    return bounded ? LossReason.MAX_HOLD : LossReason.SILENCE;
  }

  /** A conversion took effect. Its token stays that of the last holder if the lease is over. */
  void converted(LockMode to, long newToken) {
    if (!isOver()) {
      token = newToken;
      mode = to;
    }
  }

  /** Marks the lease as not being renewed. Returns whether it was being renewed before. */
  boolean atRisk() {
    boolean begins = !atRisk && !isOver();
    atRisk |= begins;
    return begins;
  }

  /** Ends the lease. Returns whether it was neither lost nor released before. */
  boolean lose(Loss news) {
    if (isOver()) {
      return false;
    }
    loss = news;
    return true;
  }

  /** The client was closed, which releases the lease. Work under it fails at its next check; no loss is told. */
  void clientClosed() {
    if (loss == null) {
      loss = new Loss(name, token, LossReason.RELEASED, 0);
    }
  }
}

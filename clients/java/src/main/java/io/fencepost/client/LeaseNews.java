package io.fencepost.client;

import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Tells what happens to leases: to the log, and to who holds the lock. Never waits. */
final class LeaseNews {
  private final Threads threads;
  private final Log log;

  LeaseNews(Threads threads, Log log) {
    this.threads = threads;
    this.log = log;
  }

  void lost(Lease lease, Loss loss) {
    log.warn(loss.toString());
    tell(lease, handle -> handle.lose(loss));
  }

  /** Renewals begin to fail; {@code left} are the nanoseconds for which the lease is still valid. */
  void atRisk(Lease lease, long left, String cause) {
    long millis = TimeUnit.NANOSECONDS.toMillis(Math.max(0, left));
    log.warn("renewals of " + lease.name + " fail, it is valid for another " + millis + " ms: " + cause);
    tell(lease, HeldLock::atRisk);
  }

  /** No renewal extends the lease any more; {@code left} are the nanoseconds for which it is still valid. */
  void bounded(Lease lease, long left) {
    long millis = TimeUnit.NANOSECONDS.toMillis(Math.max(0, left));
    String what = " reaches its max_hold: no renewal extends it, and it is valid for another ";
    log.warn(lease.name + what + millis + " ms");
  }

  /** Somebody waits for the lock. A lease that is not handed out yet is told of later. */
  void wanted(Lease lease) {
    LockMode mode = lease.wanted;
    tell(lease, handle -> handle.wanted(mode));
  }

  void renewedAgain(Lease lease) {
    log.info(lease.name + " is renewed again");
  }

  void forgotten(Lease lease) {
    log.warn(lease.name + " (token " + lease.token + ") was forgotten without a release, and is released");
  }

  /** Something was not released, and nobody waits for it any more. */
  void notReleased(String name, Failure last) {
    log.warn(name + " could not be released in the background: " + last.message() + "; it is free after its TTL");
  }

  /** A candidate cannot campaign, and goes on trying. Told once until it can. */
  void campaignFails(String name, FencepostException failure) {
    log.warn("campaigns for " + name + " fail, and go on: " + failure.getMessage());
  }

  /** The body of a leader failed after the loss of its lock, and nobody else learns of it. */
  void termFailed(Lease lease, Throwable failure) {
    log.warn("the leader of " + lease.name + " failed after it had lost token " + lease.token, failure);
  }

  private void tell(Lease lease, Consumer<HeldLock> news) {
    HeldLock handle = lease.handle == null ? null : lease.handle.get();
    if (handle != null) {
      threads.inBackground(() -> news.accept(handle));
    }
  }
}

package io.fencepost.client;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.HashMap;
import java.util.Map;

/**
 * Finds the locks that their users have forgotten: the garbage collector has found that no use of the lock can follow.
 * Nothing that the client keeps refers to a {@link HeldLock}, only to its lease. Every method is called under the
 * lock of the {@link Keeper}.
 */
final class ForgottenLocks {
  private final ReferenceQueue<HeldLock> queue = new ReferenceQueue<>();

  /** The references themselves must be reachable to be queued. */
  private final Map<WeakReference<HeldLock>, Lease> leases = new HashMap<>();

  private final Keeper keeper;

  ForgottenLocks(Keeper keeper) {
    this.keeper = keeper;
  }

  /** Makes the object through which a user holds a lease, and watches it until the lease is released. */
  HeldLock handOut(Lease lease) {
    HeldLock handle = new HeldLock(keeper, lease);
    lease.handle = new WeakReference<>(handle, queue);
    leases.put(lease.handle, lease);
    if (lease.wanted != null) {
      keeper.news.wanted(lease);
    }
    return handle;
  }

  void remove(Lease lease) {
    leases.remove(lease.handle);
  }

  /** Releases the leases that were forgotten. */
  void release() {
    for (var reference = queue.poll(); reference != null; reference = queue.poll()) {
      Lease lease = leases.remove(reference);
      if (lease != null && !lease.isOver()) {
        keeper.news.forgotten(lease);
        keeper.releaseInBackground(lease);
      }
    }
  }
}

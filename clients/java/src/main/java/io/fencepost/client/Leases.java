package io.fencepost.client;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** The leases of a client, and their check. Every method is called under the lock of the {@link Keeper}. */
final class Leases {
  private final Set<Lease> leases = new LinkedHashSet<>();

  /** The shortest TTL of all leases, and of those that sessions renew; 0 without such leases. */
  private long shortest;

  private long shortestOnStream;

  boolean isEmpty() {
    return leases.isEmpty();
  }

  List<Lease> all() {
    return new ArrayList<>(leases);
  }

  /** The leases that a new session renews, those that end first at the front. */
  List<Lease> onStream() {
    return leases.stream()
        .filter(Lease::isOnSession)
        .sorted(Comparator.comparingLong(lease -> lease.validUntil))
        .toList();
  }

  long shortest() {
    return shortest;
  }

  long shortestOnStream() {
    return shortestOnStream;
  }

  /** Adds a lease. Returns whether its TTL is the shortest on a session, which makes beats more frequent. */
  boolean add(Lease lease) {
    leases.add(lease);
    shortest = shorter(shortest, lease.ttl);
    if (!lease.isOnSession()) {
      return false;
    }
    boolean sets = shortestOnStream == 0 || lease.ttl < shortestOnStream;
    shortestOnStream = shorter(shortestOnStream, lease.ttl);
    return sets;
  }

  boolean remove(Lease lease) {
    return leases.remove(lease);
  }

  private static long shorter(long shortest, long ttl) {
    return shortest == 0 ? ttl : Math.min(shortest, ttl);
  }

  /** Ends the leases whose validity is over, and returns whether the session fails to renew one. */
  boolean check(long now, Keeper keeper, boolean hasOther) {
    boolean stuck = false;
    shortest = 0;
    shortestOnStream = 0;
    for (Lease lease : all()) {
      if (now >= lease.validUntil) {
        keeper.lose(lease, lease.reasonByClock(), 0);
        continue;
      }
      shortest = shorter(shortest, lease.ttl);
      shortestOnStream = lease.isOnSession() ? shorter(shortestOnStream, lease.ttl) : shortestOnStream;
      if (lease.isOverdue(now)) {
        keeper.atRisk(lease, false);
        boolean patient = now - lease.attachedAt <= Timing.answerTimeout(lease.ttl);
        // If the store is the cause, a new session with the only server does not help.
        stuck |= lease.isOnSession() && !patient && (!lease.storeUnreachable || hasOther);
      }
      if (lease.renewals == Lease.Renewals.ALONE && now - lease.renewalAt > lease.ttl / 3) {
        lease.renewalAt = now;
        keeper.submit(new RenewOperation(keeper, lease, () -> {}));
      }
    }
    return stuck;
  }

  /** The time until the first lease ends, or the interval of checks if that is sooner. */
  long nextCheck(long now) {
    long next = Timing.tick(shortest);
    for (Lease lease : leases) {
      next = Math.min(next, lease.validUntil - now);
    }
    return next;
  }
}

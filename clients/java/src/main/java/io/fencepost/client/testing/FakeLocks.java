package io.fencepost.client.testing;

import io.fencepost.v1.AcquireResponse;
import io.fencepost.v1.LeaseEnd;
import io.fencepost.v1.LockInfo;
import io.fencepost.v1.WatchResponse;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** The locks of a fake server: leases, queues and ends. Everything happens on the thread of its loop. */
final class FakeLocks {
  /** How long a request whose session ended keeps its place in the queue. */
  private static final long PLACE_KEPT = TimeUnit.SECONDS.toNanos(3);

  private static final class Lock {
    FakeLease lease;
    LeaseEnd previousEnd = LeaseEnd.LEASE_END_UNSPECIFIED;
    long newest;
    final List<FakeWaiter> queue = new ArrayList<>();
  }

  private final FakeLoop loop;
  private final Consumer<WatchResponse> report;
  private final Map<String, Lock> locks = new TreeMap<>();

  /** All leases that there were, by their ids and by the ids of their requests. */
  private final Map<String, FakeLease> byId = new HashMap<>();

  private final Map<String, FakeLease> byRequest = new HashMap<>();
  private long token;

  FakeLocks(FakeLoop loop, Consumer<WatchResponse> report) {
    this.loop = loop;
    this.report = report;
  }

  private Lock lock(String name) {
    return locks.computeIfAbsent(name, unused -> new Lock());
  }

  /** The current lease of a lock; null if it is free. */
  FakeLease held(String name) {
    return lock(name).lease;
  }

  /** A lease, whether it has ended or not; null if it is not known. */
  FakeLease find(String leaseId) {
    return byId.get(leaseId);
  }

  List<String> names(String prefix) {
    return locks.entrySet().stream()
        .filter(entry -> entry.getValue().lease != null || !entry.getValue().queue.isEmpty())
        .map(Map.Entry::getKey)
        .filter(name -> name.startsWith(prefix))
        .toList();
  }

  LockInfo info(String name) {
    Lock lock = lock(name);
    LockInfo.Builder info = LockInfo.newBuilder()
        .setLockName(name)
        .setWaiters(lock.queue.size())
        .setPreviousEnd(lock.previousEnd)
        .setNewestToken(lock.newest);
    if (lock.lease != null) {
      info.addHolders(lock.lease.holder());
    }
    return info.build();
  }

  /** The token of the current lease; 0 if the lock is free. */
  long successor(String name) {
    FakeLease lease = held(name);
    return lease == null ? 0 : lease.token;
  }

  void acquire(FakeWaiter asking) {
    Lock lock = lock(asking.request.getLockName());
    FakeLease known = byRequest.get(asking.request.getRequestId());
    if (known != null) {
      asking.session.granted(asking, known);
      return;
    }
    FakeWaiter earlier = lock.queue.stream().filter(asking::repeats).findFirst().orElse(null);
    if (earlier != null && earlier.session != null) {
      earlier.session.overtaken(earlier);
    }
    boolean waits = asking.deadline > asking.arrivedAt;
    if (lock.lease == null && lock.queue.stream().allMatch(it -> it.session == null)) {
      lock.queue.remove(earlier);
      grant(lock, asking);
    } else if (!waits) {
      lock.queue.remove(earlier);
      refuse(asking, AcquireResponse.Outcome.OUTCOME_CONTENDED);
    } else {
      queue(lock, earlier, asking);
    }
  }

  private void queue(Lock lock, FakeWaiter earlier, FakeWaiter asking) {
    FakeWaiter waiter = earlier == null ? asking : earlier;
    if (earlier == null) {
      lock.queue.add(asking);
    } else {
      earlier.become(asking);
    }
    waiter.session.waits(waiter, lock.queue.indexOf(waiter));
    loop.runIn(() -> timeOut(waiter), waiter.deadline - FakeLoop.now());
  }

  private void timeOut(FakeWaiter waiter) {
    boolean over = FakeLoop.now() >= waiter.deadline;
    if (over && lock(waiter.request.getLockName()).queue.remove(waiter) && waiter.session != null) {
      refuse(waiter, AcquireResponse.Outcome.OUTCOME_TIMED_OUT);
    }
  }

  private void refuse(FakeWaiter waiter, AcquireResponse.Outcome outcome) {
    LockInfo info = info(waiter.request.getLockName());
    waiter.session.refused(waiter, AcquireResponse.newBuilder()
        .setOutcome(outcome).addAllHolders(info.getHoldersList()).setWaiters(info.getWaiters()).build());
  }

  /** Ends the wait of an operation of a session, if it waits. */
  void cancel(FakeSession session, long operation) {
    for (Lock lock : locks.values()) {
      for (FakeWaiter waiter : List.copyOf(lock.queue)) {
        if (waiter.session == session && waiter.operation == operation) {
          lock.queue.remove(waiter);
          refuse(waiter, AcquireResponse.Outcome.OUTCOME_TIMED_OUT);
        }
      }
    }
  }

  /** A session ended: leases stay, and for a time so do the places in queues. */
  void leave(FakeSession session) {
    for (Lock lock : locks.values()) {
      for (FakeWaiter waiter : lock.queue) {
        if (waiter.session == session) {
          waiter.session = null;
          waiter.deadline = Math.min(waiter.deadline, FakeLoop.now() + PLACE_KEPT);
          loop.runIn(() -> timeOut(waiter), PLACE_KEPT);
        }
      }
    }
  }

  private void grant(Lock lock, FakeWaiter waiter) {
    token = Math.max(token + 1, waiter.request.getMinToken());
    FakeLease lease = new FakeLease(waiter.request, token, lock.previousEnd);
    lock.lease = lease;
    lock.newest = token;
    byId.put(lease.id, lease);
    byRequest.put(waiter.request.getRequestId(), lease);
    expireInTime(lease);
    report.accept(event(WatchResponse.Kind.KIND_GRANTED, lease));
    waiter.session.granted(waiter, lease);
  }

  private void expireInTime(FakeLease lease) {
    loop.runIn(
        () -> {
          if (lease.end == null && lease.isOver(FakeLoop.now())) {
            end(lease, LeaseEnd.LEASE_END_EXPIRED);
          } else if (lease.end == null) {
            expireInTime(lease);
          }
        },
        lease.until - FakeLoop.now());
  }

  /** Ends the leases whose time is over. */
  void expire() {
    long now = FakeLoop.now();
    List<FakeLease> over = byId.values().stream().filter(it -> it.end == null && it.isOver(now)).toList();
    over.forEach(lease -> end(lease, LeaseEnd.LEASE_END_EXPIRED));
  }

  /** Ends a lease, grants the lock to the next waiter, and tells the session that kept the lease alive. */
  void end(FakeLease lease, LeaseEnd how) {
    Lock lock = lock(lease.name());
    lease.end = how;
    lock.lease = null;
    lock.previousEnd = how;
    report.accept(event(
        switch (how) {
          case LEASE_END_RELEASED -> WatchResponse.Kind.KIND_RELEASED;
          case LEASE_END_REVOKED -> WatchResponse.Kind.KIND_REVOKED;
          default -> WatchResponse.Kind.KIND_EXPIRED;
        },
        lease));
    lock.queue.stream().filter(it -> it.session != null).findFirst().ifPresent(next -> {
      lock.queue.remove(next);
      grant(lock, next);
    });
    if (lease.session != null) {
      lease.session.lost(lease, successor(lease.name()));
    }
  }

  private static WatchResponse event(WatchResponse.Kind kind, FakeLease lease) {
    return WatchResponse.newBuilder()
        .setKind(kind)
        .setLockName(lease.name())
        .setHolder(lease.request.getHolder())
        .setGrantId(lease.grantId)
        .setFencingToken(lease.token)
        .build();
  }
}

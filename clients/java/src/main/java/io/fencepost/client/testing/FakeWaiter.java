package io.fencepost.client.testing;

import io.fencepost.v1.AcquireRequest;

/** A request in the queue of a fake lock. */
final class FakeWaiter {
  /** The session that waits; null after its end, until the next attempt arrives on another. */
  FakeSession session;

  long operation;
  AcquireRequest request;
  int handle;
  long arrivedAt;
  long deadline;

  FakeWaiter(FakeSession session, long operation, AcquireRequest request, int handle) {
    this.session = session;
    this.operation = operation;
    this.request = request;
    this.handle = handle;
    this.arrivedAt = FakeLoop.now();
    this.deadline = arrivedAt + FakeLease.nanos(request.getWaitTimeout());
  }

  /** Whether this is an attempt of the same request. */
  boolean repeats(FakeWaiter other) {
    return request.getRequestId().equals(other.request.getRequestId());
  }

  /** Goes on as a later attempt, with the place in the queue of the earlier one. */
  void become(FakeWaiter later) {
    session = later.session;
    operation = later.operation;
    request = later.request;
    handle = later.handle;
    arrivedAt = later.arrivedAt;
    deadline = later.deadline;
  }
}
